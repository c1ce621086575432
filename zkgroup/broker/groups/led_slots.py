"""The slots that a broker leads, with their groups as ZooKeeper has them, and what their parts share.

A slot that is loaded again is another object; the former one is closed. Writes of a closed slot that have
been sent get their outcomes from ZooKeeper; nothing more is sent for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from zkgroup.broker.groups.slot_usage import SlotUsage
from zkgroup.broker.groups.store_events import Effect, ExpireOffsets, GroupStoreContext
from zkgroup.coordinator.effects import (
    DeleteGroup,
    DeleteOffsets,
    ReserveGenerations,
    WriteGroup,
    WriteOffsets,
)
from zkgroup.coordinator.events import SlotLoading, WriteOutcome
from zkgroup.coordinator.group_ids import slot_of
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Check
from zkgroup.runtime.machine import ConcurrentProcedures, Job
from zkgroup.znodes.coordinated_groups import GroupHeader, SlotOwner
from zkgroup.znodes.group_records import Freeze

GroupChange = WriteGroup | ReserveGenerations | DeleteGroup | DeleteOffsets | ExpireOffsets
"""A change of one group; the changes of a group are made one after another."""


class SlotPhase(Enum):
    """The state of a slot that the controller made this broker lead."""

    LOADING = "loading"
    """The partition's state is to be read, the slot to be fenced, its groups to be read."""
    OWNED = "owned"
    NOT_LED = "not led"
    """The partition's state names another leader, or none."""


@dataclass(slots=True, eq=False)
class SentHeader:
    """A write of a header whose outcome is not known."""

    header: GroupHeader
    version: int | None
    """The one that the header had before; None if there was none."""
    chunk_paths: list[str]
    is_marked: bool
    rebalances: list[int]
    """The generations whose rebalances are in ZooKeeper after it, in order."""
    data: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.data = self.header.encode()

    @property
    def version_after(self) -> int:
        return 0 if self.version is None else self.version + 1


@dataclass(slots=True, eq=False)
class QueuedChange:
    """A change of a group that waits, or is made."""

    change: GroupChange
    after: int
    """Number of commits of the slot that were accepted before it."""
    outcome: WriteOutcome | None = None
    deleted: set[TopicPartition] = field(default_factory=set)
    """Offsets that the change has deleted."""
    has_offsets: bool = True


class OffsetPaths(NamedTuple):
    """The znodes of one offset."""

    parents: tuple[str, ...]
    """Of the offset."""
    offset: str
    metadata_parents: tuple[str, ...]
    """Of its metadata, without the header."""
    metadata: str
    every: tuple[str, ...]
    """All of them."""
    bytes: int
    """Of the paths of offset and metadata."""


@dataclass(slots=True, eq=False)
class StoredGroup:
    """The state of a group in ZooKeeper, as far as it was read or written, and the changes that wait."""

    group_id: str
    path: str
    """Of the header."""
    version: int | None = None
    """Of the header; None: there is none."""
    header: GroupHeader | None = None
    """None also for a header without data, which only has offsets below it, and for an unreadable one."""
    chunk_paths: list[str] = field(default_factory=list)
    """Chunks, to be deleted when the header is switched to others."""
    chunk_numbers: dict[int, int] = field(default_factory=dict)
    """By generation, the lowest number that no chunk has had."""
    has_stray_chunks: bool = False
    """True if chunks may exist that are not in `chunk_paths`: written for a header that is not."""
    is_marked: bool = False
    """True if the marker exists."""
    rebalances: list[int] = field(default_factory=list)
    """The generations whose rebalances are in ZooKeeper, in order."""
    existing: dict[str, bool] = field(default_factory=dict)
    """The existence of znodes of offsets, and of their parents; without those that are not known."""
    paths: dict[TopicPartition, OffsetPaths] = field(default_factory=dict)
    """The znodes of an offset and their parents (`offset_batch.paths_of`), once it was committed."""
    complete: dict[TopicPartition, OffsetPaths] = field(default_factory=dict)
    """Those of `paths` that all exist."""
    changes: deque[QueuedChange] = field(default_factory=deque)
    """The first one is being made, or waits for commits or a connection."""
    sent: SentHeader | None = None
    watches_members: bool = False

    @property
    def has_members(self) -> bool:
        """True if members of the coordinator are stored, or may get a generation."""
        return self.is_marked or (self.header is not None and self.header.chunks > 0)

    def forget(self) -> None:
        """Nothing of the group is in ZooKeeper: it was deleted."""
        self.version = self.header = self.sent = None
        self.chunk_paths, self.chunk_numbers, self.existing = [], {}, {}
        self.rebalances = []
        self.paths, self.complete = {}, {}
        self.is_marked = self.has_stray_chunks = False

    def forget_existence(self) -> None:
        """The znodes of its offsets are to be read again."""
        self.existing.clear()
        self.complete.clear()

    def deleted(self, paths: Iterable[str]) -> None:
        """Znodes of its offsets were deleted."""
        self.existing.update(dict.fromkeys(paths, False))
        self.complete.clear()

    def adopt(self, sent: SentHeader) -> None:
        """A write of the header is stored."""
        self.version, self.header = sent.version_after, sent.header
        self.chunk_paths, self.is_marked = sent.chunk_paths, sent.is_marked
        self.rebalances = sent.rebalances
        self.sent, self.has_stray_chunks = None, False


