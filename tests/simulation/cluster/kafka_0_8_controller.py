"""A model of the controller in a Kafka 0.8.2.2 broker, as far as it affects zkgroup.

Source: controller.md 2, 3, 5.

It writes and sends without a fence. One thread handles events one at a time; each broker has a queue of
requests, of which one is in flight.

Source of the queues: controller.md 7; kafka/controller/ControllerChannelManager.scala@0.8.2.2.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from tests.simulation.cluster.environment import ClusterEnvironment
from tests.simulation.cluster.network import (
    SendingController,
    SimulatedConnection,
    SimulatedNetwork,
)
from zkgroup.controller.machine.events import ControlRequest
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.ports import Store
from zkgroup.model.requests import (
    Code,
    Connected,
    Create,
    Delete,
    ListChildren,
    ListChildrenDone,
    Lost,
    Multi,
    MultiDone,
    MultiRefused,
    NotSent,
    Operation,
    Outcome,
    Read,
    ReadDone,
    Request,
    SessionEvent,
    SetData,
    Suspended,
    Unanswered,
)
from zkgroup.testing.memory_zookeeper.client import MemoryClient
from zkgroup.wire.control import (
    BrokerEndPoint,
    LeaderAndIsrRequest,
    PartitionStateInfo,
    UpdateMetadataBroker,
    UpdateMetadataRequest,
)
from zkgroup.wire.messages import Response
from zkgroup.znodes.brokers import NO_LEADER, PartitionState, Topic, broker_ids_path, topics_path
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration


class Kafka08Channels:
    """The channels of one controller; every response counts as success."""

    def __init__(self, network: SimulatedNetwork, owner: SendingController) -> None:
        self._network = network
        self._owner = owner
        self._queues: dict[int, deque[ControlRequest]] = {}
        self._opened: dict[int, int] = {}
        self._up: set[int] = set()
        self._flying: dict[int, ControlRequest] = {}

    def close_all(self) -> None:
        self._queues.clear()
        self._opened.clear()
        self._up.clear()
        self._flying.clear()
        self._network.close_all(self._owner)

    def follow(self, live: Mapping[int, int]) -> None:
        """live: broker to the czxid of its registration."""
        for broker in self._opened.keys() - live.keys():
            self._network.close(self._owner, broker, self._opened[broker])
            self._up.discard(broker)
            self._queues.pop(broker, None)
            self._flying.pop(broker, None)
        self._opened = {broker: at for broker, at in self._opened.items() if broker in live}
        for broker, czxid in live.items():
            if broker not in self._opened:  # a broker that came back unnoticed keeps its connection (K7)
                self._opened[broker] = czxid
                self._network.open(self._owner, broker, czxid)

    def send(self, broker: int, request: ControlRequest) -> None:
        self._queues.setdefault(broker, deque()).append(request)
        self._flush(broker)

    def connected(self, connection: SimulatedConnection) -> None:
        connection.seen_number = connection.number
        self._up.add(connection.broker)
        if connection.broker in self._flying:
            self._network.send(
                self._owner, connection.broker, connection.incarnation, self._flying[connection.broker]
            )
        else:
            self._flush(connection.broker)

    def disconnected(self, connection: SimulatedConnection) -> None:
        self._up.discard(connection.broker)

    def answered(self, connection: SimulatedConnection) -> None:
        self._flying.pop(connection.broker, None)
        self._flush(connection.broker)

    def _flush(self, broker: int) -> None:
        queue = self._queues.get(broker)
        if broker in self._up and broker not in self._flying and queue:
            self._flying[broker] = queue.popleft()
            self._network.send(self._owner, broker, self._opened[broker], self._flying[broker])


Brokers = tuple[int, ...]


@dataclass
class Kafka08Cluster:
    """The controller's cached state of the cluster."""

    live: dict[int, int] = field(default_factory=dict)
    """Broker to the czxid of its registration."""
    topics: dict[str, dict[int, Brokers]] = field(default_factory=dict)
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    versions: dict[TopicPartition, int] = field(default_factory=dict)

    def partitions(self) -> Iterator[TopicPartition]:
        for name, lists in sorted(self.topics.items()):
            for number in sorted(lists):
                yield TopicPartition(name, number)

    def replicas(self, tp: TopicPartition) -> Brokers:
        return self.topics.get(tp.topic, {}).get(tp.partition, ())


