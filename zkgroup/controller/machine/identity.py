"""Which controller writes: its id, its controller epoch, and the fence of its transactions."""

from __future__ import annotations

from zkgroup.controller.machine.controller_election.elector import Elector
from zkgroup.controller.machine.fenced_writes import Fence
from zkgroup.controller.machine.settings import ElectorContext


class ControllerIdentity:
    """One controller from an election until it resigns. Its epoch may be raised meanwhile."""

    def __init__(self, core: ElectorContext, election: Elector) -> None:
        """Only for an election that was won."""
        assert election.won is not None, "only an elected controller becomes active"
        self._election = election
        self._won = election.won
        self.broker = core.config.broker
        """The id of this controller."""

    @property
    def fence(self) -> Fence:
        """The fence of every write. It changes when the epoch is raised."""
        if self._election.won is not None and self.is_current:
            self._won = self._election.won
        return self._won.fence

    @property
    def epoch(self) -> int:
        """The controller epoch of every request to brokers."""
        return self.fence.epoch

    @property
    def foreign_epoch(self) -> int:
        """The last epoch of a controller of Kafka; 0 where there is none (recipes 13, recovery)."""
        return self._won.foreign_epoch

    @property
    def is_current(self) -> bool:
        """Whether the election that this controller won is still the last one."""
        return self._election.won is not None and self._election.won.czxid == self._won.czxid
