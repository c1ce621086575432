"""Work that the tests give to an active controller."""

from __future__ import annotations

from tests.worlds.stepped_electors import EPOCH
from zkgroup.controller.machine.controller_election.elector import FENCE_PATHS, Elector, Work
from zkgroup.controller.machine.fenced_writes import Fence
from zkgroup.model.requests import Read, SetData
from zkgroup.runtime.procedures import Procedure, Query, ask, write


class Writer:
    """A handler that writes as often as wanted, each time under the fence."""

    def __init__(self, wanted: int = 0) -> None:
        self.wanted = wanted

    def __call__(self, election: Elector) -> Work | None:
        won = election.won
        if not self.wanted or won is None:
            return None
        return "write", lambda: self._write(won.fence)

    def _write(self, fence: Fence) -> Procedure[None]:
        self.wanted -= 1
        yield from write([*fence.checks(), SetData("/work", b"x", 0)], FENCE_PATHS)


def fails() -> Procedure[None]:
    yield from ask(Query(Read(EPOCH)))
    raise ValueError("an unreadable znode")
