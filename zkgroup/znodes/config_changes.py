"""Notifications of changed configurations, in three formats that exclude each other (controller.md 1.5)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, Self

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.znodes.broker_registration import BrokerRegistration
from zkgroup.znodes.config_entity import DEFAULT_NAME, ConfigEntity, config_path
from zkgroup.znodes.ids import validate_topic
from zkgroup.znodes.json_object import integer_of, read_json, show, text_of, write_object
from zkgroup.znodes.sequence import sequence_of, sequential

NotifyFormat = Literal["bare", "v1", "v2"]

CHANGE_PREFIX: Final = "config_change_"
CHANGE_AGE_MAX_MS: Final = 15 * 60 * 1000
"""Notifications older than this, by ctime, are deleted by whoever has read them."""

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

    Brokers of ours read all three, so they count only where there is no other, and those that host nothing,
    which read none, where there is nobody else. `users_known` is whether `/config/users` exists; it decides
    where no broker is registered.
    """
    brokers = list(registrations)
    foreign = [broker for broker in brokers if not broker.is_zkgroup]
    hosting = [broker for broker in brokers if broker.role == "data"]
    oldest = min((broker.version for broker in foreign or hosting or brokers), default=None)
    if oldest is None:
        return "v2" if users_known else "bare"
    return "bare" if oldest == 1 else "v1" if oldest < 4 else "v2"
