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
from zkgroup.clients import kafka_python
from zkgroup.demo.brokers import demo_cluster
from zkgroup.demo.brokers.checks import (
    ClusterEvidence,
    ControllerTerm,
    InterruptedReassignment,
    at_rest_from,
    check_brokers,
    records_of,
    summarise,
)
from zkgroup.demo.brokers.client_checks import ClientEvidence, check_clients
from zkgroup.demo.brokers.clients_step import ClientsStep
from zkgroup.demo.brokers.demo_cluster import (
    BROKERS,
    GROUP,
    PARTITIONS,
    READ_EVERY_S,
    REPLICATION,
    BrokersDemoOptions,
    DemoCluster,
    Producer,
)
from zkgroup.demo.brokers.kafka_tools import KafkaTools
from zkgroup.demo.brokers.view import ClusterView
from zkgroup.demo.flight_data import TOPIC, bundled_lines, decode_line, reduce
from zkgroup.demo.group import checks as consumers
from zkgroup.demo.group import group_state
from zkgroup.demo.processes import connected
from zkgroup.demo.progress import ANSWER_S, VERIFY_S, CheckResult, Screen
from zkgroup.groups.ensemble import AsOf
from zkgroup.history import ClusterFigures, check_cluster, check_history, read_files
from zkgroup.history.transactions import read_transactions
from zkgroup.zookeeper import ClientSettings
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

NAMES = ("ada", "ben")
"""The consumers."""
SPARE = 4
"""The broker that hosts no replica at first."""
LEAVER = 2
"""The broker that is decommissioned."""
SERVERS = 3
TICK_MS = 500
FAST_READ_S = 0.05
COPY_S = 20
"""The throttle makes the move take this long, so that its controller can be killed in the middle."""
RATE_MIN = 100_000
"""Bytes per second; well above the producer's rate."""
SMALL_FILES = "-Dzookeeper.preAllocSize=4096"
"""Preallocation of a server's log in KiB: small, because the checks read the whole log."""


@dataclass(frozen=True, slots=True)
class BrokersDemoReport:
    """The report of one run."""

    checks: tuple[CheckResult, ...]
    outcome: ScenarioOutcome
    took_s: float
    failovers_s: tuple[float, ...]
    """From each SIGKILL of a controller until there was a new one and every partition had a leader."""
    moved: int
    """Number of replicas that were copied."""
    as_of: AsOf
    zookeeper: str
    folder: Path | None
    """Folder of the kept files, the ensemble's included; None when they were removed."""

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)


def run(options: BrokersDemoOptions, screen: Screen[ClusterView]) -> BrokersDemoReport:
    """Runs the whole demo. Leaves no process behind, whatever happens.

    Raises `StableTimeoutError` when the cluster does not reach an expected state in time, `MemberFailedError`
    when a process ended by itself, `EmbeddedServerError` when there is no server to start, `ConfigError`
    without kafka-python.
    """
    kafka_python.load("zkgroup demo brokers")
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="zkgroup-demo-"))
        if not options.keep:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        tools = KafkaTools(folder)
        stack.callback(tools.close)
        scenario = BrokersScenario(
            tools=tools,
            options=options,
            screen=screen,
            folder=folder,
            timeout_s=options.timeout_s,
            lines=tuple(bundled_lines()),
        )
        stack.callback(scenario.close)
        scenario.log(f"starting an ensemble of {SERVERS} ZooKeeper servers and {len(BROKERS)} brokers")
        for broker in BROKERS:
            scenario.spawn(broker)
        ensemble = EmbeddedZooKeeper(
            SERVERS, data_dir=folder / "zookeeper", tick_time_ms=TICK_MS, java_options=[SMALL_FILES]
        )
        scenario.zookeeper = stack.enter_context(ensemble).address
        scenario.ensemble = stack.enter_context(connected(scenario.zookeeper, ClientSettings(), ANSWER_S))
        stack.callback(scenario.close)  # before the ensemble goes
        return scenario.run_steps([ensemble.data_dir / f"server-{n}" / "version-2" for n in range(SERVERS)])


