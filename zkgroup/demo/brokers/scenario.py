"""The scenario of `zkgroup demo brokers`, from starting ZooKeeper to reading what is left and checking it."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from zkgroup.admin import Move
from zkgroup.admin.reassign.progress import DONE, ReassignmentStatus, list_reassignments, verify_reassignments
from zkgroup.admin.reassign.proposals import (
    Planner,
    PlanRequest,
    make_plan,
    planner_decommission,
    planner_replace,
)
from zkgroup.admin.reassign.submission import plan_reassignment, submit
from zkgroup.admin.reassign.throttles import clear_throttles, read_throttles
from zkgroup.admin.topics import creation
from zkgroup.demo.brokers import demo_cluster
from zkgroup.demo.brokers.demo_cluster import (
    BROKERS,
    GROUP,
    PARTITIONS,
    READ_EVERY_S,
    REPLICATION,
    DemoCluster,
    DemoOptions,
    Producer,
)
from zkgroup.demo.brokers.proof import ControllerTerm, Evidence, UnderFire, judge, records_of, summarise
from zkgroup.demo.brokers.view import ClusterView
from zkgroup.demo.flight_data import TOPIC, bundled_lines, decode_line, reduce
from zkgroup.demo.members import group_state as group_sight
from zkgroup.demo.members import proof as consumers
from zkgroup.demo.processes import connected
from zkgroup.demo.progress import Check, Screen
from zkgroup.groups.ensemble import AsOf
from zkgroup.history import ClusterFigures, ClusterOptions, check_cluster, check_history, read_files
from zkgroup.history.transactions import read_transactions
from zkgroup.zookeeper import ClientSettings
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

NAMES = ("ada", "ben")
"""The consumers."""
SPARE = 4
"""The broker that hosts nothing at first."""
LEAVER = 2
"""The broker that is decommissioned."""
SERVERS = 3
TICK_MS = 500
QUICK_LOOK_S = 0.05
COPY_S = 5
"""So long the throttle makes the move take, so that its controller can be killed in the middle."""
RATE_MIN = 100_000
"""Bytes a second; well above what is produced meanwhile."""
SMALL_FILES = "-Dzookeeper.preAllocSize=4096"
"""KiB that a server's log grows by: all of it is read in the end."""


@dataclass(frozen=True, slots=True)
class DemoReport:
    """What came out."""

    checks: tuple[Check, ...]
    outcome: Outcome
    took_s: float
    failovers_s: tuple[float, ...]
    """From each SIGKILL of a controller until another ruled and every partition was led."""
    moved: int
    """Replicas that were copied."""
    as_of: AsOf
    zookeeper: str
    folder: Path | None
    """Where the files are, when they were kept, the ensemble's too."""

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)


def run(options: DemoOptions, screen: Screen[ClusterView]) -> DemoReport:
    """The whole demo. Leaves no process behind, whatever happens.

    Raises `StableTimeoutError` when the cluster does not get where it should in time, `MemberFailedError`
    when a process ended by itself, `EmbeddedServerError` when there is no server to start.
    """
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="zkgroup-demo-"))
        if not options.keep:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        play = Play(
            options=options,
            screen=screen,
            folder=folder,
            patience_s=options.patience_s,
            lines=tuple(bundled_lines()),
        )
        stack.callback(play.close)
        play.tell(f"starting an ensemble of {SERVERS} ZooKeeper servers and {len(BROKERS)} brokers")
        for broker in BROKERS:
            play.spawn(broker)
        ensemble = EmbeddedZooKeeper(
            SERVERS, data_dir=folder / "zookeeper", tick_time_ms=TICK_MS, java_options=[SMALL_FILES]
        )
        play.zookeeper = stack.enter_context(ensemble).address
        play.ensemble = stack.enter_context(connected(play.zookeeper, ClientSettings(), 10.0))
        stack.callback(play.close)  # before the ensemble goes
        return play.all_acts([ensemble.data_dir / f"server-{n}" / "version-2" for n in range(SERVERS)])


