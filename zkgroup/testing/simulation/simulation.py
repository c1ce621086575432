"""One schedule: real machines over a memory ZooKeeper, and a scheduler that decides what happens next.

Everything follows from the seed: who is in the group, in which order requests are executed, answers and
watches delivered, timers fired, how long a process sleeps, which reply gets lost. `run` first lets things
go wrong for a number of steps, then stops the faults and demands that the group converges and stays so.
Safety is judged at every transaction (`audit`), and by the history checker at the end.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from zkgroup.history import CheckOptions, check_history
from zkgroup.testing.server_history import server_transactions
from zkgroup.testing.simulation.consuming import ConsumingActor
from zkgroup.testing.simulation.faults import Faults
from zkgroup.testing.simulation.quiet import Quiet
from zkgroup.testing.simulation.setup import GROUP, Setup, draw
from zkgroup.testing.simulation.world import World

Act = Callable[[], object]

RUN_AT_ONCE = (1, 1, 1, 1, 5, 2000)
"""Entries that a member's loop handles before anything else happens."""


class SimulationError(AssertionError):
    """A schedule broke a promise. The message names the seed; the same seed does it again."""


@dataclass(slots=True)
class Report:
    """What happened in a schedule, so that a batch can show that the faults bit."""

    seed: int
    setup: Setup
    figures: Counter[str] = field(default_factory=Counter)
    converged_ms: int | None = None
    """From the end of the faults; None in a group with JVM members, which promises no convergence."""


