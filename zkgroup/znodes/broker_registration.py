"""The registration of a broker: `/brokers/ids/<id>`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Self

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.znodes.broker_paths import broker_ids_path
from zkgroup.znodes.json_object import (
    INT16,
    INT32,
    INT64,
    decimal,
    integer_of,
    is_integer,
    object_of,
    others,
    read_object,
    show,
    text_of,
    write_object,
)
from zkgroup.znodes.limits import check_number, check_size, check_text

VERSIONS: Final = range(1, 6)
VERSION_DEFAULT: Final = 4
"""Readable by 0.8.2.2, which looks at host and port only, and by everything from 0.9.0.1 on."""
PLAINTEXT: Final = "PLAINTEXT"
PROTOCOLS: Final = (PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
ZKGROUP_KEY: Final = "zkgroup"

Role = Literal["data", "controller"]

_KAFKA_KEYS: Final = (
    "jmx_port", "timestamp", "host", "version", "port", "endpoints", "rack",
    "listener_security_protocol_map", "features",
)  # fmt: skip
_ENDPOINT: Final = re.compile(
    r"(?P<listener>.*)://\[?(?P<host>[0-9a-zA-Z\-%._:]*)\]?:(?P<port>-?[0-9]{1,10})"
)
_HOST: Final = re.compile(r"[0-9a-zA-Z\-%._:]+")
_LISTENER: Final = re.compile(r"[A-Z0-9._-]+")
_PORT_MAX: Final = 65535


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one listener of a broker can be reached."""

    listener: str
    """Its name; the name of the protocol up to version 3."""
    host: str | None
    """None where the broker advertises none, which means every interface of it."""
    port: int
    protocol: str
    """`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`."""

    @property
    def text(self) -> str:
        """As in `endpoints`: `<listener>://<host>:<port>`, IPv6 addresses in brackets."""
        host = self.host or ""
        return f"{self.listener}://{f'[{host}]' if ':' in host else host}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """`/brokers/ids/<id>`: where a broker listens. Ephemeral, made by the broker.

    Version 1 (0.8): `{"jmx_port":-1,"timestamp":"<ms>","host":"h","version":1,"port":9092}`; 2 (0.9) adds
    `endpoints`, 3 (0.10.0) `rack`, 4 (0.10.2) `listener_security_protocol_map`, 5 (2.7) `features`
    (kafka/cluster/Broker.scala@0.8.2.2, kafka/zk/ZkData.scala@2.8.2). Host and port are those of the
    first plain listener; a broker without one registers host null and port -1 from version 2 on.
    Kafka 0.8.2.2 reads host and port of every version and ignores the rest.
    """

    host: str | None
    port: int
    version: int = 1
    timestamp_ms: int | None = None
    """Epoch milliseconds of the registration; None where it is missing or no number (Kafka reads it not)."""
    jmx_port: int = -1
    endpoints: tuple[str, ...] = ()
    """`<listener>://<host>:<port>` each, from version 2 on."""
    rack: str | None = None
    protocols: Mapping[str, str] = field(default_factory=dict)
    """Listener to security protocol (`listener_security_protocol_map`), from version 4 on."""
    features: Mapping[str, object] = field(default_factory=dict)
    """Feature to its supported versions, `{"min_version":1,"max_version":3}`, from version 5 on."""
    extensions: Mapping[str, object] = field(default_factory=dict)
    """The keys that are not Kafka's, as they are; ours is `zkgroup`, an object with the `role`."""

    @staticmethod
    def path(broker: int) -> str:
        return f"{broker_ids_path()}/{broker}"

    @classmethod
    def of(
        cls,
        listeners: Sequence[Endpoint],
        timestamp_ms: int,
        version: int = VERSION_DEFAULT,
        *,
        jmx_port: int = -1,
        rack: str | None = None,
        features: Mapping[str, object] | None = None,
        extensions: Mapping[str, object] | None = None,
    ) -> Self:
        """The registration of a broker with these listeners, in the format asked for.

        Raises ConfigError for what the format cannot say: no plain listener in version 1, two listeners of
        one protocol below 4 (their names are the protocols'), a rack below 3, features below 5.
        """
        check_number("broker registration version", version, VERSIONS[0], VERSIONS[-1])
        plain = next((each for each in listeners if each.protocol == PLAINTEXT), None)
        if version < 4 and len({each.protocol for each in listeners}) < len(listeners):
            raise ConfigError(
                f"broker registration version {version}: expected one listener for each protocol,"
                f" found {[each.text for each in listeners]}; version 4 has named ones"
            )
        named = [
            each if version >= 4 else Endpoint(each.protocol, each.host, each.port, each.protocol)
            for each in listeners
        ]
        return cls(
            host=plain.host if plain else None,
            port=plain.port if plain else -1,
            version=version,
            timestamp_ms=timestamp_ms,
            jmx_port=jmx_port,
            endpoints=tuple(each.text for each in named) if version >= 2 else (),
            rack=rack,
            protocols={each.listener: each.protocol for each in named} if version >= 4 else {},
            features=dict(features or {}),
            extensions=dict(extensions or {}),
        )

    @property
    def is_zkgroup(self) -> bool:
        return ZKGROUP_KEY in self.extensions

    @property
    def role(self) -> Role:
        """`controller` for one of ours that hosts nothing (recipes 14), `data` for every other broker."""
        ours = self.extensions.get(ZKGROUP_KEY)
        return "controller" if isinstance(ours, Mapping) and ours.get("role") == "controller" else "data"

    @property
    def listeners(self) -> tuple[Endpoint, ...]:
        """What `endpoints` and the protocol map say; in version 1 the one plain listener."""
        if self.version == 1:
            return (Endpoint(PLAINTEXT, self.host, self.port, PLAINTEXT),)
        return tuple(_endpoint("endpoints", text, self.protocols) for text in self.endpoints)

    def encode(self) -> bytes:
        """The keys of its version in the order of the Kafka that brought it, then the extensions.

        Raises ConfigError for what its version cannot say or its readers would refuse: Kafka 1.1 needs
        `jmx_port`, 0.8.2.2 a host, a controller of 0.8.2.2 fails for ever on a time that is no text.
        """
        check_number("broker registration version", self.version, VERSIONS[0], VERSIONS[-1])
        self._check_writable()
        fields: dict[str, object] = {"features": dict(self.features)} if self.version >= 5 else {}
        if self.version >= 4:
            fields["listener_security_protocol_map"] = dict(self.protocols)
        if self.version >= 2:
            fields["endpoints"] = list(self.endpoints)
        if self.rack is not None:
            fields["rack"] = self.rack
        fields.update(self._common())
        return check_size("broker registration", write_object({**fields, **self.extensions}))

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """Raises CorruptZnodeError without a host and port (version 1) or endpoints (later)."""
        fields = read_object(path, data, "a broker registration")
        version = integer_of(path, fields, "version") if "version" in fields else 1
        if version < VERSIONS[0]:
            raise CorruptZnodeError(path, "version 1 or later of a broker registration", f"version {version}")
        timestamp = fields.get("timestamp")
        protocols = _protocols(path, fields)
        endpoints = _endpoints(path, fields, protocols) if version >= 2 else ()
        return cls(
            host=None if endpoints and fields.get("host") is None else text_of(path, fields, "host"),
            port=integer_of(path, fields, "port"),
            version=version,
            timestamp_ms=decimal(timestamp, INT64) if isinstance(timestamp, str) else None,
            jmx_port=integer_of(path, fields, "jmx_port") if "jmx_port" in fields else -1,
            endpoints=endpoints,
            rack=text_of(path, fields, "rack") if fields.get("rack") is not None else None,
            protocols=protocols,
            features=object_of(path, fields, "features") if fields.get("features") is not None else {},
            extensions=others(fields, *_KAFKA_KEYS),
        )

    def _common(self) -> dict[str, object]:
        host, port, version = {"host": self.host}, {"port": self.port}, {"version": self.version}
        jmx_port, timestamp = {"jmx_port": self.jmx_port}, {"timestamp": str(self.timestamp_ms)}
        if self.version == 1:
            return {**jmx_port, **timestamp, **host, **version, **port}
        if self.version < 5:
            return {**jmx_port, **host, **timestamp, **port, **version}
        return {**jmx_port, **port, **host, **version, **timestamp}

    def _check_writable(self) -> None:
        if self.timestamp_ms is None:
            raise ConfigError("broker registration: expected a time of registration, found none")
        check_number("broker registration time", self.timestamp_ms, 0, INT64[-1])
        check_number("broker registration jmx_port", self.jmx_port, -1, _PORT_MAX)
        self._check_address()
        self._check_described()
        if clash := [key for key in self.extensions if key in _KAFKA_KEYS]:
            raise ConfigError(f"broker registration: expected keys that are not Kafka's, found {clash}")
        if self.version >= 2:
            self._check_listeners()

    def _check_address(self) -> None:
        if self.version == 1 and (self.host is None or self.endpoints):
            raise ConfigError(
                "broker registration version 1: expected one plain listener with a host and no endpoints,"
                f" found host {show(self.host)}, endpoints {show(list(self.endpoints))}"
            )
        if self.host is not None:
            check_number("broker port", self.port, 1, _PORT_MAX)
            if not _HOST.fullmatch(self.host):
                raise ConfigError(f"broker host {show(self.host)}: expected a host name or address")
        elif self.port != -1:
            raise ConfigError(f"broker registration: expected a host with port {self.port}, found none")

    def _check_described(self) -> None:
        for since, key, value in (
            (3, "rack", self.rack),
            (4, "listener_security_protocol_map", self.protocols),
            (5, "features", self.features),
        ):
            if value not in (None, {}) and self.version < since:
                raise ConfigError(
                    f"broker registration version {self.version} has no {key!r}: expected {since} or later"
                )
        if self.rack is not None:
            check_text("rack", self.rack)
        for name, supported in self.features.items():
            if not isinstance(supported, Mapping) or not all(map(_is_level, supported.values())):
                raise ConfigError(
                    f"feature {name!r}: expected small numbers by name, found {show(supported)}"
                )

    def _check_listeners(self) -> None:
        if not self.endpoints:
            raise ConfigError(f"broker registration version {self.version}: expected endpoints, found none")
        try:
            listeners = self.listeners
        except CorruptZnodeError as error:
            raise ConfigError(
                f"broker registration: expected {error.expected}, found {error.found}"
            ) from error
        for each in listeners:
            if not _LISTENER.fullmatch(each.listener):
                raise ConfigError(
                    f"listener {each.listener!r}: expected capital letters, digits, '.', '_', '-'"
                )
            if each.host is None or not _HOST.fullmatch(each.host):
                raise ConfigError(f"listener {each.text}: expected a host name or address")
            check_number(f"listener {each.text}: port", each.port, 1, _PORT_MAX)
            if each.protocol not in PROTOCOLS:
                raise ConfigError(
                    f"listener {each.text}: expected one of {PROTOCOLS}, found {each.protocol!r}"
                )
        names = [each.listener for each in listeners]
        if len(set(names)) < len(names) or (self.version >= 4 and set(self.protocols) != set(names)):
            raise ConfigError(
                f"broker registration: expected a protocol for each of the listeners {names},"
                f" found {dict(self.protocols)}"
            )