@dataclass(kw_only=True)
class BrokersScenario(DemoCluster):
    """The steps of the scenario."""

    tools: KafkaTools
    failovers_s: list[float] = field(default_factory=list)
    moved: int = 0

    def run_steps(self, logs: list[Path]) -> BrokersDemoReport:
        """Runs all steps in order, and checks the result."""
        self._assemble()
        self._fill()
        self._kill_the_controller()
        self._kill_another()
        interrupted, first = self._move(source=REPLICATION, target=SPARE)
        second = self._decommission(LEAVER)
        clients = ClientsStep(self, self.tools)
        clients.run()
        quiet_from_ms = self.ensemble.clock.wall_ms()
        problems = self._drain()
        facts = ScenarioFacts(interrupted, (*first, *second), quiet_from_ms, LEAVER, problems, clients)
        outcome = verify(self, facts, logs)
        return BrokersDemoReport(
            checks=outcome.checks,
            outcome=outcome,
            took_s=self.elapsed_s,
            failovers_s=tuple(self.failovers_s),
            moved=self.moved,
            as_of=self.ensemble.as_of(),
            zookeeper=self.zookeeper,
            folder=self.folder if self.options.keep else None,
        )

    def _assemble(self) -> None:
        """Starts the brokers. The first becomes controller, so that a leader dies with it later."""
        self.headline = "four brokers elect a controller"
        self.log("ZooKeeper is up")
        self.start_broker(BROKERS[0])
        self._wait("the first broker is controller", lambda: bool(self.brokers[BROKERS[0]].controller_epochs))
        for broker in BROKERS[1:]:
            self.start_broker(broker)
        self._wait("all brokers are registered", lambda: self.seen.registered == frozenset(BROKERS))
        self.log(f"broker {self.seen.controller} is controller, epoch {self.seen.controller_epoch}", "good")

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
        self.log(f"topic {TOPIC}: {PARTITIONS} partitions x {REPLICATION} replicas, all in sync", "good")
        for name in NAMES:
            self.start_consumer(name)
        self.producer = Producer(self.zookeeper, self.lines, PARTITIONS, self.options.lines_per_s)
        self.log(f"{' and '.join(NAMES)} consume; {len(self.lines):,} records are produced with acks=all")
        self._wait("the consumers share all partitions", self._is_shared)
        self._wait("records are consumed", lambda: self.consumed > len(self.lines) // 50)

    def _is_shared(self) -> bool:
        return len(self.group.owners) == PARTITIONS and set(self.group.owners.values()) == set(NAMES)

    def _kill_the_controller(self) -> None:
        victim, epoch = self._controller(), self.seen.controller_epoch
        text = f"SIGKILL to the controller, broker {victim}, leader of {self.seen.leads(victim)} partitions"
        killed_s = self._kill(victim, text)
        self._wait_for_successor(victim, epoch, killed_s)
        self.restart_broker(victim)

    def _kill_another(self) -> None:
        controller = self._controller()
        victim = max((one for one in BROKERS if one != controller), key=self.seen.leads)
        self._kill(victim, f"SIGKILL to broker {victim}, leader of {self.seen.leads(victim)} partitions")
        self._wait(
            "other brokers lead its partitions",
            lambda: victim not in self.seen.registered and self.seen.is_led,
        )
        self.log(f"other brokers lead its partitions; broker {victim} starts again", "good")
        self.restart_broker(victim)

    def _kill(self, victim: int, text: str) -> float:
        """Sends SIGKILL to a broker; returns the time."""
        lives_s = self.options.session_timeout_ms / 1000
        self.headline = f"broker {victim} is dead; its session lives for {lives_s:g} s more"
        self.brokers[victim].kill()
        killed_s = time.monotonic()
        self.log(text, "bad")
        return killed_s

    def _wait_for_successor(self, victim: int, epoch: int, killed_s: float) -> None:
        """Waits for a new controller and a leader of every partition."""
        self._wait(
            "another broker is controller, and every partition has a leader",
            lambda: (
                self.seen.controller_epoch > epoch
                and self.seen.controller in self._living()
                and victim not in self.seen.registered
                and self.seen.is_led
            ),
        )
        took_s = time.monotonic() - killed_s
        self.failovers_s.append(took_s)
        text = f"broker {self.seen.controller} is controller, epoch {self.seen.controller_epoch}"
        self.log(f"{text}, and every partition has a leader, after {took_s:.1f} s", "good")

    def _controller(self) -> int:
        """The present controller; waits for one."""
        self._wait("there is a controller", lambda: self.seen.controller in self._living())
        assert self.seen.controller is not None
        return self.seen.controller

    def _living(self) -> set[int]:
        return {number for number, process in self.brokers.items() if not process.ended}

    def _wait(self, what: str, reached: Callable[[], bool]) -> None:
        self.until(what, reached, READ_EVERY_S)

    def _move(self, source: int, target: int) -> tuple[InterruptedReassignment, list[ReassignmentStatus]]:
        """Moves all replicas of one broker to another, under a throttle, while the controller is killed.

        The throttle ends with the controller. Until then it leaves a slow machine the time to notice that the
        move has begun, before the move has ended.
        """
        assert self.producer is not None
        rate = max(self.producer.bytes // COPY_S, RATE_MIN)
        moves = self._ask(planner_replace({source: target}), rate)
        self.headline = f"everything of broker {source} moves to broker {target}"
        self.log(f"{self.headline}: {len(moves)} replicas, {rate // 1000} kB/s")
        self.until(
            "a tenth of the move is done", lambda: self.seen.open_moves <= len(moves) * 9 // 10, FAST_READ_S
        )
        victim, epoch = self._controller(), self.seen.controller_epoch
        killed_s = self._kill(victim, f"SIGKILL to the controller, broker {victim}, in the middle of it")
        self.refresh()
        interrupted = InterruptedReassignment(len(moves), self.seen.open_moves, epoch)
        self.log(f"{interrupted.open_at_the_kill} of {interrupted.asked} moves are open")
        self._wait_for_successor(victim, epoch, killed_s)
        self._clear_throttles()
        self.spawn(victim)
        self.start_broker(victim)
        self.headline = "the next controller goes on with the move"
        text = f"broker {target} has everything that broker {source} had"
        return interrupted, self._finish(moves, source, text)

    def _decommission(self, broker: int) -> list[ReassignmentStatus]:
        """Moves all replicas off the broker, and stops it."""
        moves = self._ask(planner_decommission([broker]), None)
        self.headline = f"broker {broker} is emptied"
        self.log(f"decommission of broker {broker}: its {len(moves)} replicas go to the others")
        verified = self._finish(moves, broker, f"broker {broker} is empty")
        process = self.brokers[broker]
        process.terminate()
        self._wait(f"broker {broker} has left", lambda: process.ended and broker not in self.seen.registered)
        process.wait(0)
        self._controller()
        self.log(f"broker {broker} has left, exit code {process.exit_code}", "good")
        return verified

    def _ask(self, planner: Planner, rate: int | None) -> list[Move]:
        """Submits the planner's plan as a reassignment."""
        found = make_plan(self.ensemble, planner, PlanRequest())
        moves = [Move(one.topic_partition, one.after) for one in found.plan.changes]
        plan = plan_reassignment(self.ensemble, moves, throttle=rate)
        submit(self.ensemble, plan)
        self.moved += plan.moves
        return moves

    def _finish(self, moves: list[Move], emptied: int, text: str) -> list[ReassignmentStatus]:
        """Waits for the end of the move and an empty folder, clears the throttle, runs `reassign verify`."""
        self._wait(
            "every move has ended, and every replica is in sync",
            lambda: self.seen.open_moves == 0 and self.seen.is_whole and self._all_serve(),
        )
        self._wait(f"broker {emptied} has deleted its files", lambda: not self.files_of(emptied))
        self._clear_throttles()
        rows = verify_reassignments(self.ensemble, moves)[1]
        done = sum(row.status == DONE for row in rows)
        self.log(f"{text}; reassign verify: {done} of {len(rows)} done", "good")
        return list(rows)

    def _clear_throttles(self) -> None:
        if throttled := read_throttles(self.ensemble, [TOPIC]):
            clear_throttles(self.ensemble, throttled)

    def _all_serve(self) -> bool:
        return all(process.state == "serving" for process in self.brokers.values())

    def _drain(self) -> list[str]:
        """Waits until all is produced and consumed; returns the problems that `group verify` found."""
        assert self.producer is not None
        self.headline = "the rest of the records"
        self.producer.lift_limit()
        self._wait("every record is acknowledged", lambda: self.producer is None or self.producer.ended)
        self.producer.check()
        self._wait("every record is consumed", lambda: self.consumed >= sum(self.ends().values()))
        self.log("every record is acknowledged and consumed; running group verify", "good")
        problems = group_state.problems(self.ensemble, GROUP, wait_s=VERIFY_S)
        self.stop_consumers()
        return problems


CONSUMED_MIN = {"claims": PARTITIONS, "commits": PARTITIONS, "deliveries": 1}
"""What the consumers' history must hold at least. No consumer is killed, so owners need not change."""


@dataclass(frozen=True, slots=True)
class ScenarioFacts:
    """What the steps recorded for the checks."""

    interrupted: InterruptedReassignment
    verified: Sequence[ReassignmentStatus]
    quiet_from_ms: int
    """Wall clock time when the last step was done."""
    leaver: int
    """The broker that was decommissioned."""
    group_problems: Sequence[str]
    clients: ClientsStep


@dataclass(frozen=True, slots=True)
class ScenarioOutcome:
    """The checks and the figures of the report."""

    checks: tuple[CheckResult, ...]
    clients: ClientEvidence
    figures: ClusterFigures
    acknowledged: int
    repeated: int
    """Of these, records that may be in the log twice, because a response was lost."""
    consumed: int
    epochs: int
    leader_epochs: int
    """The highest leader epoch of a partition."""


def verify(stage: DemoCluster, facts: ScenarioFacts, logs: Sequence[Path]) -> ScenarioOutcome:
    """Reads the final state, stops the brokers, and checks their files and the ensemble's logs."""
    stage.headline = "the end"
    stage.ensemble.zk.sync("/")
    stage.refresh()
    stuck = unfinished_work(stage, facts)
    until_zxid = stage.ensemble.as_of().zxid
    processes = (*stage.former, *stage.brokers.values())
    terms = [(one.broker, *term) for one in processes for term in one.terms]
    reported_epochs = [
        ControllerTerm(epoch, one.broker) for one in processes for epoch in one.controller_epochs
    ]
    stage.log("nothing changes any more; reading the brokers' files and ZooKeeper's own log")
    stage.stop_brokers()
    leaders = {n: one.leader for n, one in stage.seen.partitions.items() if one.leader is not None}
    kept = {n: demo_cluster.values_of(stage.data_of(leader), n) for n, leader in leaders.items()}
    log = [one for one in read_transactions(logs) if one.zxid <= until_zxid]
    verdict = check_cluster(
        log,
        records_of(TOPIC, stage.acknowledged, kept, leaders, terms),
        at_rest_from(facts.quiet_from_ms),
    )
    summary = summarise(log, TOPIC)
    evidence = ClusterEvidence(
        lines=len(stage.lines),
        acknowledged=stage.acknowledged,
        kept=kept,
        replication=REPLICATION,
        log=summary,
        reported_epochs=reported_epochs,
        verdict=verdict,
        interrupted=facts.interrupted,
        verified=[(str(row.topic_partition), row.status) for row in facts.verified],
        stuck=stuck,
    )
    consumed, checks = _consumers(stage, facts, kept)
    clients = facts.clients.evidence()
    return ScenarioOutcome(
        checks=(*check_brokers(evidence), *check_clients(clients), *checks),
        clients=clients,
        figures=verdict.figures,
        acknowledged=len(stage.acknowledged),
        repeated=sum(one.may_be_repeated for one in stage.acknowledged),
        consumed=consumed,
        epochs=len(summary.controller_epochs),
        leader_epochs=max((one.leader_epoch for one in stage.seen.partitions.values()), default=-1),
    )


def unfinished_work(stage: DemoCluster, facts: ScenarioFacts) -> list[str]:
    """Unfinished work at the end, while all processes still run."""
    seen, leaver = stage.seen, facts.leaver
    found = [
        f"{TOPIC}-{n}: {_describe(one)}" for n, one in sorted(seen.partitions.items()) if not one.is_whole
    ]
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


def _describe(one: demo_cluster.PartitionReplicas) -> str:
    leader = "no leader" if one.leader is None else f"led by {one.leader}"
    return f"{leader}, in sync {len(one.isr)} of {len(one.replicas)}"


def _consumers(
    stage: DemoCluster, facts: ScenarioFacts, kept: dict[int, tuple[bytes, ...]]
) -> tuple[int, tuple[CheckResult, ...]]:
    """The checks of the group demo, over the records of the final leaders."""
    reduction = reduce(decode_line(one.name, one.output.read_bytes()) for one in stage.members)
    histories = sorted(stage.folder.glob("*.history.jsonl"))
    evidence = consumers.MemberEvidence(
        input_lines=[kept.get(number, ()) for number in range(PARTITIONS)],
        reduction=reduction,
        committed=stage.group.offsets,
        verdict=check_history(read_files(histories)),
        group_problems=facts.group_problems,
        gone={one.name: "its session ended" for one in stage.members if one.lost_session},
        events_min=CONSUMED_MIN,
    )
    return len(reduction.processed), consumers.check_members(evidence)
