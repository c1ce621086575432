"""`zkgroup demo audit`: the group demo with two foreign offset writes, and the audit that has to find them.

A client that is not a member overwrites the offsets of two owners. Neither write loses a record. The commit
goes no further than the records that the owner has processed, by the owner's own file; the rewind goes below
the committed offset. Each write is one transaction that checks the versions of the owner and offset znodes,
so the owner of its partition is known on a slow machine too. zkgroup's owners detect the write at their next
commit and go on.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from zkgroup.audit.engine import Found
from zkgroup.audit.inspection import health_of
from zkgroup.audit.owner_lives import OwnerLife, member_of_thread
from zkgroup.audit.report.writing import ReportPlace, report_of, rows_beside, write_report
from zkgroup.audit.rules import Finding
from zkgroup.audit.source import Source
from zkgroup.audit.sources import open_source
from zkgroup.audit.texts import session_text
from zkgroup.audit.views.group_rows import rows_by_partition
from zkgroup.audit.views.owners import owners_of
from zkgroup.demo.flight_data import TOPIC, MemberOutput, Processed, last_of
from zkgroup.demo.group import scenario as group
from zkgroup.demo.group.scenario import NAMES, DemoGroup
from zkgroup.demo.group.view import GroupView
from zkgroup.demo.processes import connected
from zkgroup.demo.progress import CheckResult, Screen, named
from zkgroup.errors import OperationRefusedError
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Check, SetData, Znode
from zkgroup.zkfiles.verification import HistoryVerification
from zkgroup.znodes.consumers import Offset, Owner

READ_EVERY_S = 0.05
"""Seconds between two attempts. The owner commits twice a second: an attempt between two commits succeeds."""


class HeldOffset(NamedTuple):
    """One owned partition as it was read; a write checks the versions of both znodes."""

    partition: int
    owner: Znode
    offset: Znode
    committed: int


class PlannedWrite(NamedTuple):
    """A write to carry out: the partition, and its new offset."""

    held: HeldOffset
    after: int


@dataclass(frozen=True, slots=True)
class Planted:
    """One foreign offset write, which the audit has to find."""

    partition: int
    owner: str
    """Name of the member that owned the partition."""
    session: int
    """The session of the client that wrote."""
    zxid: int
    before: int
    after: int

    @property
    def findings(self) -> tuple[str, ...]:
        """The findings that the audit must report for it."""
        return ("offset_regression", "zombie_commit") if self.after < self.before else ("zombie_commit",)


def late_commit(held: Sequence[HeldOffset], last: Processed | None) -> PlannedWrite | None:
    """The write of a zombie: up to the owner's last processed record, where that is not committed.

    None also where the record was processed under another ownership than the one that was read.
    """
    for one in held:
        if (
            last is not None
            and (one.partition, one.owner.stat.czxid) == (last.partition, last.token)
            and one.committed <= last.offset
        ):
            return PlannedWrite(one, last.offset + 1)
    return None


def rewind(held: Sequence[HeldOffset], ends: Sequence[int]) -> PlannedWrite | None:
    """A write of half the committed offset, in a partition with records left: its owner commits again.

    `ends` are the end offsets of all partitions.
    """
    for one in held:
        if 2 <= one.committed < ends[one.partition]:
            return PlannedWrite(one, one.committed // 2)
    return None


def held_by(
    member: str, group: str, partitions: Sequence[int], found: Mapping[str, Znode | None]
) -> list[HeldOffset]:
    """The partitions that a member owns, from owner and offset znodes by path."""
    held = []
    for partition in partitions:
        tp = TopicPartition(TOPIC, partition)
        owner, offset = found[Owner.path(group, tp)], found[Offset.path(group, tp)]
        if owner is None or offset is None or Owner.decode(owner.path, owner.data).member != member:
            continue
        held.append(HeldOffset(partition, owner, offset, Offset.decode(offset.path, offset.data).value))
    return held


@dataclass(kw_only=True)
class PlantedGroup(DemoGroup):
    """The group demo, in which a foreign client writes offsets of two of the first three members."""

    command: str = "zkgroup demo audit"
    planted: list[Planted] = field(default_factory=list)

    def interlude(self) -> None:
        """Makes both writes, to partitions of the two members that are not killed."""
        self.until("a tenth of the records is committed", lambda: self.done_share() > 0.1)
        self.headline = "a foreign client writes offsets"
        zombie = self.members[0]
        ends = [len(lines) for lines in self.input_lines]
        with connected(self.zookeeper, self.options.connection, self.options.answer_timeout_s) as foreign:
            self._plant(
                foreign, NAMES[0], "commits for", lambda held: late_commit(held, last_of(zombie.output))
            )
            self._plant(foreign, NAMES[2], "rewinds", lambda held: rewind(held, ends))
        self.headline = "the owners detect it at their next commits"

    @property
    def moved(self) -> frozenset[int]:
        """Partitions that the foreign client wrote to."""
        return frozenset(one.partition for one in self.planted)

    def _plant(
        self,
        foreign: Ensemble,
        name: str,
        verb: str,
        choose: Callable[[Sequence[HeldOffset]], PlannedWrite | None],
    ) -> None:
        """Writes one offset of this owner, as soon as one of its partitions allows it.

        Raises `StableTimeoutError` where none does in time.
        """
        before = len(self.planted)
        self.until(
            f"a foreign client writes an offset of {name}",
            lambda: self._is_written(foreign, name, choose),
            READ_EVERY_S,
        )
        (one,) = self.planted[before:]
        self.log(
            f"a foreign client {verb} partition {one.partition} of {one.owner}: {one.before} -> {one.after}"
            f" (zxid {one.zxid:#x})",
            "bad",
        )

    def _is_written(
        self, foreign: Ensemble, name: str, choose: Callable[[Sequence[HeldOffset]], PlannedWrite | None]
    ) -> bool:
        """Tries the write once; False where no partition allows it, or its znodes changed meanwhile."""
        mine = sorted(number for number, owner in self.seen.owners.items() if owner == name)
        tps = [TopicPartition(TOPIC, number) for number in mine]
        paths = [kind.path(self.group, tp) for tp in tps for kind in (Owner, Offset)]
        session = foreign.zk.wait_connected().session_id
        held = held_by(f"{self.group}_{name}", self.group, mine, foreign.zk.read_many(paths))
        target = choose(held)
        if target is None:
            return False
        (partition, owner, offset, before), after = target
        try:
            done = foreign.zk.multi(
                Check(owner.path, owner.stat.version),
                SetData(offset.path, Offset(after).encode(), offset.stat.version),
            )
        except OperationRefusedError:
            return False
        stat = done.stats[1]
        assert stat is not None, "a write returns the new Stat"
        self.planted.append(Planted(partition, name, session, stat.mzxid, before, after))
        return True


EXPECTED = {"zombie_commit": 2, "offset_regression": 1}
"""Findings that the audit must report as errors, with their numbers."""


@dataclass(frozen=True, slots=True)
class AuditEvidence:
    """Everything that the checks of the audit read."""

    group: str
    planted: Sequence[Planted]
    findings: Sequence[Finding]
    """All findings, of every severity."""
    outputs: Sequence[MemberOutput]
    """The records that the members processed, with their fencing tokens."""
    lives: Mapping[int, Sequence[OwnerLife]]
    """Every ownership in the files, by partition."""
    files: int
    damages: Sequence[str]
    """Damage and gaps of the files."""
    replayed: HistoryVerification
    """The replay of the whole log, which compares each of the server's tree digests."""


