"""Below `/brokers`: registrations, topics, partition states, of Kafka 0.8 to 3.9."""

from zkgroup.znodes.broker_paths import broker_ids_path, brokers_path, topics_path
from zkgroup.znodes.broker_registration import BrokerRegistration, Endpoint
from zkgroup.znodes.partitions import NO_LEADER, PartitionState, Topic

__all__ = [
    "NO_LEADER",
    "BrokerRegistration",
    "Endpoint",
    "PartitionState",
    "Topic",
    "broker_ids_path",
    "brokers_path",
    "topics_path",
]
