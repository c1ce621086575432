"""`KafkaCluster`: brokers that Kafka's clients can use, in one process, without ZooKeeper and Java."""

from zkgroup.testing.kafka_cluster.cluster import FAST, KafkaCluster
from zkgroup.testing.kafka_cluster.security import ClusterSecurity

__all__ = ["FAST", "ClusterSecurity", "KafkaCluster"]
