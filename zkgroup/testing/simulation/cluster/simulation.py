"""`ClusterSimulation`: one schedule of controllers and brokers, in which the seed decides what happens next.

The seed draws the cluster, the order in which requests are executed, answers, watches and requests to brokers
delivered, how long a process pauses, and what operators request. After the faults there must be one active
controller, nothing left undone, and no further change. The history checker decides about the whole at the
end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from zkgroup.history import ClusterOptions, Record, check_cluster
from zkgroup.testing.server_history import server_transactions
from zkgroup.testing.simulation.cluster.convergence import ClusterConvergence
from zkgroup.testing.simulation.cluster.faults import ClusterFaults
from zkgroup.testing.simulation.cluster.foreign_writers import ForeignWriters
from zkgroup.testing.simulation.cluster.operations import Operations
from zkgroup.testing.simulation.cluster.setup import (
    AWAITED,
    FOREIGN_WRITES,
    OPERATIONS,
    ClusterSetup,
    draw_cluster,
)
from zkgroup.testing.simulation.cluster.world import ClusterWorld
from zkgroup.testing.simulation.schedule import Action, Schedule, ScheduleReport
from zkgroup.znodes.brokers import Topic

BURST_ROUNDS_MAX = 8


class ClusterSimulationError(AssertionError):
    """A schedule broke a promise. The message names the seed; the same seed does it again."""


ClusterRun = ScheduleReport[ClusterSetup]


class ClusterSimulation(Schedule[ClusterSetup, ClusterWorld]):
    """A seeded schedule. `run()` returns its report or raises `ClusterSimulationError`."""

    error = ClusterSimulationError

    def __init__(self, seed: int, *, steps: int = 250, setup: ClusterSetup | None = None) -> None:
        super().__init__(seed, steps, setup, draw_cluster)
        self.world = ClusterWorld(self.setup, self.rng)
        self.convergence = ClusterConvergence(self.world)
        self._faults = ClusterFaults(self.world, self.rng)
        self._operations = Operations(self.world, self.rng)
        self._foreign_writers = ForeignWriters(self.world, self.rng)
        self._lines = 0
        self._quiet_from_ms = 0

    def run(self, chaos: Action | None = None) -> ClusterRun:
        """The whole schedule: a cluster comes to be, chaos (drawn, unless it is given), quiet, verdict."""
        return self._run(lambda: self._begin_and_disturb(self._steps if chaos is None else chaos))

    def _begin_and_disturb(self, chaos: Action) -> None:
        self.begin()
        chaos()

    def begin(self) -> None:
        """Everybody starts, and topics are made."""
        self.convergence.start()
        for name, lists in self.setup.topics.items():
            self.world.server.put(Topic.path(name), Topic(dict(enumerate(lists))).encode())
        self.convergence.pass_time(100)

    # --- chaos ----------------------------------------------------------------------------------------

    def step(self) -> None:
        """Perhaps a fault or an operation, and one of the things that may happen next."""
        self._disturb(self.setup.weights)
        if self.rng.random() < 0.02:
            self.inject("start")
        self.rng.choice(self._choices())()
        if self.rng.random() < self.setup.bursts:
            self._drain_for_a_while()
        for broker in self.world.brokers.values():
            if broker.waiting or broker.held_fetches:
                broker.look_at_waiting()

    def _happen(self, what: str) -> tuple[str, object]:
        if what in OPERATIONS:
            return "operation", self._operations.happen(what)
        if what in FOREIGN_WRITES:
            return "stranger", self._foreign_writers.happen(what)
        return "fault", self._faults.happen(what)

    def _drain_for_a_while(self) -> None:
        """Whatever waits happens for a while, and timers fire: else no controller would get anywhere between
        two faults."""
        world = self.world
        for _ in range(self.rng.randint(1, BURST_ROUNDS_MAX)):
            self._disturb(AWAITED)
            for step in filter(world.passes, world.server.pending()):
                world.server.deliver(step)
            for act in world.acts():
                act()
            if self.rng.random() < 0.3:
                due_ms = world.next_due_ms()
                wait_ms = 100 if due_ms is None else due_ms - world.clock.now_ms()
                world.advance(min(500, max(1, wait_ms)))

    def _choices(self) -> list[Action]:
        world, server = self.world, self.world.server
        self._catch_up()
        pending = filter(world.passes, server.pending())
        choices: list[Action] = [lambda s=step: server.deliver(s) for step in pending]  # type: ignore[misc]
        choices += list(world.acts()) * 2
        is_busy = bool(choices)
        fetches = list(world.fetches())
        if fetches:
            choices.append(self.rng.choice(fetches))
        choices += [self._produce, self.world.consumers.read, lambda: self._pass_time(is_busy)]
        return choices

    def _produce(self) -> None:
        """A producer with acks=all sends to whoever says that he leads."""
        brokers = self.world.awake_brokers()
        partitions = sorted(self.world.audit.look().partitions())
        if not brokers or not partitions:
            return
        tp = self.rng.choice(partitions)
        able = [one for one in brokers if one.leads(tp) is not None]
        if able:
            count = self.rng.choice((1, 1, 2))
            lines = tuple(b"line %d" % (self._lines + number) for number in range(count))
            self._lines += count
            self.rng.choice(able).append(tp, lines)

    def _pass_time(self, is_busy: bool) -> None:
        self._advance(lambda: is_busy)
        for broker in sorted(self.world.stopping):
            if self.rng.random() < 0.1:
                self.world.stopping.discard(broker)
                if broker in self.world.brokers:
                    self.world.close(broker)

    # --- quiet, and the verdict -----------------------------------------------------------------------

    def settle(self) -> None:
        """No more faults: one rules, and everything is done within a bound (L6, L7), and remains so."""
        for broker in sorted(self.world.stopping & self.world.brokers.keys()):
            self.world.close(broker)
        self.report.converged_ms = self.convergence.converge()
        self._quiet_from_ms = self.world.clock.now_ms()
        self.convergence.stay()

    def judge(self) -> None:
        """The checker's verdict over the log and the brokers' records."""
        world = self.world
        options = ClusterOptions(
            quiet_from_ms=self._quiet_from_ms,
            takeover_ms=0,
            recovery_ms=0,
            same_process=list(world.sessions.values()),
            unserved=world.unserved,
        )
        log = server_transactions(world.server.log, world.clock)
        report = check_cluster(log, self._kept_promises(), options)
        if not report.holds:
            raise AssertionError("; ".join(map(str, (*report.violations, *report.damage))))
        for each in fields(report.figures):
            self.report.figures[each.name.replace("_", " ")] += getattr(report.figures, each.name)

    def _kept_promises(self) -> list[Record]:
        """What brokers recorded; an unclean election that somebody has allowed may lose what was acknowledged
        or read of the terms before it."""
        world = self.world
        world.audit.look()
        kept = []
        for record in world.recording.records:
            if record.kind in ("append.ok", "lines.read"):
                tp = record.topic_partition
                since = world.audit.unclean.get((tp, record.fields["life"]), 0)
                if tp.topic in world.may_lose and record.fields["leader_epoch"] < since:
                    self.report.figures["lines that an unclean election may lose"] += 1
                    continue
            kept.append(record)
        return kept

    def _count(self) -> None:
        figures = self.report.figures
        figures.update(self.world.figures)
        figures.update({f"requests {name}": count for name, count in self.world.network.figures.items()})

    def _state(self) -> Iterable[str]:
        controllers = self.world.controllers.values()
        return (f"{one.name}: active {one.rules}, won {one.epochs}" for one in controllers)
