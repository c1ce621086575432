"""Values of lower slices that the arguments of this package are made of; the command line gets them here."""

from zkgroup.placement import Compat, Loss
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.brokers import NO_LEADER
from zkgroup.znodes.config_changes import NotifyFormat
from zkgroup.znodes.config_entity import ConfigEntity, EntityKind
from zkgroup.znodes.reassignment_records import PlanState
from zkgroup.znodes.unclean_elections import UncleanElectionDone

__all__ = [
    "NO_LEADER",
    "Compat",
    "ConfigEntity",
    "EntityKind",
    "Loss",
    "Move",
    "NotifyFormat",
    "PlanState",
    "Reassignment",
    "UncleanElectionDone",
]
