"""The consumers that all demos have: their process, their group, and the checks of their work."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from zkgroup import Consumer, FileSource, GroupSettings, Lease, RebalanceListener, TopicPartition
from zkgroup.admin.coordinator import live_reader
from zkgroup.consumer.machine.events import MemberState
from zkgroup.demo.flight_data import (
    PARTITIONS,
    TOPIC,
    Processed,
    Reduction,
    airport_and_delay,
    decode_lines,
    delays,
    encode_line,
)
from zkgroup.demo.processes import Child, Stopping, print_event
from zkgroup.demo.stage import TICK_MS, CheckResult, DemoStage, checked, named
from zkgroup.errors import MemberFailedError, NotFoundError
from zkgroup.groups import reads
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.reader import read_snapshot
from zkgroup.groups.verify import expected_ownership, group_state
from zkgroup.history import ClusterReport, HistoryFile, Report, check_history, read_files
from zkgroup.history.report import UNKNOWN_SHARE_MAX, shortfalls
from zkgroup.sources import BrokerSource

FAST = 5_000
"""Records per second of a member that waits for its producer."""
VERIFY_S = 60.0
"""Longest wait of `group verify --wait` for a state that is right."""
PROGRESS_EVERY_S = 0.2
PAUSE_EVERY = 10
"""Records between two pauses: with one sleep per record the cost of the sleep itself would dominate."""


class MemberEventPrinter(RebalanceListener):
    """Prints the member's events to standard output."""

    def on_state(self, before: MemberState, after: MemberState, reason: str) -> None:
        print_event("state", state=after.value)

    def on_assigned(self, leases: Sequence[Lease]) -> None:
        print_event("assigned", partitions=[lease.partition for lease in leases])

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        print_event("revoked", partitions=[one.partition for one in partitions])

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        print_event("lost", partitions=[one.partition for one in partitions])


def serve(
    stopping: Stopping, source: str | None, output: str, history: str, records_per_s: int, **consuming: Any
) -> None:
    """Joins the group, and writes one line for each record to a file until it is to end.

    `source` is the folder of the topic's files, None for zkgroup's brokers; `consuming` is for the consumer.
    """
    consumer = Consumer(
        topics=[TOPIC],
        source=BrokerSource() if source is None else FileSource(source),
        listener=MemberEventPrinter(),
        history=HistoryFile(history),
        **consuming,
    )
    stopping.then(consumer.stop)
    if stopping.is_requested:
        return
    processed, printed_s = 0, time.monotonic()
    with open(output, "ab", buffering=0) as lines, consumer:  # noqa: PTH123
        for record in consumer:
            assert record.value is not None
            fields = airport_and_delay(record.value)
            lines.write(encode_line(Processed(record.partition, record.offset, *fields, record.token)))
            processed += 1
            if processed % PAUSE_EVERY == 0:
                time.sleep(PAUSE_EVERY / records_per_s)
            if time.monotonic() - printed_s > PROGRESS_EVERY_S:
                printed_s = time.monotonic()
                print_event("progress", processed=processed)
        print_event("progress", processed=processed)


@dataclass(frozen=True, slots=True)
class OwnedState:
    """The group as one read found it. Mappings: partition number to value, where there is one."""

    state: str = "empty"
    members: frozenset[str] = frozenset()
    owners: Mapping[int, str] = field(default_factory=dict)
    """Name of the member that owns the partition."""
    tokens: Mapping[int, int] = field(default_factory=dict)
    offsets: Mapping[int, int] = field(default_factory=dict)


