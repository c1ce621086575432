"""What brokers tell the controller: changed ISRs (0.9 to 2.6), failed log directories (from 1.0 on)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from zkgroup.model import TopicPartition
from zkgroup.znodes.json_object import integer_of, read_object, write_object
from zkgroup.znodes.limits import check_number, check_size
from zkgroup.znodes.partition_entries import check_once, read_entries, write_entry
from zkgroup.znodes.sequence import sequence_of, sequential

ISR_CHANGE_PREFIX: Final = "isr_change_"
LOG_DIR_EVENT_PREFIX: Final = "log_dir_event_"
LOG_DIR_FAILURE: Final = 1
"""The one event there is."""

PARTITIONS_AT_ONCE: Final = 2500
"""So many partitions of the longest names fit one request."""


def isr_changes_path() -> str:
    """Its children are the notifications of changed ISRs; the controller watches it."""
    return "/isr_change_notification"


def log_dir_events_path() -> str:
    """Its children are the notifications of log directories; controllers from 1.0 on watch it."""
    return "/log_dir_event_notification"


@dataclass(frozen=True, slots=True)
class IsrChange:
    """`/isr_change_notification/isr_change_<n>`: partitions whose leader changed the ISR.

    `{"version":1,"partitions":[{"topic":"orders","partition":0}]}`. Persistent, sequential; made by the
    leader's broker, deleted by the controller when it has read the states named, or could not read this
    (kafka/utils/ReplicationUtils.scala@0.9.0.1, kafka/zk/ZkData.scala@2.8.2).
    """

    partitions: tuple[TopicPartition, ...]

    @staticmethod
    def path(sequence: int) -> str:
        return sequential(IsrChange.prefix(), sequence)

    @staticmethod
    def prefix() -> str:
        """What a sequential create is given."""
        return f"{isr_changes_path()}/{ISR_CHANGE_PREFIX}"

    @staticmethod
    def sequence_of(name: str) -> int | None:
        """The number of a child, or None for a foreign name."""
        return sequence_of(ISR_CHANGE_PREFIX, name)

    @classmethod
    def split(cls, partitions: Iterable[TopicPartition]) -> tuple[Self, ...]:
        """As many notifications as the partitions need, each small enough for one request."""
        ordered = sorted(set(partitions))
        starts = range(0, len(ordered), PARTITIONS_AT_ONCE)
        return tuple(cls(tuple(ordered[start : start + PARTITIONS_AT_ONCE])) for start in starts)

    def encode(self) -> bytes:
        """Raises ConfigError for no partition, one named twice, and more than one request can carry."""
        check_once("ISR change", self.partitions)
        fields = {"version": 1, "partitions": [write_entry(each) for each in self.partitions]}
        return check_size(f"ISR change of {len(self.partitions)} partitions", write_object(fields))

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "an ISR change")
        return cls(tuple(topic_partition for topic_partition, _ in read_entries(path, fields)))


@dataclass(frozen=True, slots=True)
class LogDirEvent:
    """`/log_dir_event_notification/log_dir_event_<n>`: a broker of 1.0 or later lost a log directory.

    `{"version":1,"broker":2,"event":1}`. Persistent, sequential; deleted by the controller when it has asked
    the broker which partitions are gone (kafka/zk/ZkData.scala@2.8.2). Ours have no log directories.
    """

    broker: int
    event: int = LOG_DIR_FAILURE

    @staticmethod
    def path(sequence: int) -> str:
        return sequential(f"{log_dir_events_path()}/{LOG_DIR_EVENT_PREFIX}", sequence)

    @staticmethod
    def sequence_of(name: str) -> int | None:
        """The number of a child, or None for a foreign name."""
        return sequence_of(LOG_DIR_EVENT_PREFIX, name)

    def encode(self) -> bytes:
        """Raises ConfigError for what is no broker."""
        check_number("broker id", self.broker)
        return write_object({"version": 1, "broker": self.broker, "event": self.event})

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "a log directory event")
        return cls(integer_of(path, fields, "broker"), integer_of(path, fields, "event"))
