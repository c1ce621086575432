"""Checked statements with their evidence, and those that several demos make about members and histories."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from zkgroup.demo.flight_data import Reduction, airport_and_delay, delays
from zkgroup.history import ClusterReport, Report
from zkgroup.history.report import shortfalls
from zkgroup.model.text import named


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One checked statement: whether it holds, and the figures that show it."""

    statement: str
    holds: bool
    evidence: str


def listed(numbers: Iterable[int], between: str = ", ") -> str:
    """All of these numbers, as of partitions, in order."""
    return between.join(map(str, sorted(numbers)))


def checked(
    statement: str, figures: str = "", faults: Sequence[object] = (), *, proof: str = "", enough: bool = True
) -> CheckResult:
    """The check of a statement: it holds without faults, where enough was seen to decide it.

    The evidence is figures, with the faults, or the proof where there are no faults.
    """
    found = named(faults) if faults else proof if enough else f"{proof or figures}: too little to prove it"
    evidence = "; ".join(filter(None, (figures if faults or enough else "", found)))
    return CheckResult(statement, enough and not faults, evidence)


def named_faults(**found: Sequence[object]) -> list[str]:
    """One fault for each kind of which something was found; `_` in its name stands for a space."""
    return [f"{kind.replace('_', ' ')} {named(ones)}" for kind, ones in found.items() if ones]


def check_work(lines: Sequence[Sequence[bytes]], reduction: Reduction) -> Iterator[CheckResult]:
    """Every record was processed, and the result is right; `lines` are the records of each partition."""
    expected = {(p, o) for p, one in enumerate(lines) for o in range(len(one))}
    found = reduction.processed
    faults = named_faults(missing=_places(expected - found), never_produced=_places(found - expected))
    figures = f"{len(found & expected):,} of {len(expected):,}"
    yield checked("every record was processed", figures, faults)
    direct = delays(airport_and_delay(line) for one in lines for line in one)
    airports = reduction.airports
    wrong = sorted(name for name in {*direct, *airports} if direct.get(name) != airports.get(name))
    contradictions = _places(reduction.contradictions)
    faults = named_faults(different_for=wrong, two_members_disagree_about=contradictions)
    yield checked("the result equals a direct computation", f"{len(direct)} airports", faults)


def _places(found: Collection[tuple[int, int]]) -> list[str]:
    return [f"{partition}:{offset}" for partition, offset in sorted(found)]


def behind(committed: Mapping[int, int], ends: Mapping[int, int]) -> list[str]:
    """The partitions whose offset is not their end."""
    return [
        f"{number} at {committed.get(number)} of {end}"
        for number, end in sorted(ends.items())
        if committed.get(number) != end
    ]


def check_committed(lines: Sequence[Sequence[bytes]], committed: Mapping[int, int]) -> CheckResult:
    """The offset of each partition is its end."""
    faults = behind(committed, {number: len(one) for number, one in enumerate(lines)})
    figures = f"{len(lines) - len(faults)} of {len(lines)} partitions"
    return checked("every partition is committed to its end", figures, faults)


def history_faults(report: Report | ClusterReport, least: Mapping[str, int]) -> list[str]:
    """The violations and damage that a history checker found, and the events of which it saw too few."""
    return [
        *map(str, report.violations),
        *(f"damaged: {one}" for one in report.damage),
        *(f"too little happened: {one}" for one in shortfalls(report.figures, least)),
    ]
