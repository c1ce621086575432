"""`Simulation`: one schedule of a group, with faults drawn from a seed, and its convergence after them.

The seed draws the members, the order in which requests are executed, responses and watches delivered and
timers fired, how long a process pauses, and which responses are lost. After the faults the group must
converge: the assigned member owns each partition, and no owner changes any more (L1 to L5). Safety is checked
at every transaction (`audit`), and by the history checker at the end.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from tests.simulation.group.faults import GroupFaults
from tests.simulation.group.members import ConsumingActor
from tests.simulation.group.setup import GROUP, GroupSetup, draw
from tests.simulation.group.world import BROKER, GroupWorld
from tests.simulation.schedule import Action, Schedule, ScheduleReport
from zkgroup.assignment import DEFAULT_STRATEGY, agreed_strategy, assign
from zkgroup.assignment.strategies import needs_previous
from zkgroup.assignment.wildcards import evaluate
from zkgroup.consumer.machine.commit_rate import SESSIONS_MAX
from zkgroup.consumer.machine.events import MemberState
from zkgroup.errors import AssignmentError
from zkgroup.history import CheckOptions, check_history
from zkgroup.model import EvaluatedMember, TopicPartition, Znode
from zkgroup.model.assignors import racks_of_replicas
from zkgroup.testing.memory_zookeeper.leader import server_transactions
from zkgroup.testing.memory_zookeeper.server import MemoryZooKeeper
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import Offset, Registration, ids_path, static_path
from zkgroup.znodes.group_records import Freeze, StoredAssignment


class Goal:
    """Compares the tree, and the members' state, with an assignment computed from the tree alone."""

    def __init__(self, server: MemoryZooKeeper, group: str) -> None:
        self._server = server
        self._group = group

    def owners(self) -> Mapping[TopicPartition, tuple[str, int]]:
        """The owners in the tree: thread id and czxid."""
        prefix = f"/consumers/{self._group}/owners/"
        found = {}
        for path, znode in self._server.tree().items():
            topic, slash, number = path.removeprefix(prefix).partition("/")
            if path.startswith(prefix) and slash:
                owner = (znode.data or b"").decode()
                found[TopicPartition(topic, int(number))] = (owner, znode.stat.czxid)
        return found

    def missing(self, actors: Sequence[ConsumingActor]) -> str | None:
        """The first difference from the goal, or None."""
        for actor in actors:
            if actor.state is not MemberState.STABLE:
                return f"{actor.member_id} is {actor.state.value}"
        registered = {actor.member_id for actor in actors}
        tree = self._server.tree()
        if actors and Freeze.path(self._group) in tree:  # a member ends it
            return "the group is frozen"
        ids = tree.get(ids_path(self._group))
        late = [each.member_id for each in actors if ids and each.describe().generation != ids.stat.pzxid]
        if late:  # the next assignment may claim what was handed back before it
            return f"{late} have not read the newest generation"
        static = f"{static_path(self._group)}/"
        kept = {p.removeprefix(static) for p, znode in tree.items() if p.startswith(static) and znode.data}
        if actors and kept - registered:  # the end of an absence is an assignment, too
            return f"{sorted(kept - registered)} are away"
        members = self._members(tree)
        if {m.member for m in members} != registered:
            return f"registered are {sorted(m.member for m in members)}, running {sorted(registered)}"
        expected, owners = self._expected(tree, members), self.owners()
        expected = {tp: who for tp, who in expected.items() if not _is_handed_back(actors, tp, who)}
        if {tp: who for tp, (who, _) in owners.items()} != expected:
            return f"owners {_text(owners)}, expected {dict(sorted(expected.items()))}"
        return self._beliefs(actors, owners)

    def _members(self, tree: Mapping[str, Znode]) -> list[EvaluatedMember]:
        prefix = f"/consumers/{self._group}/ids/"
        topics = [p.removeprefix("/brokers/topics/") for p in tree if p.startswith("/brokers/topics/")]
        return [
            (registration := Registration.decode(path, znode.data)).evaluated(
                path.removeprefix(prefix), evaluate(registration.wanted(), topics, True)
            )
            for path, znode in tree.items()
            if path.startswith(prefix)
        ]

    def _expected(
        self, tree: Mapping[str, Znode], members: Sequence[EvaluatedMember]
    ) -> Mapping[TopicPartition, str]:
        replicas = {
            topic: Topic.decode(path, tree[path].data).partitions
            if (path := Topic.path(topic)) in tree
            else {}
            for member in members
            for topic in member.threads
        }
        partitions = {topic: tuple(sorted(each)) for topic, each in replicas.items()}
        prefix = f"/consumers/{self._group}/ids/"
        strategy = agreed_strategy(
            [
                Registration.decode(path, znode.data).preference
                for path, znode in tree.items()
                if path.startswith(prefix)
            ]
        )
        if strategy is not None and needs_previous(strategy):
            path = StoredAssignment.path(self._group)
            plan = StoredAssignment.decode(path, tree[path].data) if path in tree else None
            everything = {TopicPartition(topic, n) for topic, numbers in partitions.items() for n in numbers}
            is_last = plan is not None and not plan.moving and plan.owners.keys() >= everything
            return plan.owners if plan is not None and is_last else {}
        try:
            racks = racks_of_replicas(replicas, {0: "a"} if BROKER in tree else {})
            return assign(strategy or DEFAULT_STRATEGY, members, partitions, None, racks).owners
        except AssignmentError:
            return {tp: who for tp, (who, _) in self.owners().items()}

    @staticmethod
    def _beliefs(
        actors: Sequence[ConsumingActor], owners: Mapping[TopicPartition, tuple[str, int]]
    ) -> str | None:
        for actor in actors:
            mine = {
                tp: token for tp, (who, token) in owners.items() if who.rpartition("-")[0] == actor.member_id
            }
            believed = {tp: grant.token for tp, grant in actor.grants().items()}
            if mine != believed:
                return f"{actor.member_id} owns {believed}, in the tree {mine}"
            if sorted(actor.application.owned) != sorted(mine):
                return f"{actor.member_id} delivers {actor.application.owned}"
        return None


