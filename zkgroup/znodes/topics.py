"""Per-topic configuration and requests to delete: `/config/topics/<t>`, `/admin/delete_topics/<t>`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from zkgroup.znodes.admin_requests import admin_path
from zkgroup.znodes.config_entity import entities_path
from zkgroup.znodes.configs import EntityConfig


def topic_configs_path() -> str:
    """Its children are the topics with a configuration."""
    return entities_path("topics")


def delete_topics_path() -> str:
    """Its children are the topics that the controller is asked to delete."""
    return f"{admin_path()}/delete_topics"


@dataclass(frozen=True, slots=True)
class TopicConfig(EntityConfig):
    """`/config/topics/<t>`: overrides of a topic, made with it even where there are none. Persistent.

    `{"version":1,"config":{"retention.ms":"3600000"}}`. Growing the topic with Kafka's tool writes it again.
    """

    @staticmethod
    def path(topic: str) -> str:
        return f"{topic_configs_path()}/{topic}"


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """`/admin/delete_topics/<t>`: a request to the controller. Persistent.

    Nobody reads the data: Kafka 0.8.2.2 leaves zero bytes, later versions null.
    """

    @staticmethod
    def path(topic: str) -> str:
        return f"{delete_topics_path()}/{topic}"

    def encode(self) -> bytes:
        return b""

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        return cls()
