"""The records of the controller epochs, and a new epoch while the controller stays active.

The history of our controllers beside what elections and resignations write. Source: recipes.md 13, 18.

A new epoch in the middle of a rule. Source: recipes.md 17.

The connection broke with a StopReplica(delete) unanswered, and the copy on the next one was answered: the
first may still arrive, and deletes whatever it meets (K28). A broker that has answered a request of a higher
epoch obeys it no more.
"""

from __future__ import annotations

from typing import Final

from zkgroup.controller.machine.active import ActiveController
from zkgroup.controller.machine.controller_election.elector import FENCE_PATHS, Elector
from zkgroup.controller.machine.event_queue import EventKind
from zkgroup.controller.machine.fenced_writes import Fence
from zkgroup.model.requests import Create, Delete, MultiDone, SetData
from zkgroup.runtime.machine import Work
from zkgroup.runtime.procedures import GuardRefusedError, Procedure, read_many, write
from zkgroup.znodes.controller import HISTORY_KEPT, ControllerEpoch, ControllerRecord

PRUNED_MAX: Final = 100
"""Records deleted in one transaction."""


class ControllerHistory:
    """The records below `/zkgroup/controller/history` while this controller rules."""

    def __init__(self, election: Elector, kept: int = HISTORY_KEPT) -> None:
        self._election = election
        self._kept = kept

    def next(self) -> Work | None:
        """Pruning, where there are more than are kept."""
        return ("prune the history", self._prune) if len(self._election.recorded) > self._kept else None

    def loaded(self, load_ms: int) -> Procedure[None]:
        """The record of the present rule also says how long loading took."""
        rule = self._election.rule
        assert rule is not None, "nobody loads without ruling"
        record = rule.record.loaded(load_ms)
        operation = SetData(ControllerRecord.path(rule.fence.epoch), record.encode(), rule.record_version)
        answer = yield from write([*rule.fence.checks(), operation], FENCE_PATHS)
        if isinstance(answer, MultiDone) and self._election.rule is rule:
            version = rule.record_version + 1
            self._election.rule = rule._replace(record=record, record_version=version)

    def _prune(self) -> Procedure[None]:
        """Old records go: the newest, which is this controller's own, says all that they were kept for."""
        election = self._election
        rule, doomed = election.rule, election.recorded[: -self._kept][:PRUNED_MAX]
        assert rule is not None
        election.recorded = election.recorded[len(doomed) :]
        (found,) = yield from read_many([ControllerRecord.path(epoch) for epoch in doomed])
        deletions = [Delete(znode.path, znode.stat.version) for znode in found if znode is not None]
        if deletions:
            yield from write([*rule.fence.checks(), *deletions], FENCE_PATHS)


REASON = "a deletion was sent twice, and the first copy may still be on its way"


def bump_epoch(active: ActiveController, subject: str = "") -> Procedure[None]:
    """Raises the epoch where a deletion is in doubt, and tells all brokers something of the new one."""
    doubts = [doubt for doubt in active.requests.unresolved.values() if doubt.epoch is None]
    rule = active.election.rule
    if not doubts or rule is None:
        return
    raised = Fence(rule.fence.epoch + 1, rule.fence.version + 1)
    wall_ms = active.core.now.wall_ms
    was = rule.record
    record = ControllerRecord(was.broker, was.session, REASON, wall_ms).after(rule.foreign_epoch)
    over = was.over(wall_ms, REASON)
    operations = (
        *rule.fence.checks(),
        SetData(ControllerEpoch.path(), ControllerEpoch(raised.epoch).encode(), rule.fence.version),
        Create(ControllerRecord.path(raised.epoch), record.encode()),
        SetData(ControllerRecord.path(rule.fence.epoch), over.encode(), rule.record_version),
    )
    # Without an answer the election finds a version that is not its own and resigns, which is as good.
    answer = yield from write(operations, FENCE_PATHS)
    if not isinstance(answer, MultiDone):
        raise GuardRefusedError(operations[answer.index].path)
    active.election.epoch_raised(raised, record)
    active.pending_deletes.epoch_raised()
    for doubt in doubts:
        doubt.epoch = raised.epoch
    active.core.note("epoch.raised", epoch=raised.epoch)
    batch = active.requests.batch()
    batch.update_metadata()
    active.requests.send(batch)
    active.enqueue(EventKind.REASSIGNMENT)
