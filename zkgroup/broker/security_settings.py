"""The settings of a broker about who gets in and may do what, with Kafka's names; see `broker.settings`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from zkgroup.broker.server.handlers import ANONYMOUS
from zkgroup.broker.server.handshakes import TlsListener
from zkgroup.broker.server.logins import SaslListener
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import ConfigError
from zkgroup.model.values import PLAINTEXT, SSL
from zkgroup.security import tls
from zkgroup.security.acls import AUTHORIZER, AUTHORIZER_NAMES, AclSettings
from zkgroup.security.certificates import valid_until
from zkgroup.security.client import KNOWN, PROTOCOL, ClientSecurity
from zkgroup.security.listeners import (
    INTER_BROKER_NAME,
    INTER_BROKER_PROTOCOL,
    NAMES,
    PROTOCOL_MAP,
    Listener,
    ListenerSettings,
    parse_listeners,
    plaintext,
)
from zkgroup.security.principals import parse_rules
from zkgroup.security.sasl import ScramUsers
from zkgroup.security.sasl_settings import ENABLED, INTER_BROKER, SaslSettings, inter_broker_login, is_of_sasl
from zkgroup.security.tls import TlsSettings
from zkgroup.znodes.brokers import Endpoint, InterBrokerListener

HASHES_AT_ONCE: Final = 2
"""Passwords of a listener that are hashed at the same time; each takes 16 MiB and some 50 ms."""
_PREFIX: Final = "listener.name."
"""Of a setting of one listener; its name in small letters and a point follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    """The listeners of a broker, and what each demands of its clients."""

    listeners: ListenerSettings
    """Where it listens, and by which protocols."""
    sasl: Mapping[str, SaslSettings] = field(default_factory=dict)
    """The logins of the listeners with SASL, by name."""
    tls: Mapping[str, TlsSettings] = field(default_factory=dict)
    """Of each listener with TLS, by its name."""
    authorizer: AclSettings | None = None
    """How clients are authorized; None: everybody may do everything."""
    client: ClientSecurity = field(default_factory=ClientSecurity)
    """How it connects to brokers: by the files and the user of its own inter-broker listener."""

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> SecuritySettings:
        """The settings of a properties file, by Kafka's names; there are listeners among them.

        Raises ConfigError, also for a name that is not known.
        """
        listeners = parse_listeners(properties)
        _check_names(properties, listeners)
        files = {
            each.name: TlsSettings.of(_of_tls(properties, each))
            for each in listeners.listeners
            if each.uses_tls
        }
        logins = {
            each.name: SaslSettings.of(properties, each.name)
            for each in listeners.listeners
            if each.uses_sasl
        }
        return cls(
            listeners=listeners,
            sasl=logins,
            tls=files,
            authorizer=AclSettings.of(properties),
            client=_inter_broker_client(properties, listeners),
        )

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
    def refused_brokers(self) -> str | None:
        """The principal of the brokers, if they refuse each other unless an ACL allows it ClusterAction.

        None as well where it cannot be told: certificates and tokens name it.
        """
        user = None
        if self.listeners.inter_broker_protocol == PLAINTEXT:
            user = ANONYMOUS
        elif self.client.username is not None:
            user = f"User:{self.client.username}"
        return None if self.authorizer is None or user in self.authorizer.super_users else user

    @property
    def inter_broker(self) -> InterBrokerListener:
        """The listener by which it reaches brokers, and is reached."""
        return InterBrokerListener(self.listeners.inter_broker, self.listeners.inter_broker_protocol)

    def checked(self) -> dict[str, datetime]:
        """Until when the certificate of each listener with TLS is valid, by its name.

        Raises ConfigError for a listener whose key, chain, names or validity do not fit, or whose rules for
        the names of clients are wrong.
        """
        found = {}
        for each in self.listeners.listeners:
            if (settings := self.tls.get(each.name)) is not None:
                is_inter_broker = each.name == self.listeners.inter_broker
                try:
                    parse_rules(settings.principal_rules)
                    found[each.name] = valid_until(
                        settings, each.advertised_host or each.host, must_trust=is_inter_broker
                    )
                except ConfigError as error:
                    raise ConfigError(f"listener {each.name}: {error}") from None
        return found

    def described(self) -> dict[str, str]:
        """What DescribeConfigs tells of it, by Kafka's names: nothing of users, files and passwords."""
        listeners = self.listeners
        found = {
            PROTOCOL_MAP: ",".join(f"{each.name}:{each.protocol}" for each in listeners.listeners),
            INTER_BROKER_PROTOCOL: listeners.inter_broker_protocol,
        }
        if listeners.inter_broker != listeners.inter_broker_protocol:
            found[INTER_BROKER_NAME] = listeners.inter_broker
        if self.authorizer is not None:
            found[AUTHORIZER] = self.authorizer.name
        for name, logins in self.sasl.items():
            found[f"{_of(name)}{ENABLED}"] = ",".join(logins.mechanisms)
        for name, files in self.tls.items():
            found[f"{_of(name)}{tls.CLIENT_AUTH}"] = files.client_auth
        return found

    def tls_listeners(self) -> dict[str, TlsListener]:
        """The TLS of each listener with it. Raises ConfigError where its files cannot be used."""
        return {name: TlsListener(settings) for name, settings in self.tls.items()}


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
    """Returns whether a name of Kafka's is one of these settings, also for one listener."""
    return (
        name in (*NAMES, *AUTHORIZER_NAMES) or is_of_sasl(name) or name.startswith(("ssl.", "sasl.", _PREFIX))
    )


def _check_names(properties: Mapping[str, str], listeners: ListenerSettings) -> None:
    """Raises ConfigError for a name that is not known: what it was to protect would be open."""
    prefixes = tuple(_of(each.name) for each in listeners.listeners)
    for name in properties:
        own = next((name.removeprefix(one) for one in prefixes if name.startswith(one)), name)
        is_known = own in tls.NAMES or (all(map(is_of_sasl, (own, name))) and not own.startswith(_PREFIX))
        if not is_known and name not in (*NAMES, *AUTHORIZER_NAMES, INTER_BROKER):
            raise ConfigError(
                f"setting {name}: not known here; settings of one listener begin with {', '.join(prefixes)}"
            )


def _inter_broker_client(properties: Mapping[str, str], listeners: ListenerSettings) -> ClientSecurity:
    """How the inter-broker listener is reached. Raises ConfigError."""
    listener = next(each for each in listeners.listeners if each.name == listeners.inter_broker)
    found = {PROTOCOL: listener.protocol}
    if listener.uses_tls:
        of_tls = _of_tls(properties, listener)
        found |= {name: value for name, value in of_tls.items() if name in KNOWN}
    if listener.uses_sasl:
        found |= inter_broker_login(properties, listener.name)
    try:
        return ClientSecurity.of(found)
    except ConfigError as error:
        raise ConfigError(f"listener {listener.name}, among brokers: {error}") from None


def _of_tls(properties: Mapping[str, str], listener: Listener) -> dict[str, str]:
    """The settings of TLS of one listener: its own, then those of all.

    That of all for `ssl.client.auth` counts for SSL listeners only (kafka/server/KafkaConfig.scala@2.8.2).
    """
    own = _of(listener.name)
    found = {name: value for name, value in properties.items() if name in tls.NAMES}
    if listener.protocol != SSL:
        found.pop(tls.CLIENT_AUTH, None)
    return found | {
        name.removeprefix(own): value for name, value in properties.items() if name.startswith(f"{own}ssl.")
    }


def _of(listener: str) -> str:
    """The prefix of the settings of one listener."""
    return f"{_PREFIX}{listener.lower()}."


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
