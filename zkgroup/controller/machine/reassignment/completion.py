"""The ends of moves: replica lists, request and records in one write, then what follows. Steps 10 to 12."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from zkgroup.controller.machine.active import ActiveController
from zkgroup.controller.machine.controller_election.elector import FENCE_PATHS
from zkgroup.controller.machine.deletion import stray_replicas
from zkgroup.controller.machine.event_queue import EventKind
from zkgroup.controller.machine.fenced_writes import Refusal, Write
from zkgroup.controller.machine.reassignment import transactions
from zkgroup.controller.machine.reassignment.open_reassignments import Request
from zkgroup.controller.machine.reassignment.transactions import Ending
from zkgroup.controller.machine.state_writes import commit
from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import CreateMissing, Delete, ListChildren, Operation, SetData
from zkgroup.runtime.procedures import Procedure, Query, ask, list_done, write
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import Topic, topics_path
from zkgroup.znodes.paths import zkgroup_path
from zkgroup.znodes.reassignment_records import (
    FINISHED_KEPT,
    FinishedReassignment,
    finished_reassignments_path,
)
from zkgroup.znodes.stray_replicas import stray_replicas_path

PRUNED_AT: Final = FINISHED_KEPT + 100
"""Records before the oldest are deleted, so that not every end deletes one."""


def finish(active: ActiveController, endings: Sequence[Ending]) -> Procedure[bool]:
    """Writes these ends, or removes a request that names nothing (K17). Whether to look again at once.

    They go together; those of a topic at which that is refused wait, and the others go without them.
    """
    unwritable = _unwritable(active, endings)
    left = [ending for ending in endings if ending.topic_partition.topic not in unwritable]
    if not left and unwritable:
        return False
    yield from _parents(active)
    goes_on = False
    while True:
        refusal, stuck = yield from _finish_together(active, left)
        if refusal is None:
            return goes_on or bool(stuck)
        waiting = [f"move of {ending.topic_partition}" for ending in stuck]
        if refusal.is_conflict:
            goes_on = True
            for each in waiting:
                active.wait(each, str(refusal))
        else:
            active.back_off(str(refusal), waiting)
        left = [ending for ending in left if ending not in stuck]
        if not left:
            return goes_on


def _finish_together(
    active: ActiveController, endings: Sequence[Ending]
) -> Procedure[tuple[Refusal | None, Sequence[Ending]]]:
    """Writes as many of these ends as one write holds, and returns the others; or what was in the way, and
    the ends that wait for it: those of one topic, or all."""
    moves = active.reassignments
    request = moves.request
    targets, version = (request.targets, request.version) if request else ({}, None)
    finishing = transactions.finish(
        active.context,
        endings,
        targets,
        version,
        active.epoch,
        active.context.topic_czxids,
        lambda left: stray_replicas.ended_records(active, left),
    )
    doubt = ListsSent(active, [finishing.write])
    refusal = yield from commit(active, finishing.write)
    doubt.answered()
    if refusal is not None:
        if f"{refusal.path}/".startswith(f"{stray_replicas_path()}/"):
            yield from stray_replicas.read_records(active)
        mine = [ending for ending in endings if ending.outcome != "dropped" and _is_about(refusal, ending)]
        moves.has_parents = moves.has_parents and bool(mine)
        return refusal, mine or endings
    active.pending_deletes.book.took(finishing.strays)
    if finishing.strays.operations:
        active.enqueue(EventKind.STRAY_RECORDS)  # an answer may have come meanwhile
    left = {ending.topic_partition for ending in finishing.left}
    done = [ending for ending in endings if ending.topic_partition not in left]
    _request_written(active, finishing.write.operations, done)
    moves.ended([ending.topic_partition for ending in done], active.context)
    for ending in done:
        each, outcome, reason = ending.topic_partition, ending.outcome, ending.reason
        active.core.note("reassignment.ended", partition=str(each), outcome=outcome, reason=reason)
    forgotten(active, [ending.topic_partition for ending in done])
    yield from _pruned(active, len(done))
    return None, finishing.left


def _is_about(refusal: Refusal, ending: Ending) -> bool:
    """Whether the lists or a state of the ending's topic were in the way."""
    path = Topic.path(ending.topic_partition.topic)
    return refusal.path is not None and f"{refusal.path}/".startswith(f"{path}/")