def read_group(ensemble: Ensemble, group: str) -> OwnedState:
    """Reads members, owners, tokens and offsets; an empty state where the group does not exist."""
    try:
        snapshot = read_snapshot(ensemble, group)
    except NotFoundError:
        return OwnedState()
    expected = expected_ownership(snapshot)
    state = group_state(snapshot, expected, now_ms=ensemble.clock.wall_ms())
    described = reads.describe_group(snapshot, expected, state)
    rows = {
        one.topic_partition.partition: one
        for one in described.partitions
        if one.topic_partition.topic == TOPIC
    }
    return OwnedState(
        state.value,
        frozenset(one.member.removeprefix(f"{group}_") for one in described.members),
        {n: row.member.removeprefix(f"{group}_") for n, row in rows.items() if row.member is not None},
        {n: row.token for n, row in rows.items() if row.token is not None},
        {n: row.offset for n, row in rows.items() if row.offset is not None},
    )


@dataclass(kw_only=True)
class MemberStage(DemoStage):
    """A run with members of a group."""

    partitions: ClassVar[int] = PARTITIONS

    members: list[Child] = field(default_factory=list)
    owned: OwnedState = field(default_factory=OwnedState)
    """The group of the members, as it was read last."""
    problems: list[str] = field(default_factory=list)
    """Problems that `group verify` found."""

    def start_member(
        self, name: str, source: str | None = None, records_per_s: int = FAST, session_timeout_ms: int = 6_000
    ) -> Child:
        settings = GroupSettings(  # short times, so that the demo fits into a minute
            consumer_id=name,
            session_timeout_ms=session_timeout_ms,
            server_tick_ms=TICK_MS if self.options.zookeeper is None else 2_000,
            auto_commit_interval_ms=500,
        )
        given = {
            "address": self.zookeeper,
            "group": self.group,
            "settings": settings,
            "connection": self.options.connection,
            "source": source,
            "output": str(self.folder / f"{name}.processed.jsonl"),
            "history": str(self.folder / f"{name}.history.jsonl"),
            "records_per_s": records_per_s,
        }
        member = Child(name, "zkgroup.demo.members", self.folder, given)
        self.members.append(member)
        self.children.append(member)
        return member

    def read(self) -> None:
        self.owned = read_group(self.ensemble, self.group)

    def is_shared_by(self, names: Collection[str]) -> bool:
        """Returns whether exactly these members are in the group, and own all partitions."""
        owners = self.owned.owners
        return len(owners) == self.partitions and set(owners.values()) == self.owned.members == frozenset(
            names
        )

    def partitions_of(self, member: Child) -> list[int]:
        return sorted(number for number, owner in self.owned.owners.items() if owner == member.name)

    @property
    def committed(self) -> int:
        return sum(value for value in self.owned.offsets.values() if value > 0)

    def verify(self, kind: str = "") -> None:
        live = live_reader(self.ensemble)
        verdict = reads.verify(self.ensemble, self.group, wait_s=VERIFY_S, live=live)
        self.problems += [
            f"{kind}{one.kind.value} {one.topic}:{one.partition} {one.detail}".strip()
            for one in verdict.problems
        ]

    def stop_members(self) -> None:
        """Lets the members leave. Raises `MemberFailedError` for one that fails meanwhile."""
        self.end(self.members, "the members")
        for one in self.members:
            if one.exit_code and not one.killed:
                raise MemberFailedError(f"{one.name} ended with exit code {one.exit_code}")
        self.refresh()

    def outputs(self, children: Iterable[Child]) -> dict[str, list[Processed]]:
        """The records that each process has written."""
        return {one.name: decode_lines(one.output.read_bytes()) for one in children}

    def history(self) -> Report:
        return check_history(read_files(sorted(self.folder.glob("*.history.jsonl"))))

    def check_members(
        self,
        lines: Sequence[Sequence[bytes]],
        reduction: Reduction,
        history: Report,
        least: Mapping[str, int],
        moved: Collection[int] = (),
    ) -> tuple[CheckResult, ...]:
        """The six statements about members, in the order in which the report prints them.

        Args:
            lines: the records of each partition.
            least: what the history must hold at least to prove anything, by name of its figures.
            moved: partitions whose offset a foreign writer changed; the same as given to `reduce`.
        """
        return (
            *check_result(lines, reduction),
            self._check_twice(reduction, moved),
            check_committed(lines, self.owned.offsets),
            _check_history(history, least),
            checked("group verify is clean", faults=self.problems, proof="converged"),
        )

    def _check_twice(self, reduction: Reduction, moved: Collection[int]) -> CheckResult:
        """Delivery is at least once: a repetition is allowed where a member did not leave in order."""
        gone = {one.name: "killed" for one in self.members if one.killed}
        gone |= {one.name: "its session ended" for one in self.members if one.reported["lost"]}
        parts = [
            f"{count} of {member} ({gone.get(member, 'handed over cleanly')})"
            for member, count in reduction.repeated_by.items()
        ]
        for partition in sorted(moved):
            again = sum(count - 1 for place, count in reduction.repeated.items() if place[0] == partition)
            parts.append(f"{again} of partition {partition} (its offset was moved)")
        excuse = "a death or a moved offset" if moved else "a death"
        unexcused = [f"not excused: {member}" for member in reduction.repeated_by if member not in gone]
        statement = f"nothing twice but what {excuse} left open"
        return checked(statement, ", ".join(parts) or "none", unexcused)


