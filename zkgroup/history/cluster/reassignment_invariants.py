"""S14 to S16: what becomes of each requested reassignment, decided from the server's log."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from zkgroup.history.cluster.replay import ReplayedCluster, endings
from zkgroup.history.report import ClusterFigures, Violation
from zkgroup.history.transactions import ServerTransaction
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import PartitionState
from zkgroup.znodes.reassignment_records import FinishedReassignment

Brokers = tuple[int, ...]


@dataclass(slots=True)
class OpenReassignment:
    """One entry of the request, for as long as its target stays."""

    target: Brokers
    before: Brokers
    """The replica list when it was asked for."""
    lists: list[Brokers] = field(default_factory=list)
    """Replica lists that zkgroup's controllers have written since; begun anew after a foreign write."""


class ReassignmentAudit:
    """Follows each move from its request to its record."""

    def __init__(self, picture: ReplayedCluster, figures: ClusterFigures) -> None:
        self._picture = picture
        self._figures = figures
        self._open: dict[TopicPartition, OpenReassignment] = {}
        self._is_ours = False
        self._moves: dict[TopicPartition, Brokers] = {}
        self._lists: dict[TopicPartition, Brokers | None] = {}
        self._states: dict[TopicPartition, PartitionState | None] = {}
        self._told: set[TopicPartition] = set()
        """Partitions that their topic says are being moved."""
        self._untried: dict[TopicPartition, Brokers] = {}
        """Partitions whose leader was elected alone and has written nothing since, to the ISR before."""

    def targets(self, topic_partition: TopicPartition) -> Collection[int]:
        """Brokers that a move of the partition brings, before or after the present transaction."""
        now = self._picture.moves.get(topic_partition, ())
        move = self._open.get(topic_partition)
        return {*now, *(move.target if move else ())}

    def begin(self, transaction: ServerTransaction, is_ours: bool) -> None:
        """Notes how everything was before a transaction."""
        self._is_ours = is_ours
        self._moves = dict(self._picture.moves)
        open_or_told = {*self._open, *(ended.topic_partition for ended in endings(transaction))}
        self._lists = {tp: self._picture.replicas(tp) for tp in open_or_told}
        places = [self._picture.place(change.path) for change in transaction.changes]
        changed = [place.topic_partition for place in places if place is not None and place.kind == "state"]
        self._states = {tp: self._picture.state(tp) for tp in {*self._open, *changed}}
        self._told = {tp for tp in open_or_told if self._topic_tells(tp)}

    def end(self, transaction: ServerTransaction) -> Iterator[Violation]:
        """Looks at what it has done."""
        ended = sorted(endings(transaction), key=lambda one: one.topic_partition)
        yield from self._steps(transaction)
        yield from self._removed(transaction, {one.topic_partition for one in ended})
        if self._is_ours:
            dropped = {one.topic_partition: one.target for one in ended if one.outcome == "dropped"}
            for record in ended:
                yield from self._record(transaction, record, dropped.get(record.topic_partition))
        self._asked()
        self._tried()

    def _asked(self) -> None:
        for tp, target in self._picture.moves.items():
            known = self._open.get(tp)
            if known is None:
                self._figures.moves_begun += 1
                self._open[tp] = OpenReassignment(target, self._picture.replicas(tp) or ())
            elif known.target != target:
                self._open[tp] = OpenReassignment(target, self._picture.replicas(tp) or ())
        for tp in [tp for tp in self._open if tp not in self._picture.moves]:
            del self._open[tp]

    def _tried(self) -> None:
        for tp, before in self._states.items():
            after = self._picture.state(tp)
            if after == before:
                continue
            self._untried.pop(tp, None)
            if before is None or after is None or not self._is_ours:
                continue
            if after.isr == (after.leader,) and after.leader_epoch > before.leader_epoch:
                self._untried[tp] = before.isr

    # --- S14: no move is lost -----------------------------------------------------------------------

    def _removed(
        self, transaction: ServerTransaction, ended: Collection[TopicPartition]
    ) -> Iterator[Violation]:
        for tp in sorted(self._moves.keys() - self._picture.moves.keys()):
            if tp in ended:
                continue
            self._figures.moves_taken_away += 1
            if self._is_ours:
                yield Violation("S14", "the request is gone without a record", tp, transaction.zxid)

    def _record(
        self, transaction: ServerTransaction, record: FinishedReassignment, dropped: Brokers | None
    ) -> Iterator[Violation]:
        """`dropped`: the entry that was dropped in this transaction, perhaps beside what the topic tells."""
        self._figures.moves_ended += 1
        tp = record.topic_partition
        asked = self._moves.get(tp)
        if asked is None and tp not in self._told:
            yield Violation("S14", "a move has ended for which nobody asked", tp, transaction.zxid)
        if tp in self._picture.moves:
            yield Violation("S14", "a move has ended and is still asked for", tp, transaction.zxid)
        if asked is not None and record.target != asked and not (tp in self._told and dropped == asked):
            detail = f"asked for {_list(asked)}, recorded as {_list(record.target)}"
            yield Violation("S14", detail, tp, transaction.zxid)
        if record.outcome == "dropped":
            if not record.reason:
                yield Violation("S14", "dropped for no reason", tp, transaction.zxid)
            return
        replicas, state = self._picture.replicas(tp), self._picture.state(tp)
        if replicas != record.target:
            detail = f"{record.outcome}, and the replicas are {_list(replicas or ())}"
            yield Violation("S14", detail, tp, transaction.zxid)
        if record.outcome == "done" and (state is None or not set(record.target) <= set(state.isr)):
            in_sync = () if state is None else state.isr
            detail = f"done, and of {_list(record.target)} only {_list(in_sync)} are in sync"
            yield Violation("S14", detail, tp, transaction.zxid)

    def _topic_tells(self, tp: TopicPartition) -> bool:
        topic = self._picture.topics.get(tp.topic)
        return topic is not None and tp.partition in topic.moving

    # --- S15, S16: the floor, and no step back ----------------------------------------------------------

    def _steps(self, transaction: ServerTransaction) -> Iterator[Violation]:
        for tp, move in sorted(self._open.items()):
            replicas = self._picture.replicas(tp)
            if replicas is not None and replicas != self._lists[tp]:
                yield from self._list_written(transaction, tp, move, replicas)
            yield from self._state_written(transaction, tp)

    def _list_written(
        self, transaction: ServerTransaction, tp: TopicPartition, move: OpenReassignment, replicas: Brokers
    ) -> Iterator[Violation]:
        if not self._is_ours:
            move.lists = []
            return
        floor = min(len(set(move.before)), len(set(move.target)))
        if len(set(replicas)) < floor:
            detail = f"{_list(replicas)} are fewer than {floor}"
            yield Violation("S15", detail, tp, transaction.zxid)
        state = self._picture.state(tp)
        known = set(self._lists[tp] or ())
        if left_out := set(state.isr if state else ()) & known - set(replicas):
            detail = f"{_list(sorted(left_out))} are in sync and left out of {_list(replicas)}"
            yield Violation("S15", detail, tp, transaction.zxid)
        if replicas in move.lists[:-1]:
            detail = f"the replicas are {_list(replicas)} once more, after {_list(move.lists[-1])}"
            yield Violation("S16", detail, tp, transaction.zxid)
        move.lists.append(replicas)

    def _state_written(self, transaction: ServerTransaction, tp: TopicPartition) -> Iterator[Violation]:
        """A decision of a controller takes replicas out of the ISR, and none back in.

        But one that was elected alone and could not serve gives way to those that were in sync before.
        """
        before, after = self._states[tp], self._picture.state(tp)
        if not self._is_ours or before is None or after is None or before == after:
            return
        if after.leader_epoch == before.leader_epoch or after.isr == (after.leader,):
            return  # written by its leader, or an unclean election
        former = self._untried.get(tp, ()) if after.leader != before.leader else ()
        if back := set(after.isr) - set(before.isr) - set(former):
            detail = f"the controller took {_list(sorted(back))} into the ISR"
            yield Violation("S16", detail, tp, transaction.zxid)


def _list(brokers: Collection[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"
