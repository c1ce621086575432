"""Znodes below `/brokers`: registrations, topics and partition states, of Kafka 0.8 to 3.9."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Literal, NamedTuple, Self, TypeGuard

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.model.values import PLAINTEXT, PROTOCOLS
from zkgroup.znodes.json_fields import (
    INT16,
    INT32,
    INT64,
    check_brokers,
    check_number,
    check_size,
    check_text,
    decimal,
    integer_of,
    integers_of,
    is_integer,
    object_of,
    others,
    read_object,
    show,
    text_of,
    write_object,
)


def brokers_path() -> str:
    """The parent of all znodes of brokers and topics."""
    return "/brokers"


def broker_ids_path() -> str:
    """Its children are the registered brokers."""
    return f"{brokers_path()}/ids"


def topics_path() -> str:
    """Its children are the topics."""
    return f"{brokers_path()}/topics"


VERSIONS: Final = range(1, 6)
VERSION_DEFAULT: Final = 4
"""Readable by 0.8.2.2, which reads host and port only, and by every release from 0.9.0.1 on."""
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
    """The address of one listener of a broker."""

    listener: str
    """Its name; the name of the protocol up to version 3."""
    host: str | None
    """None if the broker advertises no host, which means any of its interfaces."""
    port: int
    protocol: str
    """`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`."""

    @property
    def is_plain(self) -> bool:
        """True for a listener as every broker had one before 0.9."""
        return self.listener == self.protocol == PLAINTEXT

    @property
    def text(self) -> str:
        """The form in `endpoints`: `<listener>://<host>:<port>`, IPv6 addresses in brackets."""
        host = self.host or ""
        return f"{self.listener}://{f'[{host}]' if ':' in host else host}:{self.port}"


class InterBrokerListener(NamedTuple):
    """By which a broker or controller reaches brokers (`inter.broker.listener.name`)."""

    name: str
    protocol: str


PLAIN_LISTENER: Final = InterBrokerListener(PLAINTEXT, PLAINTEXT)
"""Of brokers without other listeners."""


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """`/brokers/ids/<id>`: the addresses of a broker. Ephemeral, created by the broker.

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
    """Epoch milliseconds of the registration; None if missing or no number (Kafka does not read it)."""
    jmx_port: int = -1
    endpoints: tuple[str, ...] = ()
    """`<listener>://<host>:<port>` each, from version 2 on."""
    rack: str | None = None
    protocols: Mapping[str, str] = field(default_factory=dict)
    """Listener to security protocol (`listener_security_protocol_map`), from version 4 on."""
    features: Mapping[str, object] = field(default_factory=dict)
    """Feature to its supported versions, `{"min_version":1,"max_version":3}`, from version 5 on."""
    extensions: Mapping[str, object] = field(default_factory=dict)
    """Unknown keys, unchanged; zkgroup's key is `zkgroup`, an object (`role` and others)."""

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
        """The registration of a broker with these listeners, in the given version.

        Raises ConfigError for values that the version does not have: no plain listener in version 1, two
        listeners of one protocol below 4 (their names are the protocols'), a rack below 3, features below 5.
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
        """`controller` for a zkgroup broker without partitions, `data` for all others."""
        found = self.extensions.get(ZKGROUP_KEY)
        return "controller" if isinstance(found, Mapping) and found.get("role") == "controller" else "data"

    @property
    def listeners(self) -> tuple[Endpoint, ...]:
        """The listeners in `endpoints` with their protocols; in version 1 the one plain listener."""
        if self.version == 1:
            return (Endpoint(PLAINTEXT, self.host, self.port, PLAINTEXT),)
        return tuple(_endpoint("endpoints", text, self.protocols) for text in self.endpoints)

    def endpoint(self, of: InterBrokerListener) -> Endpoint | None:
        """The listener by which brokers and controllers reach it, None without one: that of the name, else,
        as brokers of Kafka may have other names, the first of the protocol."""
        fitting = [each for each in self.listeners if each.protocol == of.protocol and each.host is not None]
        named = (each for each in fitting if each.listener == of.name)
        return next(named, None) or next(iter(fitting), None)

    def encode(self) -> bytes:
        """The JSON with the keys of its version in Kafka's order, then the extensions.

        Raises ConfigError for values that its version does not have or its readers refuse: Kafka 1.1 needs
        `jmx_port`, 0.8.2.2 a host, and a controller of 0.8.2.2 fails on a time that is not a text.
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


NO_LEADER: Final = -1
"""The leader of a partition without one."""

_TOPIC_KEYS: Final = ("version", "partitions", "adding_replicas", "removing_replicas", "topic_id")
_STATE_KEYS: Final = ("controller_epoch", "leader", "version", "leader_epoch", "isr")
_NO_KEYS: Final[Mapping[str, object]] = {}
"""One empty mapping for all states: a cluster has a hundred thousand of them."""
_PLAIN_MAX: Final = 9
"""Most digits that always make a number of 32 bits."""
_TOPIC_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")


