"""The epochs of a controller while it is active: the records of all of them, and a new one (`EpochBump`).

Source: recipes.md 13, 17, 18.
"""

from __future__ import annotations

from typing import Final

from zkgroup.controller.machine import event_kinds
from zkgroup.controller.machine.controller_election.elector import FENCE_PATHS, Elector
from zkgroup.controller.machine.fenced_writes import Fence
from zkgroup.controller.machine.ports import Feature, Ports
from zkgroup.model.requests import Create, Delete, MultiDone, SetData
from zkgroup.runtime.machine import Work
from zkgroup.runtime.procedures import GuardRefusedError, Procedure, read_many, write
from zkgroup.znodes.controller import HISTORY_KEPT, ControllerEpoch, ControllerRecord

PRUNED_MAX: Final = 100
"""Records deleted in one transaction."""


class ControllerHistory:
    """The records below `/zkgroup/controller/history` while this controller is active.

    Beside what elections and resignations write.
    """

    def __init__(self, election: Elector, kept: int = HISTORY_KEPT) -> None:
        self._election = election
        self._kept = kept

    def next(self) -> Work | None:
        """Pruning, where there are more than are kept."""
        return ("prune the history", self._prune) if len(self._election.recorded) > self._kept else None

    def loaded(self, load_ms: int) -> Procedure[None]:
        """Writes into this controller's record how long loading took."""
        won = self._election.won
        assert won is not None, "only an active controller loads"
        record = won.record.loaded(load_ms)
        operation = SetData(ControllerRecord.path(won.fence.epoch), record.encode(), won.record_version)
        answer = yield from write([*won.fence.checks(), operation], FENCE_PATHS)
        if isinstance(answer, MultiDone) and self._election.won is won:
            version = won.record_version + 1
            self._election.won = won._replace(record=record, record_version=version)

    def _prune(self) -> Procedure[None]:
        """Old records go: the newest, which is this controller's own, says all that they were kept for."""
        election = self._election
        won, doomed = election.won, election.recorded[: -self._kept][:PRUNED_MAX]
        assert won is not None
        election.recorded = election.recorded[len(doomed) :]
        (found,) = yield from read_many([ControllerRecord.path(epoch) for epoch in doomed])
        deletions = [Delete(znode.path, znode.stat.version) for znode in found if znode is not None]
        if deletions:
            yield from write([*won.fence.checks(), *deletions], FENCE_PATHS)


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
