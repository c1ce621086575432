"""The scenario of `zkgroup demo group`, from starting ZooKeeper to the checks at the end."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from zkgroup.demo.flight_data import (
    PARTITIONS,
    TOPIC,
    AirportDelay,
    MemberOutput,
    bundled_lines,
    decode_line,
    distribute,
    reduce,
    write_topic,
)
from zkgroup.demo.group import group_state
from zkgroup.demo.group.checks import MemberEvidence, check_members, slowest
from zkgroup.demo.group.view import GroupView, MemberRow, OwnedPartitionRow
from zkgroup.demo.group.worker import MemberChild, MemberChildSettings
from zkgroup.demo.processes import connected
from zkgroup.demo.progress import ANSWER_S, RUN_S, VERIFY_S, CheckResult, DemoRun, Screen, Tone
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.history import Figures, check_history, read_files
from zkgroup.zookeeper import ClientSettings
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

NAMES = ("ada", "ben", "cleo", "dan")
"""The first three start; the second is killed; the last joins afterwards."""

EMBEDDED_TICK_MS = 500
DemoGroupT = TypeVar("DemoGroupT", bound="DemoGroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDemoOptions:
    """Options of the demo."""

    zookeeper: str | None = None
    """An existing ensemble; an embedded server when absent."""
    connection: ClientSettings = field(default_factory=ClientSettings)
    """Authentication and encryption for an existing ensemble, for the demo and its members."""
    answer_timeout_s: float = ANSWER_S
    """Longest wait for the connection, and for each response."""
    keep: bool = False
    """Keep znodes and files afterwards."""
    records_per_s: int = 550
    """Each member's speed: the records last for about half a minute."""
    session_timeout_ms: int = 4_000
    timeout_s: float = RUN_S


@dataclass(frozen=True, slots=True)
class GroupDemoReport:
    """The report of one run."""

    checks: tuple[CheckResult, ...]
    airports: tuple[AirportDelay, ...]
    """The slowest ones."""
    records: int
    twice: int
    airports_all: int
    took_s: float
    figures: Figures
    """Figures of the recorded history."""
    takeover_s: float
    """From the SIGKILL until running members owned every partition again."""
    as_of: AsOf
    group: str
    zookeeper: str
    folder: Path | None
    """Folder of the kept files, an embedded server's data included; None when they were removed."""
    embedded: bool

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)


def run(options: GroupDemoOptions, screen: Screen[GroupView]) -> GroupDemoReport:
    """Runs the whole demo. Leaves no process behind, whatever happens.

    Raises `StableTimeoutError` when the group does not reach an expected state in time,
    `EmbeddedServerError` when there is no server to start, and what the first read of an existing
    ensemble raises.
    """
    with folder_of(keep=options.keep) as folder, prepared(DemoGroup, options, screen, folder) as stage:
        stage.play()
        return stage.report()


@contextmanager
def folder_of(*, keep: bool) -> Iterator[Path]:
    """A folder for the files of a run, removed at the end unless `keep`."""
    folder = Path(tempfile.mkdtemp(prefix="zkgroup-demo-"))
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def prepared(
    kind: type[DemoGroupT], options: GroupDemoOptions, screen: Screen[GroupView], folder: Path
) -> Iterator[DemoGroupT]:
    """A run that is ready to play. No process is left afterwards, so the server's files are complete.

    Raises what `run` raises before the members start.
    """
    with ExitStack() as stack:
        stage = kind(options=options, screen=screen, folder=folder, timeout_s=options.timeout_s)
        stage.log("starting ZooKeeper" if options.zookeeper is None else f"connecting to {options.zookeeper}")
        stage.zookeeper = stack.enter_context(_zookeeper(options, folder))
        stage.ensemble = stack.enter_context(
            connected(stage.zookeeper, options.connection, options.answer_timeout_s)
        )
        stage.prepare(stack)
        yield stage


@contextmanager
def _zookeeper(options: GroupDemoOptions, folder: Path) -> Iterator[str]:
    if options.zookeeper is not None:
        yield options.zookeeper
        return
    with EmbeddedZooKeeper(data_dir=folder / "zookeeper", tick_time_ms=EMBEDDED_TICK_MS) as server:
        yield server.address


