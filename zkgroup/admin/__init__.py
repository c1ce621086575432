"""Reads and changes of an operator, behind the public `zkgroup.Admin` and the command line.

A read takes a snapshot in a few bulk reads; everything reported about it is a pure function of that snapshot.
A change is planned first (a value that can be shown), then applied in transactions that check the plan's
preconditions. Nothing here keeps state between two calls.

The names of `__all__` are public: the types that methods of `Admin` take and return, and those of their
fields. They are loaded when first used. The modules of this package are internal.

This package reaches ZooKeeper through `zkgroup.zookeeper.blocking.Blocking`, over any `Store`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zkgroup.admin.client.base import Listing as Listing
    from zkgroup.admin.client.base import Partitions as Partitions
    from zkgroup.admin.cluster.brokers import BrokerDescription as BrokerDescription
    from zkgroup.admin.cluster.brokers import Brokers as Brokers
    from zkgroup.admin.cluster.brokers import BrokerSummary as BrokerSummary
    from zkgroup.admin.cluster.brokers import ForgettingPlan as ForgettingPlan
    from zkgroup.admin.cluster.brokers import LeftReplicas as LeftReplicas
    from zkgroup.admin.cluster.controller import ControllerDescription as ControllerDescription
    from zkgroup.admin.cluster.controller import ControllerHealth as ControllerHealth
    from zkgroup.admin.cluster.controller import PastController as PastController
    from zkgroup.admin.cluster.controller import Resignation as Resignation
    from zkgroup.admin.cluster.controller import ResignationPlan as ResignationPlan
    from zkgroup.admin.cluster.usage import ClusterUsage as ClusterUsage
    from zkgroup.admin.cluster.usage import Counts as Counts
    from zkgroup.admin.cluster.usage import Estimate as Estimate
    from zkgroup.admin.cluster.usage import Usage as Usage
    from zkgroup.admin.configs import ConfigDescription as ConfigDescription
    from zkgroup.admin.configs import ConfigPlan as ConfigPlan
    from zkgroup.admin.coordinated_groups import ReleasePlan as ReleasePlan
    from zkgroup.admin.coordinator import CoordinatedGroupDescription as CoordinatedGroupDescription
    from zkgroup.admin.coordinator import CoordinatedMember as CoordinatedMember
    from zkgroup.admin.coordinator import CoordinatorDescription as CoordinatorDescription
    from zkgroup.admin.coordinator import SlotDescription as SlotDescription
    from zkgroup.admin.coordinator_status import CoordinatorStatus as CoordinatorStatus
    from zkgroup.admin.elections import Candidate as Candidate
    from zkgroup.admin.elections import ElectionPlan as ElectionPlan
    from zkgroup.admin.elections import Leaderless as Leaderless
    from zkgroup.admin.elections import UncleanPlan as UncleanPlan
    from zkgroup.admin.finding import DoctorFinding as DoctorFinding
    from zkgroup.admin.groups import DeletionPlan as DeletionPlan
    from zkgroup.admin.groups import NudgePlan as NudgePlan
    from zkgroup.admin.offsets.planning import Absolute as Absolute
    from zkgroup.admin.offsets.planning import AffectedMember as AffectedMember
    from zkgroup.admin.offsets.planning import AtTime as AtTime
    from zkgroup.admin.offsets.planning import Earliest as Earliest
    from zkgroup.admin.offsets.planning import Latest as Latest
    from zkgroup.admin.offsets.planning import LogPositions as LogPositions
    from zkgroup.admin.offsets.planning import OffsetChange as OffsetChange
    from zkgroup.admin.offsets.planning import OffsetPlan as OffsetPlan
    from zkgroup.admin.offsets.planning import SegmentOffset as SegmentOffset
    from zkgroup.admin.offsets.planning import Shift as Shift
    from zkgroup.admin.offsets.planning import Target as Target
    from zkgroup.admin.offsets.standing import OffsetStanding as OffsetStanding
    from zkgroup.admin.offsets.writes import Applied as Applied
    from zkgroup.admin.offsets.writes import WrittenOffset as WrittenOffset
    from zkgroup.admin.persistent import PersistentZnode as PersistentZnode
    from zkgroup.admin.persistent import RemovalPlan as RemovalPlan
    from zkgroup.admin.reassign.cancellation import CancelPlan as CancelPlan
    from zkgroup.admin.reassign.cancellation import Removal as Removal
    from zkgroup.admin.reassign.execution import ReassignmentOutcome as ReassignmentOutcome
    from zkgroup.admin.reassign.progress import ReassignmentStatus as ReassignmentStatus
    from zkgroup.admin.reassign.proposals import PhasedPlan as PhasedPlan
    from zkgroup.admin.reassign.proposals import Proposal as Proposal
    from zkgroup.admin.reassign.proposals import Sizes as Sizes
    from zkgroup.admin.reassign.stored_plans import PlanDescription as PlanDescription
    from zkgroup.admin.reassign.stored_plans import Storing as Storing
    from zkgroup.admin.reassign.submission import ReassignmentPlan as ReassignmentPlan
    from zkgroup.admin.reassign.submission import RunningRequest as RunningRequest
    from zkgroup.admin.reassign.throttles import Throttled as Throttled
    from zkgroup.admin.status import Status as Status
    from zkgroup.admin.topics.alteration import AlterationPlan as AlterationPlan
    from zkgroup.admin.topics.creation import LeadersSeen as LeadersSeen
    from zkgroup.admin.topics.creation import NewTopic as NewTopic
    from zkgroup.admin.topics.deletion import DeletionSeen as DeletionSeen
    from zkgroup.admin.topics.deletion import TopicDeletionPlan as TopicDeletionPlan
    from zkgroup.admin.topics.listing import MissingBroker as MissingBroker
    from zkgroup.admin.topics.listing import PendingDeletion as PendingDeletion
    from zkgroup.admin.topics.listing import TopicDescription as TopicDescription
    from zkgroup.admin.topics.listing import TopicPartitionDescription as TopicPartitionDescription
    from zkgroup.admin.topics.listing import TopicSummary as TopicSummary
    from zkgroup.admin.undo_records import UndoRecord as UndoRecord
    from zkgroup.admin.znodes import ChrootPlan as ChrootPlan
    from zkgroup.groups.descriptions import GroupDescription as GroupDescription
    from zkgroup.groups.descriptions import GroupState as GroupState
    from zkgroup.groups.descriptions import GroupSummary as GroupSummary
    from zkgroup.groups.descriptions import MemberDescription as MemberDescription
    from zkgroup.groups.descriptions import OffsetDescription as OffsetDescription
    from zkgroup.groups.descriptions import PartitionDescription as PartitionDescription
    from zkgroup.groups.descriptions import Preview as Preview
    from zkgroup.groups.descriptions import PreviewRow as PreviewRow
    from zkgroup.groups.descriptions import Problem as Problem
    from zkgroup.groups.descriptions import ProblemKind as ProblemKind
    from zkgroup.groups.descriptions import Verification as Verification
    from zkgroup.groups.ensemble import AsOf as AsOf
    from zkgroup.groups.reads import LogEndReader as LogEndReader
    from zkgroup.model import Znode as Znode
    from zkgroup.model.ports import Clock as Clock
    from zkgroup.model.ports import Store as Store
    from zkgroup.model.requests import SetData as SetData
    from zkgroup.placement import Compat as Compat
    from zkgroup.placement import Load as Load
    from zkgroup.placement import Phase as Phase
    from zkgroup.placement import Plan as Plan
    from zkgroup.placement import PlannedMove as PlannedMove
    from zkgroup.placement import PlanViolation as PlanViolation
    from zkgroup.placement import RackMode as RackMode
    from zkgroup.placement import Skew as Skew
    from zkgroup.znodes.admin_requests import Move as Move
    from zkgroup.znodes.admin_requests import PartitionVerdict as PartitionVerdict
    from zkgroup.znodes.admin_requests import Reassignment as Reassignment
    from zkgroup.znodes.admin_requests import UncleanElectionDone as UncleanElectionDone
    from zkgroup.znodes.brokers import NO_LEADER as NO_LEADER
    from zkgroup.znodes.brokers import Topic as Topic
    from zkgroup.znodes.config import ConfigEntity as ConfigEntity
    from zkgroup.znodes.config import EntityConfig as EntityConfig
    from zkgroup.znodes.config import EntityKind as EntityKind
    from zkgroup.znodes.controller import ControllerRecord as ControllerRecord
    from zkgroup.znodes.notifications import NotifyFormat as NotifyFormat
    from zkgroup.znodes.reassignment_records import PlanState as PlanState
    from zkgroup.znodes.reassignment_records import StoredPlan as StoredPlan
    from zkgroup.zookeeper.four_letter_words import ServerStatus as ServerStatus

_HOMES = {
    "Absolute": "zkgroup.admin.offsets.planning",
    "AlterationPlan": "zkgroup.admin.topics.alteration",
    "AffectedMember": "zkgroup.admin.offsets.planning",
    "Applied": "zkgroup.admin.offsets.writes",
    "AsOf": "zkgroup.groups.ensemble",
    "AtTime": "zkgroup.admin.offsets.planning",
    "BrokerDescription": "zkgroup.admin.cluster.brokers",
    "BrokerSummary": "zkgroup.admin.cluster.brokers",
    "Brokers": "zkgroup.admin.cluster.brokers",
    "CancelPlan": "zkgroup.admin.reassign.cancellation",
    "Candidate": "zkgroup.admin.elections",
    "ChrootPlan": "zkgroup.admin.znodes",
    "Clock": "zkgroup.model.ports",
    "ClusterUsage": "zkgroup.admin.cluster.usage",
    "Compat": "zkgroup.placement",
    "ConfigDescription": "zkgroup.admin.configs",
    "ConfigEntity": "zkgroup.znodes.config",
    "ConfigPlan": "zkgroup.admin.configs",
    "ControllerDescription": "zkgroup.admin.cluster.controller",
    "ControllerHealth": "zkgroup.admin.cluster.controller",
    "ControllerRecord": "zkgroup.znodes.controller",
    "CoordinatedGroupDescription": "zkgroup.admin.coordinator",
    "CoordinatedMember": "zkgroup.admin.coordinator",
    "CoordinatorDescription": "zkgroup.admin.coordinator",
    "CoordinatorStatus": "zkgroup.admin.coordinator_status",
    "Counts": "zkgroup.admin.cluster.usage",
    "DeletionPlan": "zkgroup.admin.groups",
    "DeletionSeen": "zkgroup.admin.topics.deletion",
    "DoctorFinding": "zkgroup.admin.finding",
    "Earliest": "zkgroup.admin.offsets.planning",
    "ElectionPlan": "zkgroup.admin.elections",
    "EntityConfig": "zkgroup.znodes.config",
    "EntityKind": "zkgroup.znodes.config",
    "Estimate": "zkgroup.admin.cluster.usage",
    "ForgettingPlan": "zkgroup.admin.cluster.brokers",
    "GroupDescription": "zkgroup.groups.descriptions",
    "GroupState": "zkgroup.groups.descriptions",
    "GroupSummary": "zkgroup.groups.descriptions",
    "Latest": "zkgroup.admin.offsets.planning",
    "Leaderless": "zkgroup.admin.elections",
    "LeadersSeen": "zkgroup.admin.topics.creation",
    "LeftReplicas": "zkgroup.admin.cluster.brokers",
    "Listing": "zkgroup.admin.client.base",
    "Load": "zkgroup.placement",
    "LogEndReader": "zkgroup.groups.reads",
    "LogPositions": "zkgroup.admin.offsets.planning",
    "MemberDescription": "zkgroup.groups.descriptions",
    "MissingBroker": "zkgroup.admin.topics.listing",
    "Move": "zkgroup.znodes.admin_requests",
    "NO_LEADER": "zkgroup.znodes.brokers",
    "NewTopic": "zkgroup.admin.topics.creation",
    "NotifyFormat": "zkgroup.znodes.notifications",
    "NudgePlan": "zkgroup.admin.groups",
    "OffsetChange": "zkgroup.admin.offsets.planning",
    "OffsetDescription": "zkgroup.groups.descriptions",
    "OffsetPlan": "zkgroup.admin.offsets.planning",
    "OffsetStanding": "zkgroup.admin.offsets.standing",
    "PartitionDescription": "zkgroup.groups.descriptions",
    "PartitionVerdict": "zkgroup.znodes.admin_requests",
    "Partitions": "zkgroup.admin.client.base",
    "PastController": "zkgroup.admin.cluster.controller",
    "PendingDeletion": "zkgroup.admin.topics.listing",
    "PersistentZnode": "zkgroup.admin.persistent",
    "Phase": "zkgroup.placement",
    "PhasedPlan": "zkgroup.admin.reassign.proposals",
    "Plan": "zkgroup.placement",
    "PlanDescription": "zkgroup.admin.reassign.stored_plans",
    "PlanState": "zkgroup.znodes.reassignment_records",
    "PlanViolation": "zkgroup.placement",
    "PlannedMove": "zkgroup.placement",
    "Preview": "zkgroup.groups.descriptions",
    "PreviewRow": "zkgroup.groups.descriptions",
    "Problem": "zkgroup.groups.descriptions",
    "ProblemKind": "zkgroup.groups.descriptions",
    "Proposal": "zkgroup.admin.reassign.proposals",
    "RackMode": "zkgroup.placement",
    "Reassignment": "zkgroup.znodes.admin_requests",
    "ReassignmentOutcome": "zkgroup.admin.reassign.execution",
    "ReassignmentPlan": "zkgroup.admin.reassign.submission",
    "ReassignmentStatus": "zkgroup.admin.reassign.progress",
    "ReleasePlan": "zkgroup.admin.coordinated_groups",
    "Removal": "zkgroup.admin.reassign.cancellation",
    "RemovalPlan": "zkgroup.admin.persistent",
    "Resignation": "zkgroup.admin.cluster.controller",
    "ResignationPlan": "zkgroup.admin.cluster.controller",
    "RunningRequest": "zkgroup.admin.reassign.submission",
    "SegmentOffset": "zkgroup.admin.offsets.planning",
    "ServerStatus": "zkgroup.zookeeper.four_letter_words",
    "SetData": "zkgroup.model.requests",
    "Shift": "zkgroup.admin.offsets.planning",
    "Sizes": "zkgroup.admin.reassign.proposals",
    "Skew": "zkgroup.placement",
    "SlotDescription": "zkgroup.admin.coordinator",
    "Status": "zkgroup.admin.status",
    "Store": "zkgroup.model.ports",
    "StoredPlan": "zkgroup.znodes.reassignment_records",
    "Storing": "zkgroup.admin.reassign.stored_plans",
    "Target": "zkgroup.admin.offsets.planning",
    "Throttled": "zkgroup.admin.reassign.throttles",
    "Topic": "zkgroup.znodes.brokers",
    "TopicDeletionPlan": "zkgroup.admin.topics.deletion",
    "TopicDescription": "zkgroup.admin.topics.listing",
    "TopicPartitionDescription": "zkgroup.admin.topics.listing",
    "TopicSummary": "zkgroup.admin.topics.listing",
    "UncleanElectionDone": "zkgroup.znodes.admin_requests",
    "UncleanPlan": "zkgroup.admin.elections",
    "UndoRecord": "zkgroup.admin.undo_records",
    "Usage": "zkgroup.admin.cluster.usage",
    "Verification": "zkgroup.groups.descriptions",
    "WrittenOffset": "zkgroup.admin.offsets.writes",
    "Znode": "zkgroup.model",
}
"""Public name to the module that defines it; the imports above are the same list for type checkers."""

__all__ = [
    "NO_LEADER",
    "Absolute",
    "AffectedMember",
    "AlterationPlan",
    "Applied",
    "AsOf",
    "AtTime",
    "BrokerDescription",
    "BrokerSummary",
    "Brokers",
    "CancelPlan",
    "Candidate",
    "ChrootPlan",
    "Clock",
    "ClusterUsage",
    "Compat",
    "ConfigDescription",
    "ConfigEntity",
    "ConfigPlan",
    "ControllerDescription",
    "ControllerHealth",
    "ControllerRecord",
    "CoordinatedGroupDescription",
    "CoordinatedMember",
    "CoordinatorDescription",
    "CoordinatorStatus",
    "Counts",
    "DeletionPlan",
    "DeletionSeen",
    "DoctorFinding",
    "Earliest",
    "ElectionPlan",
    "EntityConfig",
    "EntityKind",
    "Estimate",
    "ForgettingPlan",
    "GroupDescription",
    "GroupState",
    "GroupSummary",
    "Latest",
    "Leaderless",
    "LeadersSeen",
    "LeftReplicas",
    "Listing",
    "Load",
    "LogEndReader",
    "LogPositions",
    "MemberDescription",
    "MissingBroker",
    "Move",
    "NewTopic",
    "NotifyFormat",
    "NudgePlan",
    "OffsetChange",
    "OffsetDescription",
    "OffsetPlan",
    "OffsetStanding",
    "PartitionDescription",
    "PartitionVerdict",
    "Partitions",
    "PastController",
    "PendingDeletion",
    "PersistentZnode",
    "Phase",
    "PhasedPlan",
    "Plan",
    "PlanDescription",
    "PlanState",
    "PlanViolation",
    "PlannedMove",
    "Preview",
    "PreviewRow",
    "Problem",
    "ProblemKind",
    "Proposal",
    "RackMode",
    "Reassignment",
    "ReassignmentOutcome",
    "ReassignmentPlan",
    "ReassignmentStatus",
    "ReleasePlan",
    "Removal",
    "RemovalPlan",
    "Resignation",
    "ResignationPlan",
    "RunningRequest",
    "SegmentOffset",
    "ServerStatus",
    "SetData",
    "Shift",
    "Sizes",
    "Skew",
    "SlotDescription",
    "Status",
    "Store",
    "StoredPlan",
    "Storing",
    "Target",
    "Throttled",
    "Topic",
    "TopicDeletionPlan",
    "TopicDescription",
    "TopicPartitionDescription",
    "TopicSummary",
    "UncleanElectionDone",
    "UncleanPlan",
    "UndoRecord",
    "Usage",
    "Verification",
    "WrittenOffset",
    "Znode",
]


if not TYPE_CHECKING:  # a checker must see a misspelt name as an error

    def __getattr__(name: str) -> object:
        """A public name, on its first use (PEP 562)."""
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """The public names, loaded or not, beside what a module always has."""
    return sorted({*globals(), *__all__})
