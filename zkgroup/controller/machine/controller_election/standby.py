"""`/zkgroup/controllers/<id>`: the registration of a controller-only process that is not active.

Source: controllers without partitions (recipes 14). While it is active it is registered in `/brokers/ids`
instead. Two processes with one id would replace each other again and again, so a process takes part in
elections once this znode is its own.
"""

from __future__ import annotations

from typing import Final

from zkgroup.controller.machine.events import AccessDenied, IdInUse
from zkgroup.controller.machine.settings import ElectorContext
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import Znode
from zkgroup.model.requests import Code, Create, CreateMissing, Delete, MultiDone, Read, Sync
from zkgroup.runtime.events import Watch
from zkgroup.runtime.procedures import ConnectionLossError, Procedure, Query, ask, read_done, write
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.znodes.controller import StandbyController, standby_controllers_path
from zkgroup.znodes.paths import zkgroup_path
from zkgroup.znodes.sessions import is_leftover

STANDBY_TIMER: Final = "waiting name"
SLACK_MS: Final = 2000
"""Beyond the session timeout, for a name that is in the way (broker registration, controller.md 8.2)."""


class StandbyRegistration:
    """The znode of one standby controller."""

    def __init__(self, core: ElectorContext) -> None:
        self._core = core
        self.path = StandbyController.path(core.config.broker)
        self.is_shown = self.was_shown = False
        self.is_blocked = False
        """The znode is another process's for now; a watch and a timer call `wake`."""
        self.is_out = False
        self._blocked_since_ms: int | None = None
        self._since_ms: int | None = None
        """Wall time since when it waits."""

    def wake(self) -> None:
        """The znode that is in the way may be gone."""
        self.is_blocked = False

    def session_over(self) -> None:
        self.is_shown = self.is_blocked = False

    def show(self) -> Procedure[None]:
        """Creates the znode; ends shown, blocked or out."""
        alone, core = self._core.config.controller_only, self._core
        assert alone is not None
        registration = BrokerRegistration.path(core.config.broker)
        parents = CreateMissing((zkgroup_path(), standby_controllers_path()))
        (_, found) = yield from ask(Query(parents), Query(Read(registration)))
        if (broker := read_done(found)) is not None and (_hosts(broker) or is_leftover(broker)):
            self.is_out = True
            core.emit(IdInUse(core.config.broker, registration, broker.stat.ephemeral_owner))
            return
        self._since_ms = self._since_ms or core.now.wall_ms
        data = StandbyController(alone.host, alone.port, self._since_ms).encode()
        answer = yield from write([Create(self.path, data, ephemeral=True)], ())
        if isinstance(answer, MultiDone):
            self._shown()
        elif answer.code is Code.NODE_EXISTS:
            yield from self._check_conflict()

    def refused(self, path: str) -> None:
        """An ACL gives this process no permission, and did not before: it is not the cluster's user."""
        self.is_out = True
        self._core.emit(AccessDenied(path))

    def hide(self) -> Procedure[None]:
        """It is active now, and is registered among the brokers."""
        (_, outcome) = yield from ask(Query(Sync(self.path)), Query(Read(self.path)))
        znode = read_done(outcome)
        if znode is not None and self._core.owns(znode.stat.ephemeral_owner):
            yield from write([Delete(self.path, znode.stat.version)], ())
        self.is_shown, self._since_ms = False, None

    def _check_conflict(self) -> Procedure[None]:
        core, session = self._core, self._core.session
        assert session is not None
        try:
            (outcome,) = yield from ask(Query(Read(self.path, watch=True), Watch(self.wake)))
        except ConnectionLossError:
            self.wake()
            raise
        znode = read_done(outcome)
        if znode is None:
            return
        if core.owns(znode.stat.ephemeral_owner):
            self._shown()
            return
        is_stale = znode.stat.ephemeral_owner in core.former_sessions
        if self._blocked_since_ms is None:
            self._blocked_since_ms = core.now.ms
        until_ms = self._blocked_since_ms + session.timeout_ms + SLACK_MS
        is_stuck = is_leftover(znode)
        if is_stuck or (not is_stale and core.now.ms >= until_ms):
            self.is_out = True
            core.emit(IdInUse(core.config.broker, self.path, znode.stat.ephemeral_owner))
            return
        self.is_blocked = True
        if not is_stale:
            core.set_timer(STANDBY_TIMER, until_ms)

    def _shown(self) -> None:
        self.is_shown, self.was_shown, self._blocked_since_ms = True, True, None
        self._core.cancel_timer(STANDBY_TIMER)


def _hosts(broker: Znode) -> bool:
    """Returns whether a broker that hosts partitions is registered so. A former controller's registration
    goes with the `/controller` that is waited for; an unreadable one is found when it is to be replaced."""
    try:
        return BrokerRegistration.decode(broker.path, broker.data).role != "controller"
    except CorruptZnodeError:
        return False
