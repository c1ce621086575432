"""Machines of brokers on a ZooKeeper in memory, run step by step; the test plays their port and host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from tests.worlds.broker_requests import plain
from tests.worlds.stepped_machines import SteppedMachines
from tests.worlds.stores import MeddledStore
from zkgroup.broker.machine.events import (
    BecameLeader,
    BrokerEffect,
    BrokerEvent,
    BrokerMachineConfig,
    FetchesPaused,
    FollowersRead,
    MaximalIsrsSet,
    PauseFetches,
    Prepared,
    ReadFollowers,
    ResumeFetches,
    Serving,
    SetMaximalIsrs,
)
from zkgroup.broker.machine.machine import BrokerMachine
from zkgroup.broker.replica_view import Follower
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Multi
from zkgroup.runtime.events import LogEvent
from zkgroup.runtime.loop import MachineLoop
from zkgroup.testing.memory_zookeeper import Fault, ServerStep
from zkgroup.testing.memory_zookeeper.client import MemoryClient
from zkgroup.wire.control import PartitionStateInfo
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState

EffectT = TypeVar("EffectT", bound=BrokerEffect)
T0 = TopicPartition("t", 0)


class BrokerNode:
    """One broker's machine in its loop, without a thread."""

    def __init__(
        self, world: SteppedBrokers, config: BrokerMachineConfig, name: str, folder: str | None
    ) -> None:
        self.machine = BrokerMachine(config)
        self.effects: list[BrokerEffect] = []
        self.client: MemoryClient = world.server.client(name)
        self.guard = MeddledStore(self.client)
        self.followers: dict[TopicPartition, tuple[int, Mapping[int, Follower]]] = {}
        """What the host knows of followers, by partition, with the leader epoch."""
        self.followed: set[TopicPartition] = set()
        """What is fetched from leaders."""
        self.answers = True
        """Whether the host answers at once."""
        self._folder = folder
        self.loop: MachineLoop[BrokerEvent, BrokerEffect] = world.looped(
            self.machine, self.guard, self._perform, name
        )

    def _perform(self, effect: BrokerEffect) -> None:
        self.effects.append(effect)
        if isinstance(effect, Prepared):
            self.loop.post(Serving(plain("h", 9000 + effect.broker), self._folder))
        elif self.answers:
            self.answer(effect)

    def answer(self, effect: BrokerEffect) -> None:
        """Answers a request as the host would."""
        match effect:
            case ReadFollowers(partitions):
                seen = {tp: self.followers[tp] for tp in partitions if tp in self.followers}
                self.loop.post(FollowersRead(partitions, seen))
            case PauseFetches():
                self.loop.post(FetchesPaused(frozenset(self.followed)))
                self.followed.clear()
            case ResumeFetches(partitions):
                self.followed.update(partitions)
            case SetMaximalIsrs(batch) if batch is not None:
                self.loop.post(MaximalIsrsSet(batch))

    def emitted(self, kind: type[EffectT]) -> list[EffectT]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def notes(self, kind: str) -> list[LogEvent]:
        return [note for note in self.emitted(LogEvent) if note.kind == kind]


class SteppedBrokers(SteppedMachines[BrokerNode]):
    """A server, a clock and brokers."""

    def node(
        self, broker: int | None = 1, *, name: str | None = None, folder: str | None = None, **config: object
    ) -> BrokerNode:
        made = BrokerMachineConfig(broker=broker, new_cluster_id=bytes(16), **config)  # type: ignore[arg-type]
        node = BrokerNode(self, made, name or f"n{len(self.nodes)}", folder)
        self.nodes.append(node)
        return node

    def until_asked(self, node: BrokerNode, path: str) -> None:
        """Runs until the server is about to execute this node's transaction about this path."""
        self.run(lambda: self._asks(node, path))
        assert self._asks(node, path), f"{node.client.name} never asked about {path}"

    def _asks(self, node: BrokerNode, path: str) -> bool:
        flight = node.client.requests[0].request if node.client.requests else None
        return isinstance(flight, Multi) and any(op.path.startswith(path) for op in flight.operations)

    def lose(self, node: BrokerNode, fault: Fault) -> None:
        """Sets the fault for the node's next request."""
        self.deliver(ServerStep("request", node.client.name), fault)

    def registration(self, broker: int) -> BrokerRegistration:
        path = BrokerRegistration.path(broker)
        return BrokerRegistration.decode(path, self.find(path).data)

    def lead(
        self,
        node: BrokerNode,
        *,
        isr: tuple[int, ...],
        replicas: tuple[int, ...] = (1, 2, 3),
        epoch: int = 0,
        extensions: Mapping[str, object] | None = None,
    ) -> None:
        """Makes the node leader of `T0` as the controller does: writes the state and sends LeaderAndIsr."""
        path = PartitionState.path(T0)
        state = PartitionState(1, epoch, isr, 1, extensions or {})
        self.server.put(path, state.encode())
        version = self.find(path).stat.version
        node.loop.post(BecameLeader(PartitionStateInfo("t", 0, 1, 1, epoch, isr, version, replicas)))
        self.run()

    def state(self) -> PartitionState:
        path = PartitionState.path(T0)
        return PartitionState.decode(path, self.find(path).data)


def alone(broker: int | None = 1, **config: object) -> tuple[SteppedBrokers, BrokerNode]:
    """A world with one broker that has nothing left to do."""
    world = SteppedBrokers()
    node = world.node(broker, **config)  # type: ignore[arg-type]
    world.run()
    return world, node
