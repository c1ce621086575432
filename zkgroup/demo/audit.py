"""`zkgroup demo audit`: the group demo with two foreign offset writes, and the audit that has to find them.

A client that is not a member overwrites the offsets of two owners. Neither write loses a record: the commit
goes no further than what the owner has processed, by its own file, and the rewind goes back. Each is one
transaction that checks the versions of owner and offset. The owners detect it at their next commit and go on.
Exports are taken before, between and behind: what they prove, the log has, too.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from zkgroup.audit.answers.partitions import OwnerLife, member_of_thread
from zkgroup.audit.findings.engine import ALL_RULES, audit
from zkgroup.audit.findings.rules import Finding, Severity
from zkgroup.audit.inputs.found_files import health_of
from zkgroup.audit.inputs.one_tree import of_walk, walk
from zkgroup.audit.inputs.opening import open_source
from zkgroup.audit.inputs.source import Source, require_columns
from zkgroup.demo.checks import CheckResult, checked, named_faults
from zkgroup.demo.flight_data import TOPIC, decode_lines
from zkgroup.demo.group import NAMES, GroupRun
from zkgroup.errors import OperationRefusedError
from zkgroup.groups.ensemble import AsOf, Ensemble
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Check, SetData
from zkgroup.model.text import counted
from zkgroup.zkfiles.exports import export_name, write_export
from zkgroup.znodes.consumers import Offset, Owner


@dataclass(frozen=True, slots=True)
class Planted:
    """One foreign offset write, which the audit has to find."""

    partition: int
    owner: str
    session: int
    """Of the client that wrote."""
    zxid: int
    before: int
    after: int

    @property
    def findings(self) -> tuple[str, ...]:
        """The findings that the audit must report for it."""
        return ("offset_regression", "zombie_commit") if self.after < self.before else ("zombie_commit",)


Choose = Callable[[int, int, int], int | None]  # by partition, committed offset and token; None for no offset


@dataclass(kw_only=True)
class AuditRun(GroupRun):
    """The group demo, in which a foreign client writes offsets of two of the first three members."""

    command: ClassVar[str] = "zkgroup demo audit"

    planted: list[Planted] = field(default_factory=list)
    severities: Mapping[Severity, int] = field(default_factory=dict)
    incidents: tuple[str, ...] = ()
    """The titles of those that are more than notes."""
    lives: dict[int, list[OwnerLife]] = field(default_factory=dict)
    """The owners of each partition, in order."""
    report: tuple[Path, ...] = ()
    """The HTML page, then the files written beside it."""

    @classmethod
    def require(cls) -> None:
        require_columns()

    @property
    def partition(self) -> int:
        """The partition whose offset was rewound."""
        return next((one.partition for one in self.planted if one.after < one.before), 0)

    def interlude(self) -> None:
        """Makes both writes, to partitions of the two members that are not killed."""
        self.until("a tenth of the records is committed", lambda: self.owned.committed > self.total // 10)
        self.headline = "a foreign client writes offsets"
        self._export()
        with self.connected() as (foreign, _):
            self._plant(foreign, NAMES[0], "commits for", self._late_commit)
            self._plant(foreign, NAMES[2], "rewinds", self._rewind)
        self.headline = "the owners detect it at their next commits"

    def _late_commit(self, partition: int, committed: int, token: int) -> int | None:
        """A zombie's: up to the owner's last processed record, of this ownership, where not committed."""
        ended = self.members[0].output.read_bytes().split(b"\n")[-2:]  # the last may be incomplete
        for last in decode_lines(b"\n".join(ended)):
            if (last.partition, last.token) == (partition, token):
                return last.offset + 1 if committed <= last.offset else None
        return None

    def _rewind(self, partition: int, committed: int, token: int) -> int | None:
        """Half the committed offset, in a partition with records left: its owner commits again."""
        return committed // 2 if 2 <= committed < len(self.lines[partition]) else None

    def _plant(self, foreign: Ensemble, name: str, verb: str, choose: Choose) -> None:
        """Writes one offset of this owner, as soon as it does not commit at the same time."""
        what = f"a foreign client writes an offset of {name}"
        self.until(what, lambda: self._has_written(foreign, name, choose), 0.05)
        one = self.planted[-1]
        self.overwritten |= {one.partition}
        where = f"partition {one.partition} of {one.owner}: {one.before} -> {one.after} (zxid {one.zxid:#x})"
        self.log(f"a foreign client {verb} {where}", "bad")
        self._export()

    def _export(self) -> None:
        """Takes an export, as a line in cron does."""
        (walked, znodes), folder = walk(self.ensemble.zk), self.folder / "exports"
        folder.mkdir(exist_ok=True)
        header = of_walk(walked, self.ensemble.clock.wall_ms(), self.zookeeper)
        write_export(folder / export_name(header.zxid_before, header.time_ms), header, znodes)

    def _has_written(self, foreign: Ensemble, name: str, choose: Choose) -> bool:
        """Tries each partition of this owner once; a write checks the versions of both znodes."""
        session, member = foreign.zk.wait_connected().session_id, f"{self.group}_{name}"
        tps = [TopicPartition(TOPIC, number) for number in self.owned.of(name)]
        found = foreign.zk.read_many([kind.path(self.group, tp) for tp in tps for kind in (Owner, Offset)])
        for tp in tps:
            owner, offset = found[Owner.path(self.group, tp)], found[Offset.path(self.group, tp)]
            if not owner or not offset or Owner.decode(owner.path, owner.data).member != member:
                continue
            before = Offset.decode(offset.path, offset.data).value
            if (after := choose(tp.partition, before, owner.stat.czxid)) is None:
                continue
            written = SetData(offset.path, Offset(after).encode(), offset.stat.version)
            with suppress(OperationRefusedError):  # the znodes have changed meanwhile
                stat = foreign.zk.multi(Check(owner.path, owner.stat.version), written).stats[1]
                assert stat is not None, "a write returns the new Stat"
                self.planted.append(Planted(tp.partition, name, session, stat.mzxid, before, after))
                return True
        return False

    def judge(self) -> Iterator[CheckResult]:
        """Stops the server, and audits its files. The report is kept, in a new folder if no files are."""
        from zkgroup.audit.answers.snapshots import OfPartitions, owners_in
        from zkgroup.audit.report.writing import ReportPlace, drafts, report_of, write_report

        shared = [*super().judge()]
        self.stop()
        inputs = [self.folder / "zookeeper" / "server-0"]
        self.headline = "auditing the server's files"
        self.log("the server has stopped; auditing the files that it leaves")
        source = open_source(inputs)
        kept = self.folder if self.options.keep else Path(tempfile.mkdtemp(prefix="zkgroup-audit-"))
        place = ReportPlace(kept / "report.html", kept)
        with drafts(place.folder) as draft:
            report = report_of(source, inputs, give=draft.add)
            self.report = tuple(write_report(place, report, draft))
        found = report.found
        self.as_of = AsOf(found.facts.end_zxid, found.facts.end_ms)
        self.severities = Counter(one.severity for one in found.findings)
        self.incidents = tuple(one.title for one in report.incidents.incidents if one.severity != "info")
        for at, life in owners_in(source, OfPartitions(self.group))[1]:
            self.lives.setdefault(at.topic_partition.partition, []).append(life)
        errors = [one for one in found.findings if one.severity == "error"]
        yield _check_files(source, inputs)
        yield self._check_errors(errors)
        yield self._check_owners()
        yield self._check_exports(errors)
        yield from shared

    def _check_errors(self, errors: Iterable[Finding]) -> CheckResult:
        """Compares errors and planted writes by name, zxid, partition and session."""
        found: Counter[Any] = Counter(
            (one.from_zxid, one.finding, one.partition, one.session) for one in errors
        )
        wanted = Counter((p.zxid, name, p.partition, p.session) for p in self.planted for name in p.findings)
        faults = named_faults({"missed:": _texts(wanted - found), "not planted:": _texts(found - wanted)})
        evidence = ", ".join(_texts(found)) or "no error"
        return checked("the audit's errors are exactly what was planted", evidence, faults, bool(wanted))

    def _check_owners(self) -> CheckResult:
        """Compares the members' output with the files: a token is the zxid of a claim (docs/concepts.md)."""
        worked = Counter(
            (row.partition, row.token, f"{self.group}_{member}")
            for member, rows in self.outputs(self.members).items()
            for row in rows
        )
        lives = [(number, life) for number, own in self.lives.items() for life in own]
        owned = {(number, life.from_zxid, member_of_thread(life.thread)) for number, life in lives}
        unknown = sorted(set(worked) - owned)
        faults = [f"not in the files: partition {n} under {token:#x} by {one}" for n, token, one in unknown]
        text = f"{worked.total():,} records under {len(worked)} of {len(owned)} ownerships"
        return checked("each record was processed by the owner in the files", text, faults, bool(worked))

    def _check_exports(self, errors: Iterable[Finding]) -> CheckResult:
        """Compares the errors and the owners that exports prove with those of the files."""
        from zkgroup.audit.answers.snapshots import OfPartitions, owners_in

        source, owner = open_source([self.folder / "exports"]), "owner since {:#x}".format
        shown = [one for one in audit(source, ALL_RULES).findings if one.severity == "error"]
        lives = owners_in(source, OfPartitions(self.group))[1]
        found = {(one.finding, one.partition) for one in shown}
        found |= {(owner(life.from_zxid), at.topic_partition.partition) for at, life in lives}
        known = {(one.finding, one.partition) for one in errors}
        known |= {(owner(life.from_zxid), number) for number, own in self.lives.items() for life in own}
        wrong = [f"not in the files: {name} of {number}" for name, number in sorted(found - known)]
        text = [f"{len(source.series[0].snapshots)} exports: {counted(len(lives), 'ownership')}"]
        text += (f"{one.finding} of {one.partition}" for one in shown)
        return checked("exports prove the same", ", ".join(text), wrong, bool(lives))


def _check_files(source: Source, inputs: Sequence[Path]) -> CheckResult:
    """Checks the health of the files, and the server's digest of the tree after each transaction."""
    assert source.history is not None, "folders of servers have a history"
    files = list(health_of(inputs))
    replayed = source.history.verify()
    faults = [*source.damages(), *(f"{one.path}: {one.detail}" for one in files if not one.is_healthy)]
    if replayed.mismatches:
        faults.append(f"{replayed.mismatches:,} differ, the first at {replayed.first_bad_zxid or 0:#x}")
    text = f"{len(files)} files, {replayed.records:,} transactions"
    text += f", {replayed.digests_checked:,} tree digests compared"
    return checked("ZooKeeper's own files are whole", text, faults, replayed.digests_checked > 0)


def _texts(findings: Counter[Any]) -> list[str]:
    return [f"{name} of {number} at {zxid:#x}" for zxid, name, number, _ in sorted(findings.elements())]
