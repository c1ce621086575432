"""The ZooKeeper-era Kafka coordination layer: embed it, operate it, audit it.

Public names are loaded when first used: importing this package does no work and loads no
connection code. What is not named here is internal, except `zkgroup.errors`, `zkgroup.testing`,
`zkgroup.zookeeper.embedded`, `zkgroup.metrics.prometheus` and `zkgroup.lines.producer`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from zkgroup import version as _version

if TYPE_CHECKING:
    from zkgroup.assignment import assign as assign
    from zkgroup.consumer.aio import AsyncConsumer as AsyncConsumer
    from zkgroup.consumer.aio import AsyncGroupMember as AsyncGroupMember
    from zkgroup.consumer.consumer import Consumer as Consumer
    from zkgroup.consumer.lease import Lease as Lease
    from zkgroup.consumer.listener import AsyncRebalanceListener as AsyncRebalanceListener
    from zkgroup.consumer.listener import RebalanceListener as RebalanceListener
    from zkgroup.consumer.member import GroupMember as GroupMember
    from zkgroup.consumer.records import Record as Record
    from zkgroup.consumer.sources.brokers import BrokerSource as BrokerSource
    from zkgroup.consumer.sources.files import FileSource as FileSource
    from zkgroup.consumer.sources.kafka import KafkaSource as KafkaSource
    from zkgroup.consumer.sources.memory import MemorySource as MemorySource
    from zkgroup.consumer.sources.port import RecordSource as RecordSource
    from zkgroup.model import Blacklist as Blacklist
    from zkgroup.model import TopicPartition as TopicPartition
    from zkgroup.model import Whitelist as Whitelist
    from zkgroup.settings import GroupSettings as GroupSettings
    from zkgroup.zookeeper import ZooKeeperClient as ZooKeeperClient

__version__ = _version.VERSION

_HOMES = {
    "AsyncConsumer": "zkgroup.consumer.aio",
    "AsyncGroupMember": "zkgroup.consumer.aio",
    "AsyncRebalanceListener": "zkgroup.consumer.listener",
    "Blacklist": "zkgroup.model",
    "BrokerSource": "zkgroup.consumer.sources.brokers",
    "Consumer": "zkgroup.consumer.consumer",
    "FileSource": "zkgroup.consumer.sources.files",
    "GroupMember": "zkgroup.consumer.member",
    "GroupSettings": "zkgroup.settings",
    "KafkaSource": "zkgroup.consumer.sources.kafka",
    "Lease": "zkgroup.consumer.lease",
    "MemorySource": "zkgroup.consumer.sources.memory",
    "RebalanceListener": "zkgroup.consumer.listener",
    "Record": "zkgroup.consumer.records",
    "RecordSource": "zkgroup.consumer.sources.port",
    "TopicPartition": "zkgroup.model",
    "Whitelist": "zkgroup.model",
    "ZooKeeperClient": "zkgroup.zookeeper",
    "assign": "zkgroup.assignment",
}
"""Public name -> module that defines it; the imports above say the same to type checkers."""

__all__ = [
    "AsyncConsumer",
    "AsyncGroupMember",
    "AsyncRebalanceListener",
    "Blacklist",
    "BrokerSource",
    "Consumer",
    "FileSource",
    "GroupMember",
    "GroupSettings",
    "KafkaSource",
    "Lease",
    "MemorySource",
    "RebalanceListener",
    "Record",
    "RecordSource",
    "TopicPartition",
    "Whitelist",
    "ZooKeeperClient",
    "__version__",
    "assign",
]


if not TYPE_CHECKING:  # a checker must see a misspelt name as an error

    def __getattr__(name: str) -> object:
        """A public name, on its first use (PEP 562)."""
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """The public names, loaded or not, beside what a module always has."""
    return sorted({*globals(), *__all__})