def first_state(replicas: Brokers, live: Collection[int], epoch: int) -> PartitionState | None:
    """The first live replica leads, all live ones are in sync; None where none lives."""
    able = tuple(each for each in replicas if each in live)
    return PartitionState(able[0], 0, able, epoch) if able else None


def newly_led(
    state: PartitionState, replicas: Sequence[int], live: Collection[int], epoch: int
) -> PartitionState | None:
    """Offline selector, unclean election disabled."""
    if state.leader in live:
        return None
    in_sync = tuple(each for each in state.isr if each in live)
    leader = next((each for each in replicas if each in in_sync), None)
    if leader is None:
        return None
    return dataclasses.replace(
        state, leader=leader, isr=in_sync, leader_epoch=state.leader_epoch + 1, controller_epoch=epoch
    )


def without(state: PartitionState, broker: int, epoch: int) -> PartitionState | None:
    """The broker leaves the ISR; the last one stays, as unclean election is disabled (3.4)."""
    if broker not in state.isr:
        return None
    left = tuple(each for each in state.isr if each != broker) or state.isr
    leader = NO_LEADER if state.leader == broker else state.leader
    return dataclasses.replace(
        state, leader=leader, isr=left, leader_epoch=state.leader_epoch + 1, controller_epoch=epoch
    )


def requests_of(
    cluster: Kafka08Cluster,
    controller: int,
    epoch: int,
    partitions: Iterable[TopicPartition],
    to: Collection[int],
) -> Iterator[tuple[int, LeaderAndIsrRequest]]:
    """LeaderAndIsr to each of these brokers, of what it replicates."""
    asked = list(partitions)
    for broker in sorted(to):
        infos = tuple(_infos(cluster, [tp for tp in asked if broker in cluster.replicas(tp)]))
        if infos and broker in cluster.live:
            leaders = tuple(
                _address(each) for each in sorted({i.leader for i in infos}) if each in cluster.live
            )
            yield broker, LeaderAndIsrRequest(controller, epoch, infos, leaders)


def metadata_of(
    cluster: Kafka08Cluster, controller: int, epoch: int, partitions: Iterable[TopicPartition]
) -> UpdateMetadataRequest:
    """UpdateMetadata of these partitions, with the live brokers."""
    live = tuple(UpdateMetadataBroker(each, f"h{each}", 9092) for each in sorted(cluster.live))
    return UpdateMetadataRequest(controller, epoch, tuple(_infos(cluster, partitions)), live)


def _infos(cluster: Kafka08Cluster, partitions: Iterable[TopicPartition]) -> Iterator[PartitionStateInfo]:
    for tp in partitions:
        state = cluster.states.get(tp)
        if state is not None:
            yield PartitionStateInfo.of(tp, state, cluster.versions[tp], cluster.replicas(tp))


def _address(broker: int) -> BrokerEndPoint:
    return BrokerEndPoint(broker, f"h{broker}", 9092)


Calls = Generator[Request, Any, Any]
"""A procedure that yields requests to ZooKeeper, and is sent their outcomes."""


class MovedError(Exception):
    """Stands for `ControllerMovedException` and all other errors of a failover."""


