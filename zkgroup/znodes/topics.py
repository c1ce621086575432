"""Per-topic configuration and requests to delete: `/config/topics/<t>`, `/admin/delete_topics/<t>`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from zkgroup.errors import CorruptZnodeError
from zkgroup.znodes.json_object import object_of, read_object, show, write_object


def topic_configs_path() -> str:
    """Its children are the topics with a configuration."""
    return "/config/topics"


def delete_topics_path() -> str:
    """Its children are the topics that the controller is asked to delete."""
    return "/admin/delete_topics"


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """`/config/topics/<t>`: overrides, `{"version":1,"config":{"retention.ms":"3600000"}}`. Persistent."""

    overrides: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def path(topic: str) -> str:
        return f"{topic_configs_path()}/{topic}"

    def encode(self) -> bytes:
        return write_object({"version": 1, "config": dict(self.overrides)})

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        overrides = object_of(path, read_object(path, data, "a topic configuration"), "config")
        texts = {name: value for name, value in overrides.items() if isinstance(value, str)}
        if len(texts) < len(overrides):
            raise CorruptZnodeError(path, "texts in 'config'", show(overrides))
        return cls(texts)


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """`/admin/delete_topics/<t>`: a request to the controller. Persistent, null data that nobody reads."""

    @staticmethod
    def path(topic: str) -> str:
        return f"{delete_topics_path()}/{topic}"
