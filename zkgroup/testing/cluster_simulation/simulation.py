"""One schedule: real controllers and brokers over a memory ZooKeeper and a simulated network.

Everything follows from the seed: who is in the cluster, in which order requests are executed, answers,
watches and requests to brokers delivered, how long a process sleeps, what operators ask for. `run` first
lets things go wrong for a number of steps, then stops the faults and demands that one controller rules, that
nothing is left undone, and that it stays so. The checker judges the whole at the end.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields

from zkgroup.history import ClusterOptions, Record, check_cluster
from zkgroup.testing.cluster_simulation.faults import Faults
from zkgroup.testing.cluster_simulation.operations import Operations
from zkgroup.testing.cluster_simulation.quiet import Quiet
from zkgroup.testing.cluster_simulation.setup import AWAITED, OPERATIONS, STRANGERS, Setup, draw
from zkgroup.testing.cluster_simulation.strangers import Strangers
from zkgroup.testing.cluster_simulation.world import World
from zkgroup.testing.server_history import server_transactions
from zkgroup.znodes.brokers import Topic

Act = Callable[[], object]
BURST_ROUNDS_MAX = 8


class ClusterSimulationError(AssertionError):
    """A schedule broke a promise. The message names the seed; the same seed does it again."""


@dataclass(slots=True)
class ClusterRun:
    """What happened in a schedule, so that a batch can show that the faults bit."""

    seed: int
    setup: Setup
    figures: Counter[str] = field(default_factory=Counter)
    converged_ms: int | None = None
    """From the end of the faults."""


class ClusterSimulation:
    """A seeded schedule. `run()` returns its report or raises `ClusterSimulationError`."""

    def __init__(self, seed: int, *, steps: int = 250, setup: Setup | None = None) -> None:
        self.seed = seed
        told = f"steps={steps}" if setup is None else "setup=..."  # which is printed, too
        self._replay = f"ClusterSimulation({seed}, {told}).run()"
        self.setup = setup if setup is not None else draw(seed, steps)
        self.rng = random.Random(f"schedule {seed}")  # noqa: S311 - it shall be the same again
        self.world = World(self.setup, self.rng)
        self.report = ClusterRun(seed, self.setup)
        self.trace: list[str] = []
        self.quiet = Quiet(self.world)
        self._faults = Faults(self.world, self.rng)
        self._operations = Operations(self.world, self.rng)
        self._strangers = Strangers(self.world, self.rng)
        self._lines = 0
        self._quiet_from_ms = 0

    def run(self, chaos: Callable[[], object] | None = None) -> ClusterRun:
        """The whole schedule: a cluster comes to be, chaos (drawn, unless it is given), quiet, verdict."""
        try:
            self.begin()
            if chaos is not None:
                chaos()
            for _ in range(self.setup.steps if chaos is None else 0):
                self.step()
            self.settle()
            self.judge()
        except Exception as error:
            raise ClusterSimulationError(self._describe(f"{type(error).__name__}: {error}")) from error
        self._count()
        return self.report

    def begin(self) -> None:
        """Everybody starts, and topics are made."""
        self.quiet.start()
        for name, lists in self.setup.topics.items():
            self.world.server.put(Topic.path(name), Topic(dict(enumerate(lists))).encode())
        self.quiet.pass_time(100)

    # --- chaos ----------------------------------------------------------------------------------------

    def step(self) -> None:
        """Perhaps a fault or an operation, and one of the things that may happen next."""
        self._disturb(self.setup.weights)
        if self.rng.random() < 0.02:
            self.inject("start")
        self.rng.choice(self._choices())()
        if self.rng.random() < self.setup.bursts:
            self._go_on()
        for broker in self.world.brokers.values():
            if broker.waiting or broker.held_fetches:
                broker.look_at_waiting()

    def _disturb(self, by: Iterable[str]) -> None:
        weights = self.setup.weights
        for what in by:
            if (weight := weights.get(what, 0)) and self.rng.random() < weight / 1000:
                self.inject(what)

    def inject(self, what: str) -> None:
        """Makes one fault, operation or act of a stranger happen now, if it can."""
        if what in OPERATIONS:
            kind, did = "operation", self._operations.happen(what)
        elif what in STRANGERS:
            kind, did = "stranger", self._strangers.happen(what)
        else:
            kind, did = "fault", self._faults.happen(what)
        if did is not False:
            self.report.figures[f"{kind} {what}"] += 1
            self.trace.append(f"{self.world.clock.now_ms()} {what}: {did}")

    def _go_on(self) -> None:
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

    def _choices(self) -> list[Act]:
        world, server = self.world, self.world.server
        if not self.setup.stale:
            for name in server.clients:
                server.catch_up(name)
        pending = filter(world.passes, server.pending())
        choices: list[Act] = [lambda s=step: server.deliver(s) for step in pending]  # type: ignore[misc]
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
        """A moment, or up to the next thing that is due."""
        moments = [1, 5, 20, 100]
        due_ms = self.world.next_due_ms()
        if due_ms is not None and not is_busy:
            moments.append(max(1, due_ms - self.world.clock.now_ms()))
        self.world.advance(self.rng.choice(moments))
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
        self.report.converged_ms = self.quiet.converge()
        self._quiet_from_ms = self.world.clock.now_ms()
        self.quiet.stay()

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

    def _describe(self, what: str) -> str:
        lines = [
            f"seed {self.seed}: {what}",
            f"replay: {self._replay}",
            f"setup: {self.setup}",
            *(f"  {line}" for line in self.trace[-40:]),
            *(
                f"  {one.name}: rules {one.rules}, won {one.epochs}"
                for one in self.world.controllers.values()
            ),
        ]
        return "\n".join(lines)
