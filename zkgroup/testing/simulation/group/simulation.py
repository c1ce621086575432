"""`Simulation`: one schedule of a group, in which the seed decides what happens next.

The seed draws the members, the order in which requests are executed, answers and watches delivered and timers
fired, how long a process pauses, and which replies are lost. After the faults the group must converge and
stay so. Safety is checked at every transaction (`audit`), and by the history checker at the end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from zkgroup.history import CheckOptions, check_history
from zkgroup.testing.server_history import server_transactions
from zkgroup.testing.simulation.group.convergence import Convergence
from zkgroup.testing.simulation.group.faults import Faults
from zkgroup.testing.simulation.group.members import ConsumingActor
from zkgroup.testing.simulation.group.setup import GROUP, Setup, draw
from zkgroup.testing.simulation.group.world import World
from zkgroup.testing.simulation.schedule import Action, Schedule, ScheduleReport

RUN_AT_ONCE = (1, 1, 1, 1, 5, 2000)
"""Entries that a member's loop handles before anything else happens."""


class SimulationError(AssertionError):
    """A schedule broke a promise. The message names the seed; the same seed does it again."""


Report = ScheduleReport[Setup]


class Simulation(Schedule[Setup, World]):
    """A seeded schedule. `run()` returns its report or raises `SimulationError`."""

    error = SimulationError

    def __init__(self, seed: int, *, steps: int = 600, setup: Setup | None = None) -> None:
        super().__init__(seed, steps, setup, draw)
        self.world = World(self.setup, self.rng)
        self._faults = Faults(self.world, self.rng)
        for index in range(self.setup.members):
            self.world.add_member(index)
        for index in range(self.setup.jvm_members):
            self.world.add_jvm_member(index)

    def run(self) -> Report:
        """The whole schedule: chaos, quiet, verdict."""
        with _members_log_nothing():
            return self._run(self._steps)

    # --- chaos ------------------------------------------------------------------------------------

    def step(self) -> None:
        """Perhaps a fault, and one of the things that may happen next."""
        self._disturb(self.setup.weights)
        self.rng.choice(self._choices())()
        self.world.audit.look()
        for actor in self.world.actors:
            actor.check()

    def _happen(self, what: str) -> tuple[str, object]:
        return "fault", self._faults.happen(what)

    def _choices(self) -> list[Action]:
        """A delivery, an event, an act of an application, or time."""
        server = self.world.server
        self._catch_up()
        choices: list[Action] = [lambda s=step: server.deliver(s) for step in self.world.pending()]  # type: ignore[misc]
        for actor in self.world.awake():
            if actor.has_work:
                choices += [lambda a=actor: a.run(self.rng.choice(RUN_AT_ONCE))] * 3  # type: ignore[misc]
            choices += self._acts(actor)
        for jvm in self.world.jvm:
            choices += jvm.choices()
        choices.append(self._pass_time)
        return choices

    def _acts(self, actor: ConsumingActor) -> list[Action]:
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
        self._advance(self.world.is_busy)
        self.world.produce()

    # --- quiet, and the verdict -------------------------------------------------------------------

    def settle(self) -> None:
        """No more faults: everybody gets what the plan says, within a bound, and keeps it (L1-L5)."""
        convergence = Convergence(self.world, self.rng)
        if self.setup.jvm_members:
            convergence.calm_down()
        else:
            self.report.converged_ms = convergence.converge()

    def judge(self) -> None:
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

    def _state(self) -> Iterable[str]:
        for actor in self.world.living():
            status = actor.describe()
            held, target = sorted(map(str, status.held)), sorted(map(str, status.target))
            yield f"{actor.member_id}: {status.state.value} ({status.reason})"
            yield f"  held {held}, target {target}, blocked {dict(status.blocked)}"


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
