"""The machine of a broker: its session, and one procedure at a time.

The order of its work: the broker id and the parents, configurations and ACLs, the registration, and then the
partitions. Without ZooKeeper a broker keeps its roles and serves; only writes wait.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from zkgroup.broker.machine.acl_changes import AclChanges
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
    PauseFetches,
    ProducerIdsClaimed,
    ReplicasChanged,
    ResumeFetches,
    Serving,
    StoppedLeading,
    TopicsFollowed,
)
from zkgroup.broker.machine.isr_manager import LAG_TIMER, PROPAGATION_TIMER, IsrManager
from zkgroup.broker.machine.registration import REGISTRATION_TIMER, BrokerRegistrar, BrokerStartup
from zkgroup.errors import AccessDeniedError, ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.ports import Instant
from zkgroup.model.requests import Code, Create, MultiDone, SetData, Sync
from zkgroup.runtime.machine import ProcedureMachine
from zkgroup.runtime.procedures import (
    ConnectionLossError,
    NoAuthError,
    Procedure,
    Query,
    UnexpectedReplyError,
    Work,
    ask,
    read_allowed,
    read_many,
    write,
)
from zkgroup.wire.control import BrokerEndPoint
from zkgroup.wire.messages import ErrorCode
from zkgroup.znodes.brokers import BrokerRegistration, Topic, topics_path
from zkgroup.znodes.cluster import ProducerIdBlock
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
        self.acl_changes = AclChanges(core)
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
        self.acl_changes.connected()
        self.registration.connected()
        self.isr_manager.connected()

    def _session_over(self, reason: str) -> None:
        if self.registration.epoch is not None:
            self.followed_topics.session_over()
        self.registration.session_over()
        self.dynamic_config.session_over()
        self.acl_changes.session_over()
        self.isr_manager.session_over()

    def _next(self) -> Work | None:
        if self.core.has_failed:
            return None
        if not self.startup.is_done:
            return self.startup.next()
        if self._seeks_controller:
            return "find the controller", self._find_controller
        for followed in (self.dynamic_config, self.acl_changes):
            if not followed.has_read:
                return followed.next()
        self.startup.announce()
        of_partitions = None
        if self.registration.is_registered:
            of_partitions = self.followed_topics.next() or self.isr_manager.next()
        return (
            self.registration.next()
            or of_partitions
            or self.producer_ids.next()
            or self.acl_changes.next()
            or self.dynamic_config.next()
            or self.acl_changes.next_later()
            or self.dynamic_config.next_later()
        )

    def _ended_by(self, error: Exception) -> None:
        """Ends a broker that was never registered where an ACL refuses it; one that was tries again."""
        if isinstance(error, NoAuthError) and self.registration.epoch is None:
            self.core.fail(AccessDeniedError.of_start(error.path, "a broker"))
        else:
            super()._ended_by(error)

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
        endpoint = registration.endpoint(self.core.config.inter_broker)
        return (
            None
            if endpoint is None or endpoint.host is None
            else BrokerEndPoint(broker, endpoint.host, endpoint.port)
        )

    def _found(self, controller: BrokerEndPoint | None) -> None:
        self._seeks_controller = False
        self.core.emit(ControllerFound(controller))


class ProducerIdClaims:
    """Performs `ClaimProducerIds`: claims blocks in `/latest_producer_id_block`, for idempotent producers.

    One claim answers all events before it. It reads the latest block and writes the next one at the version
    that was read. If another broker was faster, it reads again. A write with an unknown outcome is not read
    back: its block may never be used, and the next claim takes another one.

    Source: kafka/coordinator/transaction/ProducerIdManager.scala@2.8.2, which waits for ZooKeeper where this
    broker responds with error 14.
    """

    def __init__(self, core: BrokerContext) -> None:
        self._core = core
        self._is_wanted = False

    def wanted(self) -> None:
        """Notes that a block is needed."""
        self._is_wanted = True

    def refuse_without_connection(self) -> None:
        """Ends a claim that cannot be sent now."""
        if self._is_wanted and not self._core.connected:
            self._claimed(None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def next(self) -> Work | None:
        return ("claim producer ids", self._claim) if self._is_wanted else None

    def _claim(self) -> Procedure[None]:
        try:
            block = yield from self._next_block()
        except (ConnectionLossError, NoAuthError, UnexpectedReplyError):
            self._claimed(None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            raise
        except (CorruptZnodeError, ConfigError) as error:
            self._core.note("producer_ids.unreadable", path=ProducerIdBlock.path(), detail=str(error))
            self._claimed(None, ErrorCode.UNKNOWN)
            return
        self._claimed(block, ErrorCode.NONE)

    def _next_block(self) -> Procedure[ProducerIdBlock]:
        path, broker = ProducerIdBlock.path(), self._core.broker
        assert broker is not None
        while True:
            ((znode,),) = yield from read_many([path])
            block = ProducerIdBlock.after(_latest(znode), broker)
            if znode is None:
                operation: Create | SetData = Create(path, block.encode())
            else:
                operation = SetData(path, block.encode(), znode.stat.version)
            if isinstance((yield from write([operation], ())), MultiDone):
                return block

    def _claimed(self, block: ProducerIdBlock | None, error: ErrorCode) -> None:
        self._is_wanted = False
        self._core.emit(ProducerIdsClaimed(block, error))


def _latest(znode: Znode | None) -> ProducerIdBlock | None:
    """The latest block; None before the first one. Raises CorruptZnodeError."""
    if znode is None or not znode.data:
        return None
    return ProducerIdBlock.decode(znode.path, znode.data)


READ_AT_ONCE: Final = 100


class FollowedTopics:
    """The topics that a broker may continue to follow after its session has ended.

    Meanwhile a topic can have been deleted without this broker, and created again (ADR 0024). Its leader
    epochs and offsets start anew, so a follower with records of the deleted topic would report more of them
    than its leader ever had, or append after them. So the czxid of each followed topic is read in the session
    in which the controller sent LeaderAndIsr. After the end of a session nothing is fetched before the topic
    was found with that czxid. Another topic waits for a LeaderAndIsr, which comes, since for the controller
    the broker has failed; zkgroup's controllers first make it delete its records of a former topic.
    """

    def __init__(self, core: BrokerContext) -> None:
        self._core = core
        self._born: dict[str, int] = {}
        """czxid of each followed topic, in the session of its LeaderAndIsr."""
        self._unread: set[str] = set()
        """Topics followed since the start of the present session whose czxid is not read yet."""
        self._held: dict[TopicPartition, int | None] = {}
        """Paused partitions that are not checked yet, with the former czxid of the topic; None: unknown."""
        self._unheld = 0
        """Number of `PauseFetches` without a result. Until then `_unread` may be of an ended session."""

    def ordered(self, topics: Collection[str]) -> None:
        """Notes topics whose partitions a controller has made this broker follow."""
        for topic in topics:
            self._born.pop(topic, None)
        self._unread.update(topics)

    def session_over(self) -> None:
        self._unheld += 1
        self._core.emit(PauseFetches())

    def held(self, event: FetchesPaused) -> None:
        """Takes the paused partitions.

        Those found to be of another topic stay paused and are not among them.
        """
        self._unheld -= 1
        self._unread.clear()
        for tp in event.partitions:
            self._held[tp] = self._born.get(tp.topic)

    def next(self) -> Work | None:
        if self._unheld:
            return None
        if self._held:
            return "check topics followed", self._check
        return ("read topics followed", self._read) if self._unread else None

    def _check(self) -> Procedure[None]:
        """Resumes fetches of topics with the former czxid.

        No sync is needed: in the session of a registration nothing older is read, and a topic that is deleted
        after it is deleted here, too.
        """
        topics = sorted({tp.topic for tp in self._held})[:READ_AT_ONCE]
        found = dict(zip(topics, (yield from self._stored(topics)), strict=True))
        looked_at = [tp for tp in self._held if tp.topic in found]
        known = {tp for tp in looked_at if self._held[tp] is not None and self._held[tp] == found[tp.topic]}
        for topic in sorted({tp.topic for tp in looked_at if tp not in known}):
            self._core.note("topic.not_followed", path=Topic.path(topic))
        for tp in looked_at:
            del self._held[tp]
        self._core.emit(ResumeFetches(frozenset(known)))

    def _read(self) -> Procedure[None]:
        topics = sorted(self._unread)[:READ_AT_ONCE]
        yield from ask(Query(Sync(topics_path())))
        found = yield from self._stored(topics)
        self._unread.difference_update(topics)
        self._born.update((topic, czxid) for topic, czxid in zip(topics, found, strict=True) if czxid)

    @staticmethod
    def _stored(topics: list[str]) -> Procedure[list[int | None]]:
        """The czxid of each topic; None if it does not exist or is hidden."""
        found: tuple[Znode | Code | None, ...] = yield from read_allowed([Topic.path(one) for one in topics])
        return [one.stat.czxid if isinstance(one, Znode) else None for one in found]
