"""Ids and frozen values that all packages share. Pure: imports value modules of the standard library only."""

from zkgroup.model.groups import Assignment, EvaluatedMember, StaticSubscription, Subscription
from zkgroup.model.groups import Blacklist as Blacklist
from zkgroup.model.groups import LeaseGrant as LeaseGrant
from zkgroup.model.groups import TopicPartition as TopicPartition
from zkgroup.model.groups import Whitelist as Whitelist
from zkgroup.model.requests import Znode as Znode
from zkgroup.model.requests import ZnodeStat as ZnodeStat

__all__ = [
    "Assignment",
    "EvaluatedMember",
    "StaticSubscription",
    "Subscription",
]
