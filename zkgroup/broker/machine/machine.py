"""A broker as a machine: its session, and one procedure at a time.

The order of every choice: the own id and what it stands on, configurations, the registration, and then what
the partitions need. Without ZooKeeper a broker keeps its roles and serves; only what is written waits.
"""

from __future__ import annotations

from typing import Final, assert_never

from zkgroup.broker.machine.configuration import Configuration
from zkgroup.broker.machine.core import BrokerConfig, Core, Work
from zkgroup.broker.machine.effects import ControllerFound, Effect
from zkgroup.broker.machine.events import (
    ControllerWanted,
    Event,
    FollowerFetched,
    FollowersSeen,
    IsrsCounted,
    Led,
    Left,
    Serving,
)
from zkgroup.broker.machine.leading import LAG_TIMER, NOTICES_TIMER, Leading
from zkgroup.broker.machine.preparing import Preparing
from zkgroup.broker.machine.registration import OBSTACLE_TIMER, Registration
from zkgroup.errors import CorruptZnodeError
from zkgroup.machinery.events import (
    Answered,
    SessionConnected,
    SessionLost,
    SessionSuspended,
    SharedEvent,
    TimerFired,
    WatchFired,
)
from zkgroup.machinery.procedures import (
    DeniedError,
    NoAnswerError,
    OddAnswerError,
    Procedure,
    Runner,
    read_many,
)
from zkgroup.model.ports import Instant
from zkgroup.model.requests import Session
from zkgroup.wire.control import Broker
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.znodes.controller import Controller

REST_TIMER: Final = "rest"
REST_MS: Final = 150
"""Pause after a missing answer while the connection stands."""
ODD_REST_MS: Final = 1000
STARTS_MAX: Final = 1000


class BrokerMachine:
    """One broker. Not thread-safe: one thread steps it."""

    def __init__(self, config: BrokerConfig) -> None:
        self.core = core = Core(config)
        self.preparing = Preparing(core)
        self.registration = Registration(core)
        self.leading = Leading(core)
        self.configuration = Configuration(core)
        self._runner = Runner(core)
        self._is_resting = False
        self._seeks_controller = False

    def step(self, event: Event, now: Instant) -> tuple[Effect, ...]:
        """Takes one event, in the order they happened, and says what to do, in the order given."""
        self.core.begin(now)
        self._take(event)
        self._run()
        return self.core.take_effects()

    # --- events -----------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        match event:
            case Serving():
                self.registration.serving = event
            case Led(state):
                self.leading.led(state)
            case Left(topic_partition):
                self.leading.left(topic_partition)
            case FollowerFetched():
                self.leading.fetched(event)
            case FollowersSeen():
                self.leading.seen(event)
            case IsrsCounted(batch, behind):
                self.leading.counted(batch, behind)
            case ControllerWanted():
                self._seeks_controller = True
            case _:
                self._take_shared(event)

    def _take_shared(self, event: SharedEvent) -> None:
        core = self.core
        match event:
            case Answered(request_id, outcome):
                core.answered(request_id, outcome)
            case WatchFired(request_id, _):
                core.watch_fired(request_id)
            case TimerFired(name):
                if core.timer_fired(name):
                    self._timer_fired(name)
            case SessionConnected(session):
                self._connected(session)
            case SessionSuspended(incarnation):
                if core.session is not None and core.session.incarnation == incarnation:
                    self._disconnected()
            case SessionLost(incarnation, _):
                if core.session is not None and core.session.incarnation == incarnation:
                    self._session_over()
            case _:
                assert_never(event)

    def _timer_fired(self, name: str) -> None:
        if name == REST_TIMER:
            self._is_resting = False
        elif name == OBSTACLE_TIMER:
            self.registration.wake()
        else:
            assert name in (LAG_TIMER, NOTICES_TIMER), name
            self.leading.timer_fired(name)

    def _connected(self, session: Session) -> None:
        before = self.core.session
        if before is not None and session.incarnation < before.incarnation:
            return
        if before is not None and session.incarnation > before.incarnation:
            self._session_over()
        self.core.connected_to(session)
        self._is_resting = False
        self.configuration.connected()
        self.registration.connected()
        self.leading.connected()

    def _disconnected(self) -> None:
        """What was under way has no answer; what it left in doubt is read back on the next connection."""
        self.core.connected = False

    def _session_over(self) -> None:
        self._runner.stop()
        self._runner.error = None
        self.registration.session_over()
        self.configuration.session_over()
        self.core.forget_session()

    # --- work -------------------------------------------------------------------------------------

    def _run(self) -> None:
        for _ in range(STARTS_MAX):
            self._look_at_error()
            if self._seeks_controller and not self.core.connected:
                self._found(None)
            if not self._runner.is_idle or not self.core.connected or self._is_resting:
                return
            work = self._next()
            if work is None:
                return
            name, procedure = work
            self._runner.start(name, procedure())
        raise AssertionError(f"{self._runner.name} is started again and again without asking anything")

    def _next(self) -> Work | None:
        if self.core.has_failed:
            return None
        if not self.preparing.is_done:
            return self.preparing.next()
        if self._seeks_controller:
            return "find the controller", self._find_controller
        if not self.configuration.has_looked:
            return self.configuration.next()
        return (
            self.registration.next()
            or (self.leading.next() if self.registration.is_registered else None)
            or self.configuration.next()
            or self.configuration.next_later()
        )

    def _look_at_error(self) -> None:
        error, self._runner.error = self._runner.error, None
        match error:
            case None:
                pass
            case NoAnswerError():
                self._rest(self.core.jittered(REST_MS, 0.5))
            case DeniedError() | OddAnswerError():
                self.core.note("odd_answer", detail=str(error), work=self._runner.name)
                self._rest(ODD_REST_MS)
            case _:
                raise error

    def _rest(self, ms: int) -> None:
        if self.core.connected:
            self._is_resting = True
            self.core.set_timer(REST_TIMER, self.core.now.ms + ms)

    # --- the controller's address -------------------------------------------------------------------

    def _find_controller(self) -> Procedure[None]:
        try:
            controller = yield from self._read_controller()
        except (NoAnswerError, DeniedError, OddAnswerError):
            self._found(None)
            raise
        self._found(controller)

    def _read_controller(self) -> Procedure[Broker | None]:
        ((znode,),) = yield from read_many([Controller.path()])
        if znode is None:
            return None
        try:
            broker = Controller.decode(znode.path, znode.data).broker
            ((found,),) = yield from read_many([BrokerRegistration.path(broker)])
            if found is None:
                return None
            told = BrokerRegistration.decode(found.path, found.data)
        except CorruptZnodeError as error:
            self.core.note("controller.unreadable", path=error.path, detail=str(error))
            return None
        return None if told.host is None else Broker(broker, told.host, told.port)

    def _found(self, controller: Broker | None) -> None:
        self._seeks_controller = False
        self.core.emit(ControllerFound(controller))
