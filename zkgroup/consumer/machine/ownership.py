"""What a member owns, should own, and is about to give up. Plain state; the rules are elsewhere.

A partition is in at most one of these stages:

    wanted -> (claimed) held -> revoking -> releasing -> gone
       ^ blocked                                            (a loss ends any of them at once)

`held` contains a partition until its release is known to be done, also while it is being revoked:
the member may still commit it. Sets are kept up to date as things change, so that a step that
changes nothing costs nothing for each partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from zkgroup.model import LeaseGrant, TopicPartition

NO_POSITION_FLOOR = -1
"""The application has sought in this claim: how far back it goes is its own affair."""


class Position(NamedTuple):
    """How far the application has processed a partition."""

    offset: int
    seek: int = 0
    """As in `CommitRequested.seeks`."""


@dataclass(slots=True)
class OwnedPartition:
    """One claim that the server accepted (recipes.md 5)."""

    topic_partition: TopicPartition
    thread: int
    token: int
    """czxid of the owner znode."""
    value: int
    """Last offset known to be written; negative where nothing was ever committed."""
    fence: int
    """Data version of the offset znode that the next write must find."""
    offset_czxid: int
    """czxid of the offset znode: another one means that it was deleted and made again."""
    last_mzxid: int
    """mzxid of the last write of this member to the offset, or of the reset marker obeyed since."""
    write_pending: bool = False
    """`value` is what the offset should be, but the znode holds something else."""
    position_epoch: int = 0
    """Id of its `Assign`, or of the last `SeekTo` since."""
    ended: str | None = None
    """Why the application's lease is over, while the release is still under way."""
    sought: int = 0
    """The last seek of the application whose position was written; 0 before the first, and after a move."""
    floor: int = field(init=False)
    """Where another client left the offset: a lower position counts as committed only after a seek."""

    def __post_init__(self) -> None:
        self.floor = self.value

    def leads_to(self, position: Position) -> int:
        """What a position makes of the offset: never less, except after a seek that is not written yet.

        Nothing, where a later seek is written already.
        """
        if position.seek < self.sought:
            return self.value
        return position.offset if position.seek > self.sought else max(position.offset, self.value)

    def commit(self, value: int, sought: int) -> None:
        """A value of the application's is written."""
        if sought > self.sought:
            self.floor = NO_POSITION_FLOOR
        self.value, self.sought = value, sought

    def follow(self, value: int) -> None:
        """Another client's value is obeyed; the application's next positions count from there."""
        self.value = self.floor = value
        self.sought = 0

    def grant(self) -> LeaseGrant:
        return LeaseGrant(
            topic_partition=self.topic_partition,
            thread=self.thread,
            token=self.token,
            offset=self.value if self.value >= 0 else None,
        )


@dataclass(slots=True)
class PendingRevocation:
    """A callback of the application that has not returned."""

    partitions: set[TopicPartition]
    deadline_ms: int


@dataclass(slots=True)
class Ownership:
    """The partitions of one member, by stage."""

    target: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Partition to thread number, by the newest plan."""
    held: dict[TopicPartition, OwnedPartition] = field(default_factory=dict)
    wanted: set[TopicPartition] = field(default_factory=set)
    """In the target, not held, not blocked."""
    blocked: dict[TopicPartition, str] = field(default_factory=dict)
    """In the target, held by another client (by whom)."""
    revoking: dict[int, PendingRevocation] = field(default_factory=dict)
    releasing: dict[TopicPartition, Position | None] = field(default_factory=dict)
    """To be released, with the processed position to commit; None: nothing new."""
    orphaned: set[TopicPartition] = field(default_factory=set)
    """Owner znodes that may be ours, are not held and cannot be adopted: to be released where they stand."""
    handed_back: set[TopicPartition] = field(default_factory=set)
    """Given up by the application until a later plan."""
    claims_count: int = 0
    """How many claims were accepted so far."""

    @property
    def is_settled(self) -> bool:
        """Everything in the target is held and nothing else is."""
        return not (self.wanted or self.blocked or self.revoking or self.releasing or self.orphaned)

    @property
    def is_giving_up(self) -> bool:
        return bool(self.revoking or self.releasing)

    def add(self, held: OwnedPartition) -> None:
        tp = held.topic_partition
        self.held[tp] = held
        self.claims_count += 1
        self.wanted.discard(tp)
        self.blocked.pop(tp, None)
        self.orphaned.discard(tp)

    def drop(self, tp: TopicPartition) -> OwnedPartition:
        """Takes a held partition out of every stage; it is wanted again where the target names it."""
        held = self.held.pop(tp)
        self.releasing.pop(tp, None)
        for revocation in self.revoking.values():
            revocation.partitions.discard(tp)
        self.want(tp)
        return held

    def want(self, tp: TopicPartition) -> None:
        if tp in self.target and tp not in self.held and tp not in self.blocked:
            self.wanted.add(tp)

    def retarget(self, target: Mapping[TopicPartition, int]) -> None:
        """Takes a new plan over. Partitions being given up are claimed anew afterwards, if at all."""
        self.target = target
        self.blocked = {tp: by for tp, by in self.blocked.items() if tp in target}
        self.wanted = {tp for tp in target if tp not in self.held and tp not in self.blocked}

    def to_revoke(self) -> tuple[TopicPartition, ...]:
        """Held partitions that the target does not name (for that thread), not yet on their way out."""
        on_their_way = set(self.releasing)
        for revocation in self.revoking.values():
            on_their_way |= revocation.partitions
        return tuple(
            sorted(
                tp
                for tp, held in self.held.items()
                if self.target.get(tp) != held.thread and tp not in on_their_way
            )
        )

    def hand_back(self, partitions: Iterable[TopicPartition]) -> None:
        """The application does not want these until a later plan."""
        self.handed_back.update(partitions)
        self.target = {tp: thread for tp, thread in self.target.items() if tp not in self.handed_back}
        self.wanted -= self.handed_back
        for tp in self.handed_back:
            self.blocked.pop(tp, None)

    def unblock(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            if self.blocked.pop(tp, None) is not None:
                self.want(tp)

    def clear(self) -> None:
        """Nothing is held, wanted or believed any more."""
        self.target = {}
        for stage in (self.held, self.wanted, self.blocked, self.revoking, self.releasing, self.orphaned):
            stage.clear()
        self.handed_back.clear()
