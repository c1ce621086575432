"""The machine of a broker: its session, and one procedure at a time.

The order of its work: the broker id and the parents, configurations, the registration, and then the
partitions. Without ZooKeeper a broker keeps its roles and serves; only writes wait.
"""

from __future__ import annotations

from zkgroup.broker.machine.dynamic_config import DynamicConfig
from zkgroup.broker.machine.events import (
    BecameLeader,
    BrokerContext,
    BrokerEffect,
    BrokerMachineConfig,
    ClaimProducerIds,
    ControllerFound,
    Effect,
    Event,
    FetchesPaused,
    FindController,
    FollowerFetches,
    FollowersRead,
    MaximalIsrsSet,
    ReplicasChanged,
    Serving,
    StoppedLeading,
    TopicsFollowed,
)
from zkgroup.broker.machine.followed_topics import FollowedTopics
from zkgroup.broker.machine.isr_manager import LAG_TIMER, PROPAGATION_TIMER, IsrManager
from zkgroup.broker.machine.producer_ids import ProducerIdClaims
from zkgroup.broker.machine.registration import REGISTRATION_TIMER, BrokerRegistrar, BrokerStartup
from zkgroup.errors import CorruptZnodeError
from zkgroup.model.ports import Instant
from zkgroup.runtime.machine import ProcedureMachine
from zkgroup.runtime.procedures import (
    ConnectionLossError,
    NoAuthError,
    Procedure,
    UnexpectedReplyError,
    Work,
    read_many,
)
from zkgroup.wire.control import BrokerEndPoint
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.znodes.controller import ControllerRegistration


class BrokerMachine(ProcedureMachine[BrokerEffect]):
    """One broker. Not thread-safe: one thread steps it."""

    def __init__(self, config: BrokerMachineConfig) -> None:
        self.core = core = BrokerContext(config)
        super().__init__(core)
        self.startup = BrokerStartup(core)
        self.registration = BrokerRegistrar(core)
        self.isr_manager = IsrManager(core)
        self.followed_topics = FollowedTopics(core)
        self.dynamic_config = DynamicConfig(core)
        self.producer_ids = ProducerIdClaims(core)
        self._seeks_controller = False

    def step(self, event: Event, now: Instant) -> tuple[Effect, ...]:
        """The effects of one event, to be performed in this order. Events are given in their order."""
        self.core.begin(now)
        self._take(event)
        if self._seeks_controller and not self.core.connected:
            self._found(None)
        self.producer_ids.refuse_without_connection()
        self._run()
        return self.core.take_effects()

    def _take(self, event: Event) -> None:
        match event:
            case Serving():
                self.registration.serving = event
            case BecameLeader(state):
                self.isr_manager.led(state)
                self.dynamic_config.hosted([state.topic_partition.topic])
            case ReplicasChanged(state):
                self.isr_manager.reassigned(state)
            case StoppedLeading(topic_partition):
                self.isr_manager.left(topic_partition)
            case FollowerFetches(fetched):
                self.isr_manager.fetched(fetched)
            case FollowersRead():
                self.isr_manager.seen(event)
            case MaximalIsrsSet(batch, behind):
                self.isr_manager.maximal_isrs_set(batch, behind)
            case FetchesPaused():
                self.followed_topics.held(event)
            case TopicsFollowed(topics):
                self.followed_topics.ordered(topics)
                self.dynamic_config.hosted(sorted(topics))
            case FindController() | ClaimProducerIds():
                self._wanted(event)
            case _:
                self._take_shared(event)

    def _wanted(self, event: FindController | ClaimProducerIds) -> None:
        """Takes an event that a result answers."""
        match event:
            case FindController():
                self._seeks_controller = True
            case ClaimProducerIds():
                self.producer_ids.wanted()

    def _timer_fired(self, name: str) -> None:
        if name == REGISTRATION_TIMER:
            self.registration.wake()
        else:
            assert name in (LAG_TIMER, PROPAGATION_TIMER), name
            self.isr_manager.timer_fired(name)

    def _connected(self) -> None:
        self.dynamic_config.connected()
        self.registration.connected()
        self.isr_manager.connected()

    def _session_over(self, reason: str) -> None:
        if self.registration.epoch is not None:
            self.followed_topics.session_over()
        self.registration.session_over()
        self.dynamic_config.session_over()
        self.isr_manager.session_over()

    def _next(self) -> Work | None:
        if self.core.has_failed:
            return None
        if not self.startup.is_done:
            return self.startup.next()
        if self._seeks_controller:
            return "find the controller", self._find_controller
        if not self.dynamic_config.has_read:
            return self.dynamic_config.next()
        return (
            self.registration.next()
            or (self._next_of_partitions() if self.registration.is_registered else None)
            or self.producer_ids.next()
            or self.dynamic_config.next()
            or self.dynamic_config.next_later()
        )

    def _next_of_partitions(self) -> Work | None:
        return self.followed_topics.next() or self.isr_manager.next()

    def _find_controller(self) -> Procedure[None]:
        try:
            controller = yield from self._read_controller()
        except (ConnectionLossError, NoAuthError, UnexpectedReplyError):
            self._found(None)
            raise
        self._found(controller)

    def _read_controller(self) -> Procedure[BrokerEndPoint | None]:
        ((znode,),) = yield from read_many([ControllerRegistration.path()])
        if znode is None:
            return None
        try:
            broker = ControllerRegistration.decode(znode.path, znode.data).broker
            ((found,),) = yield from read_many([BrokerRegistration.path(broker)])
            if found is None:
                return None
            registration = BrokerRegistration.decode(found.path, found.data)
        except CorruptZnodeError as error:
            self.core.note("controller.unreadable", path=error.path, detail=str(error))
            return None
        return (
            None
            if registration.host is None
            else BrokerEndPoint(broker, registration.host, registration.port)
        )

    def _found(self, controller: BrokerEndPoint | None) -> None:
        self._seeks_controller = False
        self.core.emit(ControllerFound(controller))