@dataclass(kw_only=True)
class DemoGroup(DemoRun[GroupView]):
    """One run: its members, and the steps of the scenario."""

    options: GroupDemoOptions
    folder: Path
    zookeeper: str = ""
    ensemble: Ensemble = field(init=False)
    members: list[MemberChild] = field(default_factory=list)
    seen: group_state.DemoGroupState = group_state.EMPTY_GROUP
    input_lines: Sequence[Sequence[bytes]] = ()
    made_topic: bool = False
    group: str = "demo"
    command: str = "zkgroup demo"
    verify_problems: list[str] = field(default_factory=list)
    takeover_s: float = 0.0

    def prepare(self, stack: ExitStack) -> None:
        """Creates the topic and the files with its records, and registers the clean-up in `stack`."""
        self.input_lines = distribute(bundled_lines())
        write_topic(self.folder / "records", self.input_lines)
        self.made_topic = group_state.make_topic(self.ensemble)
        self.group = group_state.free_name(self.ensemble, "demo")
        if not self.options.keep and self.options.zookeeper is not None:
            stack.callback(self._clear)
        stack.callback(self._close_members)
        total = sum(map(len, self.input_lines))
        self.log(f"ZooKeeper is up; topic {TOPIC}: {PARTITIONS} partitions, {total:,} records")

    def play(self) -> None:
        """Runs the scenario until all members have left."""
        self.headline = "three members share twelve partitions"
        for name in NAMES[:3]:
            self._start(name)
        self.until("the first three members share all partitions", self._shared_by(NAMES[:3]))
        self.log("every partition has an owner", "good")
        self.interlude()
        self.until("a third of the records is committed", lambda: self.done_share() > 0.33)
        self._kill(self.members[1])
        self.headline = "a new member joins"
        self._start(NAMES[3])
        before = self.seen.tokens
        heirs = (NAMES[0], NAMES[2], NAMES[3])
        self.until("the new member has its share", self._shared_by(heirs))
        stayed = sorted(number for number, token in self.seen.tokens.items() if before.get(number) == token)
        self.log(f"{NAMES[3]} has its share; not touched: {_listed(stayed)} (same token as before)", "good")
        self.headline = "draining to the end"
        self.until("every record is committed", lambda: self.done_share() >= 1.0)
        self.log("every record is committed; running group verify", "good")
        self.verify_problems = group_state.problems(self.ensemble, self.group, wait_s=VERIFY_S)
        self._stop_members()

    def interlude(self) -> None:
        """A hook for the audit demo, while the first three members share all partitions."""

    @property
    def moved(self) -> frozenset[int]:
        """Partitions whose offsets the interlude has changed."""
        return frozenset()

    def _start(self, name: str) -> None:
        child_settings = MemberChildSettings(
            name=name,
            zookeeper=self.zookeeper,
            group=self.group,
            source=str(self.folder / "records"),
            output=str(self.folder / f"{name}.processed.jsonl"),
            history=str(self.folder / f"{name}.history.jsonl"),
            records_per_s=self.options.records_per_s,
            session_timeout_ms=self.options.session_timeout_ms,
            server_tick_ms=EMBEDDED_TICK_MS if self.options.zookeeper is None else 2_000,
            connection=self.options.connection,
        )
        member = MemberChild(child_settings, self.folder / f"{name}.log")
        self.members.append(member)
        self.log(f"{name} starts (process {member.pid})")

    def _kill(self, victim: MemberChild) -> None:
        self.headline = (
            f"{victim.name} is dead; its session lives for {self.options.session_timeout_ms / 1000:g} s more"
        )
        held = [number for number, owner in sorted(self.seen.owners.items()) if owner == victim.name]
        victim.kill()
        killed_s = time.monotonic()
        self.log(f"SIGKILL to {victim.name}, owner of partitions {_listed(held)}", "bad")
        alive = [one.name for one in self.members if not one.killed]
        self.until("the survivors own everything", self._shared_by(alive))
        self.takeover_s = time.monotonic() - killed_s
        self.log(f"taken over by {' and '.join(alive)} after {self.takeover_s:.1f} s", "good")

    def _stop_members(self) -> None:
        self.headline = "leaving"
        alive = [one for one in self.members if not one.killed]
        for one in alive:
            one.terminate()
        self.until("the members have left", lambda: all(one.ended for one in alive))
        for one in alive:
            one.wait(0)
        self.refresh()
        self.headline = "the end"
        self.log("all members have left; reading what they wrote")

    def refresh(self) -> None:
        """Reads the group and the members' events, and shows both."""
        self.seen = group_state.read_group(self.ensemble, self.group)
        for one in self.members:
            for event in one.poll_events():
                self._log_member_event(one, event)
        self.show()

    def show(self) -> None:
        """Shows the state read last."""
        self.screen.show(
            GroupView(
                elapsed_s=self.elapsed_s,
                zookeeper=self.zookeeper,
                headline=self.headline,
                members=_member_rows(self.members, self.seen.owners),
                partitions=_partition_rows(self.seen, [len(lines) for lines in self.input_lines]),
                events=tuple(self.events),
                command=self.command,
            )
        )

    def _log_member_event(self, member: MemberChild, event: dict[str, object]) -> None:
        partitions = event.get("partitions")
        if not isinstance(partitions, list):
            return
        verb = {"assigned": "gets", "revoked": "hands over", "lost": "loses"}[str(event["event"])]
        tone: Tone = "bad" if event["event"] == "lost" else "plain"
        self.log(f"{member.name} {verb} {_listed(partitions)}", tone)

    def check(self) -> None:
        """Raises `MemberFailedError` when a member ended by itself."""
        for one in self.members:
            one.check()

    def _shared_by(self, names: Sequence[str]) -> Callable[[], bool]:
        def reached() -> bool:
            owners = set(self.seen.owners.values())
            return (
                len(self.seen.owners) == PARTITIONS
                and owners == set(names)
                and self.seen.members == set(names)
            )

        return reached

    def done_share(self) -> float:
        """The committed share of the input, from 0 to 1."""
        total = sum(map(len, self.input_lines))
        return sum(value for value in self.seen.offsets.values() if value > 0) / total

    def outputs(self) -> list[MemberOutput]:
        """The output of every member."""
        return [decode_line(one.name, one.output.read_bytes()) for one in self.members]

    def report(self) -> GroupDemoReport:
        """The report, after all members have left."""
        reduction = reduce(self.outputs(), self.moved)
        verdict = check_history(read_files(sorted(self.folder.glob("*.history.jsonl"))))
        gone = {one.name: "killed" for one in self.members if one.killed}
        gone |= {one.name: "its session ended" for one in self.members if one.lost_session}
        checks = check_members(
            MemberEvidence(
                input_lines=self.input_lines,
                reduction=reduction,
                committed=self.seen.offsets,
                verdict=verdict,
                group_problems=self.verify_problems,
                gone=gone,
                moved=self.moved,
            )
        )
        return GroupDemoReport(
            checks=checks,
            airports=tuple(slowest(reduction.airports, count=8)),
            records=len(reduction.processed),
            twice=len(reduction.repeated),
            airports_all=len(reduction.airports),
            took_s=self.elapsed_s,
            figures=verdict.figures,
            takeover_s=self.takeover_s,
            as_of=self.ensemble.as_of(),
            group=self.group,
            zookeeper=self.zookeeper,
            folder=self.folder if self.options.keep else None,
            embedded=self.options.zookeeper is None,
        )

    def _clear(self) -> None:
        left_over = group_state.clear(self.ensemble, self.group, topic=self.made_topic)
        if left_over:
            self.log(f"could not clean up: {left_over}", "bad")

    def _close_members(self) -> None:
        for one in self.members:
            one.close()


def _listed(partitions: Iterable[int]) -> str:
    return ", ".join(str(number) for number in sorted(partitions))


def _member_rows(processes: Sequence[MemberChild], owners: Mapping[int, str]) -> list[MemberRow]:
    """A row for each process that was ever started; `owners` maps partition to member name."""
    return [
        MemberRow(
            name=one.name,
            pid=one.pid,
            state=one.state,
            partitions=tuple(sorted(p for p, name in owners.items() if name == one.name)),
            processed=one.processed,
            gone=one.ended,
        )
        for one in processes
    ]


def _partition_rows(seen: group_state.DemoGroupState, ends: Sequence[int]) -> list[OwnedPartitionRow]:
    """A row for each partition, in order."""
    return [
        OwnedPartitionRow(
            partition=number,
            owner=seen.owners.get(number),
            token=seen.tokens.get(number),
            offset=seen.offsets.get(number) or 0,
            end=end,
        )
        for number, end in enumerate(ends)
    ]
