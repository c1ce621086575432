"""Notifications between brokers, tools and the controller, as sequential znodes.

Changed configurations, in three formats that exclude each other (controller.md 1.5); changed ISRs (0.9 to
2.6); failed log directories (from 1.0 on).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, Self

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.znodes.config import DEFAULT_NAME, ConfigEntity, config_path
from zkgroup.znodes.ids import sequence_of, sequential, validate_topic
from zkgroup.znodes.json_fields import (
    check_number,
    check_size,
    integer_of,
    read_json,
    read_object,
    show,
    text_of,
    write_object,
)
from zkgroup.znodes.partition_lists import check_once, read_entries, write_entry

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


NotifyFormat = Literal["bare", "v1", "v2"]

CHANGE_PREFIX: Final = "config_change_"
CHANGE_AGE_MAX_MS: Final = 15 * 60 * 1000
"""Notifications older than this, by ctime, are deleted by their readers."""

_EXPECTED: Final = "a configuration change"
_KINDS: Final[dict[NotifyFormat, tuple[str, ...]]] = {"bare": ("topics",), "v1": ("topics", "clients")}


def config_changes_path() -> str:
    """Its children are the notifications. Never deleted: their numbers would start anew and be skipped."""
    return f"{config_path()}/changes"


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """`/config/changes/config_change_<n>`: that a configuration changed, not how. Persistent, sequential.

    Every broker watches the parent, reads what is new to it and then the configuration itself. Written

    * `bare` by 0.8.1 and 0.8.2: the topic as a JSON string, `"orders"`
    * `v1` by 0.9 and 0.10.0: `{"version":1,"entity_type":"topics","entity_name":"orders"}`
    * `v2` from 0.10.1 on: `{"version":2,"entity_path":"topics/orders"}`

    A foreign format is ignored at best: a bare string stops all later changes at brokers of 1.0 and 1.1,
    and `v2` keeps a broker of 0.9 from starting. `notify_format` chooses.
    (kafka/server/TopicConfigManager.scala@0.8.2.2, DynamicConfigManager.scala@0.9.0.1 and @2.8.2)
    """

    entity: ConfigEntity
    format: NotifyFormat

    @staticmethod
    def path(sequence: int) -> str:
        return sequential(ConfigChange.prefix(), sequence)

    @staticmethod
    def prefix() -> str:
        """What a sequential create is given."""
        return f"{config_changes_path()}/{CHANGE_PREFIX}"

    @staticmethod
    def sequence_of(name: str) -> int | None:
        """The number of a child, or None for a foreign name."""
        return sequence_of(CHANGE_PREFIX, name)

    def encode(self) -> bytes:
        """Raises ConfigError for an entity that the readers of the format do not know."""
        kind, name = self.entity.kind, self.entity.name
        known = _KINDS.get(self.format)
        if known is not None and (kind not in known or self.entity.client or name == DEFAULT_NAME):
            raise ConfigError(
                f"change of {self.entity}: brokers that read notifications of format {self.format!r}"
                f" have configurations of single {' and '.join(known)} only"
            )
        if kind == "topics":
            validate_topic(name)
        if self.format == "bare":
            # Kafka 0.8.2.2 takes everything between the first and the last character, unescaped.
            return json.dumps(name).encode("ascii")
        if self.format == "v1":
            return write_object({"version": 1, "entity_type": kind, "entity_name": name})
        return write_object({"version": 2, "entity_path": self.entity.entity_path})

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """Reads all three. Raises CorruptZnodeError for anything else, which must not stop later ones."""
        found = read_json(path, data, _EXPECTED)
        if isinstance(found, str):
            return cls(ConfigEntity.parse(path, f"topics/{found}"), "bare")
        if not isinstance(found, dict):
            raise CorruptZnodeError(path, _EXPECTED, show(found))
        version = integer_of(path, found, "version")
        if version == 1:
            kind, name = text_of(path, found, "entity_type"), text_of(path, found, "entity_name")
            return cls(ConfigEntity.parse(path, f"{kind}/{name}"), "v1")
        if version == 2:
            return cls(ConfigEntity.parse(path, text_of(path, found, "entity_path")), "v2")
        raise CorruptZnodeError(path, f"{_EXPECTED} of version 1 or 2", show(found))


def notify_format(registrations: Iterable[BrokerRegistration], users_known: bool) -> NotifyFormat:
    """The one format that the brokers read, by their oldest registration.

    zkgroup's brokers read all three, so they count only where there is no other, and those that host nothing,
    which read none, where there are no others. `users_known` is whether `/config/users` exists; it decides
    where no broker is registered.
    """
    brokers = list(registrations)
    foreign = [broker for broker in brokers if not broker.is_zkgroup]
    hosting = [broker for broker in brokers if broker.role == "data"]
    oldest = min((broker.version for broker in foreign or hosting or brokers), default=None)
    if oldest is None:
        return "v2" if users_known else "bare"
    return "bare" if oldest == 1 else "v1" if oldest < 4 else "v2"