def _is_handed_back(actors: Sequence[ConsumingActor], tp: TopicPartition, who: str) -> bool:
    """Whether its member handed the partition back until the next assignment."""
    member = who.rpartition("-")[0]
    return any(actor.member_id == member and tp in actor.handed_back() for actor in actors)


def _text(owners: Mapping[TopicPartition, tuple[str, int]]) -> str:
    return ", ".join(f"{tp}: {who}" for tp, (who, _) in sorted(owners.items()))


CONVERGE_MS = 60_000
STAY_MS = 15_000
ROUNDS_MAX = 10_000


class GroupConvergence:
    """Runs all members in a drawn order, without faults."""

    def __init__(self, world: GroupWorld, rng: random.Random) -> None:
        self._world = world
        self._rng = rng

    def converge(self) -> int:
        """Milliseconds until convergence. Raises AssertionError where it is not reached, or not kept."""
        self.calm_down()
        goal, clock = Goal(self._world.server, GROUP), self._world.clock
        started_ms = clock.now_ms()
        in_a_row = 0
        while in_a_row < 2:  # members may not have read the last changes yet
            reason = goal.missing(self._world.living())
            in_a_row = in_a_row + 1 if reason is None else 0
            assert clock.now_ms() - started_ms <= CONVERGE_MS, f"not converged: {reason}"
            self._pass(200)
        took_ms, owners = clock.now_ms() - started_ms, goal.owners()
        self._pass(STAY_MS)
        reason = goal.missing(self._world.living())
        assert reason is None, f"did not stay: {reason}"
        living = self._world.living()  # an application may hand a partition back at any time
        kept = {tp: one for tp, one in owners.items() if not _is_handed_back(living, tp, one[0])}
        assert goal.owners() == kept, f"owners changed at rest: {owners}, {goal.owners()}"
        self._require_what_is_believed()
        self._last_commits()
        return took_ms

    def calm_down(self) -> None:
        """Ends the faults, and does nothing else: the members must repair what the faults have left."""
        self._world.wake_all()
        self._pass(500)

    def _pass(self, ms: int) -> None:
        clock = self._world.clock
        end_ms = clock.now_ms() + ms
        while True:
            self.drain()
            due_ms = self._world.next_due_ms()
            next_ms = min(end_ms, clock.now_ms() + 1000, due_ms if due_ms is not None else end_ms)
            self._world.advance(max(0, next_ms - clock.now_ms()))
            if clock.now_ms() >= end_ms and not any(actor.has_work for actor in self._world.living()):
                return

    def drain(self) -> None:
        """Runs everything that needs no time. Raises AssertionError where it does not end."""
        for _ in range(ROUNDS_MAX):
            for step in self._world.pending():
                self._world.server.deliver(step)
            living = self._world.living()
            acted = [self._step(actor) for actor in self._rng.sample(living, len(living))]
            acted += [jvm.step() for jvm in self._world.jvm]
            self._world.audit.catch_up()
            if not any(acted) and not self._world.server.pending():
                return
        raise AssertionError("endless activity without time passing")

    @staticmethod
    def _step(actor: ConsumingActor) -> bool:
        did = actor.has_work and actor.run() > 0
        if actor.runner.can_prepare:
            actor.runner.prepare()
            did = True
        if actor.runner.can_begin:
            actor.begin_callback()
            did = True
        if actor.runner.can_return:
            actor.end_callback()
            did = True
        if actor.runner.can_return_late:
            actor.end_late_callback()
            did = True
        if actor.can_fetch:
            actor.fetch()
            did = True
        did |= actor.finished is None and actor.application.calm()
        if did:
            actor.check()
        return did

    def _require_what_is_believed(self) -> None:
        """After convergence, an offset without foreign writes is what its owner takes it for."""
        for actor in self._world.living():
            description = actor.describe()
            for tp, grant in description.grants.items():
                znode = self._world.server.find(Offset.path(GROUP, tp))
                if znode is not None and znode.stat.version == description.fences[tp]:
                    believed = -1 if grant.offset is None else grant.offset
                    stands = int(znode.data or b"-1")
                    assert max(stands, -1) == believed, f"{tp} is at {stands}, not at {believed}"

    def _undelivered(self) -> list[str]:
        return [
            f"{tp} is delivered by {actor.member_id} up to {reached} of {end}"
            for actor in self._world.living()
            for tp in sorted(set(actor.application.owned) - self._world.dead)
            if (reached := actor.application.reached.get(tp)) != (end := self._world.log.end(tp))
        ]

    def _last_commits(self) -> None:
        """After convergence every owner delivers new records and commits them, and no commit is refused (L5).

        The first commit may still detect a foreign write.
        """
        for is_second in (False, True):
            for tp in Goal(self._world.server, GROUP).owners():
                self._world.log.append(tp)
            self.drain()
            setup = self._world.setup
            wait_ms = SESSIONS_MAX * setup.session_timeout_ms  # at most, for the rate of commits
            if any("commit_rate_max" in each for each in setup.traits) and self._undelivered():
                self._pass(wait_ms)  # a position that the reset policy gives is committed first
            assert not self._undelivered(), self._undelivered()
            for actor in self._world.living():
                before = len(actor.application.results)
                actor.application.commit()
                self.drain()
                if actor.application.open_commits:
                    self._pass(wait_ms)
                actor.application.check_ended()
                for result in actor.application.results[before:]:
                    assert not (is_second and result.refused), f"refused after convergence: {result.refused}"


