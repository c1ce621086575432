"""The settings of a broker that say who gets in, with Kafka's names; see `zkgroup.broker.settings`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from zkgroup.broker.server.logins import SaslListener
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import ConfigError
from zkgroup.security.listeners import NAMES, Listener, ListenerSettings, parse_listeners, plaintext
from zkgroup.security.sasl import ScramUsers
from zkgroup.security.sasl_settings import SaslSettings, is_of_sasl
from zkgroup.znodes.brokers import PLAINTEXT, SASL_PLAINTEXT, Endpoint, InterBrokerListener

HASHES_AT_ONCE: Final = 2
"""Passwords of a listener that are hashed at the same time; each takes 16 MiB and some 50 ms."""
_SERVED: Final = (PLAINTEXT, SASL_PLAINTEXT)
"""The protocols that listeners can have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    """The listeners of a broker, and what each demands of its clients."""

    listeners: ListenerSettings
    """Where it listens, and by which protocols."""
    sasl: Mapping[str, SaslSettings] = field(default_factory=dict)
    """The logins of the listeners with SASL, by name."""

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> SecuritySettings:
        """The settings of a properties file, by Kafka's names; there are listeners among them.

        Raises ConfigError, also for a name that is not known.
        """
        for name in properties:
            if not is_of_security(name):
                raise ConfigError(f"setting {name}: not known here")
        listeners = parse_listeners(properties)
        for each in listeners.listeners:
            if each.protocol not in _SERVED:
                raise ConfigError(
                    f"listener {each.name}: expected a protocol of {', '.join(_SERVED)},"
                    f" found {each.protocol}"
                )
        if listeners.inter_broker_protocol != PLAINTEXT:
            raise ConfigError(
                f"listener {listeners.inter_broker}: expected {PLAINTEXT} among brokers, "
                f"found {listeners.inter_broker_protocol}"
            )
        sasl = {
            each.name: SaslSettings.of(properties, each.name)
            for each in listeners.listeners
            if each.protocol.startswith("SASL_")
        }
        return cls(listeners=listeners, sasl=sasl)

    @property
    def follows_users(self) -> bool:
        """True if a listener needs the credentials of users in ZooKeeper."""
        return any(one.uses_scram for one in self.sasl.values())

    def logins(self, users: ScramUsers, on_fault: Callable[[str], object]) -> dict[str, SaslListener]:
        """The logins of the listeners with SASL. Raises ConfigError where a file of users cannot be read.

        Args:
            users: those in ZooKeeper.
            on_fault: see `PasswordFile`.
        """
        return {
            name: SaslListener(
                exchanges=one.exchanges(users, on_fault),
                max_reauth_ms=one.max_reauth_ms,
                failure_delay_ms=one.failure_delay_ms,
                hashing=None if one.plain_file is None else asyncio.Semaphore(HASHES_AT_ONCE),
            )
            for name, one in self.sasl.items()
        }

    @property
    def inter_broker(self) -> InterBrokerListener:
        """The listener by which it reaches brokers, and is reached."""
        return InterBrokerListener(self.listeners.inter_broker, self.listeners.inter_broker_protocol)


def security_of(
    given: SecuritySettings | None, host: str, port: int, settings: BrokerSettings
) -> SecuritySettings:
    """Those given, else one plain listener.

    Raises ConfigError for a host that cannot be listened on or advertised, and where both are given.
    """
    advertised = settings.advertised_host_name, settings.advertised_port
    if given is None:
        return SecuritySettings(listeners=plaintext(host, port, *advertised))
    if advertised != (None, None):
        raise ConfigError(
            "settings advertised_host_name, advertised_port: are for a broker without listeners, "
            "set advertised.listeners instead"
        )
    return given


def is_of_security(name: str) -> bool:
    """Returns whether a name of Kafka's is one of these settings."""
    return name in NAMES or is_of_sasl(name)


def advertised(listeners: Iterable[Listener]) -> tuple[Endpoint, ...]:
    """What a broker registers of its listeners, which are open."""
    return tuple(
        Endpoint(each.name, each.advertised_host, each.advertised_port or each.port, each.protocol)
        for each in listeners
        if each.advertised_host is not None
    )


def addresses(endpoints: Iterable[Endpoint]) -> dict[str, str]:
    """The `host:port` of each listener by its name."""
    return {each.listener: each.text.partition("://")[2] for each in endpoints}


def plain_address(endpoints: Iterable[Endpoint]) -> tuple[str | None, int]:
    """Host and port of the first plain listener, as registered: None and -1 without one."""
    plain = (each for each in endpoints if each.protocol == PLAINTEXT)
    return next(((each.host, each.port) for each in plain), (None, -1))


def main_address(endpoints: Sequence[Endpoint]) -> tuple[str, int]:
    """Host and port of the first plain listener, of the first one if there is none."""
    host, port = plain_address(endpoints)
    return (host, port) if host is not None else (endpoints[0].host or "", endpoints[0].port)
