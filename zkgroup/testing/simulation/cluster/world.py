"""The world of one schedule of a cluster: server, clock, brokers, controllers, and paused processes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from zkgroup.broker.log.line_log import MemoryLogDir
from zkgroup.controller.machine.events import ShutdownAnswered
from zkgroup.model import TopicPartition
from zkgroup.model.requests import MultiDone, Operation
from zkgroup.testing.clock import FakeClock
from zkgroup.testing.memory_zookeeper.server import MemoryZooKeeper, Step
from zkgroup.testing.simulation.cluster.audit import ClusterAudit
from zkgroup.testing.simulation.cluster.broker import BrokerProcess
from zkgroup.testing.simulation.cluster.controller import ControllerProcess
from zkgroup.testing.simulation.cluster.foreign_writers import CorruptZnodes
from zkgroup.testing.simulation.cluster.kafka_0_8_controller import Kafka08Controller
from zkgroup.testing.simulation.cluster.network import Network
from zkgroup.testing.simulation.cluster.setup import ClusterSetup
from zkgroup.testing.simulation.schedule import Recording
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.replica_host import CONSUMER, NO_EPOCH, FetchLinesRequest
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import PartitionState

Controller = ControllerProcess | Kafka08Controller
Act = Callable[[], object]
TICK_MS = 1_000
"""A server ends a session at most so long after its time."""


class ClusterWorld:
    """Everything that a schedule acts on."""

    def __init__(self, setup: ClusterSetup, rng: random.Random) -> None:
        self.setup = setup
        self.rng = rng
        self.clock = FakeClock()
        self.server = MemoryZooKeeper(self.clock, stepped=True)
        self.recording = Recording(self.clock)
        self.audit = ClusterAudit(self.server, self.clock)
        self.figures: Counter[str] = Counter()
        self.brokers: dict[int, BrokerProcess] = {}
        """Those that run."""
        self.network = Network(self.brokers)
        self.controllers: dict[int, Controller] = {}
        """Candidates that run, by their broker's id."""
        self.places = {broker: MemoryLogDir() for broker in setup.brokers}
        self.consumers = Consumers(self, rng)
        self.lost: set[int] = set()
        """Brokers that never come back."""
        self.switched_off: set[int] = set()
        """Brokers that come back when all is well without them."""
        self.broken: set[tuple[int, TopicPartition]] = set()
        self.acked: dict[TopicPartition, dict[int, bytes]] = {}
        """Lines that were acknowledged, of each partition's present life."""
        self.read_ends: dict[tuple[TopicPartition, int], int] = {}
        """Where what consumers were given ends, of each partition and life of its topic."""
        self.sessions: dict[int, list[int]] = {}
        """Sessions of each broker of ours, one after the other."""
        self.stopping: set[int] = set()
        """Brokers that have asked to be relieved."""
        self.may_lose: set[str] = set()
        """Topics for which somebody has allowed a leader that is not in sync."""
        self.plans: list[str] = []
        """Plans of moves that were stored."""
        self.garbage = CorruptZnodes(self.server)
        self.taken_back: dict[TopicPartition, set[int]] = {}
        """Moves of which the request was taken away by hand, to the epochs of those who had read it last."""
        self.let_go: set[tuple[object, object]] = set()
        """Brokers and partitions of which a former topic's lines may be a new one's: a controller that is not
        ours may have ruled in between (docs/adr/0024)."""
        self.kafka_stands = True
        """Whether candidates of Kafka stand for election."""
        self._paused_until: dict[str, int] = {}
        self._isolated_until: dict[str, int] = {}
        self._stalled_until: dict[str, int] = {}
        self._pids = 0
        self._lives: dict[TopicPartition, int] = {}

    # --- processes ------------------------------------------------------------------------------------

    def start_broker(self, broker: int) -> BrokerProcess:
        self._pids += 1
        process = BrokerProcess(
            self, broker, self.places[broker], pid=self._pids, is_kafka=self.setup.kind == "kafka"
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

    def registered(self, process: BrokerProcess, incarnation: int) -> None:
        """A broker stands in `/brokers/ids`: its candidate may begin."""
        assert process.client.session is not None
        self.sessions.setdefault(process.broker, []).append(process.client.session.session_id)
        if (
            process.broker in self.setup.candidates
            and process.broker not in self.controllers
            and (self.kafka_stands or self.setup.kind == "ours")
        ):
            if self.setup.kind == "kafka":
                self.controllers[process.broker] = Kafka08Controller(
                    self, process.broker, process.name, process.gate, process.client
                )
            else:
                self.controllers[process.broker] = ControllerProcess(
                    self, process.broker, process.name, process.gate, process.client, alone=False
                )
        process.gate.registered(incarnation)

    def kill(self, broker: int, *, executed: int = 0, keep_requests: bool = False) -> None:
        """SIGKILL of a broker with its candidate, or of a candidate by itself: nobody is told.

        What it has sent to ZooKeeper and to brokers may still arrive, the first `executed` have.
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
        """An orderly end: the session goes at once."""
        client = self.brokers[broker].client
        self.kill_gently(broker)
        client.close()

    def kill_gently(self, broker: int) -> None:
        """Stops the machines, and leaves the connection as it is."""
        process = self.brokers.pop(broker)
        controller = self.controllers.pop(broker, None)
        if controller is not None:
            controller.stop()
        process.stop()
        self.network.process_gone(process)

    def restart(self, broker: int) -> None:
        """Starts what is not running; who is lost stays away."""
        if broker in self.setup.alone:
            if broker not in self.controllers:
                self.start_alone(broker)
        elif broker not in self.brokers.keys() | self.lost | self.switched_off:
            self.start_broker(broker)

    # --- who is there ---------------------------------------------------------------------------------

    def is_awake(self, name: str) -> bool:
        return self._paused_until.get(name, 0) <= self.clock.now_ms()

    def awake_brokers(self) -> list[BrokerProcess]:
        return [one for one in self.brokers.values() if self.is_awake(one.name)]

    def awake_controllers(self) -> list[Controller]:
        return [one for one in self.controllers.values() if self.is_awake(one.name)]

    def clients(self) -> dict[str, int]:
        """Clients of processes that run, with the id of the process."""
        found = {one.client.name: one.broker for one in self.controllers.values()}
        return found | {one.client.name: one.broker for one in self.brokers.values()}

    @property
    def unserved(self) -> dict[TopicPartition, set[int]]:
        """Partitions that a running broker refuses, with those brokers: until it starts or is in sync.

        An ISR says so only where its leader leads: one that refuses as well has found nobody in sync.
        """
        picture = self.audit.look()
        found: dict[TopicPartition, set[int]] = {}
        for id_, one in self.brokers.items():
            for tp in one.unfit:
                state = picture.state(tp)
                leader = None if state is None else self.brokers.get(state.leader)
                is_led = leader is not None and tp not in leader.unfit
                if state is None or id_ not in state.isr or tp not in one.follows or not is_led:
                    found.setdefault(tp, set()).add(id_)
        return found

    def registrations(self) -> dict[int, int]:
        """Brokers that run, with their sessions."""
        return {
            id_: one.client.session.session_id
            for id_, one in self.brokers.items()
            if one.client.session is not None
        }

    @property
    def rulers(self) -> list[Controller]:
        return [one for one in self.controllers.values() if one.rules]

    def life(self, topic: str) -> int:
        """Names the present life of a topic."""
        self.audit.look()
        return self.audit.lives.get(topic, 0)

    # --- what happens ---------------------------------------------------------------------------------

    def write(self, *operations: Operation) -> bool:
        """An operator's transaction, at once; whether it was accepted."""
        return isinstance(self.server.write(*operations), MultiDone)

    def acknowledged(self, tp: TopicPartition, offset: int, lines: tuple[bytes, ...]) -> None:
        life = self.life(tp.topic)
        if self._lives.get(tp) != life:
            self._lives[tp], self.acked[tp] = life, {}
        self.acked[tp].update(enumerate(lines, offset))
        self.figures["lines acknowledged"] += len(lines)

    def lines_read(self, tp: TopicPartition, life: int, end: int) -> None:
        """A consumer was given lines up to there."""
        before = self.read_ends.get((tp, life), 0)
        self.read_ends[tp, life] = max(before, end)
        self.figures["lines read"] += max(0, end - before)

    def shutdown_answered(self, controller: ControllerProcess, answer: ShutdownAnswered) -> None:
        self.figures["shutdowns answered"] += 1
        self.figures["shutdowns granted"] += answer.error == 0 and not answer.remaining

    def pause(self, name: str, ms: int) -> None:
        self._paused_until[name] = self.clock.now_ms() + ms

    def wake_up(self, name: str) -> None:
        """The end of a pause."""
        self._paused_until.pop(name, None)

    def isolate(self, name: str, ms: int) -> None:
        """Cuts a client off; `advance` brings it back."""
        self.server.suspend(name)
        self._isolated_until[name] = self.clock.now_ms() + ms

    def stall(self, name: str, ms: int) -> None:
        """Nothing passes on the connection of a client, which stands; `advance` ends it."""
        self._stalled_until[name] = self.clock.now_ms() + ms

    def passes(self, step: Step) -> bool:
        """Whether this step of the server can happen now."""
        return step.client not in self._stalled_until or step.kind == "catch_up"

    def heal(self) -> None:
        """The end of everything that lasts. Who had trouble with a disk is started again."""
        self._paused_until.clear()
        self._stalled_until.clear()
        self._isolated_until.clear()
        self.network.cut_off.clear()
        for name in self.clients():
            self.server.resume(name)
        repaired = {broker for broker, _ in self.broken}
        for broker, tp in self.broken:
            self.places[broker].break_log(tp, broken=False)
        self.broken.clear()
        for broker in sorted(repaired & self.brokers.keys()):
            self.kill(broker)
        for broker in (*self.setup.brokers, *self.setup.alone):
            self.restart(broker)

    def take_back(self, partitions: Iterable[TopicPartition]) -> None:
        """The entries of these are taken away from the request without asking the controller."""
        picture = self.audit.look()
        for tp in partitions:
            if picture.epoch is not None and self.server.find(PartitionState.path(tp)) is not None:
                is_new = any(
                    isinstance(one, ControllerProcess) and not one.has_read(tp) for one in self.rulers
                )
                self.taken_back.setdefault(tp, set()).add(picture.epoch - is_new)

    @property
    def has_forgotten_requests(self) -> bool:
        """Whether no zkgroup controller takes a request that is made now for one that is gone.

        Both begin with version 0, a transaction cannot check a czxid, and so a write that is on the way for
        the one would be accepted for the other: who deletes by hand is told to wait (docs/reassignments.md).
        """
        if self.server.find(Reassignment.path()) is not None:
            return True
        ours = [one for one in self.controllers.values() if isinstance(one, ControllerProcess)]
        return all(
            active.open_reassignments.request is None and one.machine.is_idle and not one.shell.inbox
            for one in ours
            if (active := one.machine.active) is not None
        )

    def restart_uninformed(self) -> None:
        """An operator restarts leaders that keep a live replica out of the ISR, as the docs advise.

        Only where a request was taken away by hand and another controller has come since: it cannot know that
        the former one had told a shorter list (`OpenReassignments.cut`), which it may do on the request that
        it had read.
        """
        picture = self.audit.look()
        for tp, epochs in list(self.taken_back.items()):
            state, replicas = picture.state(tp), picture.replicas(tp)
            if (
                state is None
                or replicas is None
                or state.controller_epoch > max(epochs - {picture.epoch}, default=-1)
            ):
                continue
            left_out = self.brokers.keys() & (set(replicas) - set(state.isr))
            if left_out and state.leader in self.brokers:
                del self.taken_back[tp]
                self.kill(state.leader)
                self.restart(state.leader)
                self.figures["uninformed leaders"] += 1

    def stop_kafka(self) -> None:
        """Candidates of Kafka stand no more: what they promise is no matter of ours. Their brokers go on."""
        self.kafka_stands = False
        for controller in [one for one in self.controllers.values() if isinstance(one, Kafka08Controller)]:
            self.kill(controller.broker)
            self.restart(controller.broker)

    # --- steps ----------------------------------------------------------------------------------------

    def acts(self) -> Iterator[Act]:
        """Everything that processes and the network can do now; ZooKeeper's own steps are not among it."""
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
            if broker.errands:
                yield lambda one=broker: one.errands.popleft()()  # type: ignore[misc]
            for tp in tuple(broker.answers):
                yield lambda one=broker, tp=tp: one.take(tp)  # type: ignore[misc]
        yield from self.network.steps(self._may_act)

    def _may_act(self, process: object) -> bool:
        return isinstance(process, BrokerProcess) and self.is_awake(process.name)

    def fetches(self) -> Iterator[Act]:
        """Followers that may ask."""
        for broker in self.awake_brokers():
            for tp in broker.follows:
                if tp not in broker.answers and tp not in broker.asking:
                    yield lambda one=broker, tp=tp: one.ask(tp)  # type: ignore[misc]

    # --- time -----------------------------------------------------------------------------------------

    def next_due_ms(self) -> int | None:
        """When the next timer of a running machine fires."""
        shells = [one.shell for one in self.awake_brokers()]
        shells += [one.shell for one in self.awake_controllers() if isinstance(one, ControllerProcess)]
        return min((at for shell in shells if (at := shell.next_timer_ms()) is not None), default=None)

    def _ping(self, name: str) -> None:
        """The server hears of the client; whose session has ended learns it, as nobody answers the ping."""
        session = self.server.clients[name].session
        if session is None or session.alive:
            self.server.ping(name)
        else:
            self.server.cut(name, hold=self.server.clients[name].held)

    def advance(self, ms: int, expires: float = 0.5) -> None:
        """Time passes: running clients are heard of, overdue sessions end, sooner or later."""
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
    """One position for each partition and life of its topic, from wherever it was read last."""

    def __init__(self, world: ClusterWorld, rng: random.Random) -> None:
        self._world = world
        self._rng = rng
        self._positions: dict[tuple[TopicPartition, int], int] = {}

    def read(self) -> None:
        """One fetch from any broker that takes itself for the leader."""
        partitions = sorted(self._world.audit.look().partitions())
        if not partitions:
            return
        tp = self._rng.choice(partitions)
        able = [one for one in self._world.awake_brokers() if one.leads(tp) is not None]
        if able:
            self.read_from(self._rng.choice(able), tp)

    def read_from(self, process: BrokerProcess, tp: TopicPartition) -> None:
        """Reads on, and records what is new. A leader of a former topic of the name is passed over."""
        life = self._world.life(tp.topic)
        if process.lives.get(tp) != life:
            return
        offset = self._positions.get((tp, life), 0)
        response = process.host.fetch(
            FetchLinesRequest(CONSUMER, -1, *tp, NO_EPOCH, NO_EPOCH, offset, 1_000, 0)
        )
        if response.error != ErrorCode.NONE:
            return  # beyond its end: what was read before is judged at the end
        for batch in response.batches:
            lines = batch.lines.splitlines()[max(0, offset - batch.base_offset) :]
            if lines:
                process.note_read(tp, offset, lines, batch.leader_epoch, life)
                offset += len(lines)
        self._positions[tp, life] = offset
