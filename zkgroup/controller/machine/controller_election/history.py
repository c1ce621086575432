"""The records of controllers, which the active one keeps (elections, status: recipes 13, 18)."""

from __future__ import annotations

from typing import Final

from zkgroup.controller.machine.controller_election.elector import FENCE_PATHS, Elector
from zkgroup.model.requests import Delete, MultiDone, SetData
from zkgroup.runtime.procedures import Procedure, Work, read_many, write
from zkgroup.znodes.controller import HISTORY_KEPT, ControllerRecord

PRUNED_MAX: Final = 100
"""Records deleted in one transaction."""


class ControllerHistory:
    """The records below `/zkgroup/controller/history`, beside what elections and resignations write."""

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
        won, surplus = election.won, election.recorded[: -self._kept][:PRUNED_MAX]
        assert won is not None
        election.recorded = election.recorded[len(surplus) :]
        (found,) = yield from read_many([ControllerRecord.path(epoch) for epoch in surplus])
        deletions = [Delete(znode.path, znode.stat.version) for znode in found if znode is not None]
        if deletions:
            yield from write([*won.fence.checks(), *deletions], FENCE_PATHS)
