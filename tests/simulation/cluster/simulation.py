"""Simulated schedules of controllers and brokers: with faults from a seed, or with crashes at given points.

`ClusterSimulation`: the seed draws the cluster, the order in which requests are executed, responses, watches
and requests to brokers delivered, how long a process pauses, and what operators request. After the faults
there must be one active controller, no unfinished work, and no further change. The history checker decides
about the whole history.

`play`: one action of a controller, with crashes at numbered points. The points are, in order: each
transaction *sent*, *applied* and *answered*, each request to a broker *sent*, *handled* and *answered*. A
crash at a point kills the controller's process there: requests that were not applied or handled are lost, the
others have taken effect, and the controller gets no response. A broker that hosts the controller ends with
it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import ClassVar

from tests.simulation.cluster.accepted_requests import check_accepted_requests
from tests.simulation.cluster.controller import ControllerProcess
from tests.simulation.cluster.convergence import ClusterConvergence
from tests.simulation.cluster.faults import ClusterFaults
from tests.simulation.cluster.foreign_writers import ForeignWriters
from tests.simulation.cluster.network import SimulatedConnection
from tests.simulation.cluster.operations import Operations
from tests.simulation.cluster.setup import (
    AWAITED,
    FOREIGN_WRITES,
    OPERATIONS,
    ClusterSetup,
    draw_cluster,
)
from tests.simulation.cluster.world import ClusterWorld, Controller
from tests.simulation.schedule import Action, Schedule, ScheduleReport
from zkgroup.history import ClusterOptions, HistoryRecord, check_cluster
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Check, Multi, MultiDone
from zkgroup.testing.memory_zookeeper.leader import server_transactions
from zkgroup.testing.memory_zookeeper.server import ServerStep
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.coordinated_groups import SlotConfig

BURST_ROUNDS_MAX = 8


class ClusterSimulationError(AssertionError):
    """A schedule violated an invariant. The message names the seed, which reproduces it."""


ClusterRun = ScheduleReport[ClusterSetup]


class ClusterSimulation(Schedule[ClusterSetup, ClusterWorld]):
    """A seeded schedule. `run()` returns its report or raises `ClusterSimulationError`."""

    error = ClusterSimulationError
    awaited: ClassVar[Collection[str]] = AWAITED.keys()
    """Faults that are tried also while waiting events happen."""

    def __init__(self, seed: int, *, steps: int = 250, setup: ClusterSetup | None = None) -> None:
        """Draws the setup; `run` plays the schedule.

        Args:
            seed: decides everything that is drawn: the same seed gives the same schedule.
            steps: number of events that are drawn before the faults end.
            setup: replaces the drawn setup, its `steps` too.
        """
        super().__init__(seed, steps, setup, self._draw)
        self.world = self._new_world()
        self.convergence = ClusterConvergence(self.world)
        self._faults = ClusterFaults(self.world, self.rng)
        self._operations = Operations(self.world, self.rng)
        self._foreign_writers = ForeignWriters(self.world, self.rng)
        self._appended = 0
        self._quiet_from_ms = 0
        self._unserved: dict[TopicPartition, set[int]] = {}
        """Partitions that brokers refused when the cluster had converged; they may have come back since."""

    def _draw(self, seed: int, steps: int) -> ClusterSetup:
        return draw_cluster(seed, steps)

    def _new_world(self) -> ClusterWorld:
        return ClusterWorld(self.setup, self.rng)

    def run(self, chaos: Action | None = None) -> ClusterRun:
        """Runs the whole schedule: start, faults (drawn, unless `chaos` is given), convergence, history
        check."""
        return self._run(lambda: self._begin_and_disturb(self._steps if chaos is None else chaos))

    def _begin_and_disturb(self, chaos: Action) -> None:
        self.begin()
        chaos()

    def begin(self) -> None:
        """Starts all processes, and creates the topics."""
        self.convergence.start()
        if self.setup.slots:
            self.world.server.put(SlotConfig.path(), SlotConfig(self.setup.slots).encode())
        for name, lists in self.setup.topics.items():
            self.world.server.put(Topic.path(name), Topic(dict(enumerate(lists))).encode())
        self.convergence.pass_time(100)

    def step(self) -> None:
        """Perhaps a fault or an operation, then one of the possible events."""
        self._disturb(self.setup.weights)
        if self.rng.random() < 0.02:
            self.inject("start")
        self.rng.choice(self._choices())()
        if self.rng.random() < self.setup.bursts:
            self._drain_for_a_while()
        for broker in self.world.brokers.values():
            if broker.waiting or broker.fetches.held:
                broker.answer_waiting()

    def _happen(self, what: str) -> tuple[str, object]:
        if what in OPERATIONS:
            return "operation", self._operations.inject(what)
        if what in FOREIGN_WRITES:
            return "foreign write", self._foreign_writers.inject(what)
        return "fault", self._faults.inject(what)

    def _drain_for_a_while(self) -> None:
        """Lets waiting events happen for a while, and timers fire: otherwise no controller would finish
        anything between two faults."""
        world = self.world
        for _ in range(self.rng.randint(1, BURST_ROUNDS_MAX)):
            self._disturb(self.awaited)
            for step in filter(world.passes, world.server.pending()):
                world.server.deliver(step)
            for action in world.actions():
                action()
            if self.rng.random() < 0.3:
                due_ms = world.next_due_ms()
                wait_ms = 100 if due_ms is None else due_ms - world.clock.now_ms()
                world.advance(min(500, max(1, wait_ms)))

    def _choices(self) -> list[Action]:
        world, server = self.world, self.world.server
        self._catch_up()
        pending = filter(world.passes, server.pending())
        choices: list[Action] = [lambda s=step: server.deliver(s) for step in pending]  # type: ignore[misc]
        choices += list(world.actions()) * 2
        is_busy = bool(choices)
        fetches = list(world.fetches())
        if fetches:
            choices.append(self.rng.choice(fetches))
        choices += [self._produce, self.world.consumers.read, lambda: self._pass_time(is_busy)]
        return choices

    def _produce(self) -> None:
        """A producer with acks=all sends to a broker that leads the partition, in the broker's own view."""
        brokers = self.world.awake_brokers()
        partitions = sorted(self.world.audit.catch_up().partitions())
        if not brokers or not partitions:
            return
        tp = self.rng.choice(partitions)
        able = [one for one in brokers if one.leads(tp) is not None]
        if able:
            count = self.rng.choice((1, 1, 2))
            values = tuple(b"data %d" % (self._appended + number) for number in range(count))
            self._appended += count
            self.rng.choice(able).append(tp, values)

    def _pass_time(self, is_busy: bool) -> None:
        self._advance(lambda: is_busy)
        for broker in sorted(self.world.stopping):
            if self.rng.random() < 0.1:
                self.world.stopping.discard(broker)
                if broker in self.world.brokers:
                    self.world.close(broker)

    def converge(self) -> None:
        """Ends the faults: one controller must be active and finish all work within a bound (L6, L7), and
        stay."""
        for broker in sorted(self.world.stopping & self.world.brokers.keys()):
            self.world.close(broker)
        self.report.converged_ms = self.convergence.converge()
        self._quiet_from_ms = self.world.clock.now_ms()
        self._unserved = self.world.unserved
        self.convergence.stay()

    def check_history(self) -> None:
        """Runs the history checker on the log and the brokers' records."""
        world = self.world
        options = ClusterOptions(
            quiet_from_ms=self._quiet_from_ms,
            takeover_ms=0,
            recovery_ms=0,
            same_process=list(world.sessions.values()),
            unserved={
                tp: self._unserved.get(tp, set()) | world.unserved.get(tp, set())
                for tp in self._unserved.keys() | world.unserved.keys()
            },
        )
        log = server_transactions(world.server.log, world.clock)
        records = self._checked_records()
        report = check_cluster(log, records, options)
        if found := (*report.violations, *report.damage, *check_accepted_requests(records)):
            raise AssertionError("; ".join(map(str, found)))
        for each in fields(report.figures):
            self.report.figures[each.name.replace("_", " ")] += getattr(report.figures, each.name)

    def _checked_records(self) -> list[HistoryRecord]:
        """The brokers' history, without what an unclean election may lose: the records of earlier leader
        epochs."""
        world = self.world
        world.audit.catch_up()
        kept = []
        for record in world.recording.records:
            if record.kind in ("append.ok", "records.read"):
                tp = record.topic_partition
                if record.fields["offset"] < world.log_starts.get((tp, record.fields["life"]), 0):
                    continue  # retention has deleted it, at least on one leader
                since = world.audit.unclean.get((tp, record.fields["life"]), 0)
                if tp.topic in world.may_lose and record.fields["leader_epoch"] < since:
                    self.report.figures["records that an unclean election may lose"] += 1
                    continue
            kept.append(record)
        return kept

    def _count(self) -> None:
        figures = self.report.figures
        figures.update(self.world.figures)
        figures.update({f"requests {name}": count for name, count in self.world.network.figures.items()})

    def _state(self) -> Iterable[str]:
        controllers = self.world.controllers.values()
        return (f"{one.name}: active {one.is_active}, won {one.epochs}" for one in controllers)


