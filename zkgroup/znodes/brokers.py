"""Below `/brokers`: registrations, topics, partition states, of Kafka 0.8 to 3.9."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from zkgroup.errors import CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.znodes.json_object import (
    INT32,
    INT64,
    decimal,
    integer_of,
    integers_of,
    object_of,
    read_object,
    show,
    text_of,
    write_object,
)


def brokers_path() -> str:
    """The parent of everything that brokers and topics are made of."""
    return "/brokers"


def broker_ids_path() -> str:
    """Its children are the registered brokers."""
    return f"{brokers_path()}/ids"


def topics_path() -> str:
    """Its children are the topics."""
    return f"{brokers_path()}/topics"


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """`/brokers/ids/<id>`: where a broker listens. Ephemeral, made by the broker.

    Version 1 (0.8): `{"jmx_port":-1,"timestamp":"<ms>","host":"h","version":1,"port":9092}`; 2 adds
    `endpoints`, 3 `rack`, 4 `listener_security_protocol_map`, 5 `features` (kafka/cluster/Broker.scala,
    kafka/zk/ZkData.scala). A broker without a plain listener registers host null and port -1 from
    version 2 on.
    """

    host: str | None
    port: int
    version: int = 1
    timestamp_ms: int | None = None
    """Epoch milliseconds of the registration; None where it is missing or no number (Kafka reads it not)."""
    jmx_port: int = -1
    endpoints: tuple[str, ...] = ()
    """`<listener>://<host>:<port>` each, from version 2 on."""
    extensions: Mapping[str, object] = field(default_factory=dict)
    """The keys beyond version 2, as they are: rack, listener_security_protocol_map, features, ours."""

    @staticmethod
    def path(broker: int) -> str:
        return f"{broker_ids_path()}/{broker}"

    @property
    def is_zkgroup(self) -> bool:
        return "zkgroup" in self.extensions

    @property
    def rack(self) -> str | None:
        value = self.extensions.get("rack")
        return value if isinstance(value, str) else None

    def encode(self) -> bytes:
        """Version 1 with its keys in the order of Kafka 0.8.2, then the extensions.

        Later versions are read, never written: only version 1 has a reader in every Kafka.
        """
        assert self.version == 1, "only version 1 is written"
        assert self.host is not None
        assert self.timestamp_ms is not None
        return write_object(
            {
                "jmx_port": self.jmx_port,
                "timestamp": str(self.timestamp_ms),
                "host": self.host,
                "version": 1,
                "port": self.port,
                **self.extensions,
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """Raises CorruptZnodeError without a host and port (version 1) or endpoints (later)."""
        fields = read_object(path, data, "a broker registration")
        version = integer_of(path, fields, "version") if "version" in fields else 1
        known = ("jmx_port", "timestamp", "host", "version", "port", "endpoints")
        timestamp = fields.get("timestamp")
        endpoints = _endpoints(path, fields) if version >= 2 else ()
        return cls(
            host=None if endpoints and fields.get("host") is None else text_of(path, fields, "host"),
            port=integer_of(path, fields, "port"),
            version=version,
            timestamp_ms=decimal(timestamp, INT64) if isinstance(timestamp, str) else None,
            jmx_port=integer_of(path, fields, "jmx_port") if "jmx_port" in fields else -1,
            endpoints=endpoints,
            extensions={key: value for key, value in fields.items() if key not in known},
        )


@dataclass(frozen=True, slots=True)
class Topic:
    """`/brokers/topics/<t>`: the partitions of a topic and the brokers that hold each. Persistent.

    Version 1: `{"version":1,"partitions":{"0":[1,2],"1":[2,1]}}`; 2 adds `adding_replicas` and
    `removing_replicas`, 3 `topic_id` (kafka/zk/ZkData.scala, TopicZNode). The order of the keys of
    `partitions` has no meaning; it is kept, so that what Kafka wrote is written again as it was.
    """

    partitions: Mapping[int, tuple[int, ...]]
    """Partition to replica list, the preferred leader first. Numbers may have gaps."""
    version: int = 1
    adding: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    removing: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    topic_id: str | None = None

    @staticmethod
    def path(topic: str) -> str:
        return f"{topics_path()}/{topic}"

    @staticmethod
    def partitions_path(topic: str) -> str:
        return f"{Topic.path(topic)}/partitions"

    @property
    def numbers(self) -> tuple[int, ...]:
        """The partition numbers, ascending."""
        return tuple(sorted(self.partitions))

    def encode(self) -> bytes:
        """In the version that the value has: 1 as Kafka 0.8 writes it, 2 and 3 as Kafka 2.4 and 2.8 do."""
        partitions = _replica_map(self.partitions)
        if self.version == 1:
            return write_object({"version": 1, "partitions": partitions})
        topic_id = {} if self.topic_id is None else {"topic_id": self.topic_id}
        moving = {
            "adding_replicas": _replica_map(self.adding),
            "removing_replicas": _replica_map(self.removing),
        }
        return write_object({"partitions": partitions, **topic_id, **moving, "version": self.version})

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "a topic")
        return cls(
            partitions=_replicas(path, fields, "partitions"),
            version=integer_of(path, fields, "version") if "version" in fields else 1,
            adding=_replicas(path, fields, "adding_replicas") if "adding_replicas" in fields else {},
            removing=_replicas(path, fields, "removing_replicas") if "removing_replicas" in fields else {},
            topic_id=text_of(path, fields, "topic_id") if fields.get("topic_id") is not None else None,
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
    isr: tuple[int, ...]
    controller_epoch: int
    extensions: Mapping[str, object] = field(default_factory=dict)
    """Keys of later versions (`leader_recovery_state` of 3.2)."""

    @staticmethod
    def path(topic_partition: TopicPartition) -> str:
        partitions = Topic.partitions_path(topic_partition.topic)
        return f"{partitions}/{topic_partition.partition}/state"

    def encode(self) -> bytes:
        return write_object(
            {
                "controller_epoch": self.controller_epoch,
                "leader": self.leader,
                "version": 1,
                "leader_epoch": self.leader_epoch,
                "isr": list(self.isr),
                **self.extensions,
            }
        )

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "a partition state")
        known = ("controller_epoch", "leader", "version", "leader_epoch", "isr")
        return cls(
            leader=integer_of(path, fields, "leader"),
            leader_epoch=integer_of(path, fields, "leader_epoch"),
            isr=integers_of(path, fields.get("isr"), "'isr'"),
            controller_epoch=integer_of(path, fields, "controller_epoch"),
            extensions={key: value for key, value in fields.items() if key not in known},
        )


def _endpoints(path: str, fields: Mapping[str, object]) -> tuple[str, ...]:
    value = fields.get("endpoints")
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        raise CorruptZnodeError(path, "a list of texts in 'endpoints'", show(value))
    return tuple(value)


def _replicas(path: str, fields: Mapping[str, object], key: str) -> dict[int, tuple[int, ...]]:
    found: dict[int, tuple[int, ...]] = {}
    for text, brokers in object_of(path, fields, key).items():
        partition = decimal(text, range(INT32[-1] + 1))
        if partition is None:
            raise CorruptZnodeError(path, f"partition numbers as keys of {key!r}", show(text))
        found[partition] = integers_of(path, brokers, f"{key!r}")
    return found


def _replica_map(partitions: Mapping[int, tuple[int, ...]]) -> dict[str, list[int]]:
    return {str(partition): list(brokers) for partition, brokers in partitions.items()}