@dataclass(slots=True, eq=False)
class FrozenGroup:
    """A freeze of a group that has members."""

    freeze: Freeze
    marker: Znode
    """As it was read."""
    end_ms: int = 0
    """When it may be over, by the machine's clock."""


@dataclass(slots=True, eq=False)
class LedSlot:
    """A slot from one load to the next."""

    number: int
    epoch: int
    """Leader epoch of the partition, as the controller sent it."""
    usage: SlotUsage
    """The usage of its offsets."""
    path: str = field(init=False)
    phase: SlotPhase = SlotPhase.LOADING
    is_closed: bool = False
    is_announced: bool = False
    """True if the coordinator knows that it is loading."""
    version: int | None = None
    """Of the slot's znode, as set by this broker."""
    groups: dict[str, StoredGroup] = field(default_factory=dict)
    frozen: dict[str, FrozenGroup] = field(default_factory=dict)
    """The freezes that the load has found, by group."""
    commits: deque[WriteOffsets] = field(default_factory=deque)
    """Those that wait for the transaction in flight."""
    commits_accepted: int = 0
    commits_done: int = 0
    deleted_topics: set[str] = field(default_factory=set)
    """Those whose offsets have not been read since the controller reported their deletion."""
    topics_to_read: set[str] = field(default_factory=set)
    """Those whose offsets are to be read: their deletion may be over."""
    reads_all_topics: bool = False
    """True if the offsets of all topics are to be read, because the slot was loaded."""
    watched_deletions: set[str] = field(default_factory=set)
    """Topics with offsets whose request to delete them is watched."""
    waiting: dict[StoredGroup, None] = field(default_factory=dict)
    """Groups whose next change waits for commits."""

    def __post_init__(self) -> None:
        self.path = SlotOwner.path(self.number)

    @property
    def check(self) -> Check:
        """The fence: the head of every write of this slot."""
        assert self.version is not None
        return Check(self.path, self.version)

    def group(self, group_id: str) -> StoredGroup:
        """The group; a new entry where nothing is known of it."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = StoredGroup(group_id, GroupHeader.path(self.number, group_id))
        return group


class StoreCore:
    """The state that the parts of the store share."""

    def __init__(self, context: GroupStoreContext) -> None:
        self.context = context
        self.procedures: ConcurrentProcedures[Effect] = ConcurrentProcedures(context)
        self.count: int | None = None
        self.slots: dict[int, LedSlot] = {}
        self.on_lost: Callable[[LedSlot, str], None] = lambda slot, reason: None
        """Called where a slot is no longer this broker's, or its groups are not what is stored."""

    def run(self, key: Hashable, job: Job) -> None:
        self.procedures.add(key, job)

    def slot_of(self, group_id: str) -> int:
        """The number of a group's slot."""
        assert self.count is not None, "groups are coordinated once the slots are counted"
        return slot_of(group_id, self.count)

    def owned(self, group_id: str) -> LedSlot | None:
        """The slot of a group, if it is loaded here."""
        if self.count is None:
            return None
        slot = self.slots.get(self.slot_of(group_id))
        return slot if slot is not None and slot.phase is SlotPhase.OWNED else None

    def announce(self, slot: LedSlot) -> None:
        """The coordinator learns that the slot is loading."""
        if not slot.is_announced:
            slot.is_announced = True
            self.context.emit(SlotLoading(slot.number, slot.epoch))

    def lost(self, slot: LedSlot, reason: str) -> None:
        """A slot has to be loaded again, if it is not another's now."""
        if not slot.is_closed:
            self.on_lost(slot, reason)

    def wall_ms(self, ms: int) -> int:
        """A time of the machine's clock as wall time."""
        return ms - self.context.now.ms + self.context.now.wall_ms

    def machine_ms(self, wall_ms: int) -> int:
        """A wall time as a time of the machine's clock."""
        return wall_ms - self.context.now.wall_ms + self.context.now.ms