class Kafka08Thread:
    """The controller's thread. `begin` returns the procedure for an event, or None."""

    def __init__(self, store: Store, begin: Callable[[str], Calls | None]) -> None:
        self.events: deque[str] = deque(["elect"])
        self._store = store
        self._begin = begin
        self._calls: Calls | None = None
        self._waiting: Request | None = None
        """The call to make next, or to repeat."""
        self._asked = False
        self._incarnation = 0
        self._stop_listening = store.listen(self._heard)

    def is_writing(self, path: str) -> bool:
        """Whether its next call, not made yet, changes this znode."""
        request = self._waiting
        return isinstance(request, Multi) and not self._asked and request.operations[0].path == path

    def stop(self) -> None:
        """The process is gone."""
        self._stop_listening()
        self._calls = self._waiting = None
        self.events.clear()

    def _heard(self, event: SessionEvent) -> None:
        match event:
            case Connected(session):
                is_new = self._incarnation not in (0, session.incarnation)
                self._incarnation = session.incarnation
                self._asked = False
                self.events.append("expired" if is_new else "reconnected")
            case Suspended() | Lost():
                self._asked = False

    def _watch(self, event: str) -> Callable[[str], None]:
        return lambda path: self.events.append(event)

    def choices(self) -> list[Callable[[], object]]:
        """Possible next steps: make its call (again), or handle the next event."""
        if self._waiting is not None and not self._asked:
            return [self._call]
        if self._calls is None and self.events:
            return [self._take]
        return []

    def _take(self) -> None:
        calls = self._begin(self.events.popleft())
        if calls is not None:
            self._calls = calls
            self._go_on(None)

    def _go_on(self, outcome: Outcome | None) -> None:
        calls = self._calls
        if calls is None:
            return
        try:
            self._waiting = next(calls) if outcome is None else calls.send(outcome)
            self._asked = False
        except (StopIteration, MovedError):  # an error of an event ends that event alone
            self._calls = self._waiting = None

    def _call(self) -> None:
        """Makes the call in the present session: a client of that time repeats a call in a new one."""
        request = self._waiting
        assert request is not None
        self._asked = True
        path = getattr(request, "path", "")

        def on_outcome(outcome: Outcome) -> None:
            if self._waiting is not request or not self._asked:
                return
            if isinstance(outcome, Unanswered | NotSent):
                self._asked = False
                return
            self._go_on(outcome)

        self._store.submit(
            request,
            incarnation=self._incarnation,
            on_outcome=on_outcome,
            on_watch=self._watch(_event_of(path)) if getattr(request, "watch", False) else None,
        )


def read(path: str, *, watch: bool = False) -> Calls:
    """The znode, or None."""
    outcome = yield Read(path, watch=watch)
    return outcome.znode if isinstance(outcome, ReadDone) else None


def children(path: str) -> Calls:
    """Names of the children, under a watch; none where there is no such znode."""
    outcome = yield ListChildren(path, watch=True)
    return outcome.children if isinstance(outcome, ListChildrenDone) else ()


def write(operation: Operation) -> Calls:
    """`MultiDone`, or `MultiRefused`."""
    outcome = yield Multi((operation,))
    return outcome if isinstance(outcome, MultiDone) else _refused(outcome)


def _refused(outcome: Outcome) -> MultiRefused:
    return outcome if isinstance(outcome, MultiRefused) else MultiRefused(0, Code.NO_NODE)


def _event_of(path: str) -> str:
    if path == ControllerRegistration.path():
        return "controller"
    return "brokers" if path == broker_ids_path() else "topics"


ANY_VERSION: Final = -1


