"""Ids and frozen values shared by every slice. Pure: the standard library's value modules only."""

from zkgroup.model.membership import (
    Assignment,
    Blacklist,
    EvaluatedMember,
    StaticSubscription,
    Subscription,
    Whitelist,
)
from zkgroup.model.partitions import LeaseGrant, TopicPartition
from zkgroup.model.stat import Znode, ZnodeStat

__all__ = [
    "Assignment",
    "Blacklist",
    "EvaluatedMember",
    "LeaseGrant",
    "StaticSubscription",
    "Subscription",
    "TopicPartition",
    "Whitelist",
    "Znode",
    "ZnodeStat",
]
