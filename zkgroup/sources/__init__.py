"""The sources of records: the port `RecordSource` and its implementations."""

from zkgroup.sources.files import FileSource
from zkgroup.sources.kafka import BrokerSource, KafkaSource
from zkgroup.sources.memory import MemorySource
from zkgroup.sources.port import Bounds, Cluster, RecordSource

__all__ = ["Bounds", "BrokerSource", "Cluster", "FileSource", "KafkaSource", "MemorySource", "RecordSource"]
