"""Everything that a report shows, as plain data: of findings of this process or of Spark.

Lists stand for records to keep the file small; `assets/*.js` has their fields by name. Times are milliseconds
since 1970, zxids text (a browser has no whole numbers of 64 bits), names numbers of the list `names`. Spans
and points of curves, of which there are most, are differences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from zkgroup.audit.answers.sessions import SessionRow
from zkgroup.audit.documents import counts_of
from zkgroup.audit.findings.all_rules import ALL_RULES
from zkgroup.audit.findings.engine import Found
from zkgroup.audit.findings.rules import Severity
from zkgroup.audit.findings.times import TimeRange, merged
from zkgroup.audit.incidents.incident import FoundIncidents, NumberedFinding, cause_text, damage_text
from zkgroup.audit.incidents.titles import called
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.texts import count_text, session_text
from zkgroup.audit.report.keeping import NOBODY, Kept, Names, ReportLimits, hex_zxid, shown
from zkgroup.audit.report.offsets import DrawnOffsets
from zkgroup.audit.report.sections import AllRebalances, WriteLoad
from zkgroup.audit.report.tables import Partition
from zkgroup.audit.report.timelines import Timeline, brokers, controllers
from zkgroup.zkfiles.health import FileHealth

SCHEMA = "zkgroup.audit_report/1"
_SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Holds what is known of the input beside its rows. All of it is shown and used for nothing else."""

    inputs: Sequence[str]
    """Holds what was read, as it was named."""
    files: Sequence[FileHealth] = ()
    group: str | None = None
    """The only group that was asked about."""
    seen_zxid: int = 0
    """The zxid of the tree before the first row."""
    is_exact: bool = True
    """True if that tree is proved to be the one of the servers."""
    detail: str = ""
    """Says why it is not exact."""
    damage: Sequence[str] = ()
    """Damaged or missing files, in words."""
    notes: Sequence[str] = ()


class Drawn(NamedTuple):
    """Holds what is shown beside the findings, shaped and bounded."""

    owners: Timeline[Partition]
    rebalances: AllRebalances
    offsets: DrawnOffsets
    replication: Timeline[tuple[str, int]]
    sessions: Sequence[SessionRow]
    load: WriteLoad

    def data(self, facts: Facts, names: Names, limits: ReportLimits) -> dict[str, Any]:
        """The sections as the page reads them."""
        return {
            "owners": self.owners.data("partition", names),
            "rebalances": self.rebalances.data(names),
            "offsets": self.offsets.data(names),
            "controllers": controllers(facts, names, limits),
            "brokers": brokers(facts, names, limits),
            "replication": self.replication.data("partition", names),
            "sessions": _sessions(self.sessions, names, limits),
            "load": self.load.data(names),
        }


def report_data(
    drawn: Drawn, found: Found, incidents: FoundIncidents, about: About, limits: ReportLimits | None = None
) -> dict[str, Any]:
    """The data of a report.

    Args:
        drawn: of the same range that `found` is of.
        incidents: those of `found`.
    """
    limits = limits or ReportLimits()
    facts = found.facts
    start_ms = facts.start_ms if facts.has_log else facts.end_ms
    names = Names(limits.text, start_ms, facts.start_zxid)
    data = {
        "schema": SCHEMA,
        "inputs": [shown(each, limits.text) for each in about.inputs],
        "group": None if about.group is None else shown(about.group, limits.text),
        "from": start_ms,
        "to": max(facts.end_ms, start_ms),
        "zxids": [hex_zxid(facts.start_zxid), hex_zxid(facts.end_zxid)],
        "has_log": facts.has_log,
        "stands_on": [hex_zxid(about.seen_zxid), about.is_exact, shown(about.detail, limits.text)],
        "damage": [shown(each, limits.text) for each in about.damage],
        "notes": [shown(each, limits.text) for each in about.notes],
        "files": [_file(each, limits) for each in about.files],
        "incidents": _incidents(incidents, names, limits),
        "findings": _findings(found, incidents, names, limits),
        "members": _membership(facts, names),
        **drawn.data(facts, names, limits),
    }
    return {**data, "names": names.texts}


