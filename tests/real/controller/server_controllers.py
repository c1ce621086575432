"""An active controller on a real server, over brokers that record their requests and answer at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from tests.waiting import PATIENCE_S, eventually, happened
from tests.worlds.stepped_controllers import Host
from tests.worlds.stores import Before, MeddledStore
from zkgroup.controller.machine.context import Brokers
from zkgroup.controller.machine.events import (
    BrokerAnswered,
    BrokerRequest,
    ChannelUp,
    ControllerEffect,
    ControllerEvent,
    Elected,
    OpenChannel,
)
from zkgroup.controller.machine.machine import ControllerMachine
from zkgroup.controller.machine.settings import ControllerSettings, ElectorConfig
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import (
    Create,
    CreateMissing,
    CreateMissingDone,
    Delete,
    ListChildren,
    ListChildrenDone,
    Operation,
    Read,
    ReadDone,
    SetData,
)
from zkgroup.runtime.events import LogEvent
from zkgroup.runtime.loop import MachineLoop
from zkgroup.testing.conformance import Caller
from zkgroup.wire.control import LeaderAndIsrRequest, UpdateMetadataRequest
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic, broker_ids_path, topics_path
from zkgroup.znodes.notifications import isr_changes_path
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.client import SystemClock

PARENTS = ("/brokers", broker_ids_path(), topics_path(), isr_changes_path())


class ElectorThread:
    """An elector in its own thread, on its own connection."""

    def __init__(
        self, address: str, connection: ClientSettings, elector: ControllerMachine, before: Before | None
    ) -> None:
        """before: called before each request is sent."""
        self.machine = elector
        self.effects: list[ControllerEffect] = []
        self.crashed: list[BaseException] = []
        self.client = MeddledStore(ZooKeeperClient(address, connection), before or (lambda request: None))
        self.loop: MachineLoop[ControllerEvent, ControllerEffect] = MachineLoop(
            elector,
            self.client,
            SystemClock(),
            perform=self.perform,
            after_step=lambda: None,
            on_crash=self.crashed.append,
            name=f"candidate-{elector.core.config.broker}",
        )

    def perform(self, effect: ControllerEffect) -> None:
        self.effects.append(effect)

    def start(self) -> None:
        self.loop.listen()
        self.loop.start()

    def close(self) -> None:
        self.loop.post(self.loop.stop)
        assert self.loop.join(PATIENCE_S)
        self.client.close()
        assert not self.crashed

    def ask(self, question: Callable[[], bool]) -> bool:
        """Calls a function in the machine's thread; its result."""
        answer: list[bool] = []
        done = threading.Event()

        def look() -> None:
            answer.append(question())
            done.set()

        self.loop.post(look)
        happened(done)
        return answer[0]

    @property
    def elections(self) -> list[Elected]:
        return [each for each in self.effects if isinstance(each, Elected)]


class RunningController(ElectorThread):
    """An elector whose channels lead to the hosts of a cluster."""

    def __init__(self, cluster: ServerControllers, broker: int, before: Before | None) -> None:
        self._cluster = cluster
        self.broker = broker
        config = ElectorConfig(broker=broker, takeover_grace_ms=300)
        super().__init__(
            cluster.address, cluster.connection, ControllerMachine(config, cluster.settings), before
        )
        self.start()

    def notes(self, kind: str) -> list[Mapping[str, object]]:
        return [each.fields for each in self.effects if isinstance(each, LogEvent) and each.kind == kind]

    def await_loaded(self) -> None:
        eventually(lambda: self.notes("controller.loaded"))

    def at_rest(self) -> bool:
        """Whether no event is queued and every broker has answered."""

        def rests() -> bool:
            active, idle = self.machine.active, self.machine.is_idle
            return (
                idle
                and active is not None
                and not len(active.parts.events.queue)
                and not any(map(len, active.parts.requests.queues._send_queues.values()))
            )

        return self.ask(rests)

    def waiting(self) -> dict[str, str]:
        """The blocked events and the reason of each; empty while it is not the active controller."""
        active = self.machine.active
        return {} if active is None else dict(active.parts.events.blocked)

    def perform(self, effect: ControllerEffect) -> None:
        super().perform(effect)
        match effect:
            case OpenChannel(broker, incarnation):
                self.loop.post(ChannelUp(broker, incarnation))
            case BrokerRequest(broker, incarnation, request):
                response = self._cluster.hosts[broker].take(request)
                self.loop.post(BrokerAnswered(broker, incarnation, response))
            case _:
                pass