LIMIT_MS = 60_000
RECORDS = 2
STOP_MS = 3_000
"""Delay after which a broker that requested a controlled shutdown stops in any case."""
CHECKS = 2
"""Number of operations of a heartbeat: the fence alone."""


@dataclass
class Crashes:
    """Counts the points of the active controller, and kills it at the given ones."""

    simulation: ClusterSimulation
    at: Sequence[int]
    """Number of points before each crash, counted from the crash before it."""
    passed: list[str] = field(default_factory=list)
    """The points since the last crash."""
    crashed: list[str] = field(default_factory=list)
    """The point of each crash."""

    def __post_init__(self) -> None:
        self._left = list(self.at)
        self._due_at: int | None = None
        """Step of the controller's machine at which the controller dies."""
        self._due = ""
        """The point of the next crash."""

    @property
    def _controller(self) -> Controller | None:
        active_controllers = self.simulation.world.active_controllers
        return active_controllers[0] if active_controllers else None

    def point(self, what: str) -> None:
        """Passes a point. With a response in flight the controller dies after it has handled the response."""
        controller = self._controller
        if controller is None:
            return
        self.passed.append(what)
        if self._left and self._due_at is None and len(self.passed) > self._left[0]:
            self._due_at, self._due = _steps(controller) + what.endswith("answered"), what

    def request_point(self, kind: str, connection: SimulatedConnection) -> None:
        """Passes a point of the network."""
        if connection.owner is self._controller:
            self.point(f"request to {connection.broker} {kind}")

    def crash_if_due(self) -> bool:
        """Kills the controller where its crash is due; returns whether it did."""
        controller, world = self._controller, self.simulation.world
        if self._due_at is None or controller is None or _steps(controller) < self._due_at:
            return False
        self._due_at = None
        self._left.pop(0)
        self.crashed.append(self._due)
        self.passed.clear()
        world.kill(controller.broker)
        world.network.late_requests.clear()
        world.restart(controller.broker)
        return True