class Simulation:
    """A seeded schedule. `run()` returns its report or raises `SimulationError`."""

    def __init__(self, seed: int, *, steps: int = 600, setup: Setup | None = None) -> None:
        self.seed = seed
        told = f"steps={steps}" if setup is None else "setup=..."  # which is printed, too
        self._replay = f"Simulation({seed}, {told}).run()"
        self.setup = setup if setup is not None else draw(seed, steps)
        self.rng = random.Random(f"schedule {seed}")  # noqa: S311 - it shall be the same again
        self.world = World(self.setup, self.rng)
        self.report = Report(seed, self.setup)
        self.trace: list[str] = []
        self._faults = Faults(self.world, self.rng)
        for index in range(self.setup.members):
            self.world.add_member(index)
        for index in range(self.setup.jvm_members):
            self.world.add_jvm_member(index)

    def run(self) -> Report:
        """The whole schedule: chaos, quiet, verdict."""
        try:
            with _members_log_nothing():
                for _ in range(self.setup.steps):
                    self.step()
                self.settle()
            self._check_history()
        except Exception as error:
            raise SimulationError(self._describe(f"{type(error).__name__}: {error}")) from error
        self._count()
        return self.report

    # --- chaos ------------------------------------------------------------------------------------

    def step(self) -> None:
        """Perhaps a fault, and one of the things that may happen next."""
        for fault, weight in self.setup.weights.items():
            if weight and self.rng.random() < weight / 1000:
                self.inject(fault)
        self.rng.choice(self._choices())()
        self.world.audit.look()
        for actor in self.world.actors:
            actor.check()

    def inject(self, fault: str) -> None:
        """Makes one fault happen now, if it can."""
        did = self._faults.happen(fault)
        if did is not False:
            self.report.figures[f"fault {fault}"] += 1
            self.trace.append(f"{self.world.clock.now_ms()} {fault}: {did}")

    def _choices(self) -> list[Act]:
        """A delivery, an event, an act of an application, or time."""
        server = self.world.server
        if not self.setup.stale:
            for name in server.clients:
                server.catch_up(name)
        choices: list[Act] = [lambda s=step: server.deliver(s) for step in self.world.pending()]  # type: ignore[misc]
        for actor in self.world.awake():
            if actor.has_work:
                choices += [lambda a=actor: a.run(self.rng.choice(RUN_AT_ONCE))] * 3  # type: ignore[misc]
            choices += self._acts(actor)
        for jvm in self.world.jvm:
            choices += jvm.choices()
        choices.append(self._pass_time)
        return choices

    def _acts(self, actor: ConsumingActor) -> list[Act]:
        application, runner = actor.application, actor.runner
        acts = application.acts() if self.rng.random() < 0.5 else []
        if actor.can_fetch:
            acts.append(actor.fetch)
        if runner.can_begin:
            acts.append(actor.begin_callback)
        if not self.world.callbacks_hang:
            acts += [actor.end_callback] * runner.can_return + [
                actor.end_late_callback
            ] * runner.can_return_late
        return acts

    def _pass_time(self) -> None:
        """A moment, or up to the next thing that is due."""
        moments = [1, 5, 20, 100]
        due_ms = self.world.next_due_ms()
        if due_ms is not None and not self.world.is_busy():
            moments.append(max(1, due_ms - self.world.clock.now_ms()))
        self.world.advance(self.rng.choice(moments))
        self.world.produce()

    # --- quiet, and the verdict -------------------------------------------------------------------

    def settle(self) -> None:
        """No more faults: everybody gets what the plan says, within a bound, and keeps it (L1-L5)."""
        quiet = Quiet(self.world, self.rng)
        if self.setup.jvm_members:
            quiet.calm_down()
        else:
            self.report.converged_ms = quiet.converge()

    def _check_history(self) -> None:
        """The same run, judged again from its records and the server's log by the history checker."""
        options = CheckOptions(
            group=GROUP, ended_members=[actor.member_id for actor in self.world.killed], slack_ms=0
        )
        log = server_transactions(self.world.server.log, self.world.clock)
        report = check_history(self.world.recording.records, log, options)
        excused = {"S8"} if self._has_overruled_leases() else set()
        if self.setup.habits.own_offsets:
            excused.add("S5")  # the application itself commits what it has not processed
        violations = [v for v in report.violations if v.invariant not in excused]
        if violations or report.damage:
            raise AssertionError("; ".join(map(str, (*violations, *report.damage))))
        figures = self.report.figures
        figures["refused stale commits"] += report.figures.refused_stale_commits
        figures["ownership changes"] += report.figures.ownership_changes
        figures["deliveries"] += report.figures.deliveries

    def _has_overruled_leases(self) -> bool:
        """Who ends a session before its time, or deletes an owner by path, overrules any lease.

        Commits stay fenced then; that deliveries do not overlap for a moment is no promise any more.
        """
        figures = self.report.figures
        return bool(figures["fault expire"] or figures["fault steal"] or self.setup.jvm_members)

    def _count(self) -> None:
        figures = self.report.figures
        figures["sessions expired"] += self.world.sessions_expired
        figures.update(self.world.audit.figures)
        for actor in (*self.world.actors, *self.world.killed):
            figures.update(actor.application.figures)
        for record in self.world.recording.records:
            if record.kind.endswith((".ok", ".fail", ".info")) or record.kind in _COUNTED:
                figures[record.kind] += 1
        figures["claims adopted"] += self._adopted()

    def _adopted(self) -> int:
        """Claims, and moves between threads, that a member owns without an answer that told it so."""
        records = self.world.recording.records
        told = {record.fields["zxid"] for record in records if record.kind in ("claim.ok", "release.ok")}
        return sum(record.kind == "own.begin" and record.fields["token"] not in told for record in records)

    def _describe(self, what: str) -> str:
        lines = [
            f"seed {self.seed}: {what}",
            f"replay: {self._replay}",
            f"setup: {self.setup}",
            *(f"  {line}" for line in self.trace[-40:]),
        ]
        for actor in self.world.living():
            picture = actor.describe()
            held, target = sorted(map(str, picture.held)), sorted(map(str, picture.target))
            lines.append(f"  {actor.member_id}: {picture.state.value} ({picture.reason})")
            lines.append(f"    held {held}, target {target}, blocked {dict(picture.blocked)}")
        return "\n".join(lines)


@contextmanager
def _members_log_nothing() -> Iterator[None]:
    """What goes wrong here is no news to anybody, and takes its time to be said."""
    loggers = [logging.getLogger(name) for name in ("zkgroup.consumer", "zkgroup.state_change")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


_COUNTED = ("reset.obeyed", "foreign_write", "lease.expired", "ghost", "watch_gap", "fence_broken")
