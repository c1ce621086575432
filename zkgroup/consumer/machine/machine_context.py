"""The state that all components of a member's machine share: configuration, paths, and owned partitions.

It makes no decisions: the rules are in the components (`membership`, `group_snapshot`, `claim`, ...).

The public states of a member, and the legal changes between them:

    new -> joining -> stable <-> rebalancing
             ^          |            |
             |          v            v
             +------ suspended (the lease ended, the session may go on; continues with the same tokens)
             |
             +------ lost (the session, or the registration, is gone; nothing is owned)

`closing` comes from every living state, `closed` and `failed` end it.

`Ownership` has the partitions that a member owns, should own, and gives up. A partition is in at most one of
these stages:

    wanted -> (claimed) owned -> revoking -> releasing -> gone
       ^ blocked                                            (a loss ends any of them at once)

`partitions` contains a partition until its release is known to be done, also while it is being revoked: the
member may still commit it. The sets are updated with each change, so that a step without changes costs
nothing for each partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from zkgroup.consumer.machine.events import Assign, ChangeState, Effect, Lose, MemberState
from zkgroup.consumer.machine.events import MemberState as S
from zkgroup.errors import IllegalTransitionError
from zkgroup.model import LeaseGrant, Subscription, TopicPartition
from zkgroup.runtime.procedures import MachineContext
from zkgroup.settings import GroupSettings
from zkgroup.znodes.consumers import (
    Offset,
    Owner,
    Registration,
    commits_path,
    consumers_path,
    group_path,
    ids_path,
    offsets_path,
    offsets_topic_path,
    owners_path,
    owners_topic_path,
    prepared_path,
    resets_path,
    static_path,
    views_path,
)
from zkgroup.znodes.coordinated_groups import ProtocolMarker
from zkgroup.znodes.group_history import GroupHistory
from zkgroup.znodes.group_records import (
    CommitRecord,
    Freeze,
    PreparedPartitions,
    Reset,
    StaticMember,
    StoredAssignment,
    View,
)

NO_POSITION_FLOOR = -1
"""The floor after a seek of the application in this claim: it may go back to any offset."""


class Position(NamedTuple):
    """The position up to which the application has processed a partition."""

    offset: int
    seek: int = 0
    """As in `CommitRequested.seeks`."""


@dataclass(slots=True)
class OwnedPartition:
    """One claim that the server accepted (claims, recipes 5)."""

    topic_partition: TopicPartition
    thread: int
    token: int
    """czxid of the owner znode."""
    value: int
    """Last offset known to be written; negative if nothing was ever committed."""
    fence: int
    """Data version of the offset znode that the next write expects."""
    offset_czxid: int
    """czxid of the offset znode: another one means that it was deleted and created again."""
    last_mzxid: int
    """mzxid of the last write of this member to the offset, or of the reset marker applied since."""
    write_pending: bool = False
    """True if the znode has another offset than `value`, which is still to be written."""
    position_epoch: int = 0
    """Id of its `Assign`, or of the last `SeekTo` since."""
    ended: str | None = None
    """The reason why the application's lease has ended, while the release is not done yet."""
    sought: int = 0
    """The last seek of the application whose position was written; 0 before the first, and after `SeekTo`."""
    floor: int = field(init=False)
    """The offset that another client wrote: a lower position counts as committed only after a seek."""

    def __post_init__(self) -> None:
        self.floor = self.value

    def leads_to(self, position: Position) -> int:
        """The offset to write for a position: never lower, except after a seek that is not written yet; the
        present one if a later seek is written already."""
        if position.seek < self.sought:
            return self.value
        return position.offset if position.seek > self.sought else max(position.offset, self.value)

    def commit(self, value: int, sought: int) -> None:
        """Takes an offset of the application that was written."""
        if sought > self.sought:
            self.floor = NO_POSITION_FLOOR
        self.value, self.sought = value, sought

    def follow(self, value: int) -> None:
        """Takes over another client's offset; the application's next positions count from there."""
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
    """Partitions whose `on_revoked` has not returned yet."""

    partitions: set[TopicPartition]
    deadline_ms: int


