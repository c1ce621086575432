"""`zkgroup demo brokers`: controllers and brokers are killed, and no acknowledged record is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from rich.console import RenderableType
from rich.text import Text

from zkgroup.admin import Move
from zkgroup.admin.reassign.progress import DONE, list_reassignments, verify_reassignments
from zkgroup.admin.reassign.proposals import (
    Planner,
    PlanRequest,
    make_plan,
    planner_decommission,
    planner_replace,
)
from zkgroup.admin.reassign.submission import plan_reassignment, submit
from zkgroup.admin.reassign.throttles import clear_throttles, read_throttles
from zkgroup.admin.topics.listing import TopicPartitionDescription
from zkgroup.clients import kafka_python
from zkgroup.demo.clients_step import ClientRun, ClientsStep, SegmentDump
from zkgroup.demo.cluster import REPLICATION, SESSION_MS, ClusterStage, LeftFiles, is_whole
from zkgroup.demo.flight_data import TOPIC, reduce
from zkgroup.demo.kafka_clients import LeftOut
from zkgroup.demo.members import history_faults
from zkgroup.demo.screen import COLORS, beside, frame, progress, state, table
from zkgroup.demo.stage import CheckResult, DemoOptions, DemoReport, Screen, checked, named, opened
from zkgroup.history import ClusterFigures
from zkgroup.history.cluster.replay import finished_reassignments
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.controller import ControllerRecord, controller_history_path
from zkgroup.znodes.reassignment_records import FinishedReassignment

NAMES = ("ada", "ben")
"""The consumers."""
BROKERS = (1, 2, 3, 4)
SPARE = 4
"""The broker that hosts no replica at first."""
LEAVER = 2
"""The broker that is decommissioned."""
PARTITIONS = 24
LINES_PER_S = 450
"""Speed of the producer, until the last reassignment is done."""
FAST_READ_S = 0.05
COPY_S = 20
"""The throttle makes the move take this long, so that its controller can be killed in the middle."""
RATE_MIN = 100_000
"""Bytes per second; well above the producer's rate."""
CONSUMED_MIN = {"claims": PARTITIONS, "commits": PARTITIONS, "deliveries": 1}
"""Least contents of the consumers' history. No consumer is killed, so owners need not change."""
MUST_DECIDE = frozenset({"S11", "S12", "S13", "S14", "S15", "S16", "S17", "L6", "L7", "records"})
"""The invariants without which a verdict proves nothing."""
EVENTS_MIN = {
    "elections": 3,
    "leader_changes": 1,
    "moves_ended": 1,
    "isr_writes": 1,
    "acknowledged_records": 1,
}
"""Least contents of the servers' log, by name of the checker's figures."""
COLUMNS = 3
"""Number of columns of partitions in the view."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokersDemoReport(DemoReport):
    """The report of one run."""

    figures: ClusterFigures
    acknowledged: int
    repeated: int
    """Of these, records that may be in the log twice, because a response was lost."""
    consumed: int
    epochs: int
    moved: int
    """Number of replicas that were copied."""
    failovers_s: tuple[float, ...]
    """From each SIGKILL of a controller until there was a new one and every partition had a leader."""
    clients: tuple[ClientRun, ...]
    left_out: tuple[LeftOut, ...]
    dump: SegmentDump | None


def run(options: DemoOptions, screen: Screen) -> BrokersDemoReport:
    """Runs the whole demo. Leaves no process behind, whatever happens.

    Raises `StableTimeoutError` when the cluster does not reach an expected state in time, `MemberFailedError`
    when a process ended by itself, `EmbeddedServerError` when there is no server to start, `ConfigError`
    without kafka-python.
    """
    kafka_python.load("zkgroup demo brokers")
    with opened(BrokersStage, options, screen) as stage:
        return stage.play()


@dataclass(kw_only=True)
class BrokersStage(ClusterStage):
    """The steps of the scenario."""

    command: ClassVar[str] = "zkgroup demo brokers"
    servers: ClassVar[int] = 3
    partitions: ClassVar[int] = PARTITIONS
    broker_ids: ClassVar[Sequence[int]] = BROKERS
    opening: ClassVar[str] = f"starting an ensemble of {servers} ZooKeeper servers and {len(BROKERS)} brokers"
    read_every_s: ClassVar[float] = 0.4

    failovers_s: list[float] = field(default_factory=list)
    moved: int = 0
    asked: int = 0
    """Partitions of the move during which the controller was killed."""
    open_at_the_kill: int = 0
    """Of these, the entries of the request just after the controller had died."""
    interrupted_epoch: int = 0
    """Of that controller."""
    epochs: int = 0
    verified: list[tuple[str, str]] = field(default_factory=list)
    """Each partition of each move, and what `reassign verify` said of it."""

    def play(self) -> BrokersDemoReport:
        self._assemble()
        self._kill_the_controller()
        self._kill_another()
        self._move(REPLICATION, SPARE)
        self._decommission(LEAVER)
        clients = ClientsStep(self)
        clients.run()
        quiet_from_ms = self.ensemble.clock.wall_ms()
        self._drain()
        self.read_last()
        return self._report(self.unfinished_work(), clients, quiet_from_ms)

    def _assemble(self) -> None:
        """Starts the brokers. The first becomes controller, so that a leader dies with it later."""
        self.headline = "four brokers elect a controller"
        self.log("ZooKeeper is up")
        self._start(BROKERS[0])
        first = self.brokers[BROKERS[0]]
        self.until("the first broker is controller", lambda: bool(first.reported["controller"]))
        for broker in BROKERS[1:]:
            self._start(broker)
        self.until("all brokers are registered", lambda: self.cluster.registered == frozenset(BROKERS))
        self.log(
            f"broker {self.cluster.controller} is controller, epoch {self.cluster.controller_epoch}", "good"
        )
        self.headline = "a topic, a producer, two consumers"
        self.create_topic()
        for name in NAMES:
            self.start_member(name)
        self.produce(len(self.lines), LINES_PER_S)
        self.log(f"{' and '.join(NAMES)} consume; {len(self.lines):,} records are produced with acks=all")
        self.until("the consumers share all partitions", lambda: self.is_shared_by(NAMES))
        self.until("records are consumed", lambda: self.committed > len(self.lines) // 50)

    def _start(self, broker: int) -> None:
        self.start_broker(broker)
        self.log(f"broker {broker} starts (process {self.brokers[broker].pid})")

    def _restart(self, broker: int) -> None:
        """Restarts a broker on its old folder; returns once every replica is in sync again."""
        self._start(broker)
        self.headline = f"broker {broker} is back and catches up"
        back = self.brokers[broker]
        self.until(
            f"broker {broker} is back and in sync", lambda: back.state == "serving" and self.cluster.is_whole
        )
        self.log(f"broker {broker} is back; every replica is in sync", "good")

    def _kill_the_controller(self) -> None:
        victim = self._controller()
        leads = self.cluster.leads(victim)
        self._kill_controller(victim, f"leader of {leads} partitions")
        self._restart(victim)

    def _kill_another(self) -> None:
        controller = self._controller()
        victim = max((one for one in BROKERS if one != controller), key=self.cluster.leads)
        text = f"SIGKILL to broker {victim}, leader of {self.cluster.leads(victim)} partitions"
        self.kill(self.brokers[victim], text, SESSION_MS)
        self.until(
            "other brokers lead its partitions",
            lambda: victim not in self.cluster.registered and self.cluster.is_led,
        )
        self.log(f"other brokers lead its partitions; broker {victim} starts again", "good")
        self._restart(victim)

    def _kill_controller(self, victim: int, text: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Kills the controller, and waits for another one and a leader of every partition."""
        epoch = self.cluster.controller_epoch
        text = f"SIGKILL to the controller, broker {victim}, {text}"
        killed_s = self.kill(self.brokers[victim], text, SESSION_MS)
        meanwhile()
        self.until(
            "another broker is controller, and every partition has a leader",
            lambda: (
                self.cluster.controller_epoch > epoch
                and self.cluster.controller in self._living()
                and victim not in self.cluster.registered
                and self.cluster.is_led
            ),
        )
        took_s = time.monotonic() - killed_s
        self.failovers_s.append(took_s)
        text = f"broker {self.cluster.controller} is controller, epoch {self.cluster.controller_epoch}"
        self.log(f"{text}, and every partition has a leader, after {took_s:.1f} s", "good")

    def _controller(self) -> int:
        """The present controller; waits for one."""
        self.until("there is a controller", lambda: self.cluster.controller in self._living())
        assert self.cluster.controller is not None
        return self.cluster.controller

    def _living(self) -> set[int]:
        return {number for number, process in self.brokers.items() if not process.ended}

    def _move(self, source: int, target: int) -> None:
        """Moves all replicas of one broker to another, under a throttle, while the controller is killed.

        The throttle ends with the controller. Until then it leaves a slow machine the time to notice that the
        move has begun, before the move has ended.
        """
        rate = max(sum(len(self.lines[one.number]) for one in self.acknowledged) // COPY_S, RATE_MIN)
        moves = self._ask(planner_replace({source: target}), rate)
        self.headline = f"everything of broker {source} moves to broker {target}"
        self.log(f"{self.headline}: {len(moves)} replicas, {rate // 1000} kB/s")
        most = len(moves) * 9 // 10
        self.until("a tenth of the move is done", lambda: self.cluster.open_moves <= most, FAST_READ_S)
        victim, self.interrupted_epoch = self._controller(), self.cluster.controller_epoch

        def count_open() -> None:
            self.refresh()
            self.asked, self.open_at_the_kill = len(moves), self.cluster.open_moves
            self.log(f"{self.open_at_the_kill} of {self.asked} moves are open")

        self._kill_controller(victim, "in the middle of it", count_open)
        self._clear_throttles()
        self._start(victim)
        self.headline = "the next controller goes on with the move"
        self._finish(moves, source, f"broker {target} has everything that broker {source} had")

    def _decommission(self, broker: int) -> None:
        """Moves all replicas off the broker, and stops it."""
        moves = self._ask(planner_decommission([broker]), None)
        self.headline = f"broker {broker} is emptied"
        self.log(f"decommission of broker {broker}: its {len(moves)} replicas go to the others")
        self._finish(moves, broker, f"broker {broker} is empty")
        process = self.brokers[broker]
        process.terminate()
        self.until(
            f"broker {broker} has left", lambda: process.ended and broker not in self.cluster.registered
        )
        process.wait(0)
        self._controller()
        self.log(f"broker {broker} has left, exit code {process.exit_code}", "good")

    def _ask(self, planner: Planner, rate: int | None) -> list[Move]:
        """Submits the planner's plan as a reassignment."""
        found = make_plan(self.ensemble, planner, PlanRequest())
        moves = [Move(one.topic_partition, one.after) for one in found.plan.changes]
        plan = plan_reassignment(self.ensemble, moves, throttle=rate)
        submit(self.ensemble, plan)
        self.moved += plan.moves
        return moves

    def _finish(self, moves: list[Move], emptied: int, text: str) -> None:
        """Waits for the end of the move and an empty folder, clears the throttle, runs `reassign verify`."""
        self.until(
            "every move has ended, and every replica is in sync",
            lambda: (
                self.cluster.open_moves == 0
                and self.cluster.is_whole
                and all(one.state == "serving" for one in self.brokers.values())
            ),
        )
        self.until(f"broker {emptied} has deleted its files", lambda: not self._files_of(emptied))
        self._clear_throttles()
        rows = verify_reassignments(self.ensemble, moves)[1]
        self.verified += [(str(row.topic_partition), row.status) for row in rows]
        done = sum(row.status == DONE for row in rows)
        self.log(f"{text}; reassign verify: {done} of {len(rows)} done", "good")

    def _files_of(self, broker: int) -> int:
        return len(list(self.data_of(broker).glob(f"{TOPIC}-*/*.log")))

    def _clear_throttles(self) -> None:
        if throttled := read_throttles(self.ensemble, [TOPIC]):
            clear_throttles(self.ensemble, throttled)

    def _drain(self) -> None:
        """Waits until all is produced and consumed, and runs `group verify`."""
        self.headline = "the rest of the records"
        self.finish_producing(len(self.lines))
        self.until(
            "every record is consumed",
            lambda: self.committed >= sum(map(self.high_watermark, self.cluster.partitions)),
        )
        self.log("every record is acknowledged and consumed; running group verify", "good")
        self.verify()
        self.stop_members()

    def unfinished_work(self) -> list[str]:
        """Unfinished work at the end, while all brokers still run."""
        seen = self.cluster.partitions
        found = [f"{TOPIC}-{n}: {_describe(one)}" for n, one in sorted(seen.items()) if not is_whole(one)]
        if len(seen) != PARTITIONS:
            found.append(f"{len(seen)} of {PARTITIONS} partitions")
        _, moving, unreadable = list_reassignments(self.ensemble)
        found += [f"{row.topic_partition} is still being moved" for row in moving]
        found += map(str, unreadable)
        if read_throttles(self.ensemble, [TOPIC]):
            found.append("a throttle is left")
        if hosted := sum(LEAVER in one.replicas for one in seen.values()):
            found.append(f"broker {LEAVER} is in the lists of {hosted} partitions")
        if code := self.brokers[LEAVER].exit_code:
            found.append(f"broker {LEAVER} has left with exit code {code}")
        if files := self._files_of(LEAVER):
            found.append(f"broker {LEAVER} has kept {files} files")
        return found

    def _report(self, stuck: Sequence[str], clients: ClientsStep, quiet_from_ms: int) -> BrokersDemoReport:
        """Stops the brokers, and checks their files and the ensemble's logs."""
        left = self.left_files(quiet_from_ms)
        reduction = reduce(self.outputs(self.members))
        lines = [left.kept.get(number, ()) for number in range(PARTITIONS)]
        wrong = [f"{partition} {status}" for partition, status in self.verified if status != DONE]
        text = f"{len(self.verified) - len(wrong)} of {len(self.verified)} moves done"
        checks = [
            *self._check_records(left),
            *self._check_log(left),
            checked("reassign verify: every replica is where the plan puts it", text, wrong),
            checked("nothing is stuck", faults=stuck, proof="all led, all in sync, no move open"),
            _check_history(left),
            *clients.checks(),
            *self.check_members(lines, reduction, self.history(), CONSUMED_MIN),
        ]
        return BrokersDemoReport(
            figures=left.cluster.figures,
            acknowledged=len(self.acknowledged),
            repeated=sum(one.may_be_repeated for one in self.acknowledged),
            consumed=len(reduction.processed),
            epochs=self.epochs,
            moved=self.moved,
            failovers_s=tuple(self.failovers_s),
            clients=tuple(clients.runs),
            left_out=tuple(self.left_out),
            dump=clients.dump,
            **self.common(checks),
        )

    def _check_records(self, left: LeftFiles) -> list[CheckResult]:
        """By the answers that the producer got, and by the checker's comparison with the leaders' files."""
        numbers = [one.number for one in self.acknowledged]
        missing = sorted(set(range(len(self.lines))) - set(numbers))
        faults = [f"not that of line {named([number + 1 for number in missing])}"] if missing else []
        if twice := len(numbers) - len(set(numbers)):
            faults.append(f"{twice:,} of them twice")
        lost = [one for one in left.cluster.violations if one.invariant == "records"]
        held, compared = sum(map(len, left.kept.values())), left.cluster.figures.acknowledged_records
        return [
            checked(
                "every record was acknowledged once",
                f"{len(set(numbers)):,} of {len(self.lines):,}",
                faults,
            ),
            checked(
                "every acknowledged record is at its offset in the final leader's log",
                f"{compared:,} in {len(left.kept)} logs of {held:,} records",
                lost,
                enough=0 < len(numbers) == compared,
            ),
        ]

    def _check_log(self, left: LeftFiles) -> list[CheckResult]:
        """By controllers, replica lists (each broker counted once) and ends of moves in ZooKeeper's log."""
        recorded, least = dict[int, int](), dict[int, int]()
        ended, history = list[FinishedReassignment](), f"{controller_history_path()}/"
        for transaction in (one for one in left.log if one.refusal is None):
            for change in transaction.changes:
                if change.path.startswith(history) and change.action == "create":
                    record = ControllerRecord.decode(change.path, change.data)
                    recorded[int(change.path.removeprefix(history))] = record.broker
                elif change.path == Topic.path(TOPIC) and change.action in ("create", "set"):
                    for number, replicas in Topic.decode(change.path, change.data).partitions.items():
                        size = len(set(replicas))
                        least[number] = min(size, least.get(number, size))
            ended += finished_reassignments(transaction)
        self.epochs = len(recorded)
        wrong: list[object] = [one for one in left.cluster.violations if one.invariant == "S11"]
        wrong += [
            f"epoch {epoch}: broker {broker} was controller, the record says {recorded.get(epoch)}"
            for broker, one in self.started
            for epoch in (event["epoch"] for event in one.reported["controller"])
            if recorded.get(epoch) != broker
        ]
        brokers = ", ".join(f"{epoch}: broker {broker}" for epoch, broker in sorted(recorded.items()))
        short = [f"partition {n} had {size}" for n, size in sorted(least.items()) if size < REPLICATION]
        undone = [f"{one.topic_partition} {one.outcome}" for one in ended if one.outcome != "done"]
        later = sum(one.epoch > self.interrupted_epoch for one in ended)
        undone += [f"{later} have ended since"] if later < self.open_at_the_kill else []
        enough = self.open_at_the_kill > 0
        return [
            checked(
                "one controller an epoch",
                faults=wrong,
                proof=f"{self.epochs} epochs ({brokers})",
                enough=bool(recorded),
            ),
            checked(
                "no partition had fewer replicas than it should",
                faults=short,
                proof=f"never fewer than {REPLICATION} in {len(least)} partitions",
                enough=bool(least),
            ),
            checked(
                "the next controller finished the move",
                f"{self.open_at_the_kill} of {self.asked} were open when it died",
                undone,
                proof="all done" if enough else "",
                enough=enough,
            ),
        ]

    def draw(self, width: int = 100, height: int = 40) -> RenderableType:
        """Brokers; leader with its epoch, ISR, other replicas in brackets, high watermark; progress."""
        rows = -(-len(self.cluster.partitions) // COLUMNS)
        blocks = [
            table(
                ">,leader,ISR,>HW",
                [self._partition(number) for number in sorted(self.cluster.partitions)[start : start + rows]],
                (2, 6, 6, 5),
                gap=1,
            )
            for start in range(0, len(self.cluster.partitions), rows or 1)
        ]
        counts = {"acknowledged": len(self.acknowledged), "consumed": self.committed}
        cells = progress(counts, len(self.lines), 12)
        if moving := self.cluster.open_moves:
            cells.append(Text(f"moving {moving}", style="bold yellow"))
        brokers = table(
            ">broker,>pid,state,>leads,>in sync,>replicas,", [self._broker(n) for n in sorted(self.brokers)]
        )
        parts: list[RenderableType] = [brokers, Text(), beside(blocks, 3), beside(cells)]
        return frame(self, parts, len(self.brokers) + rows + 4, width, height)

    def _broker(self, number: int) -> list[RenderableType]:
        process, seen = self.brokers[number], self.cluster
        hosts = sum(number in one.replicas for one in seen.partitions.values())
        in_sync = sum(number in (one.isr or ()) for one in seen.partitions.values())
        role = f"controller, epoch {seen.controller_epoch}" if seen.controller == number else ""
        return [
            Text(str(number), style=_color(number)),
            str(process.pid),
            state(process.state),
            str(seen.leads(number)),
            Text(str(in_sync), style="" if in_sync == hosts else "bold red"),
            str(hosts),
            Text(role, style="bold green"),
        ]

    def _partition(self, number: int) -> list[RenderableType]:
        one = self.cluster.partitions[number]
        isr = Text("".join(map(str, sorted(one.isr or ()))))
        if behind := sorted(set(one.replicas) - set(one.isr or ())):
            isr.append(f"({''.join(map(str, behind))})", style="bold red")
        leader = one.leader if one.leader in BROKERS else None
        return [
            Text(str(number), style="dim"),
            Text("none" if leader is None else f"{leader}@{one.leader_epoch}", style=_color(leader)),
            isr,
            Text(f"{self.high_watermark(number):,}"),
        ]


def _color(broker: int | None) -> str:
    return "bold red" if broker is None else COLORS[(broker - 1) % len(COLORS)]


def _describe(one: TopicPartitionDescription) -> str:
    leader = f"led by {one.leader}" if one.leader in BROKERS else "no leader"
    return f"{leader}, in sync {len(one.isr or ())} of {len(one.replicas)}"


def _check_history(left: LeftFiles) -> CheckResult:
    """The history checker's verdict over the ensemble's log."""
    report = left.cluster
    faults = history_faults(report, EVENTS_MIN)
    faults += [f"not decided: {one}" for one in sorted(MUST_DECIDE - report.decided)]
    text = f"{report.figures.transactions:,} transactions, {len(report.violations)} violations"
    return checked("the checker finds nothing (S11 to S17, L6, L7)", text, faults, enough=report.holds)
