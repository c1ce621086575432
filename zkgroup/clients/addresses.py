"""Where brokers are reached: which of its listeners each has registered for a client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from zkgroup.errors import ConfigError
from zkgroup.model.values import PLAINTEXT
from zkgroup.security.client import PLAIN_ACCESS, BrokerAccess, ClientSecurity
from zkgroup.znodes.brokers import ZKGROUP_KEY, BrokerRegistration

NEGOTIATES_FROM: Final = 3
"""Lowest version of a Kafka broker's registration from which on it answers ApiVersions (0.10)."""


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Where one broker is asked, and how."""

    host: str
    port: int
    negotiates: bool = True
    """True if it answers ApiVersions."""
    security: ClientSecurity | None = None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Addresses: TypeAlias = Mapping[int, BrokerAddress | str]
"""By broker id; or why a broker has none, as the end of a sentence about it."""


def address_of(broker: BrokerRegistration, access: BrokerAccess = PLAIN_ACCESS) -> BrokerAddress | str:
    """The address of a broker's listener of the protocol, or why there is none.

    Of several it is not the one by which brokers reach each other. Raises ConfigError where several are left,
    unless `access` names no protocol: then it is the first, as Kafka registers it as host and port.
    """
    protocol = PLAINTEXT if access.security is None else access.security.protocol
    fitting = [one for one in broker.listeners if one.protocol == protocol and one.host is not None]
    if len(fitting) > 1:
        fitting = [one for one in fitting if one.listener != inter_broker_listener(broker)]
    if not fitting:
        named = "plain listener" if protocol == PLAINTEXT else f"listener of {protocol}"
        return f"has no {named} (--command-config names the protocol)"
    if len(fitting) > 1 and access.security is not None:
        named = ", ".join(one.text for one in fitting)
        raise ConfigError(
            f"several listeners are of {protocol}: {named}; name the brokers' addresses at one of them: "
            "--bootstrap-server HOST:PORT[,...], or bootstrap.servers in the file of --command-config"
        )
    host, port = fitting[0].host, fitting[0].port
    assert host is not None
    return BrokerAddress(host, port, negotiates_versions(broker), access.security)


def inter_broker_listener(broker: BrokerRegistration) -> str | None:
    """The name of the listener by which brokers reach a zkgroup broker that has several; None otherwise."""
    found = broker.extensions.get(ZKGROUP_KEY)
    name = found.get("inter_broker_listener") if isinstance(found, Mapping) else None
    return name if isinstance(name, str) else None


def addresses_of(
    registered: Mapping[int, BrokerRegistration], access: BrokerAccess = PLAIN_ACCESS
) -> dict[int, BrokerAddress | str]:
    """The address of each of the brokers by its registration; see `address_of`."""
    return {number: address_of(one, access) for number, one in registered.items()}


def negotiates_versions(broker: BrokerRegistration) -> bool:
    """Returns whether it answers ApiVersions."""
    return broker.is_zkgroup or broker.version >= NEGOTIATES_FROM


def bootstrap_addresses(
    bootstrap: Sequence[tuple[str, int]],
    registered: Mapping[int, BrokerRegistration],
    security: ClientSecurity | None,
) -> list[BrokerAddress]:
    """Addresses of brokers whose registrations are not known for sure.

    Whether one negotiates versions of requests is taken from its registration; without one, from the oldest
    of Kafka's.
    """
    known = {
        (each.host, each.port): negotiates_versions(one)
        for one in registered.values()
        for each in one.listeners
    }
    alike = all(negotiates_versions(one) for one in registered.values())
    return [BrokerAddress(host, port, known.get((host, port), alike), security) for host, port in bootstrap]