@dataclass(kw_only=True)
class Play(DemoCluster):
    """The acts."""

    failovers_s: list[float] = field(default_factory=list)
    moved: int = 0

    def all_acts(self, logs: list[Path]) -> DemoReport:
        """One after the other."""
        self._assemble()
        self._fill()
        self._kill_the_controller()
        self._kill_another()
        under_fire, first = self._move(source=REPLICATION, target=SPARE)
        second = self._decommission(LEAVER)
        quiet_from_ms = self.ensemble.clock.wall_ms()
        problems = self._drain()
        acts = ScenarioEvents(under_fire, (*first, *second), quiet_from_ms, LEAVER, problems)
        outcome = verify(self, acts, logs)
        return DemoReport(
            checks=outcome.checks,
            outcome=outcome,
            took_s=self.elapsed_s,
            failovers_s=tuple(self.failovers_s),
            moved=self.moved,
            as_of=self.ensemble.as_of(),
            zookeeper=self.zookeeper,
            folder=self.folder if self.options.keep else None,
        )

    # --- a cluster at work ------------------------------------------------------------------------

    def _assemble(self) -> None:
        """The first broker becomes controller, so that a leader dies with it later."""
        self.headline = "four brokers elect a controller"
        self.tell("ZooKeeper is up")
        self.begin(BROKERS[0])
        self._wait("the first broker is controller", lambda: bool(self.brokers[BROKERS[0]].reigns))
        for broker in BROKERS[1:]:
            self.begin(broker)
        self._wait("all brokers are registered", lambda: self.seen.registered == frozenset(BROKERS))
        self.tell(f"broker {self.seen.controller} is controller, epoch {self.seen.controller_epoch}", "good")

    def _fill(self) -> None:
        self.headline = "a topic, a producer, two consumers"
        hosts = BROKERS[:REPLICATION]
        lists = [
            tuple(hosts[(number + i) % REPLICATION] for i in range(REPLICATION))
            for number in range(PARTITIONS)
        ]
        plan = creation.plan_topic(self.ensemble, TOPIC, partitions=PARTITIONS, replica_assignment=lists)
        creation.create_topic(self.ensemble, plan)
        self._wait("every partition has its replicas in sync", lambda: self.seen.is_whole)
        self.tell(f"topic {TOPIC}: {PARTITIONS} partitions x {REPLICATION} replicas, all in sync", "good")
        for name in NAMES:
            self.join(name)
        self.feed = Producer(self.zookeeper, self.lines, PARTITIONS, self.options.lines_per_s)
        self.tell(f"{' and '.join(NAMES)} consume; {len(self.lines):,} lines are produced with acks=all")
        self._wait("the consumers share all partitions", self._is_shared)
        self._wait("lines are consumed", lambda: self.consumed > len(self.lines) // 50)

    def _is_shared(self) -> bool:
        return len(self.group.owners) == PARTITIONS and set(self.group.owners.values()) == set(NAMES)

    # --- deaths -----------------------------------------------------------------------------------

    def _kill_the_controller(self) -> None:
        victim, epoch = self._ruler(), self.seen.controller_epoch
        told = f"SIGKILL to the controller, broker {victim}, leader of {self.seen.leads(victim)} partitions"
        killed_s = self._strike(victim, told)
        self._succession(victim, epoch, killed_s)
        self.start_again(victim)

    def _kill_another(self) -> None:
        ruler = self._ruler()
        victim = max((one for one in BROKERS if one != ruler), key=self.seen.leads)
        self._strike(victim, f"SIGKILL to broker {victim}, leader of {self.seen.leads(victim)} partitions")
        self._wait(
            "its partitions are led by others",
            lambda: victim not in self.seen.registered and self.seen.is_led,
        )
        self.tell(f"its partitions are led by others; broker {victim} starts again", "good")
        self.start_again(victim)

    def _strike(self, victim: int, told: str) -> float:
        """SIGKILL; returns when."""
        lives_s = self.options.session_timeout_ms / 1000
        self.headline = f"broker {victim} is dead; its session lives for {lives_s:g} s more"
        self.brokers[victim].kill()
        killed_s = time.monotonic()
        self.tell(told, "bad")
        return killed_s

    def _succession(self, victim: int, epoch: int, killed_s: float) -> None:
        """Waits until another one rules, and all is led."""
        self._wait(
            "another controller rules, and every partition is led",
            lambda: (
                self.seen.controller_epoch > epoch
                and self.seen.controller in self._living()
                and victim not in self.seen.registered
                and self.seen.is_led
            ),
        )
        took_s = time.monotonic() - killed_s
        self.failovers_s.append(took_s)
        rules = f"broker {self.seen.controller} is controller, epoch {self.seen.controller_epoch}"
        self.tell(f"{rules}, and all is led, after {took_s:.1f} s", "good")

    def _ruler(self) -> int:
        """The controller that there is, waiting for one."""
        self._wait("there is a controller", lambda: self.seen.controller in self._living())
        assert self.seen.controller is not None
        return self.seen.controller

    def _living(self) -> set[int]:
        return {number for number, process in self.brokers.items() if not process.ended}

    def _wait(self, what: str, reached: Callable[[], bool]) -> None:
        self.until(what, reached, READ_EVERY_S)

    # --- moves ------------------------------------------------------------------------------------

    def _move(self, source: int, target: int) -> tuple[UnderFire, list[ReassignmentStatus]]:
        """All replicas of one broker to another, under a throttle, while the controller is killed."""
        assert self.feed is not None
        rate = max(self.feed.bytes // COPY_S, RATE_MIN)
        moves = self._ask(planner_replace({source: target}), rate)
        self.headline = f"everything of broker {source} moves to broker {target}"
        self.tell(f"{self.headline}: {len(moves)} replicas, {rate // 1000} kB/s")
        self.until(
            "a fifth of the move is done", lambda: self.seen.open_moves <= len(moves) * 4 // 5, QUICK_LOOK_S
        )
        victim, epoch = self._ruler(), self.seen.controller_epoch
        killed_s = self._strike(victim, f"SIGKILL to the controller, broker {victim}, in the middle of it")
        self.look()
        under_fire = UnderFire(len(moves), self.seen.open_moves, epoch)
        self.tell(f"{under_fire.open_at_the_kill} of {under_fire.asked} moves are open")
        self._succession(victim, epoch, killed_s)
        self.spawn(victim)
        self.begin(victim)
        self.headline = "the next controller goes on with the move"
        told = f"broker {target} has everything that broker {source} had"
        return under_fire, self._finish(moves, source, told)

    def _decommission(self, broker: int) -> list[ReassignmentStatus]:
        """Empties it, and stops it."""
        moves = self._ask(planner_decommission([broker]), None)
        self.headline = f"broker {broker} is emptied"
        self.tell(f"decommission of broker {broker}: its {len(moves)} replicas go to the others")
        verified = self._finish(moves, broker, f"broker {broker} is empty")
        process = self.brokers[broker]
        process.ask_to_stop()
        self._wait(f"broker {broker} has left", lambda: process.ended and broker not in self.seen.registered)
        process.wait(0)
        self._ruler()
        self.tell(f"broker {broker} has left, exit code {process.exit_code}", "good")
        return verified

    def _ask(self, planner: Planner, rate: int | None) -> list[Move]:
        """The plan becomes the request."""
        found = make_plan(self.ensemble, planner, PlanRequest())
        moves = [Move(one.topic_partition, one.after) for one in found.plan.changes]
        plan = plan_reassignment(self.ensemble, moves, throttle=rate)
        submit(self.ensemble, plan)
        self.moved += plan.moves
        return moves

    def _finish(self, moves: list[Move], emptied: int, told: str) -> list[ReassignmentStatus]:
        """Waits for the end of it and an empty folder, takes the throttle off, and asks `reassign verify`."""
        self._wait(
            "every move has ended, and every replica is in sync",
            lambda: self.seen.open_moves == 0 and self.seen.is_whole and self._all_serve(),
        )
        self._wait(f"broker {emptied} has deleted its files", lambda: not self.files_of(emptied))
        throttled = read_throttles(self.ensemble, [TOPIC])
        if throttled:
            clear_throttles(self.ensemble, throttled)
        rows = verify_reassignments(self.ensemble, moves)[1]
        done = sum(row.status == DONE for row in rows)
        self.tell(f"{told}; reassign verify: {done} of {len(rows)} done", "good")
        return list(rows)

    def _all_serve(self) -> bool:
        return all(process.state == "serving" for process in self.brokers.values())

    # --- the end ----------------------------------------------------------------------------------

    def _drain(self) -> list[str]:
        """The rest is produced and consumed; what `group verify` says."""
        assert self.feed is not None
        self.headline = "the rest of the lines"
        self.feed.hurry()
        self._wait("every line is acknowledged", lambda: self.feed is None or self.feed.ended)
        self.feed.check()
        self._wait("every line is consumed", lambda: self.consumed >= sum(self.ends().values()))
        self.tell("every line is acknowledged and consumed; asking group verify", "good")
        problems = group_sight.problems(self.ensemble, GROUP, wait_s=10.0)
        self.part()
        return problems


CONSUMED_MIN = {"claims": PARTITIONS, "commits": PARTITIONS, "deliveries": 1}
"""What the consumers' history must hold at least: none of them is killed, so owners need not change."""


@dataclass(frozen=True, slots=True)
class ScenarioEvents:
    """What the acts have left in memory."""

    under_fire: UnderFire
    verified: Sequence[ReassignmentStatus]
    quiet_from_ms: int
    """When the last of them was over, on the wall clock."""
    leaver: int
    """The broker that was decommissioned."""
    group_problems: Sequence[str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict, and the figures of the report."""

    checks: tuple[Check, ...]
    figures: ClusterFigures
    acknowledged: int
    repeated: int
    """Of these, lines that may be in the log twice, as an answer was lost."""
    consumed: int
    epochs: int
    leader_epochs: int
    """The highest of a partition."""


def verify(stage: DemoCluster, acts: ScenarioEvents, logs: Sequence[Path]) -> Outcome:
    """Looks for the last time, has the brokers leave, and reads their files and the ensemble's logs."""
    stage.headline = "the end"
    stage.ensemble.zk.sync("/")
    stage.look()
    stuck = left_undone(stage, acts)
    until_zxid = stage.ensemble.as_of().zxid
    processes = (*stage.former, *stage.brokers.values())
    terms = [(one.broker, *term) for one in processes for term in one.terms]
    accounts = [ControllerTerm(epoch, one.broker) for one in processes for epoch in one.reigns]
    stage.tell("everything is at rest; reading the brokers' files and ZooKeeper's own log")
    stage.dismiss()
    leaders = {n: one.leader for n, one in stage.seen.partitions.items() if one.leader is not None}
    kept = {n: demo_cluster.lines_of(stage.data_of(leader), n) for n, leader in leaders.items()}
    log = [one for one in read_transactions(logs) if one.zxid <= until_zxid]
    verdict = check_cluster(
        log,
        records_of(TOPIC, stage.acknowledged, kept, leaders, terms),
        ClusterOptions(quiet_from_ms=acts.quiet_from_ms),
    )
    summary = summarise(log, TOPIC)
    evidence = Evidence(
        lines=len(stage.lines),
        acknowledged=stage.acknowledged,
        kept=kept,
        replication=REPLICATION,
        log=summary,
        accounts=accounts,
        verdict=verdict,
        under_fire=acts.under_fire,
        verified=[(str(row.topic_partition), row.status) for row in acts.verified],
        stuck=stuck,
    )
    consumed, checks = _consumers(stage, acts, kept)
    return Outcome(
        checks=(*judge(evidence), *checks),
        figures=verdict.figures,
        acknowledged=len(stage.acknowledged),
        repeated=sum(one.may_be_repeated for one in stage.acknowledged),
        consumed=consumed,
        epochs=len(summary.reigns),
        leader_epochs=max((one.leader_epoch for one in stage.seen.partitions.values()), default=-1),
    )


def left_undone(stage: DemoCluster, acts: ScenarioEvents) -> list[str]:
    """What is not as it should be when all is over, while everybody still runs."""
    seen, leaver = stage.seen, acts.leaver
    found = [f"{TOPIC}-{n}: {_told(one)}" for n, one in sorted(seen.partitions.items()) if not one.is_whole]
    if len(seen.partitions) != PARTITIONS:
        found.append(f"{len(seen.partitions)} of {PARTITIONS} partitions")
    _, moving, unreadable = list_reassignments(stage.ensemble)
    found += [f"{row.topic_partition} is still being moved" for row in moving]
    found += map(str, unreadable)
    if read_throttles(stage.ensemble, [TOPIC]):
        found.append("a throttle is left")
    if hosted := seen.hosts(leaver):
        found.append(f"broker {leaver} is in the lists of {hosted} partitions")
    if code := stage.brokers[leaver].exit_code:
        found.append(f"broker {leaver} has left with exit code {code}")
    if files := stage.files_of(leaver):
        found.append(f"broker {leaver} has kept {len(files)} files")
    return found


def _told(one: demo_cluster.PartitionReplicas) -> str:
    leader = "nobody leads" if one.leader is None else f"led by {one.leader}"
    return f"{leader}, in sync {len(one.isr)} of {len(one.replicas)}"


def _consumers(
    stage: DemoCluster, acts: ScenarioEvents, kept: dict[int, tuple[bytes, ...]]
) -> tuple[int, tuple[Check, ...]]:
    """The checks of the group's demo, over what the final leaders hold."""
    reduction = reduce(decode_line(one.name, one.output.read_bytes()) for one in stage.members)
    histories = sorted(stage.folder.glob("*.history.jsonl"))
    evidence = consumers.Evidence(
        dealt=[kept.get(number, ()) for number in range(PARTITIONS)],
        reduction=reduction,
        committed=stage.group.offsets,
        verdict=check_history(read_files(histories)),
        group_problems=acts.group_problems,
        gone={one.name: "its session ended" for one in stage.members if one.lost_session},
        events_min=CONSUMED_MIN,
    )
    return len(reduction.processed), consumers.judge(evidence)
