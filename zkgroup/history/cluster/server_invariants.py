"""Invariants of a cluster that the servers' log decides: S11 to S13, S17, and convergence (L6, L7).

S11 is about active controllers, S12 and S13 about partition states, S17 about registrations. L6 and L7: after
the faults there is one active controller, and everything that can be done is done.

The invariants bind zkgroup's controllers and brokers. A controller of Kafka 0.8.2.2 writes without a fence,
and an operator may write anything: such writes are counted, and their effects are not violations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zkgroup.history.cluster.reassignment_invariants import ReassignmentAudit
from zkgroup.history.cluster.replay import (
    ClusterZnode,
    EphemeralZnode,
    ReplayedCluster,
    decoded,
    recorded_epochs,
    zkgroup_sessions,
)
from zkgroup.history.report import ClusterFigures, ClusterOptions, Violation
from zkgroup.history.transactions import Change, ServerTransaction
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import NO_LEADER, PartitionState
from zkgroup.znodes.controller import Controller, ControllerEpoch

DECIDED = frozenset({"S11", "S12", "S13", "S14", "S15", "S16", "S17"})
FENCE_PATHS = (Controller.path(), ControllerEpoch.path())


class ClusterServerAudit:
    """Walks over the log once."""

    def __init__(
        self, log: Sequence[ServerTransaction], options: ClusterOptions, figures: ClusterFigures
    ) -> None:
        self._log = log
        self._options = options
        self._figures = figures
        self._ours = zkgroup_sessions(log)
        self._picture = ReplayedCluster()
        self._moves = ReassignmentAudit(self._picture, figures)
        self._winners: dict[int, int] = {}
        self._changed: dict[TopicPartition, PartitionState | None] = {}
        """States as they were before the present transaction."""
        self._lists: dict[str, dict[int, tuple[int, ...]]] = {}
        """Replica lists as they were before it."""

    def run(self) -> Iterator[Violation]:
        for transaction in self._log:
            self._figures.transactions += 1
            if transaction.refusal is not None:
                self._refused(transaction)
            else:
                yield from self._accepted(transaction)

    def _refused(self, transaction: ServerTransaction) -> None:
        if transaction.session in self._ours:
            assert transaction.refusal is not None
            self._figures.refused_writes += 1
            self._figures.fenced_writes += transaction.refusal.path in FENCE_PATHS

    def _accepted(self, transaction: ServerTransaction) -> Iterator[Violation]:
        is_ours = transaction.session in self._ours and transaction.kind == "write"
        ruler = self._picture.controller
        self._changed, self._lists = {}, {}
        self._moves.begin(transaction, is_ours)
        for change in transaction.changes:
            place = self._picture.place(change.path)
            if place is not None and change.action != "check":
                if transaction.kind == "write":
                    yield from self._change(transaction, change, place, ruler, is_ours)
                self._remember(place)
            self._picture.apply(transaction, change)
        yield from self._partitions(transaction, is_ours)
        yield from self._moves.end(transaction)

    def _remember(self, place: ClusterZnode) -> None:
        if place.kind == "state":
            tp = place.topic_partition
            self._changed.setdefault(tp, self._picture.state(tp))
        elif place.kind == "topic":
            topic = self._picture.topics.get(place.topic)
            self._lists.setdefault(place.topic, {} if topic is None else dict(topic.partitions))

    # --- S11: one controller an epoch, and nobody else writes -------------------------------------

    def _change(
        self,
        transaction: ServerTransaction,
        change: Change,
        place: ClusterZnode,
        ruler: EphemeralZnode | None,
        is_ours: bool,
    ) -> Iterator[Violation]:
        match place.kind:
            case "epoch" if change.action != "delete":
                yield from self._epoch(transaction, change, is_ours)
            case "controller" if change.action == "delete" and is_ours:
                if ruler is None or ruler.session != transaction.session:
                    yield Violation("S11", "took off another's /controller", zxid=transaction.zxid)
            case "broker":
                yield from self._registration(transaction, change, place, is_ours)
            case "topic" if change.action == "delete":
                self._figures.topics_deleted += 1
        if self._is_governed(transaction, change, place):
            if not is_ours:
                self._figures.foreign_writes += 1
                return
            self._figures.governed_writes += 1
            yield from self._may_write(transaction, change, ruler)

    def _epoch(self, transaction: ServerTransaction, change: Change, is_ours: bool) -> Iterator[Violation]:
        read = decoded(ControllerEpoch.decode, change)
        if read is None:
            if is_ours:
                yield Violation("S11", "wrote an epoch that cannot be read", zxid=transaction.zxid)
            return
        value = read.epoch
        before, winner = self._picture.epoch, self._winners.get(value)
        if value == 0 and change.action == "create":
            return  # made, not won
        self._figures.elections += 1
        if transaction.session and winner not in (None, transaction.session):
            yield Violation("S11", f"epoch {value} was won twice", zxid=transaction.zxid)
        if transaction.session and before is not None and value != before + 1:
            yield Violation("S11", f"epoch {value} follows {before}", zxid=transaction.zxid)
        if is_ours and value not in recorded_epochs(transaction):
            yield Violation(
                "S11", f"epoch {value} is of a zkgroup controller and has no record", zxid=transaction.zxid
            )
        self._winners[value] = transaction.session

    def _is_governed(self, transaction: ServerTransaction, change: Change, place: ClusterZnode) -> bool:
        match place.kind:
            case "state":
                if self._is_isr_write(transaction, change, place.topic_partition):
                    self._figures.isr_writes += 1
                    return False
                return True
            case "topic" | "moves" | "preferred" | "deletion":
                return change.action != "create"
            case "ended":
                return True
            case _:
                return False

    def _is_isr_write(
        self, transaction: ServerTransaction, change: Change, topic_partition: TopicPartition
    ) -> bool:
        before = self._picture.state(topic_partition)
        if before is None or change.action != "set":
            return False
        after = decoded(PartitionState.decode, change)
        if after is None:
            return False
        registered = self._picture.brokers.get(after.leader)
        return _decision(before) == _decision(after) and (
            registered is not None and registered.session == transaction.session
        )

    def _may_write(
        self, transaction: ServerTransaction, change: Change, ruler: EphemeralZnode | None
    ) -> Iterator[Violation]:
        """The writer holds `/controller`, and the present epoch is one that it has won."""
        picture = self._picture
        if ruler is None or ruler.session != transaction.session:
            holder = "nobody" if ruler is None else f"session 0x{ruler.session:x}"
            detail = f"{change.action} of {change.path} while {holder} holds /controller"
            yield Violation("S11", detail, zxid=transaction.zxid)
        elif picture.epoch_session != transaction.session:
            detail = f"{change.action} of {change.path} in epoch {picture.epoch}, which is another's"
            yield Violation("S11", detail, zxid=transaction.zxid)

    # --- S17: an id has one broker ------------------------------------------------------------------

    def _registration(
        self, transaction: ServerTransaction, change: Change, place: ClusterZnode, is_ours: bool
    ) -> Iterator[Violation]:
        known = self._picture.brokers.get(place.number)
        if not is_ours:
            return
        if change.action == "create" and change.ephemeral_owner != transaction.session:
            detail = f"broker {place.number} is registered beyond its session"
            yield Violation("S17", detail, zxid=transaction.zxid)
        if (
            known is not None
            and known.session != transaction.session
            and not self._is_own_ghost(known.session, transaction.session)
        ):
            detail = f"{change.action} of the registration of another broker {place.number}"
            yield Violation("S17", detail, zxid=transaction.zxid)

    def _is_own_ghost(self, ghost: int, session: int) -> bool:
        return any(ghost in one and session in one for one in self._options.same_process)

    # --- S12, S13: states -----------------------------------------------------------------------------

    def _partitions(self, transaction: ServerTransaction, is_ours: bool) -> Iterator[Violation]:
        """Looks at what has changed once the whole transaction is applied."""
        looked = set(self._changed)
        for tp, before in self._changed.items():
            after = self._picture.state(tp)
            if before is not None and after is not None:
                yield from self._monotone(transaction, tp, before, after)
        for name in self._lists:
            looked.update(tp for tp in self._picture.states if tp.topic == name)
        if is_ours:
            for tp in sorted(looked):
                yield from self._well_formed(transaction, tp)

    def _monotone(
        self,
        transaction: ServerTransaction,
        tp: TopicPartition,
        before: PartitionState,
        after: PartitionState,
    ) -> Iterator[Violation]:
        if not transaction.session:
            return
        for name in ("controller_epoch", "leader_epoch"):
            if getattr(after, name) < getattr(before, name):
                detail = f"{name} fell from {getattr(before, name)} to {getattr(after, name)}"
                yield Violation("S12", detail, tp, transaction.zxid)
        if after.leader != before.leader:
            self._figures.leader_changes += 1
            if after.leader_epoch <= before.leader_epoch:
                detail = f"leader {before.leader} became {after.leader} within epoch {after.leader_epoch}"
                yield Violation("S12", detail, tp, transaction.zxid)

    def _well_formed(self, transaction: ServerTransaction, tp: TopicPartition) -> Iterator[Violation]:
        """What a zkgroup writer leaves behind; what was wrong before it is not its fault."""
        state, replicas = self._picture.state(tp), self._picture.replicas(tp)
        if state is None:
            return
        before = self._changed.get(tp, state)
        if before is not state and state.leader != NO_LEADER and state.leader not in state.isr:
            detail = f"leader {state.leader} is not in sync, {_list(state.isr)} are"
            yield Violation("S13", detail, tp, transaction.zxid)
        if not state.isr and (before is None or before.isr):
            yield Violation("S13", "nobody is in sync any more", tp, transaction.zxid)
        if replicas is None:
            return
        known = self._lists.get(tp.topic, {}).get(tp.partition)
        allowed = {*replicas, *self._moves.targets(tp)}
        was_wrong = set() if before is None else set(before.isr) - {*(known or replicas), *allowed}
        if strange := set(state.isr) - allowed - was_wrong:
            detail = f"{_list(strange)} are in sync, and in no replica list"
            yield Violation("S13", detail, tp, transaction.zxid)


def _decision(state: PartitionState) -> tuple[int, int, int]:
    return state.leader, state.leader_epoch, state.controller_epoch


def _list(brokers: Sequence[int] | set[int]) -> str:
    return ", ".join(map(str, sorted(brokers))) or "none"


DECIDED_AT_REST = frozenset({"L6", "L7"})
CALM_MS = 60_000
"""For so long no other controller may be elected (L6)."""


def check_settled(log: Sequence[ServerTransaction], options: ClusterOptions) -> Iterator[Violation]:
    """Decides by the picture at each deadline, and by every change of `/controller` after the first.

    `quiet_from_ms` is known. What is left of the log after a deadline decides; a log that ends before it is
    judged by its end.
    """
    assert options.quiet_from_ms is not None
    ruled_at_ms = options.quiet_from_ms + options.takeover_ms
    settled_at_ms = options.quiet_from_ms + options.recovery_ms
    picture = ReplayedCluster()
    has_ruler = is_settled = False
    for transaction in log:
        if not has_ruler and transaction.at_ms > ruled_at_ms:
            has_ruler = True
            yield from _ruled(picture)
        if not is_settled and transaction.at_ms > settled_at_ms:
            is_settled = True
            yield from left_undone(picture, options)
        if transaction.refusal is not None:
            continue
        before = picture.controller
        for change in transaction.changes:
            picture.apply(transaction, change)
        if (
            has_ruler
            and before is not None
            and before != picture.controller
            and transaction.at_ms <= ruled_at_ms + CALM_MS
        ):
            detail = f"another controller {transaction.at_ms - ruled_at_ms} ms after all was well"
            yield Violation("L6", detail, zxid=transaction.zxid)
    if not has_ruler:
        yield from _ruled(picture)
    if not is_settled:
        yield from left_undone(picture, options)


def _ruled(picture: ReplayedCluster) -> Iterator[Violation]:
    ruler = picture.controller
    if ruler is None:
        yield Violation("L6", "nobody is controller")
    elif picture.epoch_session not in (0, ruler.session):
        yield Violation("L6", f"epoch {picture.epoch} is not of the session that holds /controller")


def left_undone(picture: ReplayedCluster, options: ClusterOptions) -> Iterator[Violation]:
    """What could be done with the brokers there are, and is not. All of it is named L7.

    A move waits for its targets, and for a replica that they can copy from. A topic that was made without
    brokers needs no leaders, no deletion of replicas and no replica to copy from.
    """
    live = {id_ for id_, held in picture.brokers.items() if held.hosts} - set(options.down)
    for tp, target in sorted(picture.moves.items()):
        state, able = picture.state(tp), live.difference(options.unserved.get(tp, ()))
        source = able.intersection((picture.replicas(tp) or ()) if state is None else state.isr)
        if picture.is_unhosted(tp.topic):
            source = able
        if tp.topic not in picture.topics or (source and set(target) <= able):
            yield Violation("L7", f"the move to {_list(target)} is still open", tp)
    for topic in sorted(picture.deletions):
        known = picture.topics.get(topic)
        hosts = {each for replicas in known.partitions.values() for each in replicas} if known else set()
        if picture.is_unhosted(topic):
            hosts = set()
        if hosts <= live and not any(tp.topic == topic for tp in picture.moves):
            yield Violation("L7", f"topic {topic} is still to be deleted")
    if picture.preferred:
        yield Violation("L7", "the preferred election is still asked for")
    unhosted = {topic for topic in picture.topics if picture.is_unhosted(topic)}
    for tp in picture.partitions():
        if tp.topic not in picture.deletions and tp.topic not in unhosted:
            state, able = picture.state(tp), live.difference(options.unserved.get(tp, ()))
            yield from _leaderless(tp, picture.replicas(tp) or (), able, state, tp in picture.states)


def _leaderless(
    tp: object, replicas: Sequence[int], live: set[int], state: PartitionState | None, known: bool
) -> Iterator[Violation]:
    if state is None:
        if not known and live.intersection(replicas):
            yield Violation("L7", f"{tp} has no state, and {_list(live.intersection(replicas))} live")
        return
    if state.leader in live:
        return
    if able := live.intersection(state.isr).intersection(replicas):
        detail = f"{tp} is led by {state.leader}, which is gone, and {_list(able)} could"
        yield Violation("L7", detail)