def check_audit(evidence: AuditEvidence) -> tuple[CheckResult, ...]:
    """All checks, in the order in which the report prints them."""
    return (
        _files_whole(evidence),
        _errors_exact(evidence),
        _errors_named(evidence),
        _records_owned(evidence),
    )


def _files_whole(evidence: AuditEvidence) -> CheckResult:
    """Checks the health of the files, and the server's digest of the tree after each transaction."""
    replayed = evidence.replayed
    text = f"{evidence.files} files, {replayed.records:,} transactions"
    text += f", {replayed.digests_checked:,} tree digests compared"
    if evidence.damages:
        text += f"; {named(evidence.damages)}"
    if replayed.mismatches:
        text += f"; {replayed.mismatches:,} differ, the first at {replayed.first_bad_zxid or 0:#x}"
    holds = not evidence.damages and not replayed.mismatches and replayed.digests_checked > 0
    return CheckResult("ZooKeeper's own files are whole", holds, text)


def _errors_exact(evidence: AuditEvidence) -> CheckResult:
    """Compares errors and planted writes by name and zxid: none is missing, and none is added."""
    planted = Counter((name, one.zxid) for one in evidence.planted for name in one.findings)
    errors = Counter((one.finding, one.from_zxid or 0) for one in _errors(evidence))
    missed, invented = _texts(planted - errors), _texts(errors - planted)
    short = Counter(EXPECTED) - Counter(name for name, _ in planted.elements())
    text = ", ".join(_texts(errors)) or "no error"
    for what, which in (("missed", missed), ("not planted", invented), ("not even planted", sorted(short))):
        if which:
            text += f"; {what}: {named(which)}"
    return CheckResult(
        "the audit's errors are exactly what was planted", not (missed or invented or short), text
    )


def _errors_named(evidence: AuditEvidence) -> CheckResult:
    """Checks that each error names the partition and the writer's session."""
    known = {one.zxid: one for one in evidence.planted}
    wrong = [
        f"{one.finding} at {one.from_zxid or 0:#x}"
        for one in _errors(evidence)
        if (about := known.get(one.from_zxid or 0)) is not None
        and (one.group, one.topic, one.partition, one.session)
        != (evidence.group, TOPIC, about.partition, about.session)
    ]
    sessions = sorted({session_text(one.session) for one in evidence.planted})
    text = (
        f"partitions {', '.join(str(one.partition) for one in evidence.planted)}; session {named(sessions)}"
    )
    if wrong:
        text += f"; wrong: {named(wrong)}"
    return CheckResult("they name the partitions and the writer", not wrong and bool(known), text)