class Kafka08Controller:
    """One controller of Kafka, on the session of its broker."""

    is_alone = False

    def __init__(
        self, world: ClusterEnvironment, broker: int, name: str, store: Store, client: MemoryClient
    ) -> None:
        self.broker, self.name, self.client = broker, name, client
        self.is_active = False
        self.epoch = 0
        self.epochs: list[int] = []
        self.may_elect = True
        self.cluster = Kafka08Cluster()
        self._world = world
        self._thread = Kafka08Thread(store, self._begin)
        self._channels = Kafka08Channels(world.network, self)

    def is_writing(self, path: str) -> bool:
        """Whether its next call, not made yet, changes this znode."""
        return self._thread.is_writing(path)

    def stop(self) -> None:
        """The process is gone."""
        self._thread.stop()
        self.may_elect = False
        self._channels.close_all()

    def leave_election(self) -> None:
        """Takes part in no further election. A Kafka broker cannot be asked to: its process is stopped."""
        self.may_elect = False

    def choices(self) -> list[Callable[[], object]]:
        """Possible next steps: make its call (again), or handle the next event."""
        return self._thread.choices() if self.may_elect or self.is_active else []

    def step(self) -> bool:
        """Performs one step, if one is possible."""
        found = self.choices()
        if found:
            found[0]()
        return bool(found)

    def _begin(self, event: str) -> Calls | None:
        match event:
            case "elect" | "reconnected":
                return self._check_controller() if event == "elect" or not self.is_active else self._rearm()
            case "expired":
                self._resign()
                return self._check_controller()
            case "controller":
                return self._controller_changed()
            case _:
                return self._changed(event) if self.is_active else None

    def _check_controller(self) -> Calls:
        """Elects where `/controller` does not exist; otherwise waits for its watch."""
        found = yield from read(ControllerRegistration.path(), watch=True)
        if found is None and self.may_elect:
            yield from self._elect()

    def _controller_changed(self) -> Calls:
        found = yield from read(ControllerRegistration.path(), watch=True)
        if found is None:
            self._resign()
            if self.may_elect:
                yield from self._elect()
        # else: another controller's, or still its own. It remembers the id and stays active (K1).

    def _elect(self) -> Calls:
        data = ControllerRegistration(self.broker, self._world.clock.wall_ms()).encode()
        made = yield from write(Create(ControllerRegistration.path(), data, ephemeral=True))
        if isinstance(made, MultiRefused):
            found = yield from read(ControllerRegistration.path(), watch=True)
            if found is None or found.data != data:
                return  # another controller's; an own create with a lost response is recognised by its text
        try:
            yield from self._fail_over()
        except MovedError:
            self._resign()
            yield from write(
                Delete(ControllerRegistration.path(), ANY_VERSION)
            )  # even if another controller owns it (K2)

    def _fail_over(self) -> Calls:
        found = yield from read(ControllerEpoch.path())
        if found is None:
            self.epoch = 1
            answer = yield from write(Create(ControllerEpoch.path(), ControllerEpoch(1).encode()))
        else:
            self.epoch = ControllerEpoch.decode(found.path, found.data).epoch + 1
            data = ControllerEpoch(self.epoch).encode()
            answer = yield from write(SetData(ControllerEpoch.path(), data, found.stat.version))
        if isinstance(answer, MultiRefused):
            raise MovedError
        self.is_active = True
        self.epochs.append(self.epoch)
        self.cluster = Kafka08Cluster()
        yield from self._load()

    def _rearm(self) -> Calls:
        """Sets the watches again, and handles changes since."""
        yield from read(ControllerRegistration.path(), watch=True)
        self._thread.events.extend(("brokers", "topics"))

    def _resign(self) -> None:
        self.is_active = False
        self._channels.close_all()

    def _load(self) -> Calls:
        yield from self._read_brokers()
        yield from self._read_topics()
        for tp in self.cluster.partitions():
            yield from self._read_state(tp)
        every = list(self.cluster.partitions())
        self.send_states(every, self.cluster.live)
        yield from self._elect_leaderless()
        self._send_all(metadata_of(self.cluster, self.broker, self.epoch, every))

    def _changed(self, event: str) -> Calls:
        if event == "brokers":
            yield from self._brokers_changed()
        elif event == "topics":
            before = set(self.cluster.partitions())
            yield from self._read_topics()
            for tp in sorted(set(self.cluster.partitions()) - before):
                yield from self._create_state(tp)

    def _brokers_changed(self) -> Calls:
        before = dict(self.cluster.live)
        yield from self._read_brokers()
        live = self.cluster.live
        dead, new = before.keys() - live.keys(), live.keys() - before.keys()
        yield from self._elect_leaderless()
        for tp, state in sorted(self.cluster.states.items()):
            for broker in sorted(dead & set(state.isr)):
                yield from self._change(tp, partial(without, broker=broker, epoch=self.epoch))
        every = list(self.cluster.partitions())
        if new:
            self.send_states([tp for tp in every if new & set(self.cluster.replicas(tp))], new)
            for tp in every:
                if tp not in self.cluster.states:
                    yield from self._create_state(tp)
        self._send_all(metadata_of(self.cluster, self.broker, self.epoch, every))

    def _elect_leaderless(self) -> Calls:
        for tp in list(self.cluster.partitions()):
            state = self.cluster.states.get(tp)
            if state is None:
                yield from self._create_state(tp)
            elif state.leader not in self.cluster.live:
                decide = partial(
                    newly_led, replicas=self.cluster.replicas(tp), live=self.cluster.live, epoch=self.epoch
                )
                yield from self._change(tp, decide)

    def _change(self, tp: TopicPartition, decide: Callable[[PartitionState], PartitionState | None]) -> Calls:
        """Reads the state, skips one of a newer controller (fence F3), decides, writes at the version
        read."""
        path = PartitionState.path(tp)
        while True:
            found = yield from self._read_state(tp)
            state = self.cluster.states.get(tp)
            if found is None or state is None or state.controller_epoch > self.epoch:
                return
            wanted = decide(state)
            if wanted is None:
                return
            answer = yield from write(SetData(path, wanted.encode(), found.stat.version))
            if isinstance(answer, MultiDone):
                self.cluster.states[tp] = wanted
                self.cluster.versions[tp] = found.stat.version + 1
                self.send_states([tp], self.cluster.live)
                return
            if answer.code is not Code.BAD_VERSION:
                return

    def _create_state(self, tp: TopicPartition) -> Calls:
        state = first_state(self.cluster.replicas(tp), self.cluster.live, self.epoch)
        if state is None:
            return
        for parent in (Topic.partitions_path(tp.topic), Topic.partition_path(tp)):
            yield from write(Create(parent, None))
        answer = yield from write(Create(PartitionState.path(tp), state.encode()))
        if isinstance(answer, MultiDone):
            self.cluster.states[tp], self.cluster.versions[tp] = state, 0
            self.send_states([tp], self.cluster.live)

    def _read_brokers(self) -> Calls:
        live = {}
        for name in (yield from children(broker_ids_path())):
            found = yield from read(f"{broker_ids_path()}/{name}")
            if found is not None and name.isdigit():
                live[int(name)] = found.stat.czxid
        self.cluster.live = live
        self._channels.follow(live)

    def _read_topics(self) -> Calls:
        lists: dict[str, dict[int, tuple[int, ...]]] = {}
        for name in (yield from children(topics_path())):
            found = yield from read(Topic.path(name), watch=True)
            if found is not None:
                try:
                    lists[name] = dict(Topic.decode(found.path, found.data).partitions)
                except CorruptZnodeError:
                    continue
        self.cluster.topics = lists

    def _read_state(self, tp: TopicPartition) -> Calls:
        found: Znode | None = yield from read(PartitionState.path(tp))
        if found is not None:
            try:
                self.cluster.states[tp] = PartitionState.decode(found.path, found.data)
            except CorruptZnodeError as error:
                raise MovedError from error
            self.cluster.versions[tp] = found.stat.version
        return found

    def send_states(self, partitions: list[TopicPartition], brokers: Any) -> None:
        for broker, request in requests_of(self.cluster, self.broker, self.epoch, partitions, brokers):
            self._channels.send(broker, request)
        self._send_all(metadata_of(self.cluster, self.broker, self.epoch, partitions))

    def _send_all(self, request: ControlRequest) -> None:
        for broker in sorted(self.cluster.live):
            self._channels.send(broker, request)

    def connected(self, connection: SimulatedConnection) -> None:
        self._channels.connected(connection)

    def disconnected(self, connection: SimulatedConnection) -> None:
        self._channels.disconnected(connection)

    def answered(self, connection: SimulatedConnection, response: Response) -> None:
        self._channels.answered(connection)