def _incidents(found: FoundIncidents, names: Names, limits: ReportLimits) -> dict[str, Any]:
    """The worst, in their order: errors first."""
    kept = found.incidents[: limits.incidents]
    return {
        "left_out": len(found.incidents) - len(kept),
        "rows": [
            [
                *(one.number, _SEVERITIES.index(one.severity), shown(one.title, 2 * limits.text)),
                *(names.of(one.group), one.from_ms, one.to_ms, hex_zxid(one.from_zxid)),
                *(hex_zxid(one.to_zxid), shown(cause_text(one.cause), limits.text)),
                names.of(session_text(one.cause.session)) if one.cause.session else NOBODY,
                *(shown(damage_text(one.damage), limits.text), one.act),
                [[names.of(called(name, count)), count] for name, count in counts_of(one.findings).items()],
            ]
            for one in kept
        ],
    }


def _membership(facts: Facts, names: Names) -> list[list[Any]]:
    """By group: the times in which it had a member. Only then a partition without an owner is a gap."""
    found = []
    for group, lives in sorted(facts.members.items()):
        ranges = merged(TimeRange.of(life) for life in lives)
        found.append([names.of(group), [[each.from_ms, each.to_ms] for each in ranges]])
    return found


def _findings(found: Found, incidents: FoundIncidents, names: Names, limits: ReportLimits) -> dict[str, Any]:
    by_rule: dict[str, list[NumberedFinding]] = {}
    for row in incidents.findings:
        by_rule.setdefault(row.finding.finding, []).append(row)
    rules: list[dict[str, Any]] = []
    for rule in ALL_RULES:
        mine = by_rule.get(rule.name, [])
        if not mine:
            continue
        kept: Kept[NumberedFinding] = Kept(
            limits.findings_of_a_rule, lambda row: -_SEVERITIES.index(row.finding.severity)
        )
        for row in mine:
            kept.add(row)
        counts = Counter(row.finding.severity for row in mine)
        rules.append(
            {
                "name": rule.name,
                "title": called(rule.name, len(mine)),
                "question": rule.question,
                "act": rule.act,
                "counts": [counts[severity] for severity in _SEVERITIES],
                "left_out": kept.left_out,
                "rows": [_finding(row, names, limits) for row in kept.items()],
            }
        )
    rules.sort(key=lambda rule: tuple(-count for count in rule["counts"]))
    totals = Counter(one.severity for one in found.findings)
    return {
        "counts": [totals[severity] for severity in _SEVERITIES],
        "asked": len(ALL_RULES) - len(found.skipped),
        "rules": rules,
        "skipped": [[one.rule.name, one.reason] for one in found.skipped],
    }


def _finding(row: NumberedFinding, names: Names, limits: ReportLimits) -> list[Any]:
    one = row.finding
    return [
        _SEVERITIES.index(one.severity),
        names.of(one.group),
        names.of(one.topic),
        one.partition,
        names.of(session_text(one.session)) if one.session else NOBODY,
        hex_zxid(one.from_zxid),
        hex_zxid(one.to_zxid),
        one.from_ms,
        one.to_ms,
        shown(one.detail, 2 * limits.text),
        row.incident,
    ]


def _sessions(rows: Sequence[SessionRow], names: Names, limits: ReportLimits) -> dict[str, Any]:
    kept: Kept[SessionRow] = Kept(limits.sessions, _session_weight)
    for row in rows:
        kept.add(row)
    notes = []
    if kept.left_out:
        notes.append(f"{count_text(kept.left_out, 'session')} that did least are left out.")
    ends = Counter(row.ended for row in rows)
    return {
        "notes": notes,
        "counts": [ends["open"], ends["closed"], ends["expired"]],
        "rows": [
            [
                *(names.of(session_text(row.session)), row.server, row.timeout_ms, row.from_ms, row.to_ms),
                *(hex_zxid(row.from_zxid), hex_zxid(row.to_zxid), row.ended, row.writes, row.silence_ms),
                *(row.ephemerals, names.of(_role(row))),
            ]
            for row in kept.items()
        ],
    }


def _session_weight(row: SessionRow) -> float:
    has_role = bool(row.members or row.brokers or row.was_controller)
    return 4e9 * has_role + 2e9 * (row.ended == "expired") + 1e9 * bool(row.created) + row.writes


def _role(row: SessionRow) -> str:
    """Returns what it was, in words; the empty text for nothing."""
    roles = [f"member {member} of {group}" for group, member in row.members]
    roles += [f"broker {broker}" for broker in row.brokers]
    return ", ".join([*roles, "controller"] if row.was_controller else roles)


def _file(one: FileHealth, limits: ReportLimits) -> list[Any]:
    return [
        *(shown(str(one.path), limits.text), one.kind, one.records, one.is_healthy, one.is_exact),
        *(hex_zxid(one.first_zxid), hex_zxid(one.last_zxid), hex_zxid(one.good_until_zxid)),
        shown(one.detail, limits.text),
    ]