def _records_owned(evidence: AuditEvidence) -> CheckResult:
    """Compares the members' output with the files: a token is the zxid of a claim (docs/concepts.md)."""
    worked = Counter(
        (row.partition, row.token, f"{evidence.group}_{output.member}")
        for output in evidence.outputs
        for row in output.records
    )
    owned = {
        (partition, life.from_zxid, member_of_thread(life.thread))
        for partition, lives in evidence.lives.items()
        for life in lives
    }
    unknown = [
        f"partition {partition} under {token:#x} by {member}"
        for partition, token, member in sorted(set(worked) - owned)
    ]
    text = f"{worked.total():,} records under {len(worked)} of {len(owned)} ownerships"
    if unknown:
        text += f"; not in the files: {named(unknown)}"
    return CheckResult(
        "each record was processed by the owner in the files", bool(worked) and not unknown, text
    )


def _errors(evidence: AuditEvidence) -> Iterable[Finding]:
    return (one for one in evidence.findings if one.severity == "error")


def _texts(findings: Counter[tuple[str, int]]) -> list[str]:
    return [f"{name} at {zxid:#x}" for name, zxid in sorted(findings.elements(), key=lambda one: one[::-1])]


REPORT = "report.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditDemoOptions:
    """Options of the demo. It always starts its own server, because the audit reads the server's files."""

    keep: bool = False
    """Keep all files, not only the report."""
    group: group.GroupDemoOptions = field(default_factory=group.GroupDemoOptions)
    """Options of the group demo inside it."""


@dataclass(frozen=True, slots=True)
class AuditDemoReport:
    """The report of one run."""

    checks: tuple[CheckResult, ...]
    """The checks of the audit, then those of the group."""
    planted: tuple[Planted, ...]
    severities: Mapping[str, int]
    """Number of findings of each severity."""
    incidents: tuple[str, ...]
    """The titles of those that are more than notes."""
    partition: int
    """The partition whose offset was rewound."""
    owners: tuple[OwnerLife, ...]
    """The owners of that partition, in order."""
    report: tuple[Path, ...]
    """The HTML page, then the files written beside it."""
    took_s: float
    as_of: AsOf
    """The last transaction of the log."""
    group: str
    zookeeper: str
    folder: Path | None
    """Folder of the kept files; None when they were removed."""

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return all(check.holds for check in self.checks)


def run(options: AuditDemoOptions, screen: Screen[GroupView]) -> AuditDemoReport:
    """Runs the whole demo. Leaves no process behind, whatever happens.

    The report is kept: with all other files if those are kept, else in a new folder. Raises what the group
    demo raises.
    """
    with group.folder_of(keep=options.keep) as folder:
        with group.prepared(PlantedGroup, options.group, screen, folder) as stage:
            stage.play()
            shared = stage.report()
            stage.headline = "the server stops"
            stage.show()
        return _audit(stage, shared, options)


def _audit(stage: PlantedGroup, shared: group.GroupDemoReport, options: AuditDemoOptions) -> AuditDemoReport:
    """Audits the files of the stopped server, and writes the report."""
    inputs = [stage.folder / "zookeeper" / "server-0"]
    stage.headline = "auditing the server's files"
    stage.log("the server has stopped; auditing the files that it leaves")
    stage.show()
    source = open_source(inputs)
    assert source.history is not None, "folders of servers have a history"
    kept = stage.folder if options.keep else Path(tempfile.mkdtemp(prefix="zkgroup-audit-"))
    place = ReportPlace.of(kept / REPORT)
    with rows_beside(place) as rows:
        report = report_of(source, inputs, rows=rows)
        written = write_report(place, report, rows)
    found = report.found
    lives = _owners(source, found, stage.group)
    files = list(health_of(inputs))
    evidence = AuditEvidence(
        group=stage.group,
        planted=stage.planted,
        findings=found.findings,
        outputs=stage.outputs(),
        lives=lives,
        files=len(files),
        damages=[*source.damages(), *(f"{one.path}: {one.detail}" for one in files if not one.is_healthy)],
        replayed=source.history.verify(),
    )
    checks = check_audit(evidence)
    partition = next((one.partition for one in stage.planted if one.after < one.before), 0)
    return AuditDemoReport(
        checks=(*checks, *shared.checks),
        planted=tuple(stage.planted),
        severities=Counter(one.severity for one in found.findings),
        incidents=tuple(
            one.incident.title for one in report.incidents.incidents if one.incident.severity != "info"
        ),
        partition=partition,
        owners=tuple(lives.get(partition, ())),
        report=tuple(written),
        took_s=stage.elapsed_s,
        as_of=AsOf(found.facts.end_zxid, found.facts.end_ms),
        group=stage.group,
        zookeeper=stage.zookeeper,
        folder=stage.folder if options.keep else None,
    )


def _owners(source: Source, found: Found, group_id: str) -> dict[int, list[OwnerLife]]:
    """Every ownership in the files, by partition."""
    rows = rows_by_partition(source.rows().events(), group_id)
    return {
        where.topic_partition.partition: owners_of(mine, found.facts, *where) for where, mine in rows.items()
    }
