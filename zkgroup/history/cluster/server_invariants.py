"""Invariants of a cluster that the servers' log decides: S11 to S13, S17, and convergence (L6, L7).

S11 is about active controllers, S12 and S13 about partition states, S17 about registrations. L6 and L7: after
the faults there is one active controller, and everything that can be done is done.

The invariants bind zkgroup's controllers and brokers. A controller of Kafka 0.8.2.2 writes without a fence,
and an operator may write anything: such writes are counted, and their effects are not violations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zkgroup.history.cluster.reassignment_invariants import ReassignmentChecker
from zkgroup.history.cluster.replay import (
    ClusterZnode,
    EphemeralZnode,
    ReplayedCluster,
    recorded_epochs,
    zkgroup_sessions,
)
from zkgroup.history.report import ClusterFigures, ClusterOptions, Violation
from zkgroup.history.transactions import Change, ServerTransaction, decoded
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import NO_LEADER, PartitionState
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration

DECIDED = frozenset({"S11", "S12", "S13", "S14", "S15", "S16", "S17"})
FENCE_PATHS = (ControllerRegistration.path(), ControllerEpoch.path())


class ClusterLogChecker:
    """Decides the safety invariants of a cluster (S11 to S17) in one pass over the log."""

    def __init__(
        self, log: Sequence[ServerTransaction], options: ClusterOptions, figures: ClusterFigures
    ) -> None:
        self._log = log
        self._options = options
        self._figures = figures
        self._zkgroup_sessions = zkgroup_sessions(log)
        self._replayed = ReplayedCluster()
        self._moves = ReassignmentChecker(self._replayed, figures)
        self._winners: dict[int, int] = {}
        self._now: ServerTransaction
        """The present transaction."""
        self._by_zkgroup = False
        """True if it is a write of a controller or broker of zkgroup."""
        self._changed: dict[TopicPartition, PartitionState | None] = {}
        """States as they were before it."""
        self._lists: dict[str, dict[int, tuple[int, ...]]] = {}
        """Replica lists as they were before it."""

    def run(self) -> Iterator[Violation]:
        for transaction in self._log:
            self._figures.transactions += 1
            if transaction.refusal is not None:
                self._refused(transaction)
            else:
                self._now = transaction
                yield from self._accepted(transaction)

    def _violation(self, invariant: str, detail: str, tp: TopicPartition | None = None) -> Violation:
        return Violation(invariant, detail, tp, self._now.zxid)

    def _refused(self, transaction: ServerTransaction) -> None:
        if transaction.session in self._zkgroup_sessions:
            assert transaction.refusal is not None
            self._figures.refused_writes += 1
            self._figures.fenced_writes += transaction.refusal.path in FENCE_PATHS

    def _accepted(self, transaction: ServerTransaction) -> Iterator[Violation]:
        self._by_zkgroup = transaction.session in self._zkgroup_sessions and transaction.kind == "write"
        controller = self._replayed.controller
        self._changed, self._lists = {}, {}
        self._moves.begin(transaction, self._by_zkgroup)
        for change in transaction.changes:
            place = self._replayed.place(change.path)
            if place is not None and change.action != "check":
                if transaction.kind == "write":
                    yield from self._change(change, place, controller)
                self._remember(place)
            self._replayed.apply(transaction, change)
        yield from self._partitions()
        yield from self._moves.end()

    def _remember(self, place: ClusterZnode) -> None:
        if place.kind == "state":
            tp = place.topic_partition
            self._changed.setdefault(tp, self._replayed.state(tp))
        elif place.kind == "topic":
            topic = self._replayed.topics.get(place.topic)
            self._lists.setdefault(place.topic, {} if topic is None else dict(topic.partitions))

    def _change(
        self, change: Change, place: ClusterZnode, controller: EphemeralZnode | None
    ) -> Iterator[Violation]:
        match place.kind:
            case "epoch" if change.action != "delete":
                yield from self._epoch(change)
            case "controller" if change.action == "delete" and self._by_zkgroup:
                if controller is None or controller.session != self._now.session:
                    yield self._violation("S11", "deleted another controller's /controller")
            case "broker":
                yield from self._registration(change, place)
            case "topic" if change.action == "delete":
                self._figures.topics_deleted += 1
        if self._is_governed(change, place):
            if not self._by_zkgroup:
                self._figures.foreign_writes += 1
                return
            self._figures.governed_writes += 1
            yield from self._may_write(change, controller)

    def _epoch(self, change: Change) -> Iterator[Violation]:
        read = decoded(ControllerEpoch.decode, change)
        if read is None:
            if self._by_zkgroup:
                yield self._violation("S11", "wrote an unreadable epoch")
            return
        value = read.epoch
        before, winner = self._replayed.epoch, self._winners.get(value)
        if value == 0 and change.action == "create":
            return  # created, not won
        self._figures.elections += 1
        if self._now.session and winner not in (None, self._now.session):
            yield self._violation("S11", f"epoch {value} was won twice")
        if self._now.session and before is not None and value != before + 1:
            yield self._violation("S11", f"epoch {value} follows {before}")
        if self._by_zkgroup and value not in recorded_epochs(self._now):
            yield self._violation("S11", f"epoch {value} is of a zkgroup controller and has no record")
        self._winners[value] = self._now.session

    def _is_governed(self, change: Change, place: ClusterZnode) -> bool:
        match place.kind:
            case "state":
                if self._is_isr_write(change, place.topic_partition):
                    self._figures.isr_writes += 1
                    return False
                return True
            case "topic" | "moves" | "preferred" | "deletion":
                return change.action != "create"
            case "ended":
                return True
            case _:
                return False

    def _is_isr_write(self, change: Change, topic_partition: TopicPartition) -> bool:
        before = self._replayed.state(topic_partition)
        if before is None or change.action != "set":
            return False
        after = decoded(PartitionState.decode, change)
        if after is None:
            return False
        registered = self._replayed.brokers.get(after.leader)
        return _decision(before) == _decision(after) and (
            registered is not None and registered.session == self._now.session
        )

    def _may_write(self, change: Change, controller: EphemeralZnode | None) -> Iterator[Violation]:
        """The writer must hold `/controller`, and must have won the present epoch."""
        replayed = self._replayed
        if controller is None or controller.session != self._now.session:
            holder = "no session" if controller is None else f"session 0x{controller.session:x}"
            detail = f"{change.action} of {change.path} while {holder} holds /controller"
            yield self._violation("S11", detail)
        elif replayed.epoch_session != self._now.session:
            detail = f"{change.action} of {change.path} in epoch {replayed.epoch}, which another session won"
            yield self._violation("S11", detail)

    def _registration(self, change: Change, place: ClusterZnode) -> Iterator[Violation]:
        known = self._replayed.brokers.get(place.number)
        if not self._by_zkgroup:
            return
        if change.action == "create" and change.ephemeral_owner != self._now.session:
            detail = f"broker {place.number} is not registered by its own session"
            yield self._violation("S17", detail)
        if (
            known is not None
            and known.session != self._now.session
            and not self._is_own_stale_registration(known.session, self._now.session)
        ):
            detail = f"{change.action} of the registration of another broker {place.number}"
            yield self._violation("S17", detail)

    def _is_own_stale_registration(self, former: int, session: int) -> bool:
        return any(former in one and session in one for one in self._options.same_process)

    def _partitions(self) -> Iterator[Violation]:
        """Checks the changed partitions after the whole transaction is applied."""
        checked = set(self._changed)
        for tp, before in self._changed.items():
            after = self._replayed.state(tp)
            if before is not None and after is not None:
                yield from self._monotone(tp, before, after)
        for name in self._lists:
            checked.update(tp for tp in self._replayed.states if tp.topic == name)
        if self._by_zkgroup:
            for tp in sorted(checked):
                yield from self._well_formed(tp)

    def _monotone(
        self, tp: TopicPartition, before: PartitionState, after: PartitionState
    ) -> Iterator[Violation]:
        if not self._now.session:
            return
        for name in ("controller_epoch", "leader_epoch"):
            if getattr(after, name) < getattr(before, name):
                detail = f"{name} fell from {getattr(before, name)} to {getattr(after, name)}"
                yield self._violation("S12", detail, tp)
        if after.leader != before.leader:
            self._figures.leader_changes += 1
            if after.leader_epoch <= before.leader_epoch:
                detail = f"leader {before.leader} became {after.leader} within epoch {after.leader_epoch}"
                yield self._violation("S12", detail, tp)

    def _well_formed(self, tp: TopicPartition) -> Iterator[Violation]:
        """Checks a state that a zkgroup writer leaves; what was wrong before it is no violation."""
        state, replicas = self._replayed.state(tp), self._replayed.replicas(tp)
        if state is None:
            return
        before = self._changed.get(tp, state)
        if before is not state and state.leader != NO_LEADER and state.leader not in state.isr:
            detail = f"leader {state.leader} is not in sync, {_list(state.isr)} are"
            yield self._violation("S13", detail, tp)
        if not state.isr and (before is None or before.isr):
            yield self._violation("S13", "no replica is in sync any more", tp)
        if replicas is None:
            return
        known = self._lists.get(tp.topic, {}).get(tp.partition)
        allowed = {*replicas, *self._moves.targets(tp)}
        was_wrong = set() if before is None else set(before.isr) - {*(known or replicas), *allowed}
        if outside := set(state.isr) - allowed - was_wrong:
            detail = f"{_list(outside)} are in sync, and in no replica list"
            yield self._violation("S13", detail, tp)


def _decision(state: PartitionState) -> tuple[int, int, int]:
    return state.leader, state.leader_epoch, state.controller_epoch


def _list(brokers: Sequence[int] | set[int]) -> str:
    return ", ".join(map(str, sorted(brokers))) or "none"


DECIDED_AT_REST = frozenset({"L6", "L7"})
CALM_MS = 60_000
"""For this long no other controller may be elected (L6)."""


def check_convergence(log: Sequence[ServerTransaction], options: ClusterOptions) -> Iterator[Violation]:
    """L6 and L7 from the state at each deadline, and from every change of `/controller` after the first.

    `quiet_from_ms` must be known. A log that ends before a deadline is decided by its last state.
    """
    assert options.quiet_from_ms is not None
    elected_by_ms = options.quiet_from_ms + options.takeover_ms
    converged_by_ms = options.quiet_from_ms + options.recovery_ms
    replayed = ReplayedCluster()
    is_elected = is_converged = False
    for transaction in log:
        if not is_elected and transaction.at_ms > elected_by_ms:
            is_elected = True
            yield from _check_controller(replayed)
        if not is_converged and transaction.at_ms > converged_by_ms:
            is_converged = True
            yield from unfinished_work(replayed, options)
        if transaction.refusal is not None:
            continue
        before = replayed.controller
        for change in transaction.changes:
            replayed.apply(transaction, change)
        if (
            is_elected
            and before is not None
            and before != replayed.controller
            and transaction.at_ms <= elected_by_ms + CALM_MS
        ):
            detail = f"another controller {transaction.at_ms - elected_by_ms} ms after the deadline"
            yield Violation("L6", detail, zxid=transaction.zxid)
    if not is_elected:
        yield from _check_controller(replayed)
    if not is_converged:
        yield from unfinished_work(replayed, options)


def _check_controller(replayed: ReplayedCluster) -> Iterator[Violation]:
    controller = replayed.controller
    if controller is None:
        yield Violation("L6", "there is no controller")
    elif replayed.epoch_session not in (0, controller.session):
        yield Violation("L6", f"epoch {replayed.epoch} was not won by the session that holds /controller")


def unfinished_work(replayed: ReplayedCluster, options: ClusterOptions) -> Iterator[Violation]:
    """Work that the running brokers could do and have not done. Each is a violation of L7.

    A reassignment waits for its targets, and for a replica to copy from. A topic that was created without
    brokers needs no leaders, no deletion of replicas and no replica to copy from.
    """
    live = {id_ for id_, held in replayed.brokers.items() if held.hosts} - set(options.down)
    for tp, target in sorted(replayed.moves.items()):
        state, able = replayed.state(tp), live.difference(options.unserved.get(tp, ()))
        source = able.intersection((replayed.replicas(tp) or ()) if state is None else state.isr)
        if replayed.is_unhosted(tp.topic):
            source = able
        if tp.topic not in replayed.topics or (source and set(target) <= able):
            yield Violation("L7", f"the move to {_list(target)} is still open", tp)
    for topic in sorted(replayed.deletions):
        known = replayed.topics.get(topic)
        hosts = {each for replicas in known.partitions.values() for each in replicas} if known else set()
        if replayed.is_unhosted(topic):
            hosts = set()
        if hosts <= live and not any(tp.topic == topic for tp in replayed.moves):
            yield Violation("L7", f"topic {topic} is still to be deleted")
    if replayed.preferred:
        yield Violation("L7", "the preferred election is still requested")
    unhosted = {topic for topic in replayed.topics if replayed.is_unhosted(topic)}
    for tp in replayed.partitions():
        if tp.topic not in replayed.deletions and tp.topic not in unhosted:
            state, able = replayed.state(tp), live.difference(options.unserved.get(tp, ()))
            yield from _leaderless(tp, replayed.replicas(tp) or (), able, state, tp in replayed.states)


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
