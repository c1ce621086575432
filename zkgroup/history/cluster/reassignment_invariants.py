"""Follows each requested reassignment in the server's log, from its request to its end (S14 to S16)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from zkgroup.history.cluster.replay import ReplayedCluster, finished_reassignments
from zkgroup.history.report import ClusterFigures, Violation
from zkgroup.history.transactions import ServerTransaction
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import PartitionState
from zkgroup.znodes.reassignment_records import FinishedReassignment

Brokers = tuple[int, ...]


@dataclass(slots=True)
class FollowedReassignment:
    """One entry of the reassignment znode, for as long as its target stays the same."""

    target: Brokers
    before: Brokers
    """The replica list at the time of the request."""
    lists: list[Brokers] = field(default_factory=list)
    """Replica lists that zkgroup's controllers have written since; emptied after a foreign write."""


class ReassignmentChecker:
    """Follows each reassignment from its request to its final record."""

    def __init__(self, replayed: ReplayedCluster, figures: ClusterFigures) -> None:
        self._replayed = replayed
        self._figures = figures
        self._open: dict[TopicPartition, FollowedReassignment] = {}
        self._now: ServerTransaction
        """The present transaction."""
        self._by_zkgroup = False
        self._moves: dict[TopicPartition, Brokers] = {}
        self._lists: dict[TopicPartition, Brokers | None] = {}
        self._states: dict[TopicPartition, PartitionState | None] = {}
        self._marked: set[TopicPartition] = set()
        """Partitions that the topic znode marks as being reassigned."""
        self._untried: dict[TopicPartition, Brokers] = {}
        """Partitions whose leader was elected alone and has written nothing since, to the ISR before."""

    def targets(self, topic_partition: TopicPartition) -> Collection[int]:
        """Brokers that a reassignment adds to the partition, before or after the present transaction."""
        now = self._replayed.moves.get(topic_partition, ())
        move = self._open.get(topic_partition)
        return {*now, *(move.target if move else ())}

    def begin(self, transaction: ServerTransaction, by_zkgroup: bool) -> None:
        """Remembers the state before a transaction."""
        self._now, self._by_zkgroup = transaction, by_zkgroup
        self._moves = dict(self._replayed.moves)
        open_or_ended = {
            *self._open,
            *(ended.topic_partition for ended in finished_reassignments(transaction)),
        }
        self._lists = {tp: self._replayed.replicas(tp) for tp in open_or_ended}
        places = [self._replayed.place(change.path) for change in transaction.changes]
        changed = [place.topic_partition for place in places if place is not None and place.kind == "state"]
        self._states = {tp: self._replayed.state(tp) for tp in {*self._open, *changed}}
        self._marked = {tp for tp in open_or_ended if self._is_marked_in_topic(tp)}

    def end(self) -> Iterator[Violation]:
        """Checks the present transaction against the state before it."""
        ended = sorted(finished_reassignments(self._now), key=lambda one: one.topic_partition)
        yield from self._steps()
        yield from self._removed({one.topic_partition for one in ended})
        if self._by_zkgroup:
            dropped = {one.topic_partition: one.target for one in ended if one.outcome == "dropped"}
            for record in ended:
                yield from self._record(record, dropped.get(record.topic_partition))
        self._asked()
        self._tried()

    def _asked(self) -> None:
        for tp, target in self._replayed.moves.items():
            known = self._open.get(tp)
            if known is None:
                self._figures.moves_begun += 1
                self._open[tp] = FollowedReassignment(target, self._replayed.replicas(tp) or ())
            elif known.target != target:
                self._open[tp] = FollowedReassignment(target, self._replayed.replicas(tp) or ())
        for tp in [tp for tp in self._open if tp not in self._replayed.moves]:
            del self._open[tp]

    def _tried(self) -> None:
        for tp, before in self._states.items():
            after = self._replayed.state(tp)
            if after == before:
                continue
            self._untried.pop(tp, None)
            if before is None or after is None or not self._by_zkgroup:
                continue
            if after.isr == (after.leader,) and after.leader_epoch > before.leader_epoch:
                self._untried[tp] = before.isr

    def _removed(self, ended: Collection[TopicPartition]) -> Iterator[Violation]:
        for tp in sorted(self._moves.keys() - self._replayed.moves.keys()):
            if tp in ended:
                continue
            self._figures.moves_taken_away += 1
            if self._by_zkgroup:
                yield self._violation("S14", "the request is gone without a record", tp)

    def _record(self, record: FinishedReassignment, dropped: Brokers | None) -> Iterator[Violation]:
        """`dropped`: the entry that this transaction removed; the mark in the topic znode may differ."""
        self._figures.moves_ended += 1
        tp = record.topic_partition
        asked = self._moves.get(tp)
        if asked is None and tp not in self._marked:
            yield self._violation("S14", "a reassignment has ended that was not requested", tp)
        if tp in self._replayed.moves:
            yield self._violation("S14", "a reassignment has ended and is still requested", tp)
        if asked is not None and record.target != asked and not (tp in self._marked and dropped == asked):
            detail = f"requested {_list(asked)}, recorded as {_list(record.target)}"
            yield self._violation("S14", detail, tp)
        if record.outcome == "dropped":
            if not record.reason:
                yield self._violation("S14", "dropped without a reason", tp)
            return
        replicas, state = self._replayed.replicas(tp), self._replayed.state(tp)
        if replicas != record.target:
            detail = f"{record.outcome}, and the replicas are {_list(replicas or ())}"
            yield self._violation("S14", detail, tp)
        if record.outcome == "done" and (state is None or not set(record.target) <= set(state.isr)):
            in_sync = () if state is None else state.isr
            detail = f"done, and of {_list(record.target)} only {_list(in_sync)} are in sync"
            yield self._violation("S14", detail, tp)

    def _is_marked_in_topic(self, tp: TopicPartition) -> bool:
        topic = self._replayed.topics.get(tp.topic)
        return topic is not None and tp.partition in topic.moving

    def _steps(self) -> Iterator[Violation]:
        for tp, move in sorted(self._open.items()):
            replicas = self._replayed.replicas(tp)
            if replicas is not None and replicas != self._lists[tp]:
                yield from self._list_written(tp, move, replicas)
            yield from self._state_written(tp)

    def _list_written(
        self, tp: TopicPartition, move: FollowedReassignment, replicas: Brokers
    ) -> Iterator[Violation]:
        if not self._by_zkgroup:
            move.lists = []
            return
        floor = min(len(set(move.before)), len(set(move.target)))
        if len(set(replicas)) < floor:
            detail = f"{_list(replicas)} are fewer than {floor}"
            yield self._violation("S15", detail, tp)
        state = self._replayed.state(tp)
        known = set(self._lists[tp] or ())
        if left_out := set(state.isr if state else ()) & known - set(replicas):
            detail = f"{_list(sorted(left_out))} are in sync and left out of {_list(replicas)}"
            yield self._violation("S15", detail, tp)
        if replicas in move.lists[:-1]:
            detail = f"the replicas are {_list(replicas)} once more, after {_list(move.lists[-1])}"
            yield self._violation("S16", detail, tp)
        move.lists.append(replicas)

    def _state_written(self, tp: TopicPartition) -> Iterator[Violation]:
        """A controller removes replicas from the ISR, and adds none.

        Except where the sole member of the ISR was elected and could not lead: then the former ISR comes
        back. And of a slot of group coordinators every live replica is in sync, as its log is empty.
        """
        before, after = self._states[tp], self._replayed.state(tp)
        if not self._by_zkgroup or before is None or after is None or before == after:
            return
        if self._replayed.is_slot(tp):
            return
        if after.leader_epoch == before.leader_epoch or after.isr == (after.leader,):
            return  # written by its leader, or an unclean election
        former = self._untried.get(tp, ()) if after.leader != before.leader else ()
        if back := set(after.isr) - set(before.isr) - set(former):
            detail = f"the controller took {_list(sorted(back))} into the ISR"
            yield self._violation("S16", detail, tp)

    def _violation(self, invariant: str, detail: str, tp: TopicPartition) -> Violation:
        return Violation(invariant, detail, tp, self._now.zxid)


def _list(brokers: Collection[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"
