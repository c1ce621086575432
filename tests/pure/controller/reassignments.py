"""Whole controllers, brokers and moves on a ZooKeeper in memory, step by step, with numbered points.

A point is passed whenever a transaction of a controller was executed, and whenever a broker has obeyed a
request; a controller can be killed at any of them, before it knows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Literal

from tests.pure.controller.replicas import Brokers, Replicas
from tests.worlds.stepped_electors import ElectorNode, SteppedElectors
from zkgroup.controller.machine.active import ActiveController
from zkgroup.controller.machine.events import (
    BrokerAnswered,
    BrokerRequest,
    ChannelUp,
    OpenChannel,
)
from zkgroup.controller.machine.settings import ControllerSettings
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Multi, Operation, SetData
from zkgroup.testing.memory_zookeeper import ServerStep
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.reassignment_records import FinishedReassignment, finished_reassignments_path

HEAD = 2
"""Operations of a transaction that are checks of the fence: a heartbeat has no others."""


class Cluster:
    """Brokers, electors, and what is on the way between them."""

    def __init__(self, ids: Brokers = (1, 2, 3), version: int = 4) -> None:
        self.world = SteppedElectors()
        self.replicas = Replicas(self.world, ids, version)
        self.world.server.put("/admin")
        self.wires: deque[tuple[ElectorNode, BrokerRequest]] = deque()
        self.keeps: Callable[[BrokerRequest], bool] = lambda message: False
        """Which requests do not arrive for now."""
        self.kept: list[tuple[ElectorNode, BrokerRequest]] = []
        self.points = 0
        self.kill_at: set[int] = set()
        self.written = 0
        """Transactions of controllers that were executed."""
        self.lose: dict[int, Literal["answer", "connection"]] = {}
        """Number of a transaction to what is lost with it."""
        self.on_point: Callable[[str], None] = lambda what: None
        self.said: list[str] = []
        """What each point was, in order."""
        self._seen: dict[str, int] = {}
        self._candidates = 100

    def elector(self) -> ElectorNode:
        """Another controller; with ids from 101 on it hosts nothing."""
        self._candidates += 1
        return self.world.node(self._candidates, work=ControllerSettings(auto_rebalance=False))

    def kill(self, node: ElectorNode) -> None:
        """The process is gone, and its session at once; what it had sent may still arrive."""
        self.world.nodes.remove(node)
        self.world.server.expire(node.name)

    @property
    def controller(self) -> ElectorNode:
        (node,) = self.world.active_nodes
        return node

    @property
    def active(self) -> ActiveController:
        """Of the active controller."""
        return self.controller.active

    def request(self, targets: Mapping[TopicPartition, Brokers]) -> None:
        """A tool asks; the replica floor is what the smaller list of each has."""
        for each, target in targets.items():
            now = self.replicas.lists(each.topic).partitions.get(each.partition, target)
            self.replicas.floors[each] = min(len(now), len(target))
        moves = tuple(Move(each, target) for each, target in targets.items())
        self.world.write(Create(Reassignment.path(), Reassignment(moves).encode()))

    def change(self, targets: Mapping[TopicPartition, Brokers]) -> None:
        """A zkgroup tool changes the running request, as it is now."""
        found = self.world.find(Reassignment.path())
        now = dict(Reassignment.decode("", found.data).targets) | dict(targets)
        for each, target in targets.items():
            self.replicas.floors[each] = min(self.replicas.floors.get(each, 1), len(target))
        moves = tuple(Move(each, target) for each, target in now.items())
        self.world.write(SetData(Reassignment.path(), Reassignment(moves).encode(), found.stat.version))

    @property
    def records(self) -> list[FinishedReassignment]:
        """How moves have ended, in order."""
        prefix = f"{finished_reassignments_path()}/"
        tree = self.world.server.tree()
        return [
            FinishedReassignment.decode(path, tree[path].data)
            for path in sorted(tree)
            if path.startswith(prefix)
        ]

    def run(self, until: Callable[[], object] = lambda: False, limit_ms: int = 60_000) -> None:
        """Everything that happens, in turns; where nothing does time passes, and at most so much."""
        end_ms = self.world.clock.now_ms() + limit_ms
        while not until():
            if self._turn():
                continue
            if self.world.clock.now_ms() >= end_ms:
                return
            self.world.clock.advance(250)
            self._pump()

    def until_asked(self, node: ElectorNode, is_it: Callable[[Operation], bool]) -> None:
        """Everything up to the moment before the node's transaction with such an operation is executed."""

        def flight() -> bool:
            request = node.client.requests[0].request if node.client.requests else None
            return isinstance(request, Multi) and any(map(is_it, request.operations))

        while not flight():
            if steps := self.world.server.pending():
                self._deliver(steps[0])
                self._pump()
            else:
                assert self._turn(), "it is never asked"

    def rest(self) -> None:
        """Everything that happens without time passing."""
        while self._turn():
            pass

    def _turn(self) -> bool:
        """One round of all nodes; whether anything happened."""
        steps = self.world.server.pending()
        for step in steps:
            self._deliver(step)
        did = self._pump() or bool(steps)
        if self.wires:
            self._arrive(*self.wires.popleft())
            return True
        return did or self.replicas.work()

    def _deliver(self, step: ServerStep) -> None:
        node = next((each for each in self.world.nodes if each.name == step.client), None)
        flight = node.client.requests[0].request if node and node.client.requests else None
        is_write = isinstance(flight, Multi) and len(flight.operations) > HEAD and step.kind == "request"
        lost = self.lose.get(self.written + 1) if is_write else None
        before = len(self.world.server.log)
        if lost == "connection" and node is not None:
            self.world.server.cut(node.name, executed=1)
            node.loop.run_pending()
        else:
            self.world.deliver(step, "lost_reply" if lost == "answer" else None)
        self.replicas.judge_writes()
        if (
            node is not None
            and isinstance(flight, Multi)
            and is_write
            and len(self.world.server.log) > before
        ):
            self.written += 1
            self._point(node, f"{node.name} wrote {flight.operations[-1].path}")

    def _arrive(self, node: ElectorNode, message: BrokerRequest) -> None:
        """A broker obeys; the answer of one that is gone goes nowhere."""
        host = self.replicas.hosts[message.broker]
        if host.incarnation != message.incarnation:
            return
        response = self.replicas.obey(message.broker, message.request)
        self.replicas.judge()
        self._point(node, f"{message.broker} obeyed {type(message.request).__name__}")
        if node in self.world.nodes:
            node.loop.post(BrokerAnswered(message.broker, message.incarnation, response))

    def _point(self, node: ElectorNode, what: str) -> None:
        self.points += 1
        self.said.append(what)
        if self.points in self.kill_at and node in self.world.nodes:
            self.kill(node)
        self.on_point(what)

    def _pump(self) -> bool:
        """What the machines have ordered goes on its way."""
        did = False
        for node in self.world.nodes:
            did |= bool(node.loop.run_pending())
            effects = node.effects[self._seen.get(node.name, 0) :]
            self._seen[node.name] = len(node.effects)
            for effect in effects:
                if isinstance(effect, OpenChannel):
                    node.loop.post(ChannelUp(effect.broker, effect.incarnation))
                    did = True
                elif isinstance(effect, BrokerRequest):
                    wire = self.kept if self.keeps(effect) else self.wires
                    wire.append((node, effect))
                    did = True
        return did


def loaded_cluster(ids: Brokers, lists: dict[int, Brokers], version: int = 4) -> Cluster:
    """A cluster with one topic, `t`, and a controller that has loaded it."""
    cluster = Cluster(ids, version)
    cluster.replicas.topic("t", lists)
    node = cluster.elector()
    cluster.run(lambda: node.machine.context is not None)
    cluster.rest()
    return cluster


def finished(cluster: Cluster) -> None:
    """Runs to the end of the request."""
    cluster.run(lambda: cluster.replicas.request() is None)
    cluster.rest()
    assert cluster.replicas.request() is None


def ends(cluster: Cluster) -> dict[int, tuple[str, str]]:
    """Partition of `t` to how its move ended, and why."""
    return {each.topic_partition.partition: (each.outcome, each.reason) for each in cluster.records}
