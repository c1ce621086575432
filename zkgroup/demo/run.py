"""The skeleton of all demos: a run has servers and processes, waits for states, shows them, and is judged.

A demo is a subclass of `DemoRun`: the steps of its scenario (`play`), the statements about them (`judge`),
the state that it reads meanwhile (`read`), and the view of it (`draw`).
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from rich.console import RenderableType

from zkgroup import Admin, GroupSettings
from zkgroup.demo.checks import CheckResult, check_committed, check_work, checked, history_faults, proved
from zkgroup.demo.flight_data import PARTITIONS, Processed, Reduction, decode_lines, reduce
from zkgroup.demo.members import OwnedGroup, read_group
from zkgroup.demo.processes import Child
from zkgroup.errors import MemberFailedError, StableTimeoutError
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.history import Figures, Report, check_history, read_files
from zkgroup.history.report import UNKNOWN_SHARE_MAX
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.client import SystemClock
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

Tone = Literal["plain", "good", "bad"]
TICK_MS = 500
TIMEOUT_S = 600.0  # longest time for a whole run: far beyond what it needs, also on a slow machine


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """Options of a demo. All but `keep` are for the demo of a group."""

    keep: bool = False
    """Keep znodes and files afterwards."""
    zookeeper: str | None = None
    """An existing ensemble; embedded servers when absent."""
    connection: ClientSettings = field(default_factory=ClientSettings)
    """Authentication and encryption for an existing ensemble, for the demo and its members."""
    answer_timeout_s: float = 60.0
    """Longest wait for the connection, and for each response."""


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """One printed line, with the seconds since the start."""

    at_s: float
    text: str
    tone: Tone = "plain"


@dataclass(kw_only=True)
class DemoRun:
    """One run of a demo, and afterwards its result."""

    command: ClassVar[str]
    opening: ClassVar[str] = "starting ZooKeeper"
    servers: ClassVar[int] = 1
    java: ClassVar[Sequence[str]] = ()
    read_every_s: ClassVar[float] = 0.25
    partitions: ClassVar[int] = PARTITIONS

    options: DemoOptions
    show: Callable[[Any], object]
    """Shows the present state in place of the one before, and each event once."""
    folder: Path
    zookeeper: str = ""
    ensemble: Ensemble = field(init=False)
    admin: Admin = field(init=False)
    stop: Callable[[], None] = field(init=False)
    """Ends every process and the servers, once."""
    group: str = "demo"
    children: list[Child] = field(default_factory=list)
    """Every process that was ever started."""
    members: list[Child] = field(default_factory=list)
    """The ZooKeeper members."""
    owned: OwnedGroup = field(default_factory=OwnedGroup)
    problems: list[str] = field(default_factory=list)
    """Of `group verify`."""
    events: list[ProgressEvent] = field(default_factory=list)
    headline: str = "starting"
    began_s: float = field(default_factory=time.monotonic)
    took_s: float = 0.0
    as_of: AsOf = field(init=False)
    reduction: Reduction = field(default_factory=lambda: reduce({}))
    figures: Figures = field(default_factory=Figures)
    """Of the history that the members recorded."""
    overwritten: frozenset[int] = frozenset()
    """Partitions whose offset a foreign writer has changed."""
    checks: tuple[CheckResult, ...] = ()

    @classmethod
    def run(cls, options: DemoOptions, show: Callable[[Any], object]) -> Self:
        """Runs the whole demo. Leaves no process behind, whatever happens.

        Its files are removed at the end unless they are kept. Raises `StableTimeoutError` when an expected
        state is not reached in time, `MemberFailedError` when a process ended by itself,
        `EmbeddedServerError` when there is no server to start, `ConfigError` where something is not
        installed, and what the first read of an existing ensemble raises.
        """
        cls.require()
        run = cls(options=options, show=show, folder=Path(tempfile.mkdtemp(prefix="zkgroup-demo-")))
        try:
            with ExitStack() as stack:
                run.stop = stack.close
                stack.callback(run.close)
                run.open()
                data = run.folder / "zookeeper"
                zk = EmbeddedZooKeeper(
                    cls.servers, data_dir=data, tick_time_ms=TICK_MS, java_options=cls.java
                )
                run.zookeeper = options.zookeeper or stack.enter_context(zk).address
                run.ensemble, run.admin = stack.enter_context(run.connected())
                stack.callback(run.close)  # before the servers go
                run.play()
                run.as_of = run.ensemble.as_of()
                run.checks = tuple(run.judge())
                run.took_s = run.elapsed_s
                return run
        finally:
            if not options.keep:
                shutil.rmtree(run.folder, ignore_errors=True)

    @contextmanager
    def connected(self) -> Iterator[tuple[Ensemble, Admin]]:
        """A connection to the ensemble. Raises what a first connection raises."""
        timeout_s = self.options.answer_timeout_s
        connection = replace(self.options.connection, session_timeout_ms=10_000)
        with ZooKeeperClient(self.zookeeper, connection) as client, Blocking(client, timeout_s) as zk:
            zk.wait_connected()
            admin = Admin(client=client, undo_folder=self.folder / "undo", timeout_s=timeout_s)
            yield Ensemble(zk, SystemClock()), admin

    @classmethod
    def require(cls) -> None:
        """Raises `ConfigError` where something is not installed that the demo needs."""

    def open(self) -> None:
        """Starts what needs no ZooKeeper yet."""
        where = self.options.zookeeper
        self.log(self.opening if where is None else f"connecting to {where}")

    def close(self) -> None:
        """Ends every process."""
        for child in self.children:
            child.close()

    def play(self) -> None:
        """Runs the scenario to its end."""
        raise NotImplementedError

    def judge(self) -> Iterable[CheckResult]:
        """The statements about the run, after `play`."""
        raise NotImplementedError

    def read(self) -> None:
        """Reads the state from ZooKeeper."""
        self.owned = read_group(self.ensemble, self.group)

    def on_child_event(self, child: Child, event: dict[str, Any]) -> None:
        """A process has printed an event."""

    def draw(self, width: int = 100, height: int = 40) -> RenderableType:
        """Draws the state read last for a terminal of this size; 80x24 is enough."""
        raise NotImplementedError

    @property
    def passed(self) -> bool:
        return all(check.holds for check in self.checks)

    @property
    def kept(self) -> Path | None:
        """Folder of the kept files, the servers' data included; None when they are removed."""
        return self.folder if self.options.keep else None

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.began_s

    def log(self, text: str, tone: Tone = "plain") -> None:
        self.events.append(ProgressEvent(self.elapsed_s, text, tone))
        self.show(self)

    def until(self, what: str, reached: Callable[[], bool], read_every_s: float | None = None) -> None:
        """Refreshes until `reached()` is true.

        Raises `StableTimeoutError` after the longest time for the run, and `MemberFailedError` where a
        process has failed, so that waiting is useless.
        """
        while True:
            self.refresh()
            if reached():
                return
            for child in self.children:
                child.check()
            if self.elapsed_s > TIMEOUT_S:
                raise StableTimeoutError(f"not reached {TIMEOUT_S:g} s after the start: {what}")
            time.sleep(self.read_every_s if read_every_s is None else read_every_s)

    def refresh(self) -> None:
        """Reads everything and shows it."""
        self.read()
        for child in self.children:
            for event in child.poll_events():
                self.on_child_event(child, event)
        self.show(self)

    def start(self, name: str, module: str) -> Child:
        """Starts a process, which imports its module and waits for its settings."""
        self.children.append(Child(name, f"zkgroup.demo.{module}", self.folder))
        return self.children[-1]

    def end(self, children: Iterable[Child], who: str) -> None:
        """Sends SIGTERM to the living ones of these processes, and waits for their ends."""
        alive = [one for one in children if not one.ended]
        for one in alive:
            one.terminate()
        self.until(f"{who} have left", lambda: all(one.has_left() for one in alive))

    def kill(self, victim: Child, text: str, session_ms: int, who: str = "") -> float:
        """Sends SIGKILL to a process, and prints `text`; returns the time, in seconds of `time.monotonic`."""
        self.headline = f"{who or victim.name} is dead; its session lives for {session_ms / 1000:g} s more"
        victim.kill()
        self.log(text, "bad")
        return time.monotonic()

    def start_member(
        self, name: str, source: str | None = None, records_per_s: int = 5_000, session_ms: int = 6_000
    ) -> Child:
        """Starts a ZooKeeper member; for `source` see `zkgroup.demo.members.serve`."""
        settings = GroupSettings(  # short times, so that the demo fits into a minute
            consumer_id=name,
            session_timeout_ms=session_ms,
            server_tick_ms=TICK_MS if self.options.zookeeper is None else 2_000,
            auto_commit_interval_ms=500,
        )
        member = self.start(name, "members")
        member.send(
            address=self.zookeeper,
            group=self.group,
            settings=settings,
            connection=self.options.connection,
            source=source,
            output=str(member.output),
            history=str(self.folder / f"{name}.history.jsonl"),
            records_per_s=records_per_s,
        )
        self.members.append(member)
        return member

    def is_shared_by(self, names: Collection[str]) -> bool:
        """Returns whether exactly these members are in the group, and own all partitions."""
        owners, members = self.owned.owners, set(names)
        return len(owners) == self.partitions and set(owners.values()) == self.owned.members == members

    def verify(self, kind: str = "") -> None:
        """Runs `group verify`."""
        self.problems += [
            f"{kind}{one.kind.value} {one.topic}:{one.partition} {one.detail}".strip()
            for one in self.admin.verify_group(self.group, wait_s=60.0).problems
        ]

    def stop_members(self) -> None:
        """Lets the members leave. Raises `MemberFailedError` for one that fails meanwhile."""
        self.end(self.members, "the members")
        for one in self.members:
            if one.returncode and not one.killed:
                raise MemberFailedError(f"{one.name} ended with exit code {one.returncode}")
        self.refresh()

    def outputs(self, children: Iterable[Child]) -> dict[str, list[Processed]]:
        """The records that each process has written."""
        return {one.name: decode_lines(one.output.read_bytes()) for one in children}

    def history(self) -> Report:
        """The history checker's report on what the members recorded."""
        report = check_history(read_files(sorted(self.folder.glob("*.history.jsonl"))))
        self.figures = report.figures
        return report

    def check_members(
        self, lines: Sequence[Sequence[bytes]], least: Mapping[str, int]
    ) -> Iterator[CheckResult]:
        """The six statements about members, in the order in which the report prints them.

        `lines` are the records of each partition, `least` what the history has to hold to prove anything.
        """
        self.reduction = reduce(self.outputs(self.members), self.overwritten)
        yield from check_work(lines, self.reduction)
        yield self._check_twice()
        yield check_committed(lines, self.owned.offsets)
        report = self.history()
        figures, faults = report.figures, history_faults(report, least)
        if figures.unknown_share > UNKNOWN_SHARE_MAX:
            faults.append(f"{figures.unknown_outcomes} of {figures.operations} outcomes unknown, too many")
        text = f"{figures.records:,} events, {len(report.violations)} violations"
        yield checked("no stale commit, no second owner", text, faults, report.holds)
        yield proved("group verify is clean", "converged", self.problems)

    def _check_twice(self) -> CheckResult:
        """Delivery is at least once: a repetition is allowed where a member did not leave in order."""
        gone = {one.name: "killed" for one in self.members if one.killed}
        gone |= {one.name: "its session ended" for one in self.members if one.reported["lost"]}
        repeated = self.reduction.repeated_by
        parts = [f"{n} of {one} ({gone.get(one, 'handed over cleanly')})" for one, n in repeated.items()]
        for number in sorted(self.overwritten):
            again = sum(count - 1 for place, count in self.reduction.repeated.items() if place[0] == number)
            parts.append(f"{again} of partition {number} (its offset was moved)")
        excuse = "a death or a moved offset" if self.overwritten else "a death"
        unexcused = [f"not excused: {member}" for member in repeated if member not in gone]
        return checked(f"nothing twice but what {excuse} left open", ", ".join(parts) or "none", unexcused)
