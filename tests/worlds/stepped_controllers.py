"""A whole cluster in memory: an active controller, its ZooKeeper, and brokers that answer as a test sets."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.worlds.stepped_electors import GRACE_AND_SPREAD_MS, ElectorNode, SteppedElectors
from zkgroup.controller.machine.context import Brokers
from zkgroup.controller.machine.events import (
    BrokerAnswered,
    BrokerRequest,
    ChannelDown,
    ChannelUp,
    CloseChannel,
    ControllerEffect,
    ControlRequest,
    OpenChannel,
    ShutdownAnswered,
    ShutdownAsked,
)
from zkgroup.controller.machine.machine import ControllerMachine
from zkgroup.controller.machine.settings import ControllerSettings, ElectorConfig
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, Multi, SetData
from zkgroup.runtime.events import LogEvent
from zkgroup.testing.memory_zookeeper import Fault, ServerStep
from zkgroup.wire.control import (
    LEADER_DURING_DELETE,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from zkgroup.wire.messages import ErrorCode, Response
from zkgroup.znodes.admin_requests import TopicDeletion, delete_topics_path
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic, broker_ids_path, topics_path
from zkgroup.znodes.config import TopicConfig, topic_configs_path
from zkgroup.znodes.notifications import ConfigChange, config_changes_path

PARENTS = (
    broker_ids_path(),
    topics_path(),
    delete_topics_path(),
    topic_configs_path(),
    config_changes_path(),
    "/isr_change_notification",
)
CONTROLLER_ID = 100


@dataclass
class Host:
    """A broker as its controller sees it: the requests it got, its replicas, its answers."""

    id_: int
    incarnation: int = 0
    """czxid of its registration; 0 while it is not registered."""
    requests: list[ControlRequest] = field(default_factory=list)
    logs: set[TopicPartition] = field(default_factory=set)
    """Partitions of which it keeps records; these outlive a restart."""
    metadata: dict[TopicPartition, int] = field(default_factory=dict)
    """Partition to leader, as it reports to clients."""
    silent: bool = False
    """It takes requests and does not answer."""
    refusals: dict[TopicPartition, int] = field(default_factory=dict)
    """Errors of deletions."""
    epoch: int = 0

    def take(self, request: ControlRequest) -> Response:
        """Executes a request as a broker does; its answer."""
        self.requests.append(request)
        stale = request.controller_epoch < self.epoch
        self.epoch = max(self.epoch, request.controller_epoch)
        error = ErrorCode.STALE_CONTROLLER_EPOCH if stale else ErrorCode.NONE
        match request:
            case LeaderAndIsrRequest():
                named = [info.topic_partition for info in request.partitions]
                if not stale:
                    self.logs.update(named)
                return LeaderAndIsrResponse(error, tuple(PartitionError(*each, 0) for each in named))
            case UpdateMetadataRequest():
                if not stale:
                    self._learn(request)
                return UpdateMetadataResponse(error)
            case StopReplicaRequest():
                if request.delete and not stale:
                    self.logs.difference_update(
                        each for each in request.partitions if each not in self.refusals
                    )
                codes = self.refusals if request.delete else {}
                received = tuple(PartitionError(*each, codes.get(each, 0)) for each in request.partitions)
                return StopReplicaResponse(error, received)

    def received(self, kind: type[ControlRequest]) -> list[ControlRequest]:
        return [each for each in self.requests if isinstance(each, kind)]

    def _learn(self, request: UpdateMetadataRequest) -> None:
        for info in request.partitions:
            if info.leader == LEADER_DURING_DELETE:
                self.metadata.pop(info.topic_partition, None)
            else:
                self.metadata[info.topic_partition] = info.leader


class ControllerNode(ElectorNode):
    """A controller whose channels lead to the hosts."""

    def __init__(self, world: SteppedControllers, name: str, elector: ControllerMachine) -> None:
        self._world = world
        self.flying: list[BrokerRequest] = []
        """Requests that silent hosts have not answered."""
        super().__init__(world, name, elector)

    def notes(self, kind: str) -> list[Mapping[str, object]]:
        return [each.fields for each in self.effects if isinstance(each, LogEvent) and each.kind == kind]

    def ask_shutdown(self, request_id: int, broker: int) -> None:
        self.loop.post(ShutdownAsked(request_id, broker))

    def shutdown_answers(self) -> list[ShutdownAnswered]:
        return [each for each in self.effects if isinstance(each, ShutdownAnswered)]

    def answer_all(self) -> None:
        """Answers every request that silent hosts have kept."""
        for message in self.flying:
            self.answer(message)
        self.flying.clear()

    def lose_connection(self, broker: int) -> None:
        """Breaks the connection with all requests in flight, and connects again."""
        self.flying = [each for each in self.flying if each.broker != broker]
        incarnation = self._world.hosts[broker].incarnation
        self.loop.post(ChannelDown(broker, incarnation))
        self.loop.post(ChannelUp(broker, incarnation))

    def _perform(self, effect: ControllerEffect) -> None:
        super()._perform(effect)
        match effect:
            case OpenChannel(broker, incarnation):
                if self._world.hosts[broker].incarnation == incarnation:
                    self.loop.post(ChannelUp(broker, incarnation))
            case CloseChannel(broker):
                self.flying = [each for each in self.flying if each.broker != broker]
            case BrokerRequest(broker, incarnation):
                if self._world.hosts[broker].incarnation != incarnation:
                    return
                if self._world.hosts[broker].silent:
                    self.flying.append(effect)
                else:
                    self.answer(effect)

    def answer(self, message: BrokerRequest) -> None:
        """Lets the host execute a request, and delivers its answer."""
        response = self._world.hosts[message.broker].take(message.request)
        self.loop.post(BrokerAnswered(message.broker, message.incarnation, response))


class SteppedControllers(SteppedElectors):
    """A cluster with brokers 1, 2 and 3 by default; none of them is the controller."""

    def __init__(self, brokers: Brokers = (1, 2, 3), **settings: object) -> None:
        super().__init__()
        self.settings = ControllerSettings(**settings)  # type: ignore[arg-type]
        self.hosts: dict[int, Host] = {}
        for path in PARENTS:
            self.server.put(path)
        for id_ in brokers:
            self.start_broker(id_, run=False)
        self._controllers_made = 0

    def new_controller(self) -> ControllerNode:
        """Starts a new controller and runs everything that follows."""
        controller = self.new_elector()
        self.run()
        if not controller.is_active:
            self.advance(GRACE_AND_SPREAD_MS)
        return controller

    def new_elector(self) -> ControllerNode:
        """A new elector that has not run yet."""
        self._controllers_made += 1
        config = ElectorConfig(broker=CONTROLLER_ID + self._controllers_made)
        controller = ControllerNode(
            self, f"ruler-{self._controllers_made}", ControllerMachine(config, self.settings)
        )
        self.nodes.append(controller)
        return controller

    def crash(self, controller: ControllerNode) -> None:
        """Crashes the controller's process and expires its session at once."""
        self.nodes.remove(controller)
        controller.loop.stop()
        self.server.expire(controller.name)

    def start_broker(self, id_: int, *, is_zkgroup: bool = False, run: bool = True) -> Host:
        """Registers a broker in a session of its own; `is_zkgroup`: with the zkgroup key, which Kafka brokers
        do not have.

        run: everything that follows happens; the same holds for `stop_broker` and `mark`.
        """
        host = self.hosts.setdefault(id_, Host(id_))
        client = self.server.client(f"broker-{id_}-{len(self.server.clients)}")
        self.server.deliver(ServerStep("connect", client.name))
        assert client.session is not None
        extensions = {"zkgroup": {"role": "data"}} if is_zkgroup else {}
        registration = BrokerRegistration("h", 9000 + id_, 1, 0, extensions=extensions)
        path = BrokerRegistration.path(id_)
        self.write(Create(path, registration.encode(), True), session_id=client.session.session_id)
        host.incarnation = self.find(path).stat.czxid
        host.epoch = 0
        if run:
            self.run()
        return host

    def stop_broker(self, id_: int, *, run: bool = True) -> None:
        """Ends the session of a broker; its logs stay."""
        path = BrokerRegistration.path(id_)
        self.server.expire_session(self.find(path).stat.ephemeral_owner)
        self.hosts[id_].incarnation = 0
        self.hosts[id_].metadata.clear()
        if run:
            self.run()

    def make_topic(
        self, name: str, partitions: Mapping[int, Brokers], config: Mapping[str, str] = {}
    ) -> None:
        """Creates a topic as a tool does."""
        topic, overrides = Topic(dict(partitions)), TopicConfig(dict(config))
        self.write(
            Create(TopicConfig.path(name), overrides.encode()), Create(Topic.path(name), topic.encode())
        )

    def grow(self, name: str, partitions: Mapping[int, Brokers]) -> None:
        """Adds partitions as Kafka's tool does: writes all lists, even while another change runs."""
        path = Topic.path(name)
        znode = self.find(path)
        self.write(SetData(path, Topic(dict(partitions)).encode(), znode.stat.version))

    def mark(self, name: str, *without: int, run: bool = True) -> None:
        """Requests the deletion of the topic, without waiting for these brokers."""
        self.write(Create(TopicDeletion.path(name), TopicDeletion(without).encode()))
        if run:
            self.run()

    def configure(self, name: str, config: Mapping[str, str]) -> None:
        """Changes the overrides of a topic and sends a notification in the format of 0.8.2.2."""
        path = TopicConfig.path(name)
        data = TopicConfig(dict(config)).encode()
        self.write(
            SetData(path, data, self.find(path).stat.version),
            Create(ConfigChange.prefix(), f'"{name}"'.encode(), sequential=True),
        )

    def state(self, topic_partition: TopicPartition) -> PartitionState:
        path = PartitionState.path(topic_partition)
        return PartitionState.decode(path, self.find(path).data)

    def set_state(self, topic_partition: TopicPartition, **changes: object) -> None:
        """Writes a state as another client: the leader writes an ISR, a Kafka controller writes all of it."""
        path = PartitionState.path(topic_partition)
        znode = self.find(path)
        state = dataclasses.replace(PartitionState.decode(path, znode.data), **changes)  # type: ignore[arg-type]
        self.write(SetData(path, state.encode(), znode.stat.version))

    def below(self, path: str) -> set[str]:
        """The path and all paths below it; empty where there is no such znode."""
        return {each for each in self.server.tree() if each == path or each.startswith(f"{path}/")}

    def delete(self, path: str) -> None:
        self.write(Delete(path, self.find(path).stat.version))

    def run_until_written(self, controller: ControllerNode, writes: int) -> bool:
        """Runs until this many transactions of the controller are executed; False where it had fewer.

        The replies of the last one have not arrived. Heartbeats do not count.
        """
        for _ in range(100_000):
            steps = self.server.pending()
            for step in steps:
                if step == ServerStep("request", controller.name) and is_writing(controller):
                    writes -= 1
                self.deliver(step)
                if not writes:
                    return True
            if not steps and not sum(node.loop.run_pending() for node in self.nodes):
                return False
        raise AssertionError(f"no rest: {self.server.pending()}")