def _steps(controller: Controller) -> int:
    return controller.shell.steps if isinstance(controller, ControllerProcess) else 0


@dataclass(frozen=True)
class ControllerAction:
    """An action that takes a controller several steps."""

    setup: ClusterSetup
    begin: Callable[[ClusterSimulation, Operations], object]
    """Requests the action, or makes it necessary, in a converged cluster."""


def play(action: ControllerAction, crashes: Sequence[int] = (), *, seed: int = 1) -> Crashes:
    """Runs the action with crashes at these points, and checks the result.

    Raises ClusterSimulationError, as `ClusterSimulation.run` does.
    """
    simulation = ClusterSimulation(seed, setup=action.setup)
    played = Crashes(simulation, crashes)

    def chaos() -> None:
        _rest(simulation)
        for tp in sorted(simulation.world.audit.catch_up().partitions()):
            _produce(simulation, tp)
        _rest(simulation)
        simulation.world.network.point = played.request_point
        action.begin(simulation, Operations(simulation.world, simulation.rng))
        _go_on(simulation, played)

    simulation.run(chaos)
    return played


def _produce(simulation: ClusterSimulation, tp: TopicPartition) -> None:
    for number in range(RECORDS):
        for broker in simulation.world.brokers.values():
            if broker.leads(tp) is not None:
                broker.append(tp, (b"%s %d" % (str(tp).encode(), number),))


def _rest(simulation: ClusterSimulation) -> None:
    simulation.convergence.pass_time(1_000)


def _go_on(simulation: ClusterSimulation, played: Crashes) -> None:
    """Runs until the goal is reached, and passes the points."""
    world, convergence = simulation.world, simulation.convergence
    started_ms = world.clock.now_ms()
    end_ms = started_ms + LIMIT_MS
    while True:
        convergence.drain(lambda step: _deliver(simulation, played, step), played.crash_if_due)
        if convergence.missing() is None:
            world.network.point = lambda kind, connection: None
            return
        assert world.clock.now_ms() < end_ms, (
            f"L7 not done: {convergence.missing()}, crashed {played.crashed}"
        )
        if world.clock.now_ms() > started_ms + STOP_MS:
            for broker in sorted(world.stopping & world.brokers.keys()):
                world.close(broker)
        world.advance(250, expires=1.0)


def _deliver(simulation: ClusterSimulation, played: Crashes, step: ServerStep) -> None:
    """Performs one step of the server; transactions of the controller are points."""
    world = simulation.world
    client = world.server.clients[step.client]
    if not any(controller.client is client for controller in world.active_controllers):
        world.server.deliver(step)
    elif step.kind == "request" and client.requests and _changes(client.requests[0].request):
        played.point("transaction sent")
        if not played.crash_if_due():
            world.server.deliver(step)
            played.point("transaction applied")
            played.crash_if_due()
    else:
        is_answer = step.kind == "reply" and client.replies and _has_changed(client.replies[0].outcome)
        world.server.deliver(step)
        if is_answer:
            played.point("transaction answered")


def _changes(request: object) -> bool:
    return isinstance(request, Multi) and any(not isinstance(each, Check) for each in request.operations)


def _has_changed(outcome: object) -> bool:
    """Whether the outcome is of anything but a heartbeat."""
    return isinstance(outcome, MultiDone) and len(outcome.stats) > CHECKS
