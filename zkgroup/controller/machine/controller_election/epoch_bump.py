"""A new epoch in the middle of a rule. Source: recipes.md 17.

The connection broke with a StopReplica(delete) unanswered, and the copy on the next one was answered: the
first may still arrive, and deletes whatever it meets (K28). A broker that has answered a request of a higher
epoch obeys it no more.
"""

from __future__ import annotations

from zkgroup.controller.machine.active import ActiveController
from zkgroup.controller.machine.controller_election.elector import FENCE_PATHS
from zkgroup.controller.machine.event_queue import EventKind
from zkgroup.controller.machine.fenced_writes import Fence
from zkgroup.model.requests import Create, MultiDone, SetData
from zkgroup.runtime.procedures import GuardRefusedError, Procedure, write
from zkgroup.znodes.controller import ControllerEpoch, ControllerRecord

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
