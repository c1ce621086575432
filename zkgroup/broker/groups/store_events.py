"""The events and effects of the store of groups: slots, reads and writes, and their outcomes.

`store.GroupStore.step(event, now)` takes the events below, the writes and `ReadOffsets` of
`zkgroup.coordinator.effects`, and the shared events of `zkgroup.runtime.events`. It gives the shared effects,
events for `GroupCoordinator.handle`, the results below, and log events.

Every write and every request gets exactly one outcome; writes of a group in the order in which they came.
The ZooKeeper session is the broker's own: its lease is the lease of the broker's registration.

Times of groups (`GroupRecord.state_timestamp_ms`, `LeaseExtended.until_ms`) are those of the machine's clock,
`Instant.ms`; ZooKeeper has wall time, and the store converts. Times of offsets are wall time, but in
`OffsetsRecorded`, whose times are compared with those of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from zkgroup.broker.groups.slot_usage import SlotBounds
from zkgroup.coordinator.effects import (
    DeleteGroup,
    DeleteOffsets,
    ReadOffsets,
    ReserveGenerations,
    WriteGroup,
    WriteOffsets,
)
from zkgroup.coordinator.events import (
    GroupWritten,
    LeaseExtended,
    MarkerLost,
    OffsetsWritten,
    SlotEvent,
    WriteOutcome,
)
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.runtime.events import LogEvent, SharedEffect, SharedEvent
from zkgroup.runtime.procedures import MachineContext
from zkgroup.znodes.coordinated_groups import OffsetAndMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStoreConfig:
    """The facts about its broker that a store of groups needs."""

    broker: int
    """Broker id."""
    offsets_retention_check_interval_ms: int = 600_000
    """Milliseconds from one `OffsetsRecorded` of all groups to the next."""
    lease_fraction: float = 2 / 3
    """Of the session timeout; as `lease_fraction` of a member."""
    server_tick_ms: int = 2000
    """The `tickTime` of the ZooKeeper servers, for the lease."""
    bounds: SlotBounds = field(default_factory=SlotBounds)
    """Of the offsets of each slot."""


@dataclass(frozen=True, slots=True)
class SlotLed:
    """LeaderAndIsr: this broker leads a partition of `__consumer_offsets`, with this leader epoch."""

    slot: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class SlotResigned:
    """LeaderAndIsr or StopReplica: this broker no longer leads a partition of `__consumer_offsets`."""

    slot: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class WriteManyOffsets:
    """Commits that came in one turn of the broker's loop, in their order."""

    writes: Sequence[WriteOffsets]


class Recorded(NamedTuple):
    """The write of an offset that was read: the transactions that last set offset and metadata."""

    offset_mzxid: int
    metadata_mzxid: int


@dataclass(frozen=True, slots=True)
class ExpireOffsets:
    """Deletes offsets of an `OffsetsRecorded` of this group, which have expired or whose topic is deleted.

    One that was written since then stays, and all of them while ZooKeeper consumers are members. Result:
    `OffsetsExpired`.
    """

    group_id: str
    recorded: Mapping[TopicPartition, Recorded]


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """The controller deletes topics: their offsets are to be deleted. Result: `OffsetsRecorded`.

    Not the only reason for it: a slot that is loaded is checked as well, and so are all at intervals.
    """

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class ReadMembers:
    """Reads which ZooKeeper consumers are members of a group. Result: `MembersRead`."""

    request_id: int
    group_id: str


@dataclass(frozen=True, slots=True)
class ReadLegacyOffsets:
    """OffsetFetch 0: reads Kafka's offset znodes, on any broker. Result: `LegacyOffsetsRead`."""

    request_id: int
    group_id: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class WriteLegacyOffsets:
    """OffsetCommit 0: sets Kafka's offset znodes, on any broker. Result: `LegacyOffsetsWritten`.

    Refused while the group has members, of ZooKeeper or of the coordinator.
    """

    request_id: int
    group_id: str
    offsets: Mapping[TopicPartition, int]


StoreRequest = (
    WriteGroup
    | ReserveGenerations
    | DeleteGroup
    | WriteOffsets
    | WriteManyOffsets
    | ReadOffsets
    | DeleteOffsets
    | ExpireOffsets
    | TopicsDeleted
    | ReadMembers
    | ReadLegacyOffsets
    | WriteLegacyOffsets
)
StoreEvent = SlotLed | SlotResigned | StoreRequest | SharedEvent


