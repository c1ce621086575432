"""Notifications between brokers, tools and the controller, as sequential znodes.

There are notifications of changed configurations, in three incompatible formats, of changed ISRs (0.9 to 2.6)
and of failed log directories (from 1.0 on).
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
from zkgroup.znodes.ids import check_once, read_entries, sequence_of, sequential, validate_topic, write_entry
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

ISR_CHANGE_PREFIX: Final = "isr_change_"
LOG_DIR_EVENT_PREFIX: Final = "log_dir_event_"
LOG_DIR_FAILURE: Final = 1
"""The only kind of event."""

PARTITIONS_AT_ONCE: Final = 2500
"""Most partitions of one notification: with the longest names they fit one request."""


def isr_changes_path() -> str:
    """Its children are the notifications of changed ISRs; the controller watches it."""
    return "/isr_change_notification"


def log_dir_events_path() -> str:
    """Its children are the notifications of log directories; controllers from 1.0 on watch it."""
    return "/log_dir_event_notification"


@dataclass(frozen=True, slots=True)
class IsrChange:
    """`/isr_change_notification/isr_change_<n>`: partitions whose leader changed the ISR.

    `{"version":1,"partitions":[{"topic":"orders","partition":0}]}`. Persistent, sequential; created by the
    leader's broker, deleted by the controller when it has read these states, or if it cannot read the
    notification (kafka/utils/ReplicationUtils.scala@0.9.0.1, kafka/zk/ZkData.scala@2.8.2).
    """

    partitions: tuple[TopicPartition, ...]

    @staticmethod
    def path(sequence: int) -> str:
        return sequential(IsrChange.prefix(), sequence)

    @staticmethod
    def prefix() -> str:
        """Returns the path for a sequential create."""
        return f"{isr_changes_path()}/{ISR_CHANGE_PREFIX}"

    @staticmethod
    def sequence_of(name: str) -> int | None:
        """The number of a child, or None for a foreign name."""
        return sequence_of(ISR_CHANGE_PREFIX, name)

    @classmethod
    def split(cls, partitions: Iterable[TopicPartition]) -> tuple[Self, ...]:
        """The notifications of these partitions, each small enough for one request."""
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

    `{"version":1,"broker":2,"event":1}`. Persistent, sequential; deleted by the controller once it has the
    lost partitions from the broker (kafka/zk/ZkData.scala@2.8.2). zkgroup's brokers do not write it.
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
        """Raises ConfigError for an invalid broker id."""
        check_number("broker id", self.broker)
        return write_object({"version": 1, "broker": self.broker, "event": self.event})

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        fields = read_object(path, data, "a log directory event")
        return cls(integer_of(path, fields, "broker"), integer_of(path, fields, "event"))


NotifyFormat = Literal["bare", "v1", "v2"]
"""The format of a notification in `/config/changes`: that of 0.8.2, of 0.9, or of 0.10.1 and later."""

CHANGE_PREFIX: Final = "config_change_"
CHANGE_AGE_MAX_MS: Final = 15 * 60 * 1000
"""Notifications older than this, by ctime, are deleted by their readers."""

_EXPECTED: Final = "a configuration change"
_KINDS: Final[dict[NotifyFormat, tuple[str, ...]]] = {"bare": ("topics",), "v1": ("topics", "clients")}


def config_changes_path() -> str:
    """Its children are the notifications. It is never deleted: new numbers would be skipped as old."""
    return f"{config_path()}/changes"


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """`/config/changes/config_change_<n>`: the entity of a changed configuration. Persistent, sequential.

    Every broker watches the parent, reads the new notifications and then the configurations. Formats:

    * `bare` by 0.8.1 and 0.8.2: the topic as a JSON string, `"orders"`
    * `v1` by 0.9 and 0.10.0: `{"version":1,"entity_type":"topics","entity_name":"orders"}`
    * `v2` from 0.10.1 on: `{"version":2,"entity_path":"topics/orders"}`

    Brokers ignore another format at best: a bare string stops all later changes at brokers of 1.0 and 1.1,
    and a broker of 0.9 does not start with `v2`. `notify_format` chooses the format.
    (kafka/server/TopicConfigManager.scala@0.8.2.2, DynamicConfigManager.scala@0.9.0.1 and @2.8.2)
    """

    entity: ConfigEntity
    format: NotifyFormat

    @staticmethod
    def path(sequence: int) -> str:
        return sequential(ConfigChange.prefix(), sequence)

    @staticmethod
    def prefix() -> str:
        """Returns the path for a sequential create."""
        return f"{config_changes_path()}/{CHANGE_PREFIX}"

    @staticmethod
    def sequence_of(name: str) -> int | None:
        """The number of a child, or None for a foreign name."""
        return sequence_of(CHANGE_PREFIX, name)

    def encode(self) -> bytes:
        """Raises ConfigError for an entity that the format does not have."""
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
            # Kafka 0.8.2.2 reads everything between the first and the last character, unescaped.
            return json.dumps(name).encode("ascii")
        if self.format == "v1":
            return write_object({"version": 1, "entity_type": kind, "entity_name": name})
        return write_object({"version": 2, "entity_path": self.entity.entity_path})

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """The notification in any of the three formats. Raises CorruptZnodeError for other data."""
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
    """The format that the brokers read, by their oldest registration.

    zkgroup's brokers read all three, so they count only without brokers of Kafka; those without partitions
    read none, so they count only without any other. `users_known` is whether `/config/users` exists, which
    decides if no broker is registered.
    """
    brokers = list(registrations)
    foreign = [broker for broker in brokers if not broker.is_zkgroup]
    hosting = [broker for broker in brokers if broker.role == "data"]
    oldest = min((broker.version for broker in foreign or hosting or brokers), default=None)
    if oldest is None:
        return "v2" if users_known else "bare"
    return "bare" if oldest == 1 else "v1" if oldest < 4 else "v2"
