"""The client of ZooKeeper: the only package that imports kazoo and tenacity."""

import zkgroup.zookeeper.kazoo_adapter  # noqa: F401  # first: it says what is wrong with another kazoo
from zkgroup.zookeeper.client import ZooKeeperClient as ZooKeeperClient
from zkgroup.zookeeper.settings import CREATOR_ACL, OPEN_ACL, Acl, Digest, Sasl, Secret, Tls
from zkgroup.zookeeper.settings import ClientSettings as ClientSettings

__all__ = [
    "CREATOR_ACL",
    "OPEN_ACL",
    "Acl",
    "Digest",
    "Sasl",
    "Secret",
    "Tls",
]