def forgotten(active: ActiveController, partitions: Sequence[TopicPartition]) -> None:
    """Step 12: clients hear of the lists; a deletion that waited, and the next phase of a plan, may begin."""
    for each in partitions:
        active.wait(f"move of {each}", None)
    if known := [each for each in partitions if each in active.context]:
        batch = active.requests.batch()
        batch.update_metadata(known)
        active.requests.send(batch)
    if partitions:
        active.enqueue(EventKind.DELETIONS)
    if active.reassignments.request is None:
        active.enqueue(EventKind.PLANS)


class ListsSent:
    """Replica lists on their way. Without an answer they stay in doubt, and are known when they are found.

    The picture would otherwise take them for somebody else's and write back what it has (recipes 15).
    """

    def __init__(self, active: ActiveController, writes: Iterable[Write]) -> None:
        self._active = active
        self._lists: dict[str, Topic] = {}
        prefix = f"{topics_path()}/"
        for operation in (operation for each in writes for operation in each.operations):
            path = operation.path
            if isinstance(operation, SetData) and path.startswith(prefix) and "/" not in path[len(prefix) :]:
                self._lists[path.removeprefix(prefix)] = Topic.decode(path, operation.data)
        for name, lists in self._lists.items():
            active.reassignments.unconfirmed_lists.setdefault(name, []).append(lists)

    def answered(self) -> None:
        """Written, and then nothing sent before can be written any more; or refused."""
        for name, lists in self._lists.items():
            seen, doubts = (
                self._active.context.topic(name),
                self._active.reassignments.unconfirmed_lists.get(name, []),
            )
            if seen is not None and seen.topic == lists:
                doubts.clear()
            elif lists in doubts:
                doubts.remove(lists)
            if not doubts:
                self._active.reassignments.unconfirmed_lists.pop(name, None)


def _unwritable(active: ActiveController, endings: Sequence[Ending]) -> frozenset[str]:
    """Topics into which others have put what cannot be written again; their moves wait at the end."""
    found: dict[str, str] = {}
    for name in {ending.topic_partition.topic for ending in endings if ending.outcome != "dropped"}:
        if (seen := active.context.topic(name)) is not None:
            try:
                seen.topic.encode()
            except ConfigError as error:
                found[name] = str(error)
                active.report(Topic.path(name), str(error))
    for ending in endings:
        if (why := found.get(ending.topic_partition.topic)) is not None:
            active.wait(f"move of {ending.topic_partition}", why)
    return frozenset(found)


def _parents(active: ActiveController) -> Procedure[None]:
    if not active.reassignments.has_parents:
        paths = zkgroup_path(), finished_reassignments_path(), stray_replicas_path()
        yield from ask(Query(CreateMissing(paths)))
        active.reassignments.has_parents = True


def _request_written(
    active: ActiveController, operations: Iterable[Operation], done: Iterable[Ending]
) -> None:
    """What is left of the request is known without reading it."""
    request = active.reassignments.request
    for operation in operations:
        if request is None or operation.path != Reassignment.path():
            continue
        if isinstance(operation, Delete):
            active.reassignments.request = None
        elif isinstance(operation, SetData):
            gone = {ending.topic_partition for ending in done}
            left = {each: target for each, target in request.targets.items() if each not in gone}
            active.reassignments.request = Request(left, operation.version + 1, request.czxid)


def _pruned(active: ActiveController, more: int) -> Procedure[None]:
    """The oldest records go once there are too many; they are counted once and then reckoned with.

    None goes of which it is not certain that what it names is recorded elsewhere: those of earlier versions,
    while a topic cannot be read.
    """
    moves = active.reassignments
    moves.records = None if moves.records is None else moves.records + more
    if moves.records is not None and moves.records <= PRUNED_AT:
        return
    (outcome,) = yield from ask(Query(ListChildren(finished_reassignments_path())))
    numbers = [FinishedReassignment.sequence_of(name) for name in list_done(outcome).children]
    known = sorted(number for number in numbers if number is not None)
    moves.records = len(known)
    if len(known) > PRUNED_AT:
        if not active.recall.is_noted:
            yield from stray_replicas.on_stray_records(active)
        if not active.recall.is_noted:
            return
        deletions = [Delete(FinishedReassignment.path(each), 0) for each in known[:-FINISHED_KEPT]]
        yield from write([*active.fence.checks(), *deletions], FENCE_PATHS)
        moves.records = FINISHED_KEPT
