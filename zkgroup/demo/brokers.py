"""`zkgroup demo brokers`: controllers and brokers are killed, and no acknowledged record is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from glob import glob
from typing import ClassVar

from rich.console import RenderableType
from rich.text import Text

from zkgroup import TopicPartition
from zkgroup.admin.reassign.progress import DONE
from zkgroup.admin.reassign.proposals import PhasedPlan
from zkgroup.admin.reassign.throttles import clear_throttles, read_throttles
from zkgroup.demo.checks import CheckResult, broken, checked, history_faults, named_faults, proved
from zkgroup.demo.clients_step import ClientsRun
from zkgroup.demo.cluster import CLUSTER_MIN, REPLICATION, SESSION_MS, is_whole
from zkgroup.demo.flight_data import TOPIC
from zkgroup.demo.screen import COLORS, Row, beside, frame, progress, state, table
from zkgroup.history import ClusterReport
from zkgroup.history.cluster.replay import finished_reassignments
from zkgroup.model.text import named
from zkgroup.znodes.brokers import Topic

CONSUMERS = ("ada", "ben")
BROKERS = (1, 2, 3, 4)
SPARE = 4  # the broker that hosts no replica at first
LEAVER = 2  # the broker that is decommissioned
PARTITIONS = 24
LINES_PER_S = 450  # speed of the producer, until the last reassignment is done
COPY_S = 20  # the throttle makes the move take this long, so that its controller can be killed in the middle
RATE_MIN = 100_000  # bytes per second; well above the producer's rate
CONSUMED_MIN = {"claims": PARTITIONS, "commits": PARTITIONS, "deliveries": 1}
"""Least contents of the consumers' history. No consumer is killed, so owners need not change."""
MUST_DECIDE = frozenset({"S11", "S12", "S13", "S14", "S15", "S16", "S17", "L6", "L7", "records"})
"""The invariants without which a verdict proves nothing."""
EVENTS_MIN = CLUSTER_MIN | {"elections": 3, "moves_ended": 1}
COLUMNS = 3