@dataclass(frozen=True, slots=True)
class Topic:
    """`/brokers/topics/<t>`: the partitions of a topic and the brokers that hold each. Persistent.

    Version 1: `{"version":1,"partitions":{"0":[1,2],"1":[2,1]}}`; 2 (2.4) adds `adding_replicas` and
    `removing_replicas`, 3 (2.8) `topic_id` (kafka/zk/ZkData.scala, TopicZNode). The order of the keys of
    `partitions` has no meaning, but rewrites keep it. New topics have version 1: every Kafka reads it, and a
    controller of 2.8 adds the id by itself.
    """

    partitions: Mapping[int, tuple[int, ...]]
    """Partition to replica list, the preferred leader first. Numbers may have gaps."""
    version: int = 1
    """Version of the format: 1, 2 or 3."""
    adding: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Partition to the replicas that a running reassignment adds; they are in `partitions` already."""
    removing: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Partition to the replicas that a running reassignment removes at its end."""
    topic_id: str | None = None
    """The topic id of Kafka 2.8; None for a topic without one."""
    extensions: Mapping[str, object] = field(default_factory=dict)
    """Unknown keys, which every rewrite keeps."""

    @staticmethod
    def path(topic: str) -> str:
        """The path of a topic."""
        return f"{topics_path()}/{topic}"

    @staticmethod
    def partitions_path(topic: str) -> str:
        """The parent of the znodes of a topic's partitions."""
        return f"{Topic.path(topic)}/partitions"

    @staticmethod
    def partition_path(topic_partition: TopicPartition) -> str:
        """The parent of a partition's state."""
        return f"{Topic.partitions_path(topic_partition.topic)}/{topic_partition.partition}"

    @property
    def numbers(self) -> tuple[int, ...]:
        """The partition numbers, ascending."""
        return tuple(sorted(self.partitions))

    @property
    def moving(self) -> tuple[int, ...]:
        """The partitions with adding or removing replicas in the topic's znode, ascending."""
        return tuple(sorted(set(self.adding) | set(self.removing)))

    def with_replicas(
        self,
        partition: int,
        replicas: tuple[int, ...],
        adding: tuple[int, ...] = (),
        removing: tuple[int, ...] = (),
    ) -> Self:
        """The topic with another replica list for one partition.

        Version 1 has no adding and removing replicas, so they are left out there: only the request in
        `/admin/reassign_partitions` has them.
        """
        return self.with_all_replicas({partition: (replicas, adding, removing)})

    def with_all_replicas(
        self, changed: Mapping[int, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]
    ) -> Self:
        """The topic with other replica lists: number to replicas, adding and removing replicas."""
        keeps = self.version > 1
        lists = {number: replicas for number, (replicas, _, _) in changed.items()}
        adding = {number: added for number, (_, added, _) in changed.items() if added and keeps}
        removing = {number: removed for number, (_, _, removed) in changed.items() if removed and keeps}
        return dataclasses.replace(
            self,
            partitions={**self.partitions, **lists},
            adding=_with(self.adding, changed, adding),
            removing=_with(self.removing, changed, removing),
        )

    def encode(self) -> bytes:
        """The JSON of its version: 1 as Kafka 0.8 writes it, 2 and 3 as Kafka 2.4 and 2.8 do.

        Raises ConfigError for invalid partition numbers or broker ids, a duplicate broker in a list, and a
        topic too big for one request. A replica list may be empty: a controller of 0.8.2.2 can write one, and
        the topic's other partitions must still be writable.
        """
        check_number("topic version", self.version, 1)
        if self.topic_id is not None and not _TOPIC_ID.fullmatch(self.topic_id):
            raise ConfigError(f"topic id: expected 22 characters of base64url, found {show(self.topic_id)}")
        if clash := [key for key in self.extensions if key in _TOPIC_KEYS]:
            raise ConfigError(f"topic: expected keys that are not Kafka's, found {clash}")
        partitions = _replica_map("replicas", self.partitions)
        topic_id = {} if self.topic_id is None else {"topic_id": self.topic_id}
        moves = {
            key: _replica_map(key, replicas)
            for key, replicas in (("adding_replicas", self.adding), ("removing_replicas", self.removing))
            if self.version > 1 or replicas
        }
        fields = (
            {"version": 1, "partitions": partitions, **topic_id, **moves}
            if self.version == 1
            else {"partitions": partitions, **topic_id, **moves, "version": self.version}
        )
        return check_size(
            f"topic of {len(partitions)} partitions", write_object({**fields, **self.extensions})
        )

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """The topic. Raises CorruptZnodeError, also without `partitions`, as during the topic's creation."""
        fields = read_object(path, data, "a topic")
        return cls(
            partitions=_replicas(path, fields, "partitions"),
            version=_version(path, fields),
            adding=_replicas(path, fields, "adding_replicas") if "adding_replicas" in fields else {},
            removing=_replicas(path, fields, "removing_replicas") if "removing_replicas" in fields else {},
            topic_id=text_of(path, fields, "topic_id") if fields.get("topic_id") is not None else None,
            extensions=others(fields, *_TOPIC_KEYS),
        )


