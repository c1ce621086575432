"""Types of arguments of this package that lower packages define: the command line imports them here."""

from zkgroup.placement import Compat, Phase, PlanViolation, ReplicaChange
from zkgroup.znodes.admin_requests import Move, Reassignment, UncleanElectionDone
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
    "Phase",
    "PlanState",
    "PlanViolation",
    "Reassignment",
    "ReplicaChange",
    "UncleanElectionDone",
]