@dataclass(slots=True)
class Ownership:
    """The partitions of one member, by stage."""

    assigned: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Partition to thread number, by the newest assignment."""
    partitions: dict[TopicPartition, OwnedPartition] = field(default_factory=dict)
    wanted: set[TopicPartition] = field(default_factory=set)
    """Assigned partitions that are neither owned nor blocked."""
    blocked: dict[TopicPartition, str] = field(default_factory=dict)
    """Assigned partitions that another client owns, with the owner."""
    revoking: dict[int, PendingRevocation] = field(default_factory=dict)
    releasing: dict[TopicPartition, Position | None] = field(default_factory=dict)
    """Partitions to release, with the processed position to commit; None if it is unchanged."""
    orphaned: set[TopicPartition] = field(default_factory=set)
    """Orphaned claims: owner znodes that may be this member's and cannot be adopted. They are released."""
    kept: set[TopicPartition] = field(default_factory=set)
    """Partitions of another member that are owned until it has prepared them."""
    handed_back: set[TopicPartition] = field(default_factory=set)
    """Partitions that the application gave up until a later assignment."""
    claims_count: int = 0

    @property
    def is_settled(self) -> bool:
        """Returns whether the member owns what it is assigned and nothing else."""
        return not (
            self.wanted or self.blocked or self.revoking or self.releasing or self.orphaned or self.kept
        )

    @property
    def is_giving_up(self) -> bool:
        return bool(self.revoking or self.releasing)

    def add(self, owned: OwnedPartition) -> None:
        tp = owned.topic_partition
        self.partitions[tp] = owned
        self.claims_count += 1
        self.wanted.discard(tp)
        self.blocked.pop(tp, None)
        self.orphaned.discard(tp)

    def drop(self, tp: TopicPartition) -> OwnedPartition:
        """Removes an owned partition from every stage; it is wanted again if it is assigned."""
        owned = self.partitions.pop(tp)
        self.releasing.pop(tp, None)
        self.kept.discard(tp)
        for revocation in self.revoking.values():
            revocation.partitions.discard(tp)
        self.want(tp)
        return owned

    def want(self, tp: TopicPartition) -> None:
        if tp in self.assigned and tp not in self.partitions and tp not in self.blocked:
            self.wanted.add(tp)

    def assign(self, assigned: Mapping[TopicPartition, int]) -> None:
        """Takes a new assignment. Partitions that are being given up can be claimed only after that."""
        self.assigned = assigned
        self.kept.clear()
        self.blocked = {tp: by for tp, by in self.blocked.items() if tp in assigned}
        self.wanted = {tp for tp in assigned if tp not in self.partitions and tp not in self.blocked}

    def to_revoke(self) -> tuple[TopicPartition, ...]:
        """Owned partitions that are not assigned (to that thread) and not yet being given up."""
        on_their_way = self.kept.union(self.releasing)
        for revocation in self.revoking.values():
            on_their_way |= revocation.partitions
        return tuple(
            sorted(
                tp
                for tp, owned in self.partitions.items()
                if self.assigned.get(tp) != owned.thread and tp not in on_their_way
            )
        )

    def hand_back(self, partitions: Iterable[TopicPartition]) -> None:
        """Unassigns partitions until a later assignment, as the application asked."""
        self.handed_back.update(partitions)
        self.kept -= self.handed_back
        self.assigned = {tp: thread for tp, thread in self.assigned.items() if tp not in self.handed_back}
        self.wanted -= self.handed_back
        for tp in self.handed_back:
            self.blocked.pop(tp, None)

    def unblock(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            if self.blocked.pop(tp, None) is not None:
                self.want(tp)

    def clear(self) -> None:
        self.assigned = {}
        for stage in (
            self.partitions,
            self.wanted,
            self.blocked,
            self.revoking,
            self.releasing,
            self.orphaned,
            self.kept,
        ):
            stage.clear()
        self.handed_back.clear()


TRANSITIONS: dict[S, frozenset[S]] = {
    S.NEW: frozenset({S.JOINING, S.CLOSING, S.CLOSED, S.FAILED}),
    S.JOINING: frozenset({S.STABLE, S.REBALANCING, S.SUSPENDED, S.LOST, S.CLOSING, S.FAILED}),
    S.STABLE: frozenset({S.JOINING, S.REBALANCING, S.SUSPENDED, S.LOST, S.CLOSING, S.FAILED}),
    S.REBALANCING: frozenset({S.JOINING, S.STABLE, S.SUSPENDED, S.LOST, S.CLOSING, S.FAILED}),
    S.SUSPENDED: frozenset({S.JOINING, S.STABLE, S.REBALANCING, S.LOST, S.CLOSING, S.FAILED}),
    S.LOST: frozenset({S.JOINING, S.CLOSING, S.FAILED}),
    S.CLOSING: frozenset({S.CLOSED, S.FAILED}),
    S.CLOSED: frozenset(),
    S.FAILED: frozenset(),
}
"""State to the states that may follow it. Any other change is a bug of zkgroup."""


def check_transition(before: S, after: S) -> None:
    """Raises `IllegalTransitionError` unless the table allows the change."""
    if after not in TRANSITIONS[before]:
        raise IllegalTransitionError(f"member: {before.value} -> {after.value} is not allowed")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberConfig:
    """The configuration of a `MemberMachine`."""

    group: str
    member_id: str
    """The consumer id string `<group>_<...>`: the name of the registration znode."""
    subscription: Subscription
    settings: GroupSettings = field(default_factory=GroupSettings)
    """`require_brokers` must be resolved by the caller: only True makes the member wait for brokers."""
    version: str = ""
    """Version of this library; published in the registration as `"zkgroup"`."""
    host: str | None = None
    """Host published in the registration; None if the member id contains it."""
    pid: int | None = None
    """Process id published in the registration; None for none."""
    jitter: Callable[[], float] = lambda: 0.5
    """Returns a random number in [0, 1). The only source of randomness of the machine."""
    prepares: bool = False
    """True if the application has `on_prepare`; then `prepare_timeout_ms` is published."""
    owns_client: bool = True
    """True if the client belongs to this member alone: a machine that fails may close its session."""
    creates_parents: bool = True
    """False for a client with credentials: whoever creates `/zkgroup` decides who may use it."""
    request_bytes_max: int = 800_000
    """Most bytes of one multi, well below the server's default `jute.maxbuffer` of 1,048,575 bytes."""


class GroupPaths:
    """Paths below `/consumers/<group>`."""

    def __init__(self, group: str, member_id: str) -> None:
        self._group = group
        self.ids = ids_path(group)
        self.own = Registration.path(group, member_id)
        self.protocol = ProtocolMarker.path(group)
        self.owners_root = owners_path(group)
        self.frozen = Freeze.path(group)
        self.resets = resets_path(group)
        self.commits = commits_path(group)
        self.plan = StoredAssignment.path(group)
        self.static = static_path(group)
        self.own_static = StaticMember.path(group, member_id)
        self.history = GroupHistory.path(group)
        self.view = View.path(group, member_id)
        self.prepared_parent = prepared_path(group)
        self.prepared = PreparedPartitions.path(group, member_id)
        self.parents = (
            consumers_path(),
            group_path(group),
            self.ids,
            self.owners_root,
            offsets_path(group),
            self.resets,
            views_path(group),
        )
        """The persistent znodes that a member creates if they are missing, in this order."""

    def prepared_by(self, member: str) -> str:
        return PreparedPartitions.path(self._group, member)

    def registration(self, member: str) -> str:
        return Registration.path(self._group, member)

    def static_member(self, member: str) -> str:
        return StaticMember.path(self._group, member)

    def view_of(self, member: str) -> str:
        return View.path(self._group, member)

    def owner(self, tp: TopicPartition) -> str:
        return Owner.path(self._group, tp)

    def offset(self, tp: TopicPartition) -> str:
        return Offset.path(self._group, tp)

    def marker(self, tp: TopicPartition) -> str:
        return Reset.path(self._group, tp)

    def commit(self, tp: TopicPartition) -> str:
        return CommitRecord.path(self._group, tp)

    def owners(self, partitions: Iterable[TopicPartition]) -> list[str]:
        return [self.owner(tp) for tp in partitions]

    def offsets(self, partitions: Iterable[TopicPartition]) -> list[str]:
        return [self.offset(tp) for tp in partitions]

    def topic_parents(self, topics: Iterable[str]) -> list[str]:
        """The parents of the owner and offset znodes of these topics."""
        return [
            path
            for topic in sorted(topics)
            for path in (owners_topic_path(self._group, topic), offsets_topic_path(self._group, topic))
        ]


PACKET_BYTES_MIN = 4096
"""Fewest bytes of a packet: some partitions with long names fit into it; a larger one is sent alone."""
PACKETS_GROW_MS = 60_000


class MemberContext(MachineContext[Effect]):
    """The state of one member."""

    def __init__(self, config: MemberConfig) -> None:
        super().__init__(config.jitter)
        self.config = config
        self.owned = Ownership()
        self.state = MemberState.NEW
        self.reason = "new"
        self.registered_zxid: int | None = None
        """The zxid in the reply to the present registration: its czxid, or that of another client's write
        just after it. Every claim of this registration is younger. None without a registration."""
        self.finished = False
        self.is_leaving = False
        """True from the begin of a leave to its end, also of one after which the member joins again."""
        self._packet_bytes = config.request_bytes_max
        self._packets_cut_ms = 0

    @property
    def request_bytes_max(self) -> int:
        """Most bytes of a transaction that can be split; grows again some time after a refusal."""
        while self._packet_bytes < self.config.request_bytes_max:
            if self.now.ms - self._packets_cut_ms < PACKETS_GROW_MS:
                break
            self._packet_bytes = min(2 * self._packet_bytes, self.config.request_bytes_max)
            self._packets_cut_ms += PACKETS_GROW_MS
        return self._packet_bytes

    def cut_packets(self) -> bool:
        """Halves the packets, as a request was too big; False if smaller packets would not help."""
        smaller = self.request_bytes_max // 2
        self._packets_cut_ms = self.now.ms
        if smaller < PACKET_BYTES_MIN:
            return False
        self._packet_bytes = smaller
        return True

    def change_state(self, after: MemberState, reason: str) -> None:
        """Changes the state and emits `ChangeState`; a new reason for the same state is only stored."""
        self.reason = reason
        if after is self.state:
            return
        check_transition(self.state, after)
        before, self.state = self.state, after
        self.emit(ChangeState(before, after, reason))

    def lose(self, partitions: Iterable[TopicPartition], reason: str) -> None:
        """Ends the leases of partitions that are lost. Partitions that are not owned are ignored."""
        gone = tuple(sorted(tp for tp in partitions if tp in self.owned.partitions))
        if not gone:
            return
        # First the effect that stops delivery, then the record: no delivery may be recorded after it.
        self.emit(Lose(gone, reason))
        for tp in gone:
            owned = self.owned.drop(tp)
            if owned.ended is None:
                self.note("own.end", topic=tp.topic, partition=tp.partition, token=owned.token, reason=reason)

    def own(self, claimed: Iterable[OwnedPartition]) -> None:
        """Takes accepted claims. One that is no longer assigned is released without `on_assigned`."""
        wanted = []
        seek_id = self.next_id()
        for owned in claimed:
            tp = owned.topic_partition
            self.owned.add(owned)
            fields = tp_fields(tp)
            self.note("own.begin", **fields, token=owned.token, offset=owned.value, version=owned.fence)
            if self.owned.assigned.get(tp) == owned.thread:
                owned.position_epoch = seek_id
                wanted.append(owned.grant())
            else:
                owned.ended = "not_wanted"
                self.owned.releasing[tp] = None
                self.note("own.end", **fields, token=owned.token, reason=owned.ended)
        if wanted:
            self.emit(Assign(tuple(wanted), seek_id))


def tp_fields(tp: TopicPartition) -> Mapping[str, object]:
    """The fields of a partition in a history record."""
    return {"topic": tp.topic, "partition": tp.partition}
