"""The ZooKeeper-era Kafka coordination layer: embed it, operate it, audit it.

The names of this package are loaded when first used: importing it does no work and loads no connection code.
These names are public, all others are internal:

| module | public names |
| --- | --- |
| `zkgroup` | its `__all__` |
| `zkgroup.admin` | its `__all__` |
| `zkgroup.errors` | all errors, `CommitResult` |
| `zkgroup.model`, `zkgroup.placement`, `zkgroup.history`, `zkgroup.zookeeper` | their `__all__` |
| `zkgroup.testing`, `zkgroup.testing.conformance`, `zkgroup.testing.kafka_cluster` | their `__all__` |
| `zkgroup.zookeeper.embedded` | its `__all__` |
| `zkgroup.metrics.prometheus` | `PrometheusMetrics` |
| `zkgroup.audit.spark.sources` | `register` |
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from zkgroup import version as _version

if TYPE_CHECKING:
    from zkgroup.admin.change import ChangeResult as ChangeResult
    from zkgroup.admin.client.admin import Admin as Admin
    from zkgroup.admin.client.admin import AsyncAdmin as AsyncAdmin
    from zkgroup.admin.reassign.proposals import PlanRequest as PlanRequest
    from zkgroup.assignment import assign as assign
    from zkgroup.broker.aio import AsyncBroker as AsyncBroker
    from zkgroup.broker.broker import Broker as Broker
    from zkgroup.broker.network import BrokerHealth as BrokerHealth
    from zkgroup.broker.replica_view import ReplicaView as ReplicaView
    from zkgroup.broker.settings import BrokerSettings as BrokerSettings
    from zkgroup.broker.telemetry import BrokerListener as BrokerListener
    from zkgroup.consumer.aio import AsyncConsumer as AsyncConsumer
    from zkgroup.consumer.aio import AsyncGroupMember as AsyncGroupMember
    from zkgroup.consumer.callbacks import AsyncRebalanceListener as AsyncRebalanceListener
    from zkgroup.consumer.callbacks import RebalanceListener as RebalanceListener
    from zkgroup.consumer.lease import Lease as Lease
    from zkgroup.consumer.machine.events import MemberState as MemberState
    from zkgroup.consumer.sync import Consumer as Consumer
    from zkgroup.consumer.sync import GroupMember as GroupMember
    from zkgroup.errors import CommitResult as CommitResult
    from zkgroup.groups.preview import GroupChange as GroupChange
    from zkgroup.history import HistoryFile as HistoryFile
    from zkgroup.model import Blacklist as Blacklist
    from zkgroup.model import TopicPartition as TopicPartition
    from zkgroup.model import Whitelist as Whitelist
    from zkgroup.settings import GroupSettings as GroupSettings
    from zkgroup.sources.files import FileSource as FileSource
    from zkgroup.sources.kafka import BrokerSource as BrokerSource
    from zkgroup.sources.kafka import KafkaSource as KafkaSource
    from zkgroup.sources.memory import MemorySource as MemorySource
    from zkgroup.sources.port import Bounds as Bounds
    from zkgroup.sources.port import Record as Record
    from zkgroup.sources.port import RecordSource as RecordSource
    from zkgroup.sources.port import SourceRecord as SourceRecord
    from zkgroup.zookeeper import ClientSettings as ClientSettings
    from zkgroup.zookeeper import Sasl as Sasl
    from zkgroup.zookeeper import Tls as Tls
    from zkgroup.zookeeper import ZooKeeperClient as ZooKeeperClient

__version__ = _version.VERSION

_HOMES = {
    "Admin": "zkgroup.admin.client.admin",
    "AsyncAdmin": "zkgroup.admin.client.admin",
    "AsyncBroker": "zkgroup.broker.aio",
    "AsyncConsumer": "zkgroup.consumer.aio",
    "AsyncGroupMember": "zkgroup.consumer.aio",
    "AsyncRebalanceListener": "zkgroup.consumer.callbacks",
    "Blacklist": "zkgroup.model",
    "Bounds": "zkgroup.sources.port",
    "Broker": "zkgroup.broker.broker",
    "BrokerHealth": "zkgroup.broker.network",
    "BrokerListener": "zkgroup.broker.telemetry",
    "BrokerSettings": "zkgroup.broker.settings",
    "BrokerSource": "zkgroup.sources.kafka",
    "ChangeResult": "zkgroup.admin.change",
    "ClientSettings": "zkgroup.zookeeper",
    "CommitResult": "zkgroup.errors",
    "Consumer": "zkgroup.consumer.sync",
    "FileSource": "zkgroup.sources.files",
    "GroupChange": "zkgroup.groups.preview",
    "GroupMember": "zkgroup.consumer.sync",
    "GroupSettings": "zkgroup.settings",
    "HistoryFile": "zkgroup.history",
    "KafkaSource": "zkgroup.sources.kafka",
    "Lease": "zkgroup.consumer.lease",
    "MemberState": "zkgroup.consumer.machine.events",
    "MemorySource": "zkgroup.sources.memory",
    "PlanRequest": "zkgroup.admin.reassign.proposals",
    "RebalanceListener": "zkgroup.consumer.callbacks",
    "Record": "zkgroup.sources.port",
    "RecordSource": "zkgroup.sources.port",
    "ReplicaView": "zkgroup.broker.replica_view",
    "Sasl": "zkgroup.zookeeper",
    "SourceRecord": "zkgroup.sources.port",
    "Tls": "zkgroup.zookeeper",
    "TopicPartition": "zkgroup.model",
    "Whitelist": "zkgroup.model",
    "ZooKeeperClient": "zkgroup.zookeeper",
    "assign": "zkgroup.assignment",
}
"""Public name to the module that defines it; the imports above are the same list for type checkers."""

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncBroker",
    "AsyncConsumer",
    "AsyncGroupMember",
    "AsyncRebalanceListener",
    "Blacklist",
    "Bounds",
    "Broker",
    "BrokerHealth",
    "BrokerListener",
    "BrokerSettings",
    "BrokerSource",
    "ChangeResult",
    "ClientSettings",
    "CommitResult",
    "Consumer",
    "FileSource",
    "GroupChange",
    "GroupMember",
    "GroupSettings",
    "HistoryFile",
    "KafkaSource",
    "Lease",
    "MemberState",
    "MemorySource",
    "PlanRequest",
    "RebalanceListener",
    "Record",
    "RecordSource",
    "ReplicaView",
    "Sasl",
    "SourceRecord",
    "Tls",
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
