"""The client of ZooKeeper: the only package that imports kazoo and tenacity."""

from zkgroup.zookeeper.client import ZooKeeperClient
from zkgroup.zookeeper.settings import Acl, ClientSettings, Digest, Sasl, Secret, Tls

__all__ = ["Acl", "ClientSettings", "Digest", "Sasl", "Secret", "Tls", "ZooKeeperClient"]
