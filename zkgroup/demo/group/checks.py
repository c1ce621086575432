"""The checks of a demo's consumers. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from zkgroup.demo.flight_data import PARTITIONS, AirportDelay, Reduction, airport_and_delay, delays
from zkgroup.demo.progress import CheckResult, named
from zkgroup.history import Report
from zkgroup.history.report import UNKNOWN_SHARE_MAX

EVENTS_MIN = {"claims": PARTITIONS, "ownership_changes": 1, "commits": PARTITIONS, "deliveries": 1}
"""What a recorded history must hold at least to prove anything, where an owner was killed."""


@dataclass(frozen=True, slots=True)
class MemberEvidence:
    """Everything that the checks of the consumers read."""

    input_lines: Sequence[Sequence[bytes]]
    """The lines of each partition."""
    reduction: Reduction
    committed: Mapping[int, int | None]
    """Offset in ZooKeeper of each partition at the end; None where there is none."""
    verdict: Report
    """The history checker's report."""
    group_problems: Sequence[str]
    """Problems that `group verify` found while the members still ran."""
    gone: Mapping[str, str]
    """Members that did not leave in order, and why: SIGKILL, or the end of their session."""
    events_min: Mapping[str, int] = field(default_factory=lambda: EVENTS_MIN)
    """What the history must hold at least."""
    moved: Collection[int] = ()
    """Partitions whose offset a foreign writer changed; the same as given to `reduce`."""


def check_members(evidence: MemberEvidence) -> tuple[CheckResult, ...]:
    """All checks, in the order in which the report prints them."""
    return (
        *check_result(evidence.input_lines, evidence.reduction),
        _twice(evidence),
        check_committed(evidence.input_lines, evidence.committed),
        _fenced(evidence),
        _clean(evidence),
    )


def check_result(
    input_lines: Sequence[Sequence[bytes]], reduction: Reduction
) -> tuple[CheckResult, CheckResult]:
    """Whether every record was processed, and whether the result is right."""
    return _complete(input_lines, reduction), _equal(input_lines, reduction)


def _complete(input_lines: Sequence[Sequence[bytes]], reduction: Reduction) -> CheckResult:
    expected = {(p, o) for p, lines in enumerate(input_lines) for o in range(len(lines))}
    found = reduction.processed
    missing, unknown = sorted(expected - found), sorted(found - expected)
    text = f"{len(found & expected):,} of {len(expected):,}"
    if missing:
        text += f"; missing {named([f'{p}:{o}' for p, o in missing])}"
    if unknown:
        text += f"; never produced {named([f'{p}:{o}' for p, o in unknown])}"
    return CheckResult("every record was processed", not missing and not unknown, text)


def _equal(input_lines: Sequence[Sequence[bytes]], reduction: Reduction) -> CheckResult:
    direct = delays(airport_and_delay(line) for lines in input_lines for line in lines)
    found = reduction.airports
    wrong = [name for name in sorted({*direct, *found}) if direct.get(name) != found.get(name)]
    differing = [f"{p}:{o}" for p, o in reduction.contradictions]
    text = f"{len(direct)} airports"
    if wrong:
        text += f"; different for {named(wrong)}"
    if differing:
        text += f"; two members disagree about {named(differing)}"
    return CheckResult("the result equals a direct computation", not wrong and not differing, text)


def _twice(evidence: MemberEvidence) -> CheckResult:
    """Delivery is at least once: a repetition is allowed where a member did not leave in order."""
    parts = [
        f"{count} of {member} ({evidence.gone.get(member, 'handed over cleanly')})"
        for member, count in evidence.reduction.repeated_by.items()
    ]
    unexcused = set(evidence.reduction.repeated_by) - set(evidence.gone)
    statement = "nothing twice but what a death left open"
    for partition in sorted(evidence.moved):
        statement = "nothing twice but what a death or a moved offset left open"
        again = [count - 1 for place, count in evidence.reduction.repeated.items() if place[0] == partition]
        parts.append(f"{sum(again)} of partition {partition} (its offset was moved)")
    return CheckResult(statement, not unexcused, ", ".join(parts) or "none")


def check_committed(
    input_lines: Sequence[Sequence[bytes]], committed: Mapping[int, int | None]
) -> CheckResult:
    """Whether the offset of each partition is its end."""
    behind = [
        f"{partition} at {committed.get(partition)} of {len(lines)}"
        for partition, lines in enumerate(input_lines)
        if committed.get(partition) != len(lines)
    ]
    text = f"{len(input_lines) - len(behind)} of {len(input_lines)} partitions"
    if behind:
        text += f"; {named(behind)}"
    return CheckResult("every partition is committed to its end", not behind, text)


def _fenced(evidence: MemberEvidence) -> CheckResult:
    """The history checker's verdict. An incomplete history, or one with too few events, proves nothing."""
    report, figures = evidence.verdict, evidence.verdict.figures
    text = f"{figures.records:,} events, {len(report.violations)} violations"
    if report.violations:
        text += f": {named([str(one) for one in report.violations])}"
    if report.damage:
        text += f"; damaged: {named(report.damage)}"
    if figures.unknown_share > UNKNOWN_SHARE_MAX:
        text += f"; {figures.unknown_outcomes} of {figures.operations} outcomes unknown, too many"
    short = report.shortfalls(evidence.events_min)
    if short:
        text += f"; too little happened: {named(short)}"
    return CheckResult("no stale commit, no second owner", report.holds and not short, text)


def _clean(evidence: MemberEvidence) -> CheckResult:
    text = "converged" if not evidence.group_problems else named(evidence.group_problems)
    return CheckResult("group verify is clean", not evidence.group_problems, text)


def slowest(airports: Mapping[str, AirportDelay], count: int, flights_min: int = 100) -> list[AirportDelay]:
    """The airports with the greatest mean delay, among those with at least `flights_min` flights."""
    counted = [one for one in airports.values() if one.flights >= flights_min]
    return sorted(counted, key=lambda one: (-one.mean, one.airport))[:count]
