# The public names, for type checkers and for `zkgroup.exports`: one list for both.
from zkgroup.testing.clock import FakeClock as FakeClock
from zkgroup.testing.clock import wait_until as wait_until
from zkgroup.testing.kafka_cluster.cluster import FAST as FAST
from zkgroup.testing.kafka_cluster.cluster import KafkaCluster as KafkaCluster
from zkgroup.testing.kafka_cluster.security import ClusterSecurity as ClusterSecurity
from zkgroup.testing.memory_zookeeper.leader import server_transactions as server_transactions
from zkgroup.testing.memory_zookeeper.server import MemoryZooKeeper as MemoryZooKeeper
