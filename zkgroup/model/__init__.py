"""Ids and frozen values that all packages share. Pure: imports value modules of the standard library only."""

from zkgroup.model.assignors import Assignor, AssignorInput
from zkgroup.model.requests import Znode as Znode
from zkgroup.model.requests import ZnodeStat as ZnodeStat
from zkgroup.model.values import Assignment, EvaluatedMember, StaticSubscription, Subscription
from zkgroup.model.values import Blacklist as Blacklist
from zkgroup.model.values import LeaseGrant as LeaseGrant
from zkgroup.model.values import TopicPartition as TopicPartition
from zkgroup.model.values import Whitelist as Whitelist

__all__ = [
    "Assignment",
    "Assignor",
    "AssignorInput",
    "EvaluatedMember",
    "StaticSubscription",
    "Subscription",
]
