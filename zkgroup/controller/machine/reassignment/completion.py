"""The ends of reassignments: replica lists, request and records in one write, then what follows. Steps 10 to
12."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from zkgroup.controller.machine import event_manager
from zkgroup.controller.machine.context import ControllerContext
from zkgroup.controller.machine.controller_election.elector import FENCE_PATHS
from zkgroup.controller.machine.deletion.stray_replicas import StrayReplicaDeletion
from zkgroup.controller.machine.feature import Feature, SharedParts
from zkgroup.controller.machine.fenced_writes import Refusal, Write
from zkgroup.controller.machine.open_reassignments import (
    Completion,
    OpenReassignments,
    ReassignmentRequest,
)
from zkgroup.controller.machine.reassignment import transactions
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


class ReassignmentCompletion(Feature):
    """Writes the ends of reassignments, and what follows from them."""

    def __init__(self, parts: SharedParts, strays: StrayReplicaDeletion) -> None:
        super().__init__(parts)
        self._strays = strays

    def finish(self, completions: Sequence[Completion]) -> Procedure[bool]:
        """Writes these ends, or removes a request that names nothing (empty requests, K17). Returns whether
        to run again at once.

        They go together; those of a topic at which that is refused wait, and the others go without them.
        """
        unwritable = self._unwritable(completions)
        left = [
            completion for completion in completions if completion.topic_partition.topic not in unwritable
        ]
        if not left and unwritable:
            return False
        yield from self._parents()
        goes_on = False
        while True:
            refusal, stuck = yield from self._finish_together(left)
            if refusal is None:
                return goes_on or bool(stuck)
            waiting = [f"move of {completion.topic_partition}" for completion in stuck]
            if refusal.is_conflict:
                goes_on = True
                for each in waiting:
                    self._events.set_blocked(each, str(refusal))
            else:
                self._events.back_off(str(refusal), waiting)
            left = [completion for completion in left if completion not in stuck]
            if not left:
                return goes_on

    def _finish_together(
        self, completions: Sequence[Completion]
    ) -> Procedure[tuple[Refusal | None, Sequence[Completion]]]:
        """Writes as many of these ends as one write holds, and returns the others; or what was in the way,
        and the ends that wait for it: those of one topic, or all."""
        moves = self._reassignments
        request = moves.request
        targets, version = (request.targets, request.version) if request else ({}, None)
        finishing = transactions.finish(
            self._context,
            completions,
            targets,
            version,
            self._identity.epoch,
            lambda left: self._pending_deletes.records.change(self._strays.of_present(left)),
        )
        lists = ListsSent(self._context, self._reassignments, [finishing.write])
        refusal = yield from self._states.commit(finishing.write)
        lists.answered()
        if refusal is not None:
            if f"{refusal.path}/".startswith(f"{stray_replicas_path()}/"):
                yield from self._strays.read_records()
            mine = [
                completion
                for completion in completions
                if completion.outcome != "dropped" and _is_about(refusal, completion)
            ]
            moves.has_parents = moves.has_parents and bool(mine)
            return refusal, mine or completions
        self._pending_deletes.records.took(finishing.strays)
        if finishing.strays.operations:
            self._events.enqueue(event_manager.STRAY_RECORDS)  # an answer may have come meanwhile
        left = {completion.topic_partition for completion in finishing.left}
        done = [completion for completion in completions if completion.topic_partition not in left]
        self._request_written(finishing.write.operations, done)
        moves.ended([completion.topic_partition for completion in done], self._context)
        for completion in done:
            each, outcome, reason = completion.topic_partition, completion.outcome, completion.reason
            self._core.note("reassignment.ended", partition=str(each), outcome=outcome, reason=reason)
        self.forgotten([completion.topic_partition for completion in done])
        yield from self._pruned(len(done))
        return None, finishing.left

    def forgotten(self, partitions: Sequence[TopicPartition]) -> None:
        """Step 12: brokers get the lists; a deletion that waited, and the next phase of a plan, may
        begin."""
        for each in partitions:
            self._events.set_blocked(f"move of {each}", None)
        if known := [each for each in partitions if each in self._context]:
            batch = self._requests.batch()
            batch.update_metadata(known)
            self._requests.send(batch)
        if partitions:
            self._events.enqueue(event_manager.DELETIONS)
        if self._reassignments.request is None:
            self._events.enqueue(event_manager.PLANS)
            self._events.enqueue(event_manager.SLOT_REPLICAS)

    def _unwritable(self, completions: Sequence[Completion]) -> frozenset[str]:
        """Topics into which others have put what cannot be written again; their moves wait at the end."""
        found: dict[str, str] = {}
        for name in {
            completion.topic_partition.topic for completion in completions if completion.outcome != "dropped"
        }:
            if (seen := self._context.topic(name)) is not None:
                try:
                    seen.topic.encode()
                except ConfigError as error:
                    found[name] = str(error)
                    self._reader.report(Topic.path(name), str(error))
        for completion in completions:
            if (why := found.get(completion.topic_partition.topic)) is not None:
                self._events.set_blocked(f"move of {completion.topic_partition}", why)
        return frozenset(found)

    def _parents(self) -> Procedure[None]:
        if not self._reassignments.has_parents:
            paths = zkgroup_path(), finished_reassignments_path(), stray_replicas_path()
            yield from ask(Query(CreateMissing(paths)))
            self._reassignments.has_parents = True

    def _request_written(self, operations: Iterable[Operation], done: Iterable[Completion]) -> None:
        """Keeps what is left of the request, without reading it again."""
        request = self._reassignments.request
        for operation in operations:
            if request is None or operation.path != Reassignment.path():
                continue
            if isinstance(operation, Delete):
                self._reassignments.request = None
            elif isinstance(operation, SetData):
                gone = {completion.topic_partition for completion in done}
                left = {each: target for each, target in request.targets.items() if each not in gone}
                self._reassignments.request = ReassignmentRequest(left, operation.version + 1, request.czxid)

    def _pruned(self, more: int) -> Procedure[None]:
        """The oldest records go once there are too many, counted once and then reckoned with. None goes while
        what it names may not be recorded elsewhere: those of earlier versions, while a topic is
        unreadable."""
        moves = self._reassignments
        moves.records = None if moves.records is None else moves.records + more
        if moves.records is not None and moves.records <= PRUNED_AT:
            return
        (outcome,) = yield from ask(Query(ListChildren(finished_reassignments_path())))
        numbers = [FinishedReassignment.sequence_of(name) for name in list_done(outcome).children]
        known = sorted(number for number in numbers if number is not None)
        moves.records = len(known)
        if len(known) > PRUNED_AT:
            if not self._strays.are_moves_brought_over:
                yield from self._strays.on_stray_records()
            if not self._strays.are_moves_brought_over:
                return
            deletions = [Delete(FinishedReassignment.path(each), 0) for each in known[:-FINISHED_KEPT]]
            yield from write([*self._identity.fence.checks(), *deletions], FENCE_PATHS)
            moves.records = FINISHED_KEPT


def _is_about(refusal: Refusal, completion: Completion) -> bool:
    path = Topic.path(completion.topic_partition.topic)
    return refusal.path is not None and f"{refusal.path}/".startswith(f"{path}/")


class ListsSent:
    """Replica lists that were sent. Without a reply they stay unconfirmed, and count as known once they are
    read.

    They would otherwise be taken for those of another client and overwritten.
    """

    def __init__(
        self, context: ControllerContext, reassignments: OpenReassignments, writes: Iterable[Write]
    ) -> None:
        self._context = context
        self._reassignments = reassignments
        self._lists: dict[str, Topic] = {}
        prefix = f"{topics_path()}/"
        for operation in (operation for each in writes for operation in each.operations):
            path = operation.path
            if isinstance(operation, SetData) and path.startswith(prefix) and "/" not in path[len(prefix) :]:
                self._lists[path.removeprefix(prefix)] = Topic.decode(path, operation.data)
        for name, lists in self._lists.items():
            self._reassignments.unconfirmed_lists.setdefault(name, []).append(lists)

    def answered(self) -> None:
        """Written, and then nothing sent before can be written any more; or refused."""
        for name, lists in self._lists.items():
            seen, unconfirmed = (
                self._context.topic(name),
                self._reassignments.unconfirmed_lists.get(name, []),
            )
            if seen is not None and seen.topic == lists:
                unconfirmed.clear()
            elif lists in unconfirmed:
                unconfirmed.remove(lists)
            if not unconfirmed:
                self._reassignments.unconfirmed_lists.pop(name, None)
