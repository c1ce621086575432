"""The events of a group coordinator: requests, outcomes of writes and their errors, slots.

`effects` has what it gives.

A request has a number that the server chooses; `effects.Reply` carries it back. What differs between the
versions of a request is a field, so the coordinator knows no versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from zkgroup.coordinator.group import Protocols
from zkgroup.coordinator.records import GroupRecord
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.model.values import quick_init
from zkgroup.wire.groups import LeavingMember
from zkgroup.znodes.coordinated_groups import OffsetAndMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroup:
    """A client joins a group, or joins it again."""

    request_id: int
    group_id: str
    member_id: str
    """Empty for a client that has none."""
    group_instance_id: str | None = None
    requires_member_id: bool
    """From version 4 on a dynamic member first gets an id, with MEMBER_ID_REQUIRED (KIP-394)."""
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    """In version 0 the session timeout."""
    protocol_type: str
    protocols: Protocols


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroup:
    """A member asks for its assignment; the leader brings all of them."""

    request_id: int
    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None = None
    requires_protocol: bool = False
    """From version 5 on protocol type and name must be given (KIP-559)."""
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)
    """By member id; empty but for the leader."""


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A member lives."""

    request_id: int
    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroup:
    """Members leave their group."""

    request_id: int
    group_id: str
    members: tuple[LeavingMember, ...]


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffsets:
    """OffsetCommit from version 1 on. Version 0 goes to ZooKeeper without a coordinator."""

    request_id: int
    group_id: str
    generation: int = -1
    """-1 for a client that commits without being a member."""
    member_id: str = ""
    group_instance_id: str | None = None
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    unknown_partitions: frozenset[TopicPartition] = frozenset()
    """Those of `offsets` that the broker's metadata does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOffsets:
    """OffsetFetch from version 1 on."""

    request_id: int
    group_id: str
    partitions: tuple[TopicPartition, ...] | None
    """None: all that are stored."""
    require_stable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroup:
    """Asks for one group of a DescribeGroups."""

    request_id: int
    group_id: str
    include_authorized_operations: bool = False
    include_timers: bool = False
    """The answer is to have the fields that are zkgroup's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroups:
    """Asks for the groups of this coordinator."""

    request_id: int
    states: frozenset[str] = frozenset()
    """Empty: those in any state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveGroup:
    """Deletes one group of a DeleteGroups, or one that is over."""

    request_id: int
    group_id: str
    keeps_offsets: bool = False
    """Refused where the group has an offset, of any writer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveOffsets:
    """OffsetDelete: deletes offsets that no member needs (KIP-496)."""

    request_id: int
    group_id: str
    partitions: tuple[TopicPartition, ...]


GroupRequest = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | CommitOffsets
    | FetchOffsets
    | DescribeGroup
    | RemoveGroup
    | RemoveOffsets
)
"""The requests that name one group."""


class WriteOutcome(Enum):
    """The outcome of a write."""

    STORED = "stored"
    NOT_OWNER = "not owner"
    """Refused by the check of the slot: another broker coordinates the group. Nothing is stored."""
    CONFLICT = "conflict"
    """Refused by another check: ZooKeeper has not what the coordinator expects. Nothing is stored."""
    ZOOKEEPER_MEMBERS = "ZooKeeper members"
    """Refused because ZooKeeper consumers are members of the group. Nothing is stored."""
    HAS_OFFSETS = "has offsets"
    """The group was to be deleted if it had no offset, and has one. Nothing is deleted."""
    TOO_LARGE = "too large"
    """Larger than ZooKeeper accepts. Nothing is stored."""
    SLOT_FULL = "slot full"
    """Beyond the bounds of the slot. Nothing is stored."""
    UNKNOWN = "unknown"
    """No answer, and reading back did not show whether it is stored."""

    __hash__ = object.__hash__  # Enum's is a function of Python, called for each partition of a commit