def is_writing(controller: ControllerNode) -> bool:
    """Whether the controller's next request is a transaction that changes something."""
    flight = controller.client.requests[0].request if controller.client.requests else None
    return isinstance(flight, Multi) and len(flight.operations) > 2


TWO = {0: (1, 2), 1: (2, 3)}


def loses_answer(world: SteppedControllers, controller: ControllerNode, nth: int, fault: Fault) -> bool:
    """Loses the answer of the nth write from here on and runs on; False where there are fewer writes."""
    if nth > 1 and not world.run_until_written(controller, nth - 1):
        return False
    world.run(lambda: is_writing(controller))
    if not is_writing(controller):
        return False
    world.deliver(ServerStep("request", controller.name), fault)
    world.run()
    world.advance(10_000)
    return True


def rounds(plays: Callable[..., bool], *more: object) -> int:
    """Calls a scenario with 1, 2 and so on until it returns False; how many calls returned True."""
    return next(number for number in itertools.count() if not plays(number + 1, *more))


def loaded_cluster(
    topic: Mapping[int, Brokers], brokers: Brokers = (1, 2, 3), **settings: object
) -> tuple[SteppedControllers, ControllerNode]:
    """These brokers, topic `t`, and an active controller."""
    world = SteppedControllers(brokers, **settings)
    world.make_topic("t", topic)
    return world, world.new_controller()


def two_topic_cluster(**settings: object) -> tuple[SteppedControllers, ControllerNode]:
    """Brokers 1 to 3, topics `t` (two partitions) and `u`, and an active controller."""
    world = SteppedControllers(**settings)
    world.make_topic("t", TWO, {"retention.ms": "5"})
    world.make_topic("u", {0: (1, 2, 3)})
    return world, world.new_controller()


def left_of(world: SteppedControllers, topic: str) -> set[str]:
    """Every znode that the topic still has."""
    paths = (Topic.path(topic), TopicConfig.path(topic), TopicDeletion.path(topic))
    return {each for path in paths for each in world.below(path)}


def is_gone(world: SteppedControllers, topic: str = "t") -> bool:
    """Whether nothing of a topic is left in ZooKeeper, in logs or in metadata."""
    kept = [each for host in world.hosts.values() for each in (*host.logs, *host.metadata)]
    return not left_of(world, topic) and all(each.topic != topic for each in kept)
