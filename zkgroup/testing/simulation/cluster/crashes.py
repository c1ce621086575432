"""Crashes of a controller at each numbered point of what it does.

Points of one controller's activity, in order: each transaction *sent*, *applied* and *answered*, each request
to a broker *sent*, *handled* and *answered*. A crash at a point ends the controller's process there: what was
sent and not applied or handled is lost, what was done is done, and the controller gets no answer. A broker
that hosts the controller ends with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from zkgroup.model import TopicPartition
from zkgroup.model.requests import Check, Multi, MultiDone
from zkgroup.testing.memory_zookeeper.server import Step
from zkgroup.testing.simulation.cluster.controller import ControllerProcess
from zkgroup.testing.simulation.cluster.network import BrokerConnection
from zkgroup.testing.simulation.cluster.operations import Operations
from zkgroup.testing.simulation.cluster.setup import ClusterSetup
from zkgroup.testing.simulation.cluster.simulation import ClusterSimulation
from zkgroup.testing.simulation.cluster.world import Controller

LIMIT_MS = 60_000
LINES = 2
STOP_MS = 3_000
"""After so long a broker that has asked to be relieved stops, whatever has become of that."""
CHECKS = 2
"""Operations of a heartbeat: the fence alone."""


@dataclass
class Crashes:
    """Counts the points of whoever rules, and crashes him at the given ones."""

    simulation: ClusterSimulation
    at: Sequence[int]
    """How many points are passed before each crash, counted anew after each."""
    passed: list[str] = field(default_factory=list)
    """The points since the last crash."""
    crashed: list[str] = field(default_factory=list)
    """What was going on at each crash."""

    def __post_init__(self) -> None:
        self._left = list(self.at)
        self._due_at: int | None = None
        """Number of steps of the ruler's machine at which it dies."""
        self._due = ""
        """The point at which that was decided."""

    @property
    def _ruler(self) -> Controller | None:
        rulers = self.simulation.world.rulers
        return rulers[0] if rulers else None

    def point(self, what: str) -> None:
        """A point is passed. Whoever is answered dies once he has acted upon the answer."""
        ruler = self._ruler
        if ruler is None:
            return
        self.passed.append(what)
        if self._left and self._due_at is None and len(self.passed) > self._left[0]:
            self._due_at, self._due = _steps(ruler) + what.endswith("answered"), what

    def request_point(self, kind: str, line: BrokerConnection) -> None:
        """Of the network."""
        if line.owner is self._ruler:
            self.point(f"request to {line.broker} {kind}")

    def crash_if_due(self) -> bool:
        """Takes the ruler away where his time has come; whether it did."""
        ruler, world = self._ruler, self.simulation.world
        if self._due_at is None or ruler is None or _steps(ruler) < self._due_at:
            return False
        self._due_at = None
        self._left.pop(0)
        self.crashed.append(self._due)
        self.passed.clear()
        world.kill(ruler.broker)
        world.network.strays.clear()
        world.restart(ruler.broker)
        return True


def _steps(ruler: Controller) -> int:
    return ruler.shell.steps if isinstance(ruler, ControllerProcess) else 0


@dataclass(frozen=True)
class Action:
    """Something that takes a controller many steps."""

    setup: ClusterSetup
    begin: Callable[[ClusterSimulation, Operations], object]
    """Asks for it, or makes it necessary, in a cluster at rest."""


def play(action: Action, crashes: Sequence[int] = (), *, seed: int = 1) -> Crashes:
    """Carries the action out with crashes at these points, and judges what became of it.

    Raises ClusterSimulationError, as `ClusterSimulation.run` does.
    """
    simulation = ClusterSimulation(seed, setup=action.setup)
    played = Crashes(simulation, crashes)

    def chaos() -> None:
        _rest(simulation)
        for tp in sorted(simulation.world.audit.look().partitions()):
            _produce(simulation, tp)
        _rest(simulation)
        simulation.world.network.point = played.request_point
        action.begin(simulation, Operations(simulation.world, simulation.rng))
        _go_on(simulation, played)

    simulation.run(chaos)
    return played


def _produce(simulation: ClusterSimulation, tp: TopicPartition) -> None:
    for number in range(LINES):
        for broker in simulation.world.brokers.values():
            if broker.leads(tp) is not None:
                broker.append(tp, (b"%s %d" % (str(tp).encode(), number),))


def _rest(simulation: ClusterSimulation) -> None:
    simulation.convergence.pass_time(1_000)


def _go_on(simulation: ClusterSimulation, played: Crashes) -> None:
    """Until the goal is reached, in turns, with a look at the points. What follows is no part of it."""
    world, convergence = simulation.world, simulation.convergence
    started_ms = world.clock.now_ms()
    end_ms = started_ms + LIMIT_MS
    while True:
        convergence.drain(lambda step: _deliver(simulation, played, step), played.crash_if_due)
        if convergence.missing() is None:
            world.network.point = lambda kind, line: None
            return
        assert world.clock.now_ms() < end_ms, (
            f"L7 not done: {convergence.missing()}, crashed {played.crashed}"
        )
        if world.clock.now_ms() > started_ms + STOP_MS:
            for broker in sorted(world.stopping & world.brokers.keys()):
                world.close(broker)
        world.advance(250, expires=1.0)


def _deliver(simulation: ClusterSimulation, played: Crashes, step: Step) -> None:
    """One step of the server; transactions of the ruler are points."""
    world = simulation.world
    client = world.server.clients[step.client]
    if not any(ruler.client is client for ruler in world.rulers):
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
    """Of anything but a heartbeat."""
    return isinstance(outcome, MultiDone) and len(outcome.stats) > CHECKS