@dataclass(frozen=True, slots=True)
class PartitionState:
    """`/brokers/topics/<t>/partitions/<p>/state`: leader and in-sync replicas. Persistent.

    `{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}`, the same from 0.8 to 3.9,
    written by the controller and, for the ISR, by leaders (kafka/utils/ZkUtils.scala@0.8.2.2).
    """

    leader: int
    """Broker id; -1 for none."""
    leader_epoch: int
    """Increases by one with every write of a controller; a leader's ISR writes keep it."""
    isr: tuple[int, ...]
    """In-sync replicas; empty if a controller of 0.8.2.2 lost the last one."""
    controller_epoch: int
    """Epoch of the controller that wrote it last; a leader's ISR writes keep it."""
    extensions: Mapping[str, object] = field(default_factory=lambda: _NO_KEYS)
    """Keys of later versions (`leader_recovery_state` of 3.2)."""

    @staticmethod
    def path(topic_partition: TopicPartition) -> str:
        partitions = Topic.partitions_path(topic_partition.topic)
        return f"{partitions}/{topic_partition.partition}/state"

    @staticmethod
    def paths(partitions: Collection[TopicPartition]) -> list[str]:
        """The paths of many partitions, in their order."""
        parents = {topic: Topic.partitions_path(topic) for topic in {topic for topic, _ in partitions}}
        return [f"{parents[topic]}/{partition}/state" for topic, partition in partitions]

    @staticmethod
    def paths_of(topic: str, numbers: Collection[int]) -> list[str]:
        """The paths of partitions of one topic, in their order."""
        parent = Topic.partitions_path(topic)
        return [f"{parent}/{number}/state" for number in numbers]

    def encode(self) -> bytes:
        """Raises ConfigError for an invalid broker or epoch, and for a duplicate broker in the ISR."""
        check_number("leader", self.leader, NO_LEADER)
        check_number("leader epoch", self.leader_epoch)
        check_number("controller epoch", self.controller_epoch)
        if clash := [key for key in self.extensions if key in _STATE_KEYS]:
            raise ConfigError(f"partition state: expected keys that are not Kafka's, found {clash}")
        return write_object(
            {
                "controller_epoch": self.controller_epoch,
                "leader": self.leader,
                "version": 1,
                "leader_epoch": self.leader_epoch,
                "isr": check_brokers("isr", self.isr),
                **self.extensions,
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "a partition state")
        return cls(
            leader=integer_of(path, fields, "leader"),
            leader_epoch=integer_of(path, fields, "leader_epoch"),
            isr=integers_of(path, fields.get("isr"), "'isr'"),
            controller_epoch=integer_of(path, fields, "controller_epoch"),
            extensions=others(fields, *_STATE_KEYS) or _NO_KEYS,
        )


def _version(path: str, fields: Mapping[str, object]) -> int:
    version = integer_of(path, fields, "version") if "version" in fields else 1
    if version < 1:
        raise CorruptZnodeError(path, "version 1 or later of a topic", f"version {version}")
    return version


def _with(
    moves: Mapping[int, tuple[int, ...]], changed: Container[int], now: Mapping[int, tuple[int, ...]]
) -> dict[int, tuple[int, ...]]:
    return {**{number: replicas for number, replicas in moves.items() if number not in changed}, **now}


def _replicas(path: str, fields: Mapping[str, object], key: str) -> dict[int, tuple[int, ...]]:
    found: dict[int, tuple[int, ...]] = {}
    named = object_of(path, fields, key)
    if _are_plain(named):
        return {int(text): tuple(numbers) for text, numbers in named.items()}
    for text, brokers in named.items():
        partition = decimal(text, range(INT32[-1] + 1))
        if partition is None:
            raise CorruptZnodeError(path, f"partition numbers as keys of {key!r}", show(text))
        found[partition] = integers_of(path, brokers, f"{key!r}")
    return found


def _are_plain(lists: Mapping[str, Any]) -> TypeGuard[Mapping[str, list[int]]]:
    """Returns whether all are lists of broker ids under partition numbers, checked for a whole topic at once.

    False only means that each must be checked alone.
    """
    digits = "".join(lists)
    if not (digits.isascii() and digits.isdigit() and "" not in lists and max(map(len, lists)) <= _PLAIN_MAX):
        return False
    values = lists.values()
    if {*map(type, values)} != {list}:
        return False
    brokers = list(chain.from_iterable(values))
    return {*map(type, brokers)} == {int} and min(brokers) in INT32 and max(brokers) in INT32


def _replica_map(key: str, partitions: Mapping[int, tuple[int, ...]]) -> dict[str, list[int]]:
    return {
        str(check_number("partition", partition)): check_brokers(f"{key} of partition {partition}", brokers)
        for partition, brokers in partitions.items()
    }
