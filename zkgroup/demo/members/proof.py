"""The checks of a demo's consumers at its end. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from zkgroup.demo.flight_data import PARTITIONS, AirportDelay, Reduction, airport_and_delay, delays
from zkgroup.demo.progress import Check, named
from zkgroup.history import Report
from zkgroup.history.report import UNKNOWN_SHARE_MAX

EVENTS_MIN = {"claims": PARTITIONS, "ownership_changes": 1, "commits": PARTITIONS, "deliveries": 1}
"""What a recorded history must hold at least to prove anything, where an owner was killed."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that the run left to judge by."""

    dealt: Sequence[Sequence[bytes]]
    """The input: lines by partition."""
    reduction: Reduction
    committed: Mapping[int, int | None]
    """Offset in ZooKeeper of each partition at the end; None where there is none."""
    verdict: Report
    """What the checker says about the recorded history."""
    group_problems: Sequence[str]
    """What `group verify` found while the members were still there."""
    gone: Mapping[str, str]
    """Members that went without saying goodbye, and how: SIGKILL, or a session that ended under them."""
    events_min: Mapping[str, int] = field(default_factory=lambda: EVENTS_MIN)
    """What the history must hold at least."""
    moved: Collection[int] = ()
    """Partitions whose offset somebody else has moved: the same ones that the reduction knows of."""


def judge(evidence: Evidence) -> tuple[Check, ...]:
    """All checks, in the order in which a reader would ask."""
    return (
        _complete(evidence),
        _equal(evidence),
        _twice(evidence),
        _committed(evidence),
        _fenced(evidence),
        _clean(evidence),
    )


def _complete(evidence: Evidence) -> Check:
    expected = {(p, o) for p, lines in enumerate(evidence.dealt) for o in range(len(lines))}
    found = evidence.reduction.processed
    missing, unknown = sorted(expected - found), sorted(found - expected)
    text = f"{len(found & expected):,} of {len(expected):,}"
    if missing:
        text += f"; missing {named([f'{p}:{o}' for p, o in missing])}"
    if unknown:
        text += f"; never produced {named([f'{p}:{o}' for p, o in unknown])}"
    return Check("every record was processed", not missing and not unknown, text)


def _equal(evidence: Evidence) -> Check:
    direct = delays(airport_and_delay(line) for lines in evidence.dealt for line in lines)
    found = evidence.reduction.airports
    wrong = [name for name in sorted({*direct, *found}) if direct.get(name) != found.get(name)]
    differing = [f"{p}:{o}" for p, o in evidence.reduction.contradictions]
    text = f"{len(direct)} airports"
    if wrong:
        text += f"; different for {named(wrong)}"
    if differing:
        text += f"; two members disagree about {named(differing)}"
    return Check("the result equals a direct computation", not wrong and not differing, text)


def _twice(evidence: Evidence) -> Check:
    """At least once is promised; twice is allowed where a member went without saying goodbye."""
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
    return Check(statement, not unexcused, ", ".join(parts) or "none")


def _committed(evidence: Evidence) -> Check:
    behind = [
        f"{partition} at {evidence.committed.get(partition)} of {len(lines)}"
        for partition, lines in enumerate(evidence.dealt)
        if evidence.committed.get(partition) != len(lines)
    ]
    text = f"{len(evidence.dealt) - len(behind)} of {len(evidence.dealt)} partitions"
    if behind:
        text += f"; {named(behind)}"
    return Check("every partition is committed to its end", not behind, text)


def _fenced(evidence: Evidence) -> Check:
    """By the recorded history, which has to be whole and must not be empty: else it proves nothing."""
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
    return Check("no stale commit, no second owner", report.holds and not short, text)


def _clean(evidence: Evidence) -> Check:
    text = "converged" if not evidence.group_problems else named(evidence.group_problems)
    return Check("group verify is clean", not evidence.group_problems, text)


def slowest(airports: Mapping[str, AirportDelay], count: int, flights_min: int = 100) -> list[AirportDelay]:
    """The airports with the greatest mean delay among those with enough flights to mean something."""
    counted = [one for one in airports.values() if one.flights >= flights_min]
    return sorted(counted, key=lambda one: (-one.mean, one.airport))[:count]
