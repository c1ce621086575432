"""A new controller epoch after a deletion that was sent twice (`EpochBump`). Source: recipes.md 17, 18."""

from __future__ import annotations

from typing import Final

from zkgroup.controller.machine import event_kinds
from zkgroup.controller.machine.controller_election.elector import FENCE_PATHS, Elector
from zkgroup.controller.machine.fenced_writes import Fence
from zkgroup.controller.machine.ports import Feature, Ports
from zkgroup.model.requests import Create, MultiDone, SetData
from zkgroup.runtime.procedures import GuardRefusedError, Procedure, write
from zkgroup.znodes.controller import ControllerEpoch, ControllerRecord

BUMP_REASON: Final = "a deletion was sent twice, and the first copy may still be on its way"


class EpochBump(Feature):
    """Raises the controller epoch where copies of a deletion may still arrive; the controller stays active.

    A connection broke with a StopReplica(delete) unanswered, and the copy on the next connection was
    answered: the first copy may still arrive, and deletes whatever it meets (K28). A broker that has answered
    a request of a higher epoch obeys it no more.
    """

    def __init__(self, ports: Ports, election: Elector) -> None:
        super().__init__(ports)
        self._election = election

    def bump_epoch(self, subject: str = "") -> Procedure[None]:
        """Raises the epoch for the deletions that need it, and sends all brokers a request of the new one."""
        unresolved = [each for each in self._requests.unresolved.values() if each.epoch is None]
        won = self._election.won
        if not unresolved or won is None:
            return
        raised = Fence(won.fence.epoch + 1, won.fence.version + 1)
        wall_ms = self._core.now.wall_ms
        before = won.record
        record = ControllerRecord(before.broker, before.session, BUMP_REASON, wall_ms).after(
            won.foreign_epoch
        )
        operations = (
            *won.fence.checks(),
            SetData(ControllerEpoch.path(), ControllerEpoch(raised.epoch).encode(), won.fence.version),
            Create(ControllerRecord.path(raised.epoch), record.encode()),
            SetData(
                ControllerRecord.path(won.fence.epoch),
                before.over(wall_ms, BUMP_REASON).encode(),
                won.record_version,
            ),
        )
        # Without a reply the elector finds a version that is not its own and resigns, which is as good.
        reply = yield from write(operations, FENCE_PATHS)
        if not isinstance(reply, MultiDone):
            raise GuardRefusedError(operations[reply.index].path)
        self._election.epoch_raised(raised, record)
        self._pending_deletes.epoch_raised()
        for each in unresolved:
            each.epoch = raised.epoch
        self._core.note("epoch.raised", epoch=raised.epoch)
        batch = self._requests.batch()
        batch.update_metadata()
        self._requests.send(batch)
        self._events.enqueue(event_kinds.REASSIGNMENT)
