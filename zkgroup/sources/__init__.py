"""The sources of records: the port `RecordSource` and its implementations."""

from zkgroup.sources.files import FileSource as FileSource
from zkgroup.sources.kafka import BrokerSource
from zkgroup.sources.kafka import KafkaSource as KafkaSource
from zkgroup.sources.memory import MemorySource
from zkgroup.sources.port import Bounds, SourceRecord
from zkgroup.sources.port import Cluster as Cluster
from zkgroup.sources.port import RecordSource as RecordSource

__all__ = [
    "Bounds",
    "BrokerSource",
    "MemorySource",
    "SourceRecord",
]