# The error code that an outcome becomes, for each API; Kafka's own choices, as far as it has the case:
# kafka/coordinator/group/GroupMetadataManager.scala@2.8.2 (storeGroup, storeOffsets).
JOIN_ERRORS: Final[Mapping[WriteOutcome, ErrorCode]] = {
    WriteOutcome.STORED: ErrorCode.NONE,
    WriteOutcome.NOT_OWNER: ErrorCode.NOT_COORDINATOR,
    WriteOutcome.CONFLICT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    WriteOutcome.ZOOKEEPER_MEMBERS: ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    WriteOutcome.TOO_LARGE: ErrorCode.UNKNOWN,
    WriteOutcome.UNKNOWN: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
SYNC_ERRORS: Final[Mapping[WriteOutcome, ErrorCode]] = {
    **JOIN_ERRORS,
    WriteOutcome.CONFLICT: ErrorCode.REBALANCE_IN_PROGRESS,
    WriteOutcome.UNKNOWN: ErrorCode.REBALANCE_IN_PROGRESS,
}
COMMIT_ERRORS: Final[Mapping[WriteOutcome, ErrorCode]] = {
    WriteOutcome.STORED: ErrorCode.NONE,
    WriteOutcome.NOT_OWNER: ErrorCode.NOT_COORDINATOR,
    WriteOutcome.CONFLICT: ErrorCode.NOT_COORDINATOR,
    WriteOutcome.ZOOKEEPER_MEMBERS: ErrorCode.UNKNOWN_MEMBER_ID,
    WriteOutcome.TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    WriteOutcome.SLOT_FULL: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    WriteOutcome.UNKNOWN: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
DELETE_ERRORS: Final[Mapping[WriteOutcome, ErrorCode]] = {
    **COMMIT_ERRORS,
    WriteOutcome.HAS_OFFSETS: ErrorCode.NON_EMPTY_GROUP,
    WriteOutcome.ZOOKEEPER_MEMBERS: ErrorCode.NON_EMPTY_GROUP,
    WriteOutcome.TOO_LARGE: ErrorCode.UNKNOWN,
}
DELETE_OFFSET_ERRORS: Final[Mapping[WriteOutcome, ErrorCode]] = {
    **COMMIT_ERRORS,
    WriteOutcome.ZOOKEEPER_MEMBERS: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    WriteOutcome.TOO_LARGE: ErrorCode.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class GroupWritten:
    """The outcome of `WriteGroup`, `ReserveGenerations` or `DeleteGroup`."""

    write_id: int
    outcome: WriteOutcome


@quick_init
@dataclass(frozen=True, slots=True)
class OffsetsWritten:
    """The outcomes of one or more `WriteOffsets` whose ends have come together."""

    outcomes: Mapping[int, Mapping[TopicPartition, WriteOutcome]]
    """By write id; one for each partition."""


@dataclass(frozen=True, slots=True)
class SlotLoading:
    """This broker became the leader of a slot and reads its groups."""

    slot: int
    epoch: int
    """Leader epoch of the partition of `__consumer_offsets`."""


@dataclass(frozen=True, slots=True)
class SlotLoaded:
    """The groups of a slot were read, after the slot was fenced."""

    slot: int
    epoch: int
    groups: tuple[GroupRecord, ...]


@dataclass(frozen=True, slots=True)
class SlotKept:
    """A new leader epoch for a slot that this broker leads, whose version still holds."""

    slot: int
    epoch: int


@dataclass(frozen=True, slots=True)
class SlotUnloaded:
    """This broker no longer leads a slot."""

    slot: int
    epoch: int | None = None
    """None: whatever the epoch, because a write was refused by the slot's check."""


@dataclass(frozen=True, slots=True)
class LeaseExtended:
    """Until this time no other broker can have become the coordinator of these groups."""

    until_ms: int


@dataclass(frozen=True, slots=True)
class ForgetGroup:
    """Forgets a group without members of which nothing was ever stored."""

    group_id: str


@dataclass(frozen=True, slots=True)
class MarkerLost:
    """Another program has deleted the marker of a group with members, and ZooKeeper consumers are registered.

    The members are removed: one kind of members at a time.
    """

    group_id: str


@dataclass(frozen=True, slots=True)
class Started:
    """The broker serves groups."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The broker stops; every slot is unloaded."""


SlotEvent = SlotLoading | SlotLoaded | SlotKept | SlotUnloaded
CoordinatorEvent = (
    GroupRequest
    | ListGroups
    | GroupWritten
    | OffsetsWritten
    | SlotEvent
    | LeaseExtended
    | ForgetGroup
    | MarkerLost
    | Started
    | Stopped
)
