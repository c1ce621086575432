"""A broker as a machine: its session, and one procedure at a time.

The order of every choice: the own id and what it stands on, configurations, the registration, and then what
the partitions need. Without ZooKeeper a broker keeps its roles and serves; only what is written waits.
"""

from __future__ import annotations

from zkgroup.broker.machine.configuration import Configuration
from zkgroup.broker.machine.core import BrokerConfig, Core
from zkgroup.broker.machine.effects import BrokerEffect, ControllerFound, Effect
from zkgroup.broker.machine.events import (
    ControllerWanted,
    Event,
    FetchesHeld,
    Followed,
    FollowerFetched,
    FollowersSeen,
    IsrsCounted,
    Led,
    Left,
    Reassigned,
    Serving,
)
from zkgroup.broker.machine.following import Following
from zkgroup.broker.machine.leading import LAG_TIMER, NOTICES_TIMER, Leading
from zkgroup.broker.machine.preparing import Preparing
from zkgroup.broker.machine.registration import OBSTACLE_TIMER, Registration
from zkgroup.errors import CorruptZnodeError
from zkgroup.machinery.machine import ProcedureMachine, Work
from zkgroup.machinery.procedures import DeniedError, NoAnswerError, OddAnswerError, Procedure, read_many
from zkgroup.model.ports import Instant
from zkgroup.wire.control import Broker
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.znodes.controller import Controller


class BrokerMachine(ProcedureMachine[BrokerEffect]):
    """One broker. Not thread-safe: one thread steps it."""

    def __init__(self, config: BrokerConfig) -> None:
        self.core = core = Core(config)
        super().__init__(core)
        self.preparing = Preparing(core)
        self.registration = Registration(core)
        self.leading = Leading(core)
        self.following = Following(core)
        self.configuration = Configuration(core)
        self._seeks_controller = False

    def step(self, event: Event, now: Instant) -> tuple[Effect, ...]:
        """Takes one event, in the order they happened, and says what to do, in the order given."""
        self.core.begin(now)
        self._take(event)
        if self._seeks_controller and not self.core.connected:
            self._found(None)
        self._run()
        return self.core.take_effects()

    # --- events -----------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        match event:
            case Serving():
                self.registration.serving = event
            case Led(state):
                self.leading.led(state)
                self.configuration.led(state.topic_partition.topic)
            case Reassigned(state):
                self.leading.reassigned(state)
            case Left(topic_partition):
                self.leading.left(topic_partition)
            case FollowerFetched():
                self.leading.fetched(event)
            case FollowersSeen():
                self.leading.seen(event)
            case IsrsCounted(batch, behind):
                self.leading.counted(batch, behind)
            case FetchesHeld():
                self.following.held(event)
            case Followed(topics):
                self.following.ordered(topics)
            case ControllerWanted():
                self._seeks_controller = True
            case _:
                self._take_shared(event)

    def _timer_fired(self, name: str) -> None:
        if name == OBSTACLE_TIMER:
            self.registration.wake()
        else:
            assert name in (LAG_TIMER, NOTICES_TIMER), name
            self.leading.timer_fired(name)

    def _connected(self) -> None:
        self.configuration.connected()
        self.registration.connected()
        self.leading.connected()

    def _session_over(self, reason: str) -> None:
        if self.registration.epoch is not None:
            self.following.session_over()
        self.registration.session_over()
        self.configuration.session_over()
        self.leading.session_over()

    # --- work -------------------------------------------------------------------------------------

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
            or (self._next_of_partitions() if self.registration.is_registered else None)
            or self.configuration.next()
            or self.configuration.next_later()
        )

    def _next_of_partitions(self) -> Work | None:
        return self.following.next() or self.leading.next()

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
