"""The skeleton of all demos: options, printed events, waiting for a state, checks, and the report."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from rich.console import RenderableType

from zkgroup.demo.processes import Child
from zkgroup.errors import StableTimeoutError
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.client import SystemClock
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

Tone = Literal["plain", "good", "bad"]
TICK_MS = 500
SMALL_FILES = "-Dzookeeper.preAllocSize=4096"
"""Preallocation of a server's log in KiB: small, because the checks of brokers read the whole log."""
TIMEOUT_S = 600.0
"""Longest time for a whole run: far beyond what it needs, also on a slow machine."""
NAMED_MAX = 5
"""Number of items that a message names; it counts the rest."""


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


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One checked statement: whether it holds, and the figures that show it."""

    statement: str
    holds: bool
    evidence: str


def named(names: Sequence[object]) -> str:
    """The first names, and the number of the others."""
    rest = len(names) - NAMED_MAX
    return ", ".join(map(str, names[:NAMED_MAX])) + (f" and {rest:,} more" if rest > 0 else "")


def listed(numbers: Iterable[int], between: str = ", ") -> str:
    """All of these numbers, as of partitions, in order."""
    return between.join(map(str, sorted(numbers)))


def checked(
    statement: str, figures: str = "", faults: Sequence[object] = (), *, proof: str = "", enough: bool = True
) -> CheckResult:
    """The check of a statement: it holds without faults, where enough was seen to decide it.

    The evidence is figures, with the faults, or the proof where there are no faults.
    """
    found = named(faults) if faults else proof if enough else f"{proof or figures}: too little to prove it"
    evidence = "; ".join(filter(None, (figures if faults or enough else "", found)))
    return CheckResult(statement, enough and not faults, evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoReport:
    """The parts that the reports of all demos have."""

    checks: tuple[CheckResult, ...]
    took_s: float
    as_of: AsOf
    group: str
    zookeeper: str
    folder: Path | None
    """Folder of the kept files, the servers' data included; None when they were removed."""

    @property
    def passed(self) -> bool:
        return all(check.holds for check in self.checks)


class Screen(Protocol):
    """The output of a demo: a live view on a terminal, plain lines elsewhere."""

    def on_event(self, event: ProgressEvent) -> None:
        """Prints an event, once."""

    def show(self, stage: Any) -> None:
        """Shows the present state of the run (a `DemoStage`) in place of the one before."""


@dataclass(kw_only=True)
class DemoStage:
    """One run of a demo. A subclass reads and draws the state, and has the steps of the scenario."""

    command: ClassVar[str]
    opening: ClassVar[str] = "starting ZooKeeper"
    servers: ClassVar[int] = 1
    java_options: ClassVar[Sequence[str]] = ()
    read_every_s: ClassVar[float] = 0.25

    options: DemoOptions
    screen: Screen
    folder: Path
    zookeeper: str = ""
    ensemble: Ensemble = field(init=False)
    close_all: Callable[[], None] = field(init=False)
    """Ends every process and the servers, once."""
    group: str = "demo"
    children: list[Child] = field(default_factory=list)
    """Every process that was ever started."""
    events: list[ProgressEvent] = field(default_factory=list)
    headline: str = "starting"
    began_s: float = field(default_factory=time.monotonic)

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.began_s

    def log(self, text: str, tone: Tone = "plain") -> None:
        event = ProgressEvent(self.elapsed_s, text, tone)
        self.events.append(event)
        self.screen.on_event(event)

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
        self.screen.show(self)

    def end(self, children: Sequence[Child], who: str) -> None:
        """Sends SIGTERM to the living ones of these processes, and waits for their ends."""
        alive = [one for one in children if not one.ended]
        for one in alive:
            one.terminate()
        self.until(f"{who} have left", lambda: all(one.wait(0) for one in alive))

    def kill(self, victim: Child, text: str, session_ms: int, who: str = "") -> float:
        """Sends SIGKILL to a process, and prints `text`; returns the time, in seconds of `time.monotonic`."""
        self.headline = f"{who or victim.name} is dead; its session lives for {session_ms / 1000:g} s more"
        victim.kill()
        self.log(text, "bad")
        return time.monotonic()

    def close(self) -> None:
        for child in self.children:
            child.close()

    def open(self) -> None:
        """Starts what needs no ZooKeeper yet."""
        where = self.options.zookeeper
        self.log(self.opening if where is None else f"connecting to {where}")

    def read(self) -> None:
        """Reads the state from ZooKeeper."""

    def on_child_event(self, child: Child, event: dict[str, Any]) -> None:
        """A process has printed an event, which `child` has applied."""

    def draw(self, width: int = 100, height: int = 40) -> RenderableType:
        """Draws the state read last for a terminal of this size; 80x24 is enough."""
        raise NotImplementedError

    def common(self, checks: Sequence[CheckResult]) -> dict[str, Any]:
        """The fields of `DemoReport`."""
        return {
            "checks": tuple(checks),
            "took_s": self.elapsed_s,
            "as_of": self.ensemble.as_of(),
            "group": self.group,
            "zookeeper": self.zookeeper,
            "folder": self.folder if self.options.keep else None,
        }


StageT = TypeVar("StageT", bound=DemoStage)


@contextmanager
def opened(kind: type[StageT], options: DemoOptions, screen: Screen) -> Iterator[StageT]:
    """A run with its ZooKeeper, and a folder for its files, removed at the end unless they are kept.

    No process is left afterwards, nor after `close_all`, so the servers' files are complete. Raises
    `EmbeddedServerError` when there is no server to start, and what a first connection raises.
    """
    folder = Path(tempfile.mkdtemp(prefix="zkgroup-demo-"))
    stage = kind(options=options, screen=screen, folder=folder)
    try:
        with ExitStack() as stack:
            stage.close_all = stack.close
            stack.callback(stage.close)
            stage.open()
            own = EmbeddedZooKeeper(
                stage.servers,
                data_dir=folder / "zookeeper",
                tick_time_ms=TICK_MS,
                java_options=stage.java_options,
            )
            stage.zookeeper = options.zookeeper or stack.enter_context(own).address
            stage.ensemble = stack.enter_context(connected(stage.zookeeper, options))
            stack.callback(stage.close)  # before the servers go
            yield stage
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def connected(address: str, options: DemoOptions) -> Iterator[Ensemble]:
    """A connection of the demo to an ensemble. Raises what a first connection raises."""
    client = ZooKeeperClient(address, replace(options.connection, session_timeout_ms=10_000))
    try:
        zk = Blocking(client, timeout_s=options.answer_timeout_s)
        zk.wait_connected()
        yield Ensemble(zk, SystemClock())
    finally:
        client.close()