def _is_level(value: object) -> bool:
    return is_integer(value, INT16)


def _endpoint(path: str, text: str, protocols: Mapping[str, str]) -> Endpoint:
    match = _ENDPOINT.fullmatch(text)
    if match is None or int(match["port"]) not in INT32:
        raise CorruptZnodeError(path, "<listener>://<host>:<port> in 'endpoints'", show(text))
    listener = match["listener"].upper()
    protocol = protocols.get(listener) if protocols else (listener if listener in PROTOCOLS else None)
    if protocol is None:
        raise CorruptZnodeError(path, f"a security protocol for listener {listener!r}", show(dict(protocols)))
    return Endpoint(listener, match["host"] or None, int(match["port"]), protocol)


def _endpoints(path: str, fields: Mapping[str, object], protocols: Mapping[str, str]) -> tuple[str, ...]:
    value = fields.get("endpoints")
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        raise CorruptZnodeError(path, "a list of texts in 'endpoints'", show(value))
    for text in value:
        _endpoint(path, text, protocols)
    return tuple(value)


def _protocols(path: str, fields: Mapping[str, object]) -> dict[str, str]:
    if fields.get("listener_security_protocol_map") is None:
        return {}
    found = object_of(path, fields, "listener_security_protocol_map")
    return {listener: text_of(path, found, listener) for listener in found}
