"""The rule by which findings become incidents; docs/incidents.md has it as a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from zkgroup.audit.findings.engine import KNOWN_RULES, Found, order
from zkgroup.audit.findings.rules import SEVERITIES, AnyRule, Finding, Rule, Severity
from zkgroup.audit.incidents import incident
from zkgroup.audit.incidents.causes import Causes
from zkgroup.audit.incidents.titles import title_of
from zkgroup.audit.inputs.facts import Facts, members_of

APART_MS = 600_000
"""Findings with one cause that are further apart than this are two incidents."""
REBALANCE_MS = 30_000
"""A restart or change of the membership is a note if no partition is longer without an owner."""
_ACTS: dict[incident.CauseKind, str] = {
    "foreign write": "Find the client behind the session and stop it. Then restart the members that went on"
    " without their partitions, and set offsets with `zkgroup offsets`, which leaves a marker.",
    "session end": "Members of the JVM do not notice that an owner is gone: restart them, or change the"
    " group's membership, so that they rebalance.",
    "expiry": "The process was killed, paused (garbage collection, a stopped machine) or cut off for as"
    " long as its session timeout. Check its logs; a longer `zookeeper.session.timeout.ms` bridges pauses.",
    "unreadable registration": "Delete the registration, or stop the client that wrote it: until then no"
    " JVM member can rebalance.",
    "restart": "Nothing, if the member was restarted then. If partitions waited for long, see how long the"
    " process took to come back.",
    "membership change": "Nothing, if members were started or stopped then. If partitions waited for long,"
    " see who could not claim them, and why.",
    "lost broker": "Start the brokers again, or find out why ZooKeeper lost them: their own logs and"
    " pauses at that time.",
    "broker shutdown": "Nothing, if brokers were stopped then; start them again.",
    "controller change": "Nothing, for one election. Read the broker's log if it resigned by itself.",
    "slow follower": "Check the followers that are named most: disk, network, pauses, or a"
    " `replica.lag.time.max.ms` that is too short for their load.",
    "operator reset": "Nothing: an operator set offsets, with a marker.",
}
_CONTROLLER_ACT = (
    "Find the client behind the session. A controller that is deleted by hand is elected again at once; one"
    " that another session replaced does not notice: stop that session, and delete /controller."
)
_MEMBER_ACT = (
    "The writer is a member of the group: it committed what it did not own. Restart it, and set offsets with"
    " `zkgroup offsets`, which leaves a marker."
)
_WRITES: frozenset[incident.CauseKind] = frozenset(("foreign write", "operator reset", "orphaned claim"))
"""Causes that begin at their first finding, where nothing before shows their beginning."""


def incidents_of(findings: Iterable[Finding], facts: Facts) -> list[incident.Incident]:
    """The incidents, errors first, then by time. Each finding is in exactly one of them."""
    ordered = sorted(findings, key=order)
    causes = Causes(ordered, facts)
    by_cause: dict[incident.Cause, list[Finding]] = defaultdict(list)
    for one in ordered:
        by_cause[causes.of(one)].append(one)
    found = [_incident(cause, run, facts) for cause, each in by_cause.items() for run in _runs(cause, each)]
    return sorted(found, key=lambda one: (SEVERITIES.index(one.severity), one.from_zxid or 0, one.title))


def _runs(cause: incident.Cause, findings: Sequence[Finding]) -> Iterator[list[Finding]]:
    """Yields the findings with one cause, apart where there was none for long. Notes stay together."""
    if cause.kind == "note":
        yield list(findings)
        return
    run: list[Finding] = []
    until_ms: float | None = None
    for one in findings:
        if run and until_ms is not None and (one.from_ms or until_ms) - until_ms > APART_MS:
            yield run
            run, until_ms = [], None
        run.append(one)
        end_ms = float("inf") if one.to_zxid is None else one.to_ms
        if end_ms is not None:
            until_ms = end_ms if until_ms is None else max(until_ms, end_ms)
    yield run


def _incident(cause: incident.Cause, findings: Sequence[Finding], facts: Facts) -> incident.Incident:
    if cause.zxid is None and cause.kind in _WRITES:
        first = next((one for one in findings if one.from_zxid is not None), None)
        if first is not None:
            cause = cause._replace(zxid=first.from_zxid, time_ms=first.from_ms)
    span = _span(cause, findings)
    damage = incident.damage_of(findings, facts)
    groups = {one.group for one in findings} if cause.group is None else {cause.group}
    return incident.Incident(
        title_of(cause, findings, damage, span[2], facts),
        _severity(cause, findings, facts),
        cause,
        groups.pop() if len(groups) == 1 else None,
        *span,
        damage,
        _act(cause, findings, facts),
        tuple(findings),
    )


def _span(
    cause: incident.Cause, findings: Sequence[Finding]
) -> tuple[int | None, int | None, int | None, int | None]:
    """The zxids and times from the first finding, or the cause if that is not long before, to the last."""
    starts, ends = [(one.from_zxid, one.from_ms) for one in findings], list(map(_end, findings))
    lasts = any(zxid is None for zxid, _ in ends)
    zxid, ms, first_ms = cause.zxid, cause.time_ms, min(_known(ms for _, ms in starts), default=None)
    if zxid is not None and ms is not None and first_ms is not None and first_ms - ms <= APART_MS:
        starts.append((zxid, ms))
        ends.append((zxid, ms))
    from_zxid, from_ms = (min(_known(each), default=None) for each in zip(*starts, strict=True))
    to_zxid, to_ms = (None if lasts else max(_known(each), default=None) for each in zip(*ends, strict=True))
    return from_zxid, to_zxid, from_ms, to_ms


def _known(numbers: Iterable[int | None]) -> list[int]:
    return [number for number in numbers if number is not None]


def _end(one: Finding) -> tuple[int | None, int | None]:
    """The end of a finding; for an election its moment, however long that controller stayed."""
    is_storm = one.severity != "info" and one.to_zxid is not None
    if one.finding == "controller_election" and not is_storm:
        return one.from_zxid, one.from_ms
    return one.to_zxid, one.to_ms


def _severity(cause: incident.Cause, findings: Sequence[Finding], facts: Facts) -> Severity:
    worst = min((one.severity for one in findings), key=SEVERITIES.index)
    if cause.kind in ("restart", "membership change") and worst == "warning":
        is_short = all(
            one.finding == "unowned_interval"
            and one.to_zxid is not None
            and incident.length_ms(one, facts) <= REBALANCE_MS
            for one in findings
            if one.severity != "info"
        )
        return "info" if is_short else worst
    if cause.kind == "foreign write" and cause.what == incident.CONTROLLER and worst == "info":
        return "warning"
    return worst


def _act(cause: incident.Cause, findings: Sequence[Finding], facts: Facts) -> str:
    if cause.what == incident.CONTROLLER:
        return _CONTROLLER_ACT
    if cause.what == "offsets" and members_of(facts, cause.session or 0, cause.group or ""):
        return _MEMBER_ACT
    if cause.kind in _ACTS:
        return _ACTS[cause.kind]
    first = min(findings, key=lambda one: SEVERITIES.index(one.severity))
    return next((rule.act for rule in KNOWN_RULES if rule.name == first.finding), "")


def with_causes(only: Sequence[AnyRule]) -> list[AnyRule]:
    """The rules to run where only the findings of some are wanted: others show the causes of those.

    Rules about whole files show no causes, so of them only those in `only` run.
    """
    return [rule for rule in KNOWN_RULES if rule in only or isinstance(rule, Rule)]


def only_of(
    only: Sequence[AnyRule], found: Found, audited: incident.FoundIncidents
) -> tuple[Found, incident.FoundIncidents]:
    """The findings of some rules, and each incident that has one, whole, with its number."""
    names = {rule.name for rule in only}
    rows = [one for one in audited.findings if one.finding.finding in names]
    numbers = {one.incident for one in rows}
    skipped = [one for one in found.skipped if one.rule.name in names]
    incidents = [one for one in audited.incidents if one.number in numbers]
    return (
        Found([one.finding for one in rows], skipped, found.facts, found.files),
        incident.FoundIncidents(incidents, rows, skipped),
    )


def numbered(found: Found) -> incident.FoundIncidents:
    """The incidents of an audit, errors first, and each finding with the number of its incident."""
    incidents = [
        replace(one, number=number) for number, one in enumerate(incidents_of(found.findings, found.facts), 1)
    ]
    numbers = {id(one): each.number for each in incidents for one in each.findings}
    findings = [incident.NumberedFinding(one, numbers[id(one)]) for one in found.findings]
    return incident.FoundIncidents(incidents, findings, found.skipped)
