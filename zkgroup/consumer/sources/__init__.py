"""The sources of records: the port `RecordSource` and its implementations."""

from zkgroup.consumer.sources.files import FileSource
from zkgroup.consumer.sources.kafka import BrokerSource, KafkaSource
from zkgroup.consumer.sources.memory import MemorySource
from zkgroup.consumer.sources.port import Bounds, Cluster, RecordSource

__all__ = ["Bounds", "BrokerSource", "Cluster", "FileSource", "KafkaSource", "MemorySource", "RecordSource"]
