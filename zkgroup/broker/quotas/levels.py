"""Which of the quotas in `/config` holds for a client, and which for an address. Pure.

Source: kafka/server/ClientQuotaManager.scala@2.8.2 (`DefaultQuotaCallback`), `ConnectionQuotas` in
kafka/network/SocketServer.scala@2.8.2, KIP-55, KIP-612.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from ipaddress import ip_address
from typing import Final, NamedTuple

from zkgroup.errors import ConfigError
from zkgroup.znodes.config import ConfigEntity

CONNECTION_RATE: Final = "connection_creation_rate"
"""The setting of an address: new connections a second."""

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class QuotaType(StrEnum):
    """What a quota limits, by the name of its setting; see `group` for Kafka's name."""

    PRODUCE = "producer_byte_rate"
    """Bytes a second."""
    FETCH = "consumer_byte_rate"
    """Bytes a second."""
    REQUEST = "request_percentage"
    """Percent of one thread: 200 is all the time of two threads."""
    CONTROLLER_MUTATION = "controller_mutation_rate"
    """Partitions that are created or deleted a second."""

    @property
    def group(self) -> str:
        """Kafka's word, as in its metrics: `Produce`, `Fetch`, `Request`, `ControllerMutation`."""
        return self.name.title().replace("_", "")


class Quota(NamedTuple):
    """The quota that holds for a client."""

    value: float
    entity: ConfigEntity
    """The entity whose configuration gives the value."""
    user: str
    """The user whose clients share it; empty if it does not depend on the user."""
    client_id: str
    """The client id whose connections share it; empty if it does not depend on the client id."""


_Names = tuple[str | None, str | None]
"""The user and the client id of an entity: empty where it has none, None for the default."""


def _levels(user: str, client_id: str) -> Iterator[_Names]:
    """The eight levels, the most specific first. An empty client id has no quota of clients."""
    for user_level in (user, None):
        if client_id:
            yield user_level, client_id
            yield user_level, None
        yield user_level, ""
    if client_id:
        yield "", client_id
        yield "", None


class ClientQuotas:
    """The quotas of users and clients, as they are configured now."""

    def __init__(self) -> None:
        self._quotas: dict[QuotaType, dict[_Names, tuple[float, ConfigEntity]]] = {
            quota_type: {} for quota_type in QuotaType
        }

    def configured(self, entity: ConfigEntity, overrides: Mapping[str, str]) -> None:
        """Sets the present configuration of a user, a client or a client of a user.

        Raises ConfigError for a value that is no number: the others are set, and this one is as if absent.
        """
        if entity.kind == "clients":
            names: _Names = "", entity.plain_name
        elif entity.kind == "users":
            names = entity.plain_name, "" if entity.client is None else entity.plain_client
        else:
            return
        problem = None
        for quota_type, quotas in self._quotas.items():
            quotas.pop(names, None)
            try:
                if (text := overrides.get(quota_type.value)) is not None:
                    quotas[names] = _number(entity, quota_type, text), entity
            except ConfigError as error:
                problem = error
        if problem is not None:
            raise problem

    def is_limited(self, quota_type: QuotaType) -> bool:
        """Returns whether any client has a quota of this type."""
        return bool(self._quotas[quota_type])

    def resolve(self, quota_type: QuotaType, user: str, client_id: str) -> Quota | None:
        """The quota that holds for a user (the name of its principal) and a client id; None without one."""
        quotas = self._quotas[quota_type]
        for names in _levels(user, client_id) if quotas else ():
            if (found := quotas.get(names)) is not None:
                return Quota(*found, "" if names[0] == "" else user, "" if names[1] == "" else client_id)
        return None


class AddressQuotas:
    """The rates of new connections of addresses, as they are configured now."""

    def __init__(self) -> None:
        self._rates: dict[str | None, tuple[int, ConfigEntity]] = {}

    def configured(self, entity: ConfigEntity, overrides: Mapping[str, str]) -> None:
        """Sets the present configuration of an address.

        Raises ConfigError for a value that is no number, and for a host name, which Kafka's brokers look up.
        """
        if entity.kind != "ips":
            return
        address = None if entity.plain_name is None else plain_address(entity.name)
        if address is not None and not _is_address(address):
            raise ConfigError(f"{entity.config_path}: expected an IP address, found {entity.name!r}")
        self._rates.pop(address, None)
        if (text := overrides.get(CONNECTION_RATE)) is not None:
            self._rates[address] = int(_number(entity, CONNECTION_RATE, text)), entity

    @property
    def is_limited(self) -> bool:
        """True if any address has a rate."""
        return bool(self._rates)

    def resolve(self, address: str) -> tuple[int, ConfigEntity] | None:
        """The new connections a second of an address, and the entity that gives them; None without a rate."""
        return self._rates.get(plain_address(address)) or self._rates.get(None)


def plain_address(text: str) -> str:
    """The one spelling of an IP address; a host name as it is."""
    try:
        address = ip_address(text)
    except ValueError:
        return text
    mapped = address.ipv4_mapped if address.version == 6 else None
    return str(mapped or address)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _number(entity: ConfigEntity, name: str, text: str) -> float:
    is_whole = name in (QuotaType.PRODUCE, QuotaType.FETCH, CONNECTION_RATE)
    if not (_WHOLE if is_whole else _NUMBER).fullmatch(text):
        wanted = "a whole number" if is_whole else "a number"
        raise ConfigError(f"{entity.config_path}: {name}: expected {wanted}, found {text!r}")
    return float(text)
