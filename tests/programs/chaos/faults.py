"""How each fault begins and ends. Numbers are those of docs/reference/faults.md."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from signal import SIGTERM

from tests.programs.chaos.cluster import RECORDS, SESSION_MS, ChaosCluster, Node
from tests.programs.chaos.moves import MOVE_STEPS, step_of
from tests.programs.chaos.operations import PARTITIONS, Operations
from tests.programs.chaos.schedule import BROKERS, Fault
from tests.programs.on_servers import comes_true, hold
from tests.waiting import PATIENCE_S
from zkgroup.errors import EmbeddedServerError, ZkGroupError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Delete
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.controller import ControllerRegistration

IDLE_S = PATIENCE_S
"""Longest wait for earlier moves to end, and for all brokers, before the move in which one is killed."""
STEP_S = PATIENCE_S
"""Longest wait for that move to be at the step at which the controller is to be killed."""
OUT_S = PATIENCE_S
"""Longest wait for a broker whose disk is lost to be out of the in-sync replicas."""

STEP_CHECK_S = 0.005
ELECTED_S = SESSION_MS / 1000 + PATIENCE_S
"""Longest wait for another controller in the place of one that sleeps or was deleted."""
LATE_S = 2.0
"""How long the writes of a controller are on their way while another is elected."""
STOP_S = 15.0
"""Longest wait for a broker to stop; without a quorum its controller may not answer it."""

End = Callable[[], None]


class Faults:
    """Begins faults and counts those that took effect. One thread uses it."""

    def __init__(self, cluster: ChaosCluster, operations: Operations) -> None:
        self.cluster = cluster
        self.operations = operations
        self.bitten: Counter[str] = Counter()
        """Fault to how often it took effect, as shown by something that only its effect causes."""
        self.held: list[int] = []
        """zxids of writes of a controller that was replaced while they were held back."""
        self._ways: dict[str, Callable[[Fault, Node], End]] = {
            "F1": self._kill,
            "F2": self._pause,
            "F3": self._expire,
            "F7": self._swallow,
            "F8": self._cut,
            "F9": self._lose_answer,
            "F12": self._kill_server,
            "F13": self._isolate,
            "F15": self._lose_quorum,
            "F16": self._pause_server,
            "F29": self._depose,
            "F37": self._kill_in_move,
            "F38": self._two_controllers,
            "F39": self._dead_target,
            "shutdown": self._shut_down,
            "wipe": self._wipe,
        }

    def begin(self, fault: Fault) -> End:
        """Begins a fault and returns once it is in force; the returned function ends it."""
        return self._ways[fault.kind](fault, self.victim(fault))

    def victim(self, fault: Fault) -> Node:
        """The broker that the fault hits: by its role now, or by number where no broker has the role."""
        by_number = self.cluster.nodes[BROKERS[fault.number % len(BROKERS)]]
        with suppress(ZkGroupError):
            if fault.victim == "controller":
                controller = self.cluster.controller()
                return by_number if controller is None else self.cluster.nodes.get(controller, by_number)
            state = self.cluster.states().get(TopicPartition(RECORDS, fault.number % PARTITIONS))
            if state is not None and fault.victim == "leader":
                return self.cluster.nodes.get(state.leader, by_number)
            others = [each for each in state.isr if each != state.leader] if state else []
            if others and fault.victim == "follower":
                return self.cluster.nodes[others[fault.number % len(others)]]
        return by_number

    def _kill(self, _: Fault, node: Node) -> End:
        self.bitten["F1"] += node.is_running
        node.kill()
        return node.start

    def _pause(self, fault: Fault, node: Node) -> End:
        if not node.is_running:
            return _nothing
        node.pause()
        self.bitten["F2 beyond the session" if fault.hold_ms > SESSION_MS else "F2 below it"] += 1
        return node.resume

    def _shut_down(self, _: Fault, node: Node) -> End:
        self.bitten["shutdown"] += node.is_running
        node.ask_to_stop()

        def end() -> None:
            if (code := node.wait_stopped(STOP_S)) not in (0, None) and (code != -SIGTERM or node.has_told):
                node.died.append(f"broker {node.broker} stopped with code {code}")
            node.start()

        return end

    def _wipe(self, _: Fault, node: Node) -> End:
        """Deletes the data of a broker, once every line is in sync on another one."""
        node.kill()

        def is_out() -> bool:
            every = self.cluster.states()
            isrs = [state.isr for tp, state in every.items() if tp.topic == RECORDS and state]
            alone = any(state is not None and state.isr == (node.broker,) for state in every.values())
            return len(isrs) >= PARTITIONS and not alone and all(node.broker not in isr for isr in isrs)

        if comes_true(is_out, OUT_S):
            node.wipe()
            self.bitten["wipe"] += 1
        return node.start

    def _swallow(self, fault: Fault, node: Node) -> End:
        ways = ({}, {"to_server": False}, {"to_client": False})[fault.number % 3]
        node.network.swallow(**ways)
        self.bitten["F7"] += bool(node.network.sessions())
        return lambda: node.network.heal(cut=fault.number % 2 == 0)

    def _cut(self, fault: Fault, node: Node) -> End:
        self.bitten["F8"] += bool(node.network.sessions())
        node.network.cut(refuse=fault.number % 2 == 0)
        return node.network.heal

    def _lose_answer(self, fault: Fault, node: Node) -> End:
        """Drops the reply of its next transaction; half of the time it cannot reconnect until the end."""
        dropped = node.network.drop_reply("multi", then_refuse=fault.number % 2 == 0)

        def end() -> None:
            with suppress(TimeoutError):
                dropped.wait(0.1)
                self.bitten["F9"] += 1
            node.network.heal()

        return end

    def _expire(self, _: Fault, node: Node) -> End:
        with suppress(KeyError, StopIteration, OSError):
            for session in node.network.sessions():
                node.network.expire_session(session)
                self.bitten["F3"] += 1
        return _nothing

    def _kill_server(self, _: Fault, __: Node) -> End:
        comes_true(lambda: self.cluster.leader() is not None, ELECTED_S)
        if (leader := self.cluster.leader()) is None:
            return _nothing
        self.cluster.zookeeper.server(leader).kill()
        self.bitten["F12"] += 1
        return self.cluster.revive

    def _pause_server(self, _: Fault, __: Node) -> End:
        if (leader := self.cluster.leader()) is None:
            return _nothing
        self.cluster.zookeeper.server(leader).pause()
        self.bitten["F16"] += 1
        return self.cluster.revive

    def _isolate(self, fault: Fault, _: Node) -> End:
        leader = self.cluster.leader()
        followers = [each for each in range(3) if each != leader]
        self.cluster.network.isolate(followers[fault.number % len(followers)])
        self.bitten["F13"] += leader is not None
        return lambda: self.cluster.network.heal(cut=True)

    def _lose_quorum(self, _: Fault, __: Node) -> End:
        with suppress(EmbeddedServerError):
            self.cluster.network.lose_quorum()
            self.bitten["F15"] += 1
        return self.cluster.revive

    def _depose(self, _: Fault, __: Node) -> End:
        """Deletes `/controller` as an operator, as people did with Kafka."""
        with suppress(ZkGroupError):
            self.cluster.zk.multi(Delete(ControllerRegistration.path(), -1))
            self.bitten["F29"] += 1
        return _nothing

    def _two_controllers(self, fault: Fault, _: Node) -> End:
        """Elects another controller while this one is paused, or while its writes are still in flight."""
        if fault.way == "held":
            return self._hold_write(fault)
        node = self._active_controller()
        if node is None:
            return _nothing
        if is_late := fault.way == "late":
            node.network.delay(LATE_S, to_client=False)
        self.operations.do("move", fault.number)
        self.operations.do("create", fault.number)
        if is_late:
            hold(LATE_S * (1 + fault.number % 2))  # for what it reads before it writes
        else:
            node.pause()
        with suppress(ZkGroupError, TimeoutError):
            if is_late or fault.number % 2:
                self._replace(node)
            self._wait_replaced(node)
            self.bitten["F38 late writes" if is_late else "F38 asleep"] += 1
        return node.network.heal if is_late else node.resume

    def _active_controller(self) -> Node | None:
        """The node of the active controller; None where there is none, or ZooKeeper does not answer."""
        with suppress(ZkGroupError):
            node = self.cluster.nodes.get(self.cluster.controller() or 0)
            return node if node is not None and node.is_running else None
        return None

    def _hold_write(self, fault: Fault) -> End:
        """Stops the controller in the middle of a write, which arrives after another controller is elected.

        Its session lives on, so that only the fence refuses the write; and the new controller does not do the
        same work before. The process is paused for longer than its session.
        """
        self._wait_idle()
        node, name = self._awaited_controller(), f"held-{fault.number}"
        if node is None:
            return _nothing
        try:
            with self._stopped(f"{Topic.path(name)}/"):
                self.operations.create_one(name)
                _await(self._holder)
                node = self._holder() or node  # the controller by then
                node.pause()
                self._replace(node)
                self._wait_replaced(node)
                before = set(node.network.answered)
                node.network.let_go()
                _await(lambda: set(node.network.answered) > before)
                self.held += set(node.network.answered) - before
                self.bitten["F38 held write"] += 1
            hold(SESSION_MS / 1000 + 1)
        except (ZkGroupError, TimeoutError) as error:
            self.operations.refused[f"held write: {type(error).__name__}"] += 1
        return node.resume

    def _awaited_controller(self) -> Node | None:
        """As `_active_controller`, once there is one: a session may just have expired."""
        comes_true(self._active_controller, ELECTED_S)
        return self._active_controller()

    def _holder(self) -> Node | None:
        """The node whose write is held."""
        return next((node for node in self.cluster.nodes.values() if node.network.is_holding), None)

    def _replace(self, node: Node) -> None:
        """Deletes `/controller` where this broker holds it, so that another one can be elected."""
        if self.cluster.controller() == node.broker:
            self.cluster.zk.multi(Delete(ControllerRegistration.path(), -1))

    def _wait_replaced(self, node: Node) -> None:
        """Waits until another broker is the active controller. Raises TimeoutError."""
        _await(lambda: self.cluster.controller() not in (None, node.broker))

    def _kill_in_move(self, fault: Fault, _: Node) -> End:
        """Kills the controller when a move is at this step, before a write of the next step arrives."""
        tp = TopicPartition(RECORDS, fault.number % PARTITIONS)
        self._wait_idle()
        node = None
        with self._stopped(Topic.path(tp.topic)), suppress(ZkGroupError):
            target = self.operations.exchange_one(tp, fault.number)
            if target is not None and self._is_brought_to(tp, target, fault.way):
                node = self._awaited_controller()
            if node is not None:
                self.bitten[f"F37 {fault.way}"] += 1
                node.kill()
                node.network.cut()  # drops its writes that have not reached a server
        if node is None:
            self.operations.refused[f"a move to {fault.way!r}"] += 1
        return _nothing if node is None else node.start

    def _wait_idle(self) -> None:
        """Waits a limited time until nothing is moved and all brokers are registered."""

        def is_idle() -> bool:
            moved = self.cluster.zk.find(Reassignment.path()) is not None
            return not moved and self.cluster.registered() == set(BROKERS)

        comes_true(is_idle, IDLE_S)

    @contextmanager
    def _stopped(self, path: str) -> Iterator[None]:
        """Holds all brokers' writes to this path or below; each reaches ZooKeeper only when it is let go."""
        networks = [node.network for node in self.cluster.nodes.values()]
        try:
            for network in networks:
                network.close_gate(path)
            yield
        finally:
            for network in networks:
                network.open_gate()

    def _is_brought_to(self, tp: TopicPartition, target: tuple[int, ...], step: str) -> bool:
        """Lets the writes of a move go one by one, until it is at this step and the next step is about to be
        written. False where it does not reach the step.
        """
        networks = [node.network for node in self.cluster.nodes.values()]
        deadline = time.monotonic() + STEP_S
        while time.monotonic() < deadline:
            hold(STEP_CHECK_S)
            holding = [network for network in networks if network.is_holding]
            if any(network.is_answering for network in networks) or not (holding or step == MOVE_STEPS[-1]):
                continue
            try:
                reached = self._step_of(tp, target)
            except ZkGroupError:  # no answer yet: a read may be repeated
                continue
            if reached == step:
                return True
            if MOVE_STEPS.index(reached) > MOVE_STEPS.index(step):
                return False
            for network in holding:
                network.let_go()
        return False

    def _step_of(self, tp: TopicPartition, target: tuple[int, ...]) -> str:
        """The step of a move. Raises ZkGroupError."""
        self.cluster.zk.sync("/")
        asked = self.cluster.zk.find(Reassignment.path())
        targets = Reassignment.decode(asked.path, asked.data).targets if asked is not None else {}
        found = self.cluster.zk.find(PartitionState.path(tp))
        assert found is not None
        return step_of(
            target,
            asked=targets.get(tp) == target,
            replicas=self.cluster.topics()[tp.topic].partitions[tp.partition],
            state=PartitionState.decode(found.path, found.data),
            epoch_before=self.operations.epochs[tp],
        )

    def _dead_target(self, fault: Fault, _: Node) -> End:
        """A move to a broker that was just killed; it is started at the end of the fault, or much later."""
        tp = TopicPartition(RECORDS, fault.number % PARTITIONS)
        with suppress(ZkGroupError):
            replicas = self.cluster.topics()[RECORDS].partitions[tp.partition]
            away = [each for each in BROKERS if each not in replicas] or [BROKERS[fault.number % 4]]
            node = self.cluster.nodes[away[0]]
            self.bitten["F39"] += node.is_running
            node.kill()
            self.operations.submit({tp: (away[0], *replicas[:2])})
            return node.start if fault.number % 3 else _nothing
        return _nothing


def _await(predicate: Callable[[], object]) -> None:
    """Waits until the predicate is true. Raises TimeoutError."""
    if not comes_true(predicate, ELECTED_S):
        raise TimeoutError


def _nothing() -> None:
    """The end of a fault that ends by itself, or with the round."""