@dataclass(kw_only=True)
class BrokersRun(ClientsRun):
    """The steps of the scenario, and their result."""

    command: ClassVar[str] = "zkgroup demo brokers"
    servers: ClassVar[int] = 3
    partitions: ClassVar[int] = PARTITIONS
    broker_ids: ClassVar[Sequence[int]] = BROKERS
    opening: ClassVar[str] = f"starting an ensemble of {servers} ZooKeeper servers and {len(BROKERS)} brokers"
    read_every_s: ClassVar[float] = 0.4

    failovers_s: tuple[float, ...] = ()
    """From each SIGKILL of a controller until there was a new one and every partition had a leader."""
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

    @property
    def repeated(self) -> int:
        """Records that the logs have beyond the acknowledged ones; an idempotent producer leaves none."""
        return max(sum(map(len, self.values.values())) - self.acknowledged, 0)

    def play(self) -> None:
        self._assemble()
        self._kill_and_restart(self._controller())
        others = sorted({*BROKERS} - {self._controller()})
        self._kill_and_restart(max(others, key=self.leads))
        self._move(REPLICATION, SPARE)
        self._decommission(LEAVER)
        self.run_clients()
        self.quiet_from_ms = self.ensemble.clock.wall_ms()
        self._drain()
        self.read_last()

    def _assemble(self) -> None:
        """Starts the brokers. The first becomes controller, so that a leader dies with it later."""
        self.headline = "four brokers elect a controller"
        self.log("ZooKeeper is up")
        self._start(BROKERS[0])
        first = self.brokers[BROKERS[0]]
        self.until("the first broker is controller", lambda: bool(first.reported["controller"]))
        for broker in BROKERS[1:]:
            self._start(broker)
        self.until("all brokers are registered", lambda: self.registered == {*BROKERS})
        self.log(self._reign(), "good")
        self.headline = "a topic, a producer, two consumers"
        self.create_topic()
        for name in CONSUMERS:
            self.start_member(name)
        self.produce(len(self.lines), LINES_PER_S)
        self.log(f"{' and '.join(CONSUMERS)} consume; {len(self.lines):,} records are produced with acks=all")
        self.until("the consumers share all partitions", lambda: self.is_shared_by(CONSUMERS))
        self.until("records are consumed", lambda: self.owned.committed > len(self.lines) // 50)

    def _start(self, broker: int) -> None:
        self.start_broker(broker)
        self.log(f"broker {broker} starts (process {self.brokers[broker].pid})")

    def _kill_and_restart(self, victim: int) -> None:
        """Kills a broker, and starts it again on its folder; returns once every replica is in sync."""
        self._kill(victim, f"leader of {self.leads(victim)} partitions")
        self.headline = f"broker {victim} is back and catches up"
        self._start(victim)
        back = self.brokers[victim]
        what = f"broker {victim} is back and in sync"
        self.until(what, lambda: back.state == "serving" and self.is_whole())
        self.log(f"broker {victim} is back; every replica is in sync", "good")

    def _kill(self, victim: int, text: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Kills a broker, and waits for a controller and a leader of every partition."""
        is_controller = victim == self.controller
        epoch = self.controller_epoch + is_controller
        text = f"SIGKILL to {'the controller, ' if is_controller else ''}broker {victim}, {text}"
        killed_s = self.kill(self.brokers[victim], text, SESSION_MS)
        meanwhile()
        self.until(
            "another broker is controller, and every partition has a leader",
            lambda: (
                self.controller_epoch >= epoch
                and self.controller in self._living()
                and victim not in self.registered
                and self.is_led()
            ),
        )
        if is_controller:
            took_s = time.monotonic() - killed_s
            self.failovers_s += (took_s,)
            self.log(f"{self._reign()}, and every partition has a leader, after {took_s:.1f} s", "good")
        else:
            self.log(f"other brokers lead its partitions; broker {victim} starts again", "good")

    def _reign(self) -> str:
        return f"broker {self.controller} is controller, epoch {self.controller_epoch}"

    def _controller(self) -> int:
        """The present controller; waits for one."""
        self.until("there is a controller", lambda: self.controller in self._living())
        assert self.controller is not None
        return self.controller

    def _living(self) -> set[int]:
        return {number for number, process in self.brokers.items() if not process.ended}

    def _move(self, source: int, target: int) -> None:
        """Moves all replicas of one broker to another, under a throttle, while the controller is killed.

        The throttle ends with the controller. Until then it leaves a slow machine the time to notice that the
        move has begun, before the move has ended.
        """
        rate = max(sum(len(self.lines[one.number]) for one in self.deliveries) // COPY_S, RATE_MIN)
        moves = self._reassign(self.admin.plan_replace({source: target}), rate)
        self.headline = f"everything of broker {source} moves to broker {target}"
        self.log(f"{self.headline}: {len(moves)} replicas, {rate // 1000} kB/s")
        most = len(moves) * 9 // 10
        self.until("a tenth of the move is done", lambda: self.open_moves <= most, 0.05)
        victim, self.interrupted_epoch = self._controller(), self.controller_epoch

        def count_open() -> None:
            self.refresh()
            self.asked, self.open_at_the_kill = len(moves), self.open_moves
            self.log(f"{self.open_at_the_kill} of {self.asked} moves are open")

        self._kill(victim, "in the middle of it", count_open)
        self._clear_throttles()
        self.headline = "the next controller goes on with the move"
        self._start(victim)
        self._finish(moves, source, f"broker {target} has everything that broker {source} had")

    def _decommission(self, broker: int) -> None:
        """Moves all replicas off the broker, and stops it."""
        moves = self._reassign(self.admin.plan_decommission([broker]))
        self.headline = f"broker {broker} is emptied"
        self.log(f"decommission of broker {broker}: its {len(moves)} replicas go to the others")
        self._finish(moves, broker, f"broker {broker} is empty")
        process = self.brokers[broker]
        process.terminate()
        what = f"broker {broker} has left"
        self.until(what, lambda: process.has_left() and broker not in self.registered)
        self._controller()
        self.log(f"broker {broker} has left, exit code {process.returncode}", "good")

    def _reassign(self, plan: PhasedPlan, rate: int | None = None) -> dict[TopicPartition, tuple[int, ...]]:
        """Submits a plan as a reassignment."""
        moves = {one.topic_partition: one.after for one in plan.plan.changes}
        self.moved += self.admin.reassign(moves, throttle=rate).plan.moves
        return moves

    def _finish(self, moves: dict[TopicPartition, tuple[int, ...]], emptied: int, text: str) -> None:
        """Waits for the end of the move and an empty folder, clears the throttle, runs `reassign verify`."""
        self.until(
            "every move has ended, and every replica is in sync",
            lambda: (
                self.open_moves == 0
                and self.is_whole()
                and all(one.state == "serving" for one in self.brokers.values())
            ),
        )
        self.until(f"broker {emptied} has deleted its files", lambda: not self._files_of(emptied))
        self._clear_throttles()
        rows = self.admin.verify_reassignment(moves)
        self.verified += [(str(row.topic_partition), row.status) for row in rows]
        done = sum(row.status == DONE for row in rows)
        self.log(f"{text}; reassign verify: {done} of {len(rows)} done", "good")

    def _files_of(self, broker: int) -> list[str]:
        pattern = f"{self.data_of(broker)}/{TOPIC}-*/*.log"
        return glob(pattern)  # noqa: PTH207 - Path.glob fails where a folder vanishes meanwhile

    def _clear_throttles(self) -> None:
        if throttled := read_throttles(self.ensemble, [TOPIC]):
            clear_throttles(self.ensemble, throttled)

    def _drain(self) -> None:
        """Waits until all is produced and consumed, and runs `group verify`."""
        self.headline = "the rest of the records"
        self.finish_producing(len(self.lines))
        what = "every record is consumed"
        self.until(what, lambda: self.owned.committed >= sum(map(self.high_watermark, self.described)))
        self.log("every record is acknowledged and consumed; running group verify", "good")
        self.verify()
        self.stop_members()

    def _unfinished_work(self) -> list[str]:
        """Unfinished work at the end, while all brokers still run."""
        seen, leaver, moving = self.described, self.brokers[LEAVER], self.admin.list_reassignments()
        hosted = [number for number, one in sorted(seen.items()) if LEAVER in one.replicas]
        found: dict[str, Collection[object]] = {
            "no leader or not in sync:": [n for n, one in sorted(seen.items()) if not is_whole(one)],
            "missing:": sorted({*range(PARTITIONS)} - seen.keys()),
            "still being moved:": [row.topic_partition for row in moving],
            "cannot be read:": moving.unreadable,
            "a throttle is left on": [TOPIC] if read_throttles(self.ensemble, [TOPIC]) else [],
            f"broker {LEAVER} is in the list of": hosted,
            f"broker {LEAVER} has left with exit code": [leaver.returncode] if leaver.returncode else [],
            f"broker {LEAVER} has kept": self._files_of(LEAVER),
        }
        return named_faults(found)

    def judge(self) -> Iterator[CheckResult]:
        """Stops the brokers, and checks their files and the ensemble's logs."""
        stuck = self._unfinished_work()
        report = self.read_files()
        yield from self.check_records(report)
        yield from self._check_log(report)
        wrong = [f"{partition} {status}" for partition, status in self.verified if status != DONE]
        text = f"{len(self.verified) - len(wrong)} of {len(self.verified)} moves done"
        yield checked("reassign verify: every replica is where the plan puts it", text, wrong)
        yield proved("nothing is stuck", "all led, all in sync, no move open", stuck)
        faults = history_faults(report, EVENTS_MIN)
        faults += [f"not decided: {one}" for one in sorted(MUST_DECIDE - report.decided)]
        text = f"{report.figures.transactions:,} transactions, {len(report.violations)} violations"
        yield checked("the checker finds nothing (S11 to S17, L6, L7)", text, faults, report.holds)
        yield from self.check_clients()
        lines = [self.values.get(number, ()) for number in range(PARTITIONS)]
        yield from self.check_members(lines, CONSUMED_MIN)

    def check_records(self, report: ClusterReport) -> Iterator[CheckResult]:
        """By the answers that the producer got, and by the checker's comparison with the leaders' files."""
        numbers = {one.number for one in self.deliveries}
        missing = sorted(set(range(len(self.lines))) - numbers)
        faults = [f"not that of line {named(number + 1 for number in missing)}"] if missing else []
        faults += [f"{twice:,} of them twice"] if (twice := self.acknowledged - len(numbers)) else []
        text = f"{len(numbers):,} of {len(self.lines):,}"
        yield checked("every record was acknowledged once", text, faults)
        held, compared = sum(map(len, self.values.values())), report.figures.acknowledged_records
        text = f"{compared:,} in {len(self.values)} logs of {held:,} records"
        statement = "every acknowledged record is at its offset in the final leader's log"
        wrong: list[object] = [*broken(report.violations, "records")]
        wrong += [f"{self.acknowledged:,} were acknowledged"] if held != self.acknowledged else []
        yield checked(statement, text, wrong, 0 < self.acknowledged == compared)

    def _check_log(self, report: ClusterReport) -> Iterator[CheckResult]:
        """By controllers, replica lists (each broker counted once) and ends of moves in ZooKeeper's log."""
        recorded = {one.epoch: f"broker {one.record.broker}" for one in self.admin.controller_history()}
        self.epochs = len(recorded)
        told = {(one["epoch"], child.name) for child in self.children for one in child.reported["controller"]}
        wrong = [*map(str, broken(report.violations, "S11"))]
        wrong += [f"epoch {n}: {name}, not by the record" for n, name in sorted(told - recorded.items())]
        brokers = ", ".join(f"{epoch}: {broker}" for epoch, broker in sorted(recorded.items()))
        proof = f"{self.epochs} epochs ({brokers})"
        yield proved("one controller an epoch", proof, wrong, bool(recorded))
        accepted = [one for one in self.log_read if one.refusal is None]
        least: dict[int, int] = {}
        for change in (change for one in accepted for change in one.changes):
            if change.path == Topic.path(TOPIC) and change.data:
                for number, replicas in Topic.decode(change.path, change.data).partitions.items():
                    least[number] = min(len(set(replicas)), least.get(number, REPLICATION))
        short = [f"partition {n} had {size}" for n, size in sorted(least.items()) if size < REPLICATION]
        proof = f"never fewer than {REPLICATION} in {len(least)} partitions"
        yield proved("no partition had fewer replicas than it should", proof, short, bool(least))
        ended = [record for one in accepted for record in finished_reassignments(one)]
        undone = [f"{one.topic_partition} {one.outcome}" for one in ended if one.outcome != "done"]
        later, open_then = sum(one.epoch > self.interrupted_epoch for one in ended), self.open_at_the_kill
        undone += [f"{later} have ended since"] if later < open_then else []
        text = f"{open_then} of {self.asked} were open when it died{'' if undone else '; all done'}"
        yield checked("the next controller finished the move", text, undone, open_then > 0)

    def draw(self, width: int = 100, height: int = 40) -> RenderableType:
        """Brokers; leader with its epoch, ISR, other replicas in brackets, high watermark; progress."""
        numbers = sorted(self.described)
        rows = -(-len(numbers) // COLUMNS)
        blocks = [
            table(">,leader,ISR,>HW", map(self._partition, numbers[at : at + rows]), (2, 6, 6, 5), gap=1)
            for at in range(0, len(numbers), rows or 1)
        ]
        counts = {"acknowledged": self.acknowledged, "consumed": self.owned.committed}
        cells = progress(counts, len(self.lines), 12)
        if moving := self.open_moves:
            cells.append((f"moving {moving}", "bold yellow"))
        columns, lines = ">broker,>pid,state,>leads,>in sync,>replicas,", len(self.brokers) + rows + 4
        brokers = table(columns, map(self._broker, sorted(self.brokers)))
        return frame(self, [brokers, Text(), beside(blocks, 3), beside(cells)], lines, width, height)

    def _broker(self, number: int) -> Row:
        child, seen = self.brokers[number], self.described.values()
        hosts = sum(number in one.replicas for one in seen)
        in_sync = sum(number in (one.isr or ()) for one in seen)
        role = f"controller, epoch {self.controller_epoch}" if self.controller == number else ""
        process: Row = [(number, _color(number)), child.pid, state(child.state), self.leads(number)]
        return [*process, (in_sync, "" if in_sync == hosts else "bold red"), hosts, (role, "bold green")]

    def _partition(self, number: int) -> Row:
        one = self.described[number]
        isr = Text("".join(map(str, sorted(one.isr or ()))))
        if behind := sorted(set(one.replicas) - set(one.isr or ())):
            isr.append(f"({''.join(map(str, behind))})", style="bold red")
        leader = ("none", "bold red")
        if one.leader in BROKERS:
            leader = (f"{one.leader}@{one.leader_epoch}", _color(one.leader))
        return [(number, "dim"), leader, isr, f"{self.high_watermark(number):,}"]


def _color(broker: int) -> str:
    return COLORS[(broker - 1) % len(COLORS)]