@dataclass(frozen=True, slots=True)
class SlotsCounted:
    """The number of slots (`/zkgroup/config`); comes once, before every event about a slot.

    Before it no broker is the coordinator of a group.
    """

    count: int


@dataclass(frozen=True, slots=True)
class OffsetsRead:
    """The result of `ReadOffsets`.

    An error is NOT_COORDINATOR, for a slot that was given up meanwhile; the offsets are empty then.
    """

    request_id: int
    error: ErrorCode
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    """Without the partitions that have no offset."""
    partition_errors: Mapping[TopicPartition, ErrorCode]
    """UNSTABLE_OFFSET_COMMIT for those of `ReadOffsets.unstable`; UNKNOWN for a znode that is no offset."""


@dataclass(frozen=True, slots=True)
class MembersRead:
    """The result of `ReadMembers`."""

    request_id: int
    error: ErrorCode
    """NOT_COORDINATOR for a slot that was given up meanwhile, UNKNOWN where they cannot be read."""
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OffsetsDeleted:
    """The result of `DeleteOffsets`, for its `partitions`. An offset that did not exist counts as deleted."""

    request_id: int
    outcomes: Mapping[TopicPartition, WriteOutcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsRecorded:
    """The offsets of a group, for the retention: every check interval, for each group of the slots led.

    Pass it through `retention.expired_offsets`, and then `ExpireOffsets`; where nothing is left, ask
    `retention.is_over` in the same turn, and remove the group, unless it has got an offset meanwhile.

    Comes also where offsets of deleted topics are found, with these alone.
    """

    group_id: str
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    """Those that the coordinator wrote last; their times are of the machine's clock."""
    recorded: Mapping[TopicPartition, Recorded]
    """For `ExpireOffsets`."""
    has_others: bool
    """True if there are, or may be, offsets that are not among them."""
    of_deleted_topics: frozenset[TopicPartition] = frozenset()
    """Those of `offsets` that are to be deleted because their topics were."""


@dataclass(frozen=True, slots=True)
class RetentionChecked:
    """`OffsetsRecorded` has come for each group of a slot; other groups there were never stored."""

    slot: int
    groups: frozenset[str]
    """Those of which something is stored, or was asked to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsExpired:
    """The result of `ExpireOffsets`."""

    group_id: str
    partitions: frozenset[TopicPartition]
    """Those that were deleted."""
    has_offsets: bool


@dataclass(frozen=True, slots=True)
class LegacyOffsetsRead:
    """The result of `ReadLegacyOffsets`; COORDINATOR_NOT_AVAILABLE without ZooKeeper."""

    request_id: int
    error: ErrorCode
    offsets: Mapping[TopicPartition, int]
    """Without the partitions that have no offset; a negative one means "none" too."""
    unreadable: frozenset[TopicPartition] = frozenset()
    """Those whose znode is no number, or may not be read."""


@dataclass(frozen=True, slots=True)
class LegacyOffsetsWritten:
    """The result of `WriteLegacyOffsets`."""

    request_id: int
    outcomes: Mapping[TopicPartition, WriteOutcome]
    """CONFLICT where the coordinator has members, ZOOKEEPER_MEMBERS where there are those of ZooKeeper."""


@dataclass(frozen=True, slots=True)
class ZooKeeperMembersNoticed:
    """ZooKeeper consumers are registered in a group: a request was refused for them, or both kinds are there.

    Comes again whenever they change, while the coordinator has members, and once a minute while requests are
    refused; empty once they have left.
    """

    group_id: str
    members: tuple[str, ...]


StoreResult = (
    SlotsCounted
    | OffsetsRead
    | MembersRead
    | OffsetsDeleted
    | OffsetsRecorded
    | RetentionChecked
    | OffsetsExpired
    | LegacyOffsetsRead
    | LegacyOffsetsWritten
    | ZooKeeperMembersNoticed
)
CoordinatorInput = SlotEvent | GroupWritten | OffsetsWritten | LeaseExtended | MarkerLost
"""Effects that are events of the coordinator: hand them to `GroupCoordinator.handle`."""
Effect = CoordinatorInput | StoreResult
"""The store's own effects."""
StoreEffect = Effect | SharedEffect | LogEvent


class GroupStoreContext(MachineContext[Effect]):
    """The session, requests, timers and effects of the store, and its settings."""

    def __init__(self, config: GroupStoreConfig, jitter: Callable[[], float]) -> None:
        super().__init__(jitter)
        self.config = config
        self.jitter = jitter
