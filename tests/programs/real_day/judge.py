"""Compares three accounts of a day: the audit's rows, the group's checker, and the members' records."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.programs.real_day.accounts import Account, account_of_records, account_of_rows, disagreements
from tests.programs.real_day.day import CHROOT, Day
from tests.programs.real_day.member import GROUP
from tests.worlds.audit_agreement import Tally, deeds_of_rows, sessions_of, tally_of_checker, tally_of_rows
from tests.worlds.screened_findings import events_in
from zkgroup.audit.answers.partitions import OffsetWrite
from zkgroup.audit.findings.engine import ALL_RULES, audit
from zkgroup.audit.findings.rules import Finding
from zkgroup.audit.inputs.opening import open_source
from zkgroup.history import (
    CheckOptions,
    HistoryRecord,
    Recording,
    Report,
    ServerTransaction,
    Violation,
    check_history,
    read_files,
    read_transactions,
)

HALF_CLAIM_MS: Final = 120_000
"""Without a quorum no session ends; on a busy machine it takes a minute to get one back."""
PLANTED: Final = ("offset_regression", "zombie_commit")
"""The findings about a foreign write; the first is a warning while the partition has no owner."""


@dataclass(slots=True)
class Verdict:
    """The disagreements of a day, and the figures that were compared."""

    wrong: list[str] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def judge(home: Path, day: Day) -> Verdict:
    """Reads the files of a day, those of the servers and those of the members, and compares them."""
    folders = sorted((home / "zookeeper").glob("server-*"))
    source = open_source(folders, CHROOT)
    events = events_in(source.rows())
    found = audit(source, ALL_RULES)
    log = read_transactions([folder / "version-2" for folder in folders], CHROOT)
    recording = read_files(sorted(home.glob("*.history.jsonl")))
    report = _checked(recording, log, day.ahead_ms)

    by_rows, by_checker = tally_of_rows(events, GROUP), tally_of_checker(log, GROUP)
    told, seen = account_of_records(recording.records), account_of_rows(events, found.facts, GROUP)
    ours = sessions_of(found.facts, GROUP).ours
    deeds = deeds_of_rows(events, found.facts, GROUP)
    foreign_zxids = {
        deed.event.zxid
        for _, deed in deeds
        if isinstance(deed, OffsetWrite) and deed.event.session not in ours and not deed.event.seed
    }
    wrong = [
        *day.wrong,
        *_differences(by_rows, by_checker),
        *disagreements(told, seen),
        *(f"the checker: {each}" for each in unexcused(report.violations, recording.records, day.expired)),
        *(f"the checker: {each}" for each in report.damage),
        *_unexpected_findings(found.findings, foreign_zxids, set(day.planted)),
    ]
    return Verdict(wrong, _figures(by_rows, told, seen, report, found.findings), found.findings)


def _checked(recording: Recording, log: Sequence[ServerTransaction], ahead_ms: float) -> Report:
    """Checks records and log; the members' clock starts with the machine, so the log's times are shifted."""
    shifted = [dataclasses.replace(each, at_ms=int(each.at_ms - ahead_ms)) for each in log]
    return check_history(recording, shifted, CheckOptions(group=GROUP, half_claim_ms=HALF_CLAIM_MS))


def unexcused(
    violations: Iterable[Violation], records: Sequence[HistoryRecord], expired: Container[int]
) -> Iterator[Violation]:
    """The violations without S8 after a claim of a session that was ended early: its lease still ran.

    Its commits stay fenced, but deliveries may overlap until its member learns of the end.
    """
    for each in violations:
        older = [
            record
            for record in records
            if record.kind == "deliver.start"
            and record.topic_partition == each.topic_partition
            and record.fields["token"] < (each.zxid or 0)
        ]
        latest = max(older, key=lambda record: record.fields["token"], default=None)
        if each.invariant != "S8" or latest is None or latest.session not in expired:
            yield each


def _differences(rows: Tally, checker: Tally) -> Iterator[str]:
    for name, one, other in zip(rows._fields, rows, checker, strict=True):
        if isinstance(one, Counter):
            one, other = sorted((one - other).items()), sorted((other - one).items())
        if one != other:
            yield f"{name}: by the rows {one}, by the checker {other}"


def _unexpected_findings(
    findings: Sequence[Finding], foreign_zxids: set[int], planted: set[int]
) -> Iterator[str]:
    """Foreign writes without their findings at their zxids, and errors that no foreign write explains."""
    if missing := planted - foreign_zxids:
        yield f"planted writes that the log does not have: {sorted(missing)}"
    found = {(each.finding, each.from_zxid) for each in findings if each.severity != "info"}
    expected = {(name, zxid) for name in PLANTED for zxid in foreign_zxids}
    for name, zxid in sorted(expected - found):
        yield f"no {name} at 0x{zxid:x}, where a foreign client wrote an offset"
    for each in findings:
        if each.severity == "error" and (each.finding, each.from_zxid) not in expected:
            yield f"an unexpected error: {each}"


def _figures(
    rows: Tally, told: Account, seen: Account, report: Report, findings: Sequence[Finding]
) -> dict[str, int]:
    return {
        "transactions": report.figures.transactions,
        "claims": rows.claims,
        "claims that were never acknowledged": len(seen.claims.keys() - told.claims.keys()),
        "commits": rows.commits,
        "commits that were never acknowledged": len(seen.commits.keys() - told.commits.keys()),
        "foreign writes": rows.foreign_writes,
        "transactions refused in the log": seen.refused.total(),
        "transactions refused to members": told.refused.total(),
        "transactions without an answer": told.open.total(),
        "deliveries": report.figures.deliveries,
        "changes of owner": report.figures.ownership_changes,
        **{
            f"{severity} findings: {name}": count
            for (severity, name), count in sorted(Counter((f.severity, f.finding) for f in findings).items())
        },
    }
