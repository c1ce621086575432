"""The world of one schedule of a cluster: brokers, controllers, paused processes, and faults that last."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from functools import partial

from tests.simulation.cluster.broker import SimulatedBroker
from tests.simulation.cluster.controller import ControllerProcess
from tests.simulation.cluster.corrupt_znodes import CorruptZnodes
from tests.simulation.cluster.environment import ClusterEnvironment
from tests.simulation.cluster.kafka_0_8_controller import Kafka08Controller
from tests.simulation.cluster.setup import ClusterSetup
from tests.simulation.schedule import Action
from tests.worlds.batches import batches_in
from zkgroup.model import TopicPartition
from zkgroup.model.requests import MultiDone, Operation
from zkgroup.testing.memory_zookeeper.server import ServerStep
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import FetchPartition
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import PartitionState

Controller = ControllerProcess | Kafka08Controller
TICK_MS = 1_000
"""Longest delay of a server that ends a session."""


class ClusterWorld(ClusterEnvironment):
    """The state of one schedule: the environment, brokers, controllers, and faults that last."""

    def __init__(self, setup: ClusterSetup, rng: random.Random) -> None:
        self.brokers: dict[int, SimulatedBroker] = {}
        """Running brokers, by id."""
        super().__init__(setup, rng, self.brokers)
        self.controllers: dict[int, Controller] = {}
        """Running controllers, active or not, by their broker's id."""
        self.consumers = Consumers(self, rng)
        self.lost: set[int] = set()
        """Brokers that are never started again."""
        self.switched_off: set[int] = set()
        """Brokers that are started again after the cluster has converged without them."""
        self.broken: set[tuple[int, TopicPartition]] = set()
        self.sessions: dict[int, list[int]] = {}
        """Sessions of each zkgroup broker, in order."""
        self.stopping: set[int] = set()
        """Brokers that requested a controlled shutdown."""
        self.may_lose: set[str] = set()
        """Topics for which an operator allowed a leader that is not in sync."""
        self.plans: list[str] = []
        """Names of stored reassignment plans."""
        self.corrupt = CorruptZnodes(self.server)
        self.withdrawn: dict[TopicPartition, set[int]] = {}
        """Reassignments whose entries were deleted by hand, to the epochs of controllers that may have read
        them."""
        self.kafka_may_elect = True
        """Whether Kafka's controllers can be elected."""
        self._paused_until: dict[str, int] = {}
        self._isolated_until: dict[str, int] = {}
        self._stalled_until: dict[str, int] = {}
        self._pids = 0

    def start_broker(self, broker: int) -> SimulatedBroker:
        self._pids += 1
        process = SimulatedBroker(
            self, broker, pid=self._pids, is_kafka=self.setup.kind == "kafka", registered=self.registered
        )
        self.brokers[broker] = process
        return process

    def start_alone(self, broker: int) -> ControllerProcess:
        self._pids += 1
        name = f"c{broker}-{self._pids}"
        client = self.server.client(name, self.setup.session_timeout_ms)
        process = ControllerProcess(self, broker, name, client, client, alone=True)
        self.controllers[broker] = process
        return process

    def registered(self, process: SimulatedBroker, incarnation: int) -> None:
        """Called when a broker is registered in `/brokers/ids`: its controller may start."""
        assert process.client.session is not None
        self.sessions.setdefault(process.broker, []).append(process.client.session.session_id)
        if (
            process.broker in self.setup.electors
            and process.broker not in self.controllers
            and (self.kafka_may_elect or self.setup.kind == "zkgroup")
        ):
            if self.setup.kind == "kafka":
                self.controllers[process.broker] = Kafka08Controller(
                    self, process.broker, process.name, process.registered_store, process.client
                )
            else:
                self.controllers[process.broker] = ControllerProcess(
                    self, process.broker, process.name, process.registered_store, process.client, alone=False
                )
        process.registered_store.registered(incarnation)

    def kill(self, broker: int, *, executed: int = 0, keep_requests: bool = False) -> None:
        """Kills a broker with its controller, or a controller without a broker, without any notification.

        Requests that it sent to ZooKeeper and to brokers may still arrive; the first `executed` have.
        """
        process = self.brokers.pop(broker, None)
        controller = self.controllers.pop(broker, None)
        client = (process or controller).client  # type: ignore[union-attr]
        if controller is not None:
            controller.stop()
        if process is not None:
            process.stop()
            self.network.process_gone(process)
        self._paused_until.pop(client.name, None)
        self._isolated_until.pop(client.name, None)
        self._stalled_until.pop(client.name, None)
        self.server.cut(client.name, executed=executed, keep_requests=keep_requests, hold=True)

    def close(self, broker: int) -> None:
        """Stops a broker in order: its session ends at once."""
        client = self.brokers[broker].client
        self.stop_process(broker)
        client.close()

    def stop_process(self, broker: int) -> None:
        """Stops the broker's machines, and keeps its connection."""
        process = self.brokers.pop(broker)
        controller = self.controllers.pop(broker, None)
        if controller is not None:
            controller.stop()
        process.stop()
        self.network.process_gone(process)

    def restart(self, broker: int) -> None:
        """Starts a broker or controller that is not running, except lost ones."""
        if broker in self.setup.alone:
            if broker not in self.controllers:
                self.start_alone(broker)
        elif broker not in self.brokers.keys() | self.lost | self.switched_off:
            self.start_broker(broker)

    def is_awake(self, name: str) -> bool:
        return self._paused_until.get(name, 0) <= self.clock.now_ms()

    def awake_brokers(self) -> list[SimulatedBroker]:
        asleep = self._asleep()
        if not asleep:
            return [*self.brokers.values()]
        return [one for one in self.brokers.values() if one.name not in asleep]

    def awake_controllers(self) -> list[Controller]:
        asleep = self._asleep()
        if not asleep:
            return [*self.controllers.values()]
        return [one for one in self.controllers.values() if one.name not in asleep]

    def _asleep(self) -> list[str]:
        """Names of the processes that are paused."""
        now_ms = self.clock.now_ms()
        return [name for name, until_ms in self._paused_until.items() if until_ms > now_ms]

    def clients(self) -> dict[str, int]:
        """Clients of running processes, with the id of the process."""
        found = {one.client.name: one.broker for one in self.controllers.values()}
        return found | {one.client.name: one.broker for one in self.brokers.values()}

    @property
    def unserved(self) -> dict[TopicPartition, set[int]]:
        """Partitions that running brokers refuse, with these brokers, until they restart or are in sync.

        An ISR shows that a broker is in sync only where its leader can lead.
        """
        cluster = self.audit.catch_up()
        found: dict[TopicPartition, set[int]] = {}
        for id_, one in self.brokers.items():
            for tp in one.offline:
                state = cluster.state(tp)
                leader = None if state is None else self.brokers.get(state.leader)
                is_led = leader is not None and tp not in leader.offline
                if state is None or id_ not in state.isr or tp not in one.follows or not is_led:
                    found.setdefault(tp, set()).add(id_)
        return found

    def registrations(self) -> dict[int, int]:
        """Sessions of the running brokers."""
        return {
            id_: one.client.session.session_id
            for id_, one in self.brokers.items()
            if one.client.session is not None
        }

    @property
    def active_controllers(self) -> list[Controller]:
        return [one for one in self.controllers.values() if one.is_active]

    def write(self, *operations: Operation) -> bool:
        """Executes an operator's transaction at once; returns whether it was accepted."""
        return isinstance(self.server.write(*operations), MultiDone)

    def pause(self, name: str, ms: int) -> None:
        self._paused_until[name] = self.clock.now_ms() + ms

    def wake_up(self, name: str) -> None:
        """Ends a pause."""
        self._paused_until.pop(name, None)

    def isolate(self, name: str, ms: int) -> None:
        """Disconnects a client; `advance` reconnects it."""
        self.server.suspend(name)
        self._isolated_until[name] = self.clock.now_ms() + ms

    def stall(self, name: str, ms: int) -> None:
        """Stops all traffic on a client's connection, which stays open; `advance` ends it."""
        self._stalled_until[name] = self.clock.now_ms() + ms

    def passes(self, step: ServerStep) -> bool:
        """Whether this step of the server is possible now."""
        return step.client not in self._stalled_until or step.kind == "catch_up"

    def heal(self) -> None:
        """Ends all lasting faults. Brokers with a broken disk are restarted."""
        self._paused_until.clear()
        self._stalled_until.clear()
        self._isolated_until.clear()
        self.network.cut_off.clear()
        for name in self.clients():
            self.server.resume(name)
        repaired = {broker for broker, _ in self.broken}
        for broker, tp in self.broken:
            self.storages[broker].broken.discard(str(tp))
        self.broken.clear()
        for broker in sorted(repaired & self.brokers.keys()):
            self.kill(broker)
        for broker in (*self.setup.brokers, *self.setup.alone):
            self.restart(broker)

    def withdraw(self, partitions: Iterable[TopicPartition]) -> None:
        """Remembers that entries for these partitions were deleted without the controller."""
        cluster = self.audit.catch_up()
        for tp in partitions:
            if cluster.epoch is not None and self.server.find(PartitionState.path(tp)) is not None:
                is_new = any(
                    isinstance(one, ControllerProcess) and not one.has_read(tp)
                    for one in self.active_controllers
                )
                self.withdrawn.setdefault(tp, set()).add(cluster.epoch - is_new)

    @property
    def has_forgotten_requests(self) -> bool:
        """Whether no zkgroup controller could confuse a new reassignment znode with a deleted one.

        Both begin with version 0, and a transaction cannot check a czxid, so a write in flight for the one
        would be accepted for the other. The docs advise to wait after a deletion (docs/reassignments.md).
        """
        if self.server.find(Reassignment.path()) is not None:
            return True
        zkgroup_controllers = [one for one in self.controllers.values() if isinstance(one, ControllerProcess)]
        return all(
            active.parts.reassignments.request is None and one.machine.is_idle and not one.shell.inbox
            for one in zkgroup_controllers
            if (active := one.machine.active) is not None
        )

    def restart_uninformed(self) -> None:
        """Restarts leaders that keep a live replica out of the ISR, as the docs advise.

        Only where an entry was deleted by hand and another controller was elected since: it cannot know that
        the former one had sent a shorter replica list (`OpenReassignments.cut`).
        """
        cluster = self.audit.catch_up()
        for tp, epochs in list(self.withdrawn.items()):
            state, replicas = cluster.state(tp), cluster.replicas(tp)
            if (
                state is None
                or replicas is None
                or state.controller_epoch > max(epochs - {cluster.epoch}, default=-1)
            ):
                continue
            left_out = self.brokers.keys() & (set(replicas) - set(state.isr))
            if left_out and state.leader in self.brokers:
                del self.withdrawn[tp]
                self.kill(state.leader)
                self.restart(state.leader)
                self.figures["uninformed leaders"] += 1

    def stop_kafka(self) -> None:
        """Stops Kafka's controllers, whose convergence is not checked. Their brokers go on."""
        self.kafka_may_elect = False
        for controller in [one for one in self.controllers.values() if isinstance(one, Kafka08Controller)]:
            self.kill(controller.broker)
            self.restart(controller.broker)

    def actions(self) -> Iterator[Action]:
        """Possible next steps of processes and network, without ZooKeeper's own steps."""
        for controller in self.awake_controllers():
            if isinstance(controller, Kafka08Controller):
                yield from controller.choices()
            else:
                if controller.shell.inbox:
                    yield controller.shell.take_event
                if controller.shell.has_due_timers():
                    yield controller.shell.fire_timers
        for broker in self.awake_brokers():
            if broker.shell.inbox:
                yield broker.shell.take_event
            if broker.shell.has_due_timers():
                yield broker.shell.fire_timers
            if broker.coordinator is not None:
                yield from broker.coordinator.actions(partial(self.has_requests_of_groups, broker))
            if broker.host_tasks:
                yield lambda one=broker: one.host_tasks.popleft()()  # type: ignore[misc]
            for fetcher in tuple(broker.fetchers.values()):
                if fetcher.response is not None:
                    yield fetcher.take
        yield from self.network.steps(self._may_run)

    def has_requests_of_groups(self, broker: SimulatedBroker) -> bool:
        """Whether requests to the broker's group coordinator wait; here no client sends any."""
        del broker
        return False

    def _may_run(self, process: object) -> bool:
        return isinstance(process, SimulatedBroker) and self.is_awake(process.name)

    def fetches(self) -> Iterator[Action]:
        """Fetches that followers could send now."""
        for broker in self.awake_brokers():
            for leader in broker.fetchable():
                yield lambda one=broker, leader=leader: one.ask(leader)  # type: ignore[misc]

    def next_due_ms(self) -> int | None:
        """Time of the next timer of a running machine."""
        shells = [one.shell for one in self.awake_brokers()]
        shells += [one.shell for one in self.awake_controllers() if isinstance(one, ControllerProcess)]
        timers = [shell.next_timer_ms() for shell in shells]
        coordinators = (one.coordinator for one in self.awake_brokers())
        timers += [one.next_timer_ms() for one in coordinators if one is not None]
        return min((at for at in timers if at is not None), default=None)

    def _ping(self, name: str) -> None:
        """A ping of the client. A client whose session has ended learns it, because the ping has no
        response."""
        session = self.server.clients[name].session
        if session is None or session.alive:
            self.server.ping(name)
        else:
            self.server.cut(name, hold=self.server.clients[name].held)

    def advance(self, ms: int, expires: float = 0.5) -> None:
        """Advances the clock: running clients ping, and overdue sessions expire sooner or later."""
        self.clock.advance(ms)
        for name in [n for n, until_ms in self._isolated_until.items() if until_ms <= self.clock.now_ms()]:
            del self._isolated_until[name]
            self.server.resume(name)
        for name in [n for n, until_ms in self._stalled_until.items() if until_ms <= self.clock.now_ms()]:
            del self._stalled_until[name]
        for name in self.clients():
            if self.is_awake(name) and name not in self._stalled_until:
                self._ping(name)
        for session_id in self.server.overdue():
            late_ms = self.clock.now_ms() - self.server.leader.sessions[session_id].heard_ms
            if self.rng.random() < expires or late_ms > self.setup.session_timeout_ms + TICK_MS:
                self.server.expire_session(session_id)
                self.figures["sessions expired"] += 1