def check_result(lines: Sequence[Sequence[bytes]], reduction: Reduction) -> tuple[CheckResult, CheckResult]:
    """Checks that every record was processed, and that the result is right."""
    expected = {(p, o) for p, one in enumerate(lines) for o in range(len(one))}
    found = reduction.processed
    direct = delays(airport_and_delay(line) for one in lines for line in one)
    wrong = {
        name for name in {*direct, *reduction.airports} if direct.get(name) != reduction.airports.get(name)
    }
    return (
        checked(
            "every record was processed",
            f"{len(found & expected):,} of {len(expected):,}",
            _listed("missing", _places(expected - found))
            + _listed("never produced", _places(found - expected)),
        ),
        checked(
            "the result equals a direct computation",
            f"{len(direct)} airports",
            _listed("different for", sorted(wrong))
            + _listed("two members disagree about", _places(reduction.contradictions)),
        ),
    )


def _places(found: Collection[tuple[int, int]]) -> list[str]:
    return [f"{partition}:{offset}" for partition, offset in sorted(found)]


def _listed(what: str, found: Sequence[str]) -> list[str]:
    return [f"{what} {named(found)}"] if found else []


def behind(committed: Mapping[int, int], ends: Mapping[int, int]) -> list[str]:
    """The partitions whose offset is not their end."""
    return [
        f"{number} at {committed.get(number)} of {end}"
        for number, end in sorted(ends.items())
        if committed.get(number) != end
    ]


def check_committed(lines: Sequence[Sequence[bytes]], committed: Mapping[int, int]) -> CheckResult:
    """Checks that the offset of each partition is its end."""
    faults = behind(committed, {number: len(one) for number, one in enumerate(lines)})
    text = f"{len(lines) - len(faults)} of {len(lines)} partitions"
    return checked("every partition is committed to its end", text, faults)


def history_faults(report: Report | ClusterReport, least: Mapping[str, int]) -> list[str]:
    """The violations and damage that a history checker found, and the events of which it saw too few."""
    return [
        *map(str, report.violations),
        *(f"damaged: {one}" for one in report.damage),
        *(f"too little happened: {one}" for one in shortfalls(report.figures, least)),
    ]


def _check_history(report: Report, least: Mapping[str, int]) -> CheckResult:
    """The history checker's verdict."""
    figures, faults = report.figures, history_faults(report, least)
    if figures.unknown_share > UNKNOWN_SHARE_MAX:
        faults.append(f"{figures.unknown_outcomes} of {figures.operations} outcomes unknown, too many")
    text = f"{figures.records:,} events, {len(report.violations)} violations"
    return checked("no stale commit, no second owner", text, faults, enough=report.holds)
