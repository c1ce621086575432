"""Reads and changes of an operator, behind the public `zkgroup.Admin` and the command line.

A read takes a snapshot in a few bulk reads; everything reported about it is a pure function of that snapshot.
A change is planned first (a value that can be shown), then applied in transactions that check the plan's
preconditions. Nothing here keeps state between two calls.

This package reaches ZooKeeper through `zkgroup.zookeeper.blocking.Blocking`, over any `Store`.
"""

from zkgroup.placement import Compat, Phase, PlanViolation, ReplicaChange
from zkgroup.znodes.admin_requests import Move, PartitionVerdict, Reassignment, UncleanElectionDone
from zkgroup.znodes.brokers import NO_LEADER
from zkgroup.znodes.config import ConfigEntity, EntityKind
from zkgroup.znodes.notifications import NotifyFormat
from zkgroup.znodes.reassignment_records import PlanState

__all__ = [
    "NO_LEADER",
    "Compat",
    "ConfigEntity",
    "EntityKind",
    "Move",
    "NotifyFormat",
    "PartitionVerdict",
    "Phase",
    "PlanState",
    "PlanViolation",
    "Reassignment",
    "ReplicaChange",
    "UncleanElectionDone",
]
