"""Checked statements with their evidence, and those that several demos make about members and histories."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from zkgroup.demo.flight_data import Place, Reduction, airport_and_delay, delays
from zkgroup.history import ClusterReport, Report, Violation
from zkgroup.history.report import shortfalls
from zkgroup.model.text import named


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One checked statement: whether it holds, and the figures that show it."""

    statement: str
    holds: bool
    evidence: str


def checked(statement: str, figures: str, faults: Sequence[object] = (), enough: bool = True) -> CheckResult:
    """A statement holds without faults, where enough was seen; its evidence are figures, with the faults."""
    found = f"; {named(faults)}" if faults else "" if enough else ": too little to prove it"
    return CheckResult(statement, enough and not faults, figures + found)


def proved(statement: str, proof: str, faults: Sequence[object] = (), enough: bool = True) -> CheckResult:
    """The same, where the evidence is the proof, or the faults in its place."""
    return CheckResult(statement, False, named(faults)) if faults else checked(statement, proof, (), enough)


def check_work(lines: Sequence[Sequence[bytes]], reduction: Reduction) -> Iterator[CheckResult]:
    """Every record was processed, and the result is right; `lines` are the records of each partition."""
    expected = {(p, o) for p, one in enumerate(lines) for o in range(len(one))}
    found = reduction.processed
    faults = named_faults({"missing": _places(expected - found), "never produced": _places(found - expected)})
    figures = f"{len(found & expected):,} of {len(expected):,}"
    yield checked("every record was processed", figures, faults)
    direct, airports = delays(airport_and_delay(line) for one in lines for line in one), reduction.airports
    wrong = sorted(name for name in {*direct, *airports} if direct.get(name) != airports.get(name))
    differing = {"different for": wrong, "two members disagree about": _places(reduction.contradictions)}
    figures, faults = f"{len(direct)} airports", named_faults(differing)
    yield checked("the result equals a direct computation", figures, faults)


def named_faults(found: Mapping[str, Collection[object]]) -> list[str]:
    """One fault for each kind of which something was found."""
    return [f"{kind} {named(ones)}" for kind, ones in found.items() if ones]


def _places(found: Collection[Place]) -> list[str]:
    return [f"{partition}:{offset}" for partition, offset in sorted(found)]


def behind(committed: Mapping[int, int], ends: Mapping[int, int]) -> list[str]:
    """The partitions whose offset is not their end."""
    return [f"{n} at {committed.get(n)} of {end}" for n, end in sorted(ends.items() - committed.items())]


def check_committed(lines: Sequence[Sequence[bytes]], committed: Mapping[int, int]) -> CheckResult:
    """The offset of each partition is its end."""
    faults = behind(committed, {number: len(one) for number, one in enumerate(lines)})
    figures = f"{len(lines) - len(faults)} of {len(lines)} partitions"
    return checked("every partition is committed to its end", figures, faults)


def broken(violations: Iterable[Violation], *invariants: str) -> list[Violation]:
    """The violations of these invariants."""
    return [one for one in violations if one.invariant in invariants]


def history_faults(report: Report | ClusterReport, least: Mapping[str, int]) -> list[str]:
    """The violations and damage that a history checker found, and the events of which it saw too few."""
    return [
        *map(str, report.violations),
        *(f"damaged: {one}" for one in report.damage),
        *(f"too little happened: {one}" for one in shortfalls(report.figures, least)),
    ]
