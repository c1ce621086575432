"""An incident: its cause, damage and findings, the texts about cause and damage, and the JSON document.

The document is of the schema `zkgroup.audit_findings/1`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from zkgroup.audit.findings.engine import Found, Skipped
from zkgroup.audit.findings.rules import SEVERITIES, Basis, Finding, Severity
from zkgroup.audit.inputs.facts import Facts, Life
from zkgroup.model.text import duration_text, hex_session, iso_time, named
from zkgroup.znodes.controller import ControllerRegistration

CONTROLLER = ControllerRegistration.path()
"""The target of a foreign write that is of no group."""

CauseKind = Literal[
    "foreign write",
    "session end",
    "expiry",
    "unreadable registration",
    "restart",
    "membership change",
    "rebalance storm",
    "orphaned claim",
    "operator reset",
    "lost broker",
    "broker shutdown",
    "controller change",
    "controller storm",
    "slow follower",
    "reassignment",
    "state",
    "note",
]
"""`state` is for findings without a cause in the log; `note` joins findings of severity info by name."""


class Cause(NamedTuple):
    """The cause of an incident; findings with equal causes are one incident."""

    kind: CauseKind
    group: str | None = None
    what: str = ""
    """The member, brokers, znode or finding that it is about."""
    session: int | None = None
    zxid: int | None = None
    """The zxid at which it begins; None where the log does not show it."""
    time_ms: int | None = None


class PartitionDamage(NamedTuple):
    """The cost of an incident for one partition."""

    group: str | None
    topic: str
    partition: int
    delivered_again: int = 0
    """The records, at least, by which offsets were set back."""
    unowned_ms: int = 0
    """The time in which no member owned it."""
    leaderless_ms: int = 0
    """The time in which it had no registered leader."""


@dataclass(frozen=True, slots=True)
class Incident:
    """Findings with one cause. Times as of a finding: `to_*` is None for what lasts to the end."""

    title: str
    """A sentence that begins with its time, where it has one."""
    severity: Severity
    cause: Cause
    group: str | None
    from_zxid: int | None
    to_zxid: int | None
    from_ms: int | None
    to_ms: int | None
    damage: tuple[PartitionDamage, ...]
    act: str
    """The advice to an operator."""
    findings: tuple[Finding, ...]
    """The findings in the order of the audit."""
    number: int = 0
    """Its place among the incidents of an audit, from 1."""

    @property
    def basis(self) -> Basis:
        """`log` where some finding is of a log."""
        return "log" if any(one.basis == "log" for one in self.findings) else "snapshots"


class NumberedFinding(NamedTuple):
    """A finding and the number of its incident."""

    finding: Finding
    incident: int


@dataclass(frozen=True, slots=True)
class FoundIncidents:
    """The incidents of an audit, and its findings in their order."""

    incidents: Sequence[Incident]
    findings: Sequence[NumberedFinding]
    skipped: Sequence[Skipped]


_PLACES_MAX = 4


def cause_text(cause: Cause) -> str:
    """`foreign write (owners) by session 0xa at zxid 0x82`; empty where the log shows no cause."""
    if cause.kind in ("state", "note"):
        return ""
    what = f" ({cause.what})" if cause.what else ""
    session = f" by session {hex_session(cause.session)}" if cause.session else ""
    return f"{cause.kind}{what}{session}" + (f" at zxid {cause.zxid:#x}" if cause.zxid is not None else "")


def damage_text(damage: Sequence[PartitionDamage]) -> str:
    """The text about the damage, summed, with the worst partitions; empty where nothing is known."""
    parts = []
    for attribute, what, text in (
        ("delivered_again", "records delivered again at least", "{:,}".format),
        ("unowned_ms", "without an owner", duration_text),
        ("leaderless_ms", "without a leader", duration_text),
    ):
        values = [(getattr(one, attribute), f"{one.topic}-{one.partition}") for one in damage]
        most = sorted((each for each in values if each[0]), key=lambda each: -each[0])
        if most:
            places = [f"{place} {text(value)}" for value, place in most]
            total = text(sum(value for value, _ in most))
            parts.append(f"{total} {what} ({named(places, _PLACES_MAX)})")
    return "; ".join(parts)


_WRITTEN = re.compile(r"(?P<before>\d+) -> (?P<after>\d+)(?: by |, )")
_Where = tuple[str | None, str, int]


def rewind_of(one: Finding) -> tuple[int, int] | None:
    """The offsets before and behind an `offset_regression`, from its detail; None for other findings."""
    written = _WRITTEN.match(one.detail) if one.finding == "offset_regression" else None
    return None if written is None else (int(written["before"]), int(written["after"]))


def length_ms(one: Finding, facts: Facts) -> int:
    """The time that a finding lasted, up to the end of the history; never below 0."""
    if one.from_ms is None:
        return 0
    return max((facts.end_ms if one.to_ms is None else one.to_ms) - one.from_ms, 0)


def damage_of(findings: Iterable[Finding], facts: Facts) -> tuple[PartitionDamage, ...]:
    """The damage of each partition that has any, in the order of group, topic and partition."""
    again, unowned, leaderless = Counter[_Where](), Counter[_Where](), Counter[_Where]()
    for one in findings:
        if one.topic is None or one.partition is None or one.severity == "info":
            continue
        where = (one.group, one.topic, one.partition)
        rewind = rewind_of(one)
        if rewind is not None:
            again[where] += rewind[0] - rewind[1]
        elif one.finding == "unowned_interval":
            unowned[where] += length_ms(one, facts)
        elif one.finding == "offline_partition":
            leaderless[where] += length_ms(one, facts)
    places = sorted({*again, *unowned, *leaderless}, key=lambda place: (place[0] or "", *place[1:]))
    return tuple(PartitionDamage(*where, again[where], unowned[where], leaderless[where]) for where in places)


class SummaryRow(NamedTuple):
    """The summary of one group, or, with None, of all that is about no group."""

    group: str | None
    members: int
    """The members that are registered at the end; brokers where the group is None."""
    rebalances: int
    """The rebalances; controller elections where the group is None."""
    expiries: int
    """The sessions of its members, or of brokers, that expired."""
    errors: int
    warnings: int
    notes: int
    worst: str | None
    """The title of the first of the worst incidents; None where there are only notes."""


def summaries(incidents: Iterable[Incident], facts: Facts) -> list[SummaryRow]:
    """The summaries: groups with errors first, then with warnings, then by name; last that of no group."""
    of_group: dict[str | None, list[Incident]] = defaultdict(list)
    for one in incidents:
        of_group[one.group].append(one)
    names = sorted({*facts.members, *(name for name in of_group if name is not None)})
    rows = [_row(name, facts.members.get(name, ()), of_group[name], facts) for name in names]
    rows.sort(key=lambda row: (-row.errors, -row.warnings, row.group))
    brokers = [life for lives in facts.brokers.values() for life in lives]
    return [*rows, _row(None, brokers, of_group[None], facts)]


def _row(name: str | None, lives: Sequence[Life], incidents: Sequence[Incident], facts: Facts) -> SummaryRow:
    there = {life.path for life in lives if life.to_zxid is None}
    sessions = [facts.sessions[session] for session in {life.session for life in lives} & set(facts.sessions)]
    counted = "controller_election" if name is None else "rebalance"
    times = sum(one.finding == counted for each in incidents for one in each.findings)
    counts = Counter(one.severity for one in incidents)
    bad = [one for one in incidents if one.severity != "info"]
    worst = min(bad, key=lambda one: SEVERITIES.index(one.severity), default=None)
    return SummaryRow(
        *(name, len(there), times, sum(life.expired is True for life in sessions)),
        *(counts["error"], counts["warning"], counts["info"]),
        None if worst is None else worst.title,
    )


SCHEMA = "zkgroup.audit_findings/1"


def findings_document(found: Found, incidents: FoundIncidents) -> dict[str, Any]:
    """The whole document; `as_of` is the last transaction that was read."""
    return {
        "schema": SCHEMA,
        "as_of": as_of(found.facts),
        "incidents": [incident_fields(one) for one in incidents.incidents],
        "findings": [{**finding_fields(one.finding), "incident": one.incident} for one in incidents.findings],
        "skipped": skipped_fields(found),
    }


def skipped_fields(found: Found) -> list[dict[str, Any]]:
    """The rules that did not run, and the files that could not be read, in the document."""
    rules = [{"finding": one.rule.name, "path": None, "reason": one.reason} for one in found.skipped]
    return [*rules, *({"finding": None, "path": path, "reason": reason} for path, reason in found.files)]


def incident_fields(one: Incident) -> dict[str, Any]:
    """An incident in the document."""
    return {
        "number": one.number,
        "title": one.title,
        "severity": one.severity,
        "group": one.group,
        **_times(one),
        "basis": one.basis,
        "cause": cause_fields(one.cause),
        "damage": [each._asdict() for each in one.damage],
        "act": one.act,
        "counts": counts_of(one.findings),
    }


def finding_fields(one: Finding) -> dict[str, Any]:
    """A finding in the document."""
    names = ("finding", "severity", "group", "topic", "partition")
    session = hex_session(one.session) if one.session else None
    first = {name: getattr(one, name) for name in names} | {"session": session}
    return {**first, **_times(one), "basis": one.basis, "at_zxid": one.at_zxid, "detail": one.detail}


def _times(one: Finding | Incident) -> dict[str, Any]:
    zxids = {"from_zxid": one.from_zxid, "to_zxid": one.to_zxid}
    return {**zxids, "from": iso_time(one.from_ms), "to": iso_time(one.to_ms)}


def counts_of(findings: Iterable[Finding]) -> dict[str, int]:
    """The number of findings of each name, the largest first."""
    return dict(Counter(one.finding for one in findings).most_common())


def cause_fields(cause: Cause) -> dict[str, Any] | None:
    """A cause in the document, as far as the log shows it; None where it shows none."""
    if cause.kind in ("state", "note"):
        return None
    return {
        "kind": cause.kind,
        "what": cause.what,
        "session": hex_session(cause.session) if cause.session else None,
        "zxid": cause.zxid,
        "time": iso_time(cause.time_ms),
    }


def as_of(facts: Facts) -> dict[str, Any]:
    """The last transaction that was read, in the document."""
    return {"zxid": max(facts.end_zxid, 0), "time": iso_time(facts.end_ms)}
