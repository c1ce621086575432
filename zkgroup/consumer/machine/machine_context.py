"""What all parts of a member's machine share: its configuration, its paths, its state, and what it owns.

Nothing here decides. The parts (`registration`, `group_snapshot`, `claim`, ...) hold the rules.

The states of a member that a person sees, and the legal changes between them:

    new -> joining -> stable <-> rebalancing
             ^          |            |
             |          v            v
             +------ suspended (the lease ended while the session may live; back with the same tokens)
             |
             +------ lost (the session, or the registration, is gone; nothing is held)

`closing` comes from every living state, `closed` and `failed` end it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from zkgroup.consumer.machine.events import Assign, ChangeState, Effect, Lose, MemberState
from zkgroup.consumer.machine.events import MemberState as S
from zkgroup.consumer.machine.ownership import OwnedPartition, Ownership
from zkgroup.errors import IllegalTransitionError
from zkgroup.model import Subscription, TopicPartition
from zkgroup.runtime.procedures import MachineContext
from zkgroup.settings import GroupSettings
from zkgroup.znodes.consumers import (
    Offset,
    Owner,
    Registration,
    consumers_path,
    group_path,
    ids_path,
    offsets_path,
    offsets_topic_path,
    owners_path,
    owners_topic_path,
    resets_path,
    views_path,
)
from zkgroup.znodes.group_records import Plan, Reset, View

_LIVING = frozenset({S.JOINING, S.STABLE, S.REBALANCING, S.SUSPENDED, S.LOST})

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
"""From each state, where a member may go. What is not here is a bug of zkgroup."""


def check_transition(before: S, after: S) -> None:
    """Raises `IllegalTransitionError` unless the table allows the change."""
    if after not in TRANSITIONS[before]:
        raise IllegalTransitionError(f"member: {before.value} -> {after.value} is not allowed")


def is_living(state: S) -> bool:
    """The member is in the group or on its way there."""
    return state in _LIVING


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberConfig:
    """Everything `MemberMachine` knows beside its events."""

    group: str
    member_id: str
    """The consumer id string `<group>_<...>`: the name of the registration znode."""
    subscription: Subscription
    settings: GroupSettings = field(default_factory=GroupSettings)
    """`require_brokers` must be resolved by the caller: only True makes the member wait for brokers."""
    version: str = ""
    """Of this library; published in the registration as `"zkgroup"`."""
    host: str | None = None
    """Published in the registration; None where the id tells it already."""
    jitter: Callable[[], float] = lambda: 0.5
    """Draws a number in [0, 1). The only source of randomness of the machine."""
    owns_client: bool = True
    """The client serves this member alone: a machine that ends by itself may have its session closed."""
    request_bytes_max: int = 800_000
    """Bound of one multi, well below the server's default `jute.maxbuffer` of 1,048,575 bytes."""


class Paths:
    """Paths below `/consumers/<group>`."""

    def __init__(self, group: str, member_id: str) -> None:
        self._group = group
        self.ids = ids_path(group)
        self.own = Registration.path(group, member_id)
        self.resets = resets_path(group)
        self.plan = Plan.path(group)
        self.view = View.path(group, member_id)
        self.parents = (
            consumers_path(),
            group_path(group),
            self.ids,
            owners_path(group),
            offsets_path(group),
            self.resets,
            views_path(group),
        )
        """Persistent znodes that a member makes where they are missing, in this order (recipes.md 5)."""

    def registration(self, member: str) -> str:
        return Registration.path(self._group, member)

    def owner(self, tp: TopicPartition) -> str:
        return Owner.path(self._group, tp)

    def offset(self, tp: TopicPartition) -> str:
        return Offset.path(self._group, tp)

    def marker(self, tp: TopicPartition) -> str:
        return Reset.path(self._group, tp)

    def owners(self, partitions: Iterable[TopicPartition]) -> list[str]:
        return [self.owner(tp) for tp in partitions]

    def offsets(self, partitions: Iterable[TopicPartition]) -> list[str]:
        return [self.offset(tp) for tp in partitions]

    def topic_parents(self, topics: Iterable[str]) -> list[str]:
        """Parents of the owner and offset znodes of these topics."""
        return [
            path
            for topic in sorted(topics)
            for path in (owners_topic_path(self._group, topic), offsets_topic_path(self._group, topic))
        ]


PACKET_BYTES_MIN = 4096
"""Some partitions fit into it, whatever they are called; one that does not stands alone."""
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
        """What the reply to the present registration told: its czxid, or the zxid of a write of somebody
        else just after it; every claim of this registration is younger. None where there is none."""
        self.finished = False
        self._packet_bytes = config.request_bytes_max
        self._packets_cut_ms = 0

    @property
    def request_bytes_max(self) -> int:
        """Of a transaction that may be cut into several; grows again some time after it was too much."""
        while self._packet_bytes < self.config.request_bytes_max:
            if self.now.ms - self._packets_cut_ms < PACKETS_GROW_MS:
                break
            self._packet_bytes = min(2 * self._packet_bytes, self.config.request_bytes_max)
            self._packets_cut_ms += PACKETS_GROW_MS
        return self._packet_bytes

    def cut_packets(self) -> bool:
        """A request was too big. False where smaller packets would be no help."""
        smaller = self.request_bytes_max // 2
        self._packets_cut_ms = self.now.ms
        if smaller < PACKET_BYTES_MIN:
            return False
        self._packet_bytes = smaller
        return True

    def change_state(self, after: MemberState, reason: str) -> None:
        """Tells the change, once; a new reason for the same state is only remembered."""
        self.reason = reason
        if after is self.state:
            return
        check_transition(self.state, after)
        before, self.state = self.state, after
        self.emit(ChangeState(before, after, reason))

    def lose(self, partitions: Iterable[TopicPartition], reason: str) -> None:
        """Ends these leases without notice: they are not ours any more. Those not held are passed over."""
        gone = tuple(sorted(tp for tp in partitions if tp in self.owned.held))
        if not gone:
            return
        # First the order to stop, then the record: no delivery may be recorded after the end.
        self.emit(Lose(gone, reason))
        for tp in gone:
            held = self.owned.drop(tp)
            if held.ended is None:
                self.note("own.end", topic=tp.topic, partition=tp.partition, token=held.token, reason=reason)

    def own(self, claimed: Iterable[OwnedPartition]) -> None:
        """Accepted claims. One that is assigned elsewhere by now goes back before the application sees it."""
        wanted = []
        move_id = self.next_id()
        for held in claimed:
            tp = held.topic_partition
            self.owned.add(held)
            fields = tp_fields(tp)
            self.note("own.begin", **fields, token=held.token, offset=held.value, version=held.fence)
            if self.owned.target.get(tp) == held.thread:
                held.position_epoch = move_id
                wanted.append(held.grant())
            else:
                held.ended = "not_wanted"
                self.owned.releasing[tp] = None
                self.note("own.end", **fields, token=held.token, reason=held.ended)
        if wanted:
            self.emit(Assign(tuple(wanted), move_id))


def tp_fields(tp: TopicPartition) -> Mapping[str, object]:
    """A partition as the history writes it."""
    return {"topic": tp.topic, "partition": tp.partition}