class Consumers:
    """Consumers' positions: one for each partition and incarnation of its topic."""

    def __init__(self, world: ClusterWorld, rng: random.Random) -> None:
        self._world = world
        self._rng = rng
        self._positions: dict[tuple[TopicPartition, int], int] = {}

    def read(self) -> None:
        """Sends one fetch to any broker that leads the partition, in its own view."""
        partitions = sorted(self._world.audit.catch_up().partitions())
        if not partitions:
            return
        tp = self._rng.choice(partitions)
        able = [one for one in self._world.awake_brokers() if one.leads(tp) is not None]
        if able:
            self.read_from(self._rng.choice(able), tp)

    def read_from(self, process: SimulatedBroker, tp: TopicPartition) -> None:
        """Reads from the last position, and notes what is new. Leaders of a deleted topic are skipped."""
        life = self._world.life(tp.topic)
        if process.lives.get(tp) != life:
            return
        offset = self._positions.get((tp, life), 0)
        response = process.host.fetch(tp, FetchPartition(tp.partition, offset, 1_000))
        if response.error == ErrorCode.OFFSET_OUT_OF_RANGE:
            start = process.host.offsets(tp).log_start_offset
            self._positions[tp, life] = max(offset, start)  # deleted records are skipped
        if response.error != ErrorCode.NONE:
            return  # beyond its end: records read before are checked at the end
        for batch in batches_in(response.records or b""):
            values = batch.values[max(0, offset - batch.base_offset) :]
            if values:
                process.note_read(tp, offset, [*values], batch.leader_epoch, life)
                offset += len(values)
        self._positions[tp, life] = offset
