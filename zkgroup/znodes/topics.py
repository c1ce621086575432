"""Per-topic configuration and requests to delete: `/config/topics/<t>`, `/admin/delete_topics/<t>`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from zkgroup.errors import CorruptZnodeError
from zkgroup.znodes.admin_requests import admin_path
from zkgroup.znodes.config_entity import entities_path
from zkgroup.znodes.configs import EntityConfig
from zkgroup.znodes.json_object import integers_of, object_of, read_object, write_object
from zkgroup.znodes.limits import check_brokers

_WITHOUT: Final = "without_brokers"


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

    No controller of Kafka reads the data: 0.8.2.2 leaves zero bytes, later versions null. One of ours reads
    `{"version":1,"zkgroup":{"without_brokers":[3]}}`; data of any other form says nothing.
    """

    without_brokers: tuple[int, ...] = ()
    """Brokers whose answer an operator has said not to wait for while they are not registered (K20)."""

    @staticmethod
    def path(topic: str) -> str:
        return f"{delete_topics_path()}/{topic}"

    def encode(self) -> bytes:
        """Raises ConfigError for what is no broker id, and for one named twice."""
        if not self.without_brokers:
            return b""
        named = check_brokers("deletion of a topic", self.without_brokers)
        return write_object({"version": 1, "zkgroup": {_WITHOUT: named}})

    @classmethod
    def decode(cls, path: str, data: bytes | None) -> Self:
        """Raises CorruptZnodeError where a tool of ours has written it and it is not what it writes."""
        try:
            fields = read_object(path, data, "an object, or nothing")
        except CorruptZnodeError:
            return cls()
        if "zkgroup" not in fields:
            return cls()
        return cls(integers_of(path, object_of(path, fields, "zkgroup").get(_WITHOUT), repr(_WITHOUT)))