RUN_AT_ONCE = (1, 1, 1, 1, 5, 2000)
"""Number of entries that a member's loop handles in a row."""


class SimulationError(AssertionError):
    """A schedule violated an invariant. The message names the seed, which reproduces it."""


Report = ScheduleReport[GroupSetup]


class Simulation(Schedule[GroupSetup, GroupWorld]):
    """A seeded schedule. `run()` returns its report or raises `SimulationError`."""

    error = SimulationError

    def __init__(self, seed: int, *, steps: int = 600, setup: GroupSetup | None = None) -> None:
        """Draws the setup; `run` plays the schedule.

        Args:
            seed: decides everything that is drawn: the same seed gives the same schedule.
            steps: number of events that are drawn before the faults end.
            setup: replaces the drawn setup, its `steps` too.
        """
        super().__init__(seed, steps, setup, draw)
        self.world = GroupWorld(self.setup, self.rng)
        self._faults = GroupFaults(self.world, self.rng)
        for index in range(self.setup.members):
            self.world.add_member(index)
        for index in range(self.setup.jvm_members):
            self.world.add_jvm_member(index)

    def run(self) -> Report:
        """Runs the whole schedule: faults, convergence, history check."""
        with members_log_nothing():
            return self._run(self._steps)

    def step(self) -> None:
        """Perhaps a fault, then one of the possible events."""
        self._disturb(self.setup.weights)
        self.rng.choice(self._choices())()
        self.world.audit.catch_up()
        for actor in self.world.actors:
            actor.check()

    def _happen(self, what: str) -> tuple[str, object]:
        return "fault", self._faults.inject(what)

    def _choices(self) -> list[Action]:
        """Possible events: a step of the server, of a member or of an application, or time."""
        server = self.world.server
        self._catch_up()
        choices: list[Action] = [lambda s=step: server.deliver(s) for step in self.world.pending()]  # type: ignore[misc]
        for actor in self.world.awake():
            if actor.has_work:
                choices += [lambda a=actor: a.run(self.rng.choice(RUN_AT_ONCE))] * 3  # type: ignore[misc]
            choices += self._actions(actor)
        for jvm in self.world.jvm:
            choices += jvm.choices()
        choices.append(self._pass_time)
        return choices

    def _actions(self, actor: ConsumingActor) -> list[Action]:
        application, runner = actor.application, actor.runner
        actions = application.actions() if self.rng.random() < 0.5 else []
        if actor.can_fetch:
            actions.append(actor.fetch)
        if runner.can_prepare:
            actions.append(runner.prepare)
        if runner.can_begin:
            actions.append(actor.begin_callback)
        if not self.world.callbacks_hang:
            actions += [actor.end_callback] * runner.can_return + [
                actor.end_late_callback
            ] * runner.can_return_late
        return actions

    def _pass_time(self) -> None:
        self._advance(self.world.is_busy)
        self.world.produce()

    def converge(self) -> None:
        """Ends the faults: each member must get its share within a bound, and keep it (L1-L5)."""
        convergence = GroupConvergence(self.world, self.rng)
        if self.setup.jvm_members:
            convergence.calm_down()
        else:
            self.report.converged_ms = convergence.converge()

    def check_history(self) -> None:
        """Runs the history checker on the records and the server's log."""
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
        """Whether a fault ended a session early or deleted an owner by path, which overrules leases.

        Commits stay fenced then, but deliveries may overlap for a moment.
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
        """Claims, and handovers between threads, that a member owns without an acknowledgement."""
        records = self.world.recording.records
        acknowledged = {
            record.fields["zxid"] for record in records if record.kind in ("claim.ok", "release.ok")
        }
        return sum(
            record.kind == "own.begin" and record.fields["token"] not in acknowledged for record in records
        )

    def _state(self) -> Iterable[str]:
        for actor in self.world.living():
            status = actor.describe()
            owned, assigned = sorted(map(str, status.grants)), sorted(map(str, status.assigned))
            yield f"{actor.member_id}: {status.state.value} ({status.reason})"
            yield f"  owned {owned}, assigned {assigned}, blocked {dict(status.blocked)}"


@contextmanager
def members_log_nothing() -> Iterator[None]:
    """Switches off logging, which is slow and reports only injected faults here."""
    loggers = [logging.getLogger(name) for name in ("zkgroup.consumer", "zkgroup.state_change")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


_COUNTED = (
    "reset.applied",
    "foreign_write",
    "lease.expired",
    "stale_registration",
    "away",
    "away_end",
    "watch_gap",
    "fence_broken",
)