class ServerControllers:
    """Brokers, topics and controllers on one server, and another client that reads and writes past them."""

    def __init__(
        self,
        address: str,
        witness: Caller,
        settings: ControllerSettings | None = None,
        connection: ClientSettings | None = None,
    ) -> None:
        """settings, connection: those of its controllers."""
        self.address, self.witness, self.settings = address, witness, settings or ControllerSettings()
        self.connection = connection or ClientSettings(session_timeout_ms=20_000)
        self.hosts: dict[int, Host] = {}
        self.controllers: list[RunningController] = []
        witness.ask(CreateMissing(PARENTS), CreateMissingDone)

    def close(self) -> None:
        for controller in self.controllers:
            controller.close()

    def new_elector(self, broker: int = 100, before: Before | None = None) -> RunningController:
        """Starts a new elector."""
        controller = RunningController(self, broker, before)
        self.controllers.append(controller)
        return controller

    def new_controller(self, broker: int = 100, before: Before | None = None) -> RunningController:
        """A new elector that has been elected and has loaded the cluster."""
        controller = self.new_elector(broker, before)
        controller.await_loaded()
        return controller

    def start_broker(self, *brokers: int) -> None:
        """Registers brokers in the session of the witness, which lasts."""
        for id_ in brokers:
            self.hosts.setdefault(id_, Host(id_))
            data = BrokerRegistration("h", 9000 + id_, 1, 0).encode()
            self.witness.write(Create(BrokerRegistration.path(id_), data, ephemeral=True))

    def stop_broker(self, broker: int) -> None:
        self.witness.write(Delete(BrokerRegistration.path(broker), 0))

    def bounce(self, broker: int) -> None:
        """Deletes and creates a registration in one transaction, so that no client sees it missing."""
        path = BrokerRegistration.path(broker)
        data = BrokerRegistration("h", 9000 + broker, 1, 0).encode()
        self.witness.write(Delete(path, 0), Create(path, data, ephemeral=True))

    def write(self, *operations: Operation) -> None:
        self.witness.write(*operations)

    def make_topic(self, name: str, partitions: Mapping[int, Brokers]) -> None:
        self.write(Create(Topic.path(name), Topic(dict(partitions)).encode()))

    def find(self, path: str) -> Znode | None:
        self.witness.catch_up()
        return self.witness.ask(Read(path), ReadDone).znode

    def children(self, path: str) -> tuple[str, ...]:
        self.witness.catch_up()
        return self.witness.ask(ListChildren(path), ListChildrenDone).children

    def state(self, topic_partition: TopicPartition) -> PartitionState | None:
        path = PartitionState.path(topic_partition)
        znode = self.find(path)
        return None if znode is None else PartitionState.decode(path, znode.data)

    def await_state(self, topic_partition: TopicPartition, *, leader: int) -> PartitionState:
        """The state, once this broker leads."""
        found: list[PartitionState] = []

        def leads() -> bool:
            state = self.state(topic_partition)
            if state is not None and state.leader == leader:
                found.append(state)
            return bool(found)

        eventually(leads)
        return found[0]

    def set_isr(self, topic_partition: TopicPartition, isr: Brokers) -> None:
        """Writes another ISR as the partition's leader does: the epochs stay the same."""
        path = PartitionState.path(topic_partition)
        znode = self.find(path)
        assert znode is not None
        state = PartitionState.decode(path, znode.data)
        changed = PartitionState(state.leader, state.leader_epoch, isr, state.controller_epoch)
        self.write(SetData(path, changed.encode(), znode.stat.version))

    def forget_words(self) -> None:
        for host in self.hosts.values():
            host.requests.clear()

    def live_lists(self, broker: int) -> list[set[int]]:
        """The live brokers in each UpdateMetadata that the broker received."""
        return [
            {each.broker for each in request.brokers}
            for request in tuple(self.hosts[broker].requests)
            if isinstance(request, UpdateMetadataRequest)
        ]

    def isrs(self, broker: int, topic_partition: TopicPartition) -> list[Brokers]:
        """The ISRs of the partition in each UpdateMetadata that the broker received."""
        return [
            info.isr
            for request in tuple(self.hosts[broker].requests)
            if isinstance(request, UpdateMetadataRequest)
            for info in request.partitions
            if info.topic_partition == topic_partition
        ]

    def roles(self, broker: int) -> dict[TopicPartition, tuple[int, int, int]]:
        """Leader, leader epoch and znode version by partition, from the last LeaderAndIsr that named it."""
        return {
            info.topic_partition: (info.leader, info.leader_epoch, info.zk_version)
            for request in tuple(self.hosts[broker].requests)
            if isinstance(request, LeaderAndIsrRequest)
            for info in request.partitions
        }
