"""Ids and frozen values that all packages share. Pure: imports value modules of the standard library only."""

from zkgroup.model.groups import (
    Assignment,
    Blacklist,
    EvaluatedMember,
    LeaseGrant,
    StaticSubscription,
    Subscription,
    TopicPartition,
    Whitelist,
)
from zkgroup.model.requests import Znode, ZnodeStat

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
