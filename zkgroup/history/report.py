"""What the checker found, and whether the run was worth anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from zkgroup.model import TopicPartition

UNKNOWN_SHARE_MAX = 0.2
"""Beyond this share of operations with unknown outcome a run proves nothing."""


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that did not hold, and where to look."""

    invariant: str
    """`S1` to `S22`, `L1` to `L7`, or `lines`: `zkgroup.history` says what each one is."""
    detail: str
    topic_partition: TopicPartition | None = None
    zxid: int | None = None

    def __str__(self) -> str:
        where = "" if self.topic_partition is None else f" {self.topic_partition}"
        when = "" if self.zxid is None else f" at zxid 0x{self.zxid:x}"
        return f"{self.invariant}{where}{when}: {self.detail}"


@dataclass(slots=True)
class Figures:
    """How much happened: a run in which nothing happened proves nothing."""

    records: int = 0
    transactions: int = 0
    deliveries: int = 0
    commits: int = 0
    """Accepted changes of an offset by a commit or a release, each partition counted."""
    claims: int = 0
    ownership_changes: int = 0
    """Claims whose partition had another owner before."""
    rebalances: int = 0
    refused_commits: int = 0
    """Commits and releases that the server refused, for whatever reason."""
    refused_stale_commits: int = 0
    """Of these, the ones by somebody who did not own the partition any more: the fence bit."""
    unknown_outcomes: int = 0
    operations: int = 0
    """Claims, commits and releases begun."""
    lease_expiries: int = 0
    foreign_writes: int = 0
    """Changes of an offset by nobody of ours; from records alone: versions that no record explains."""
    foreign_member_writes: int = 0
    """Changes of an offset by members that are not of zkgroup."""
    reasserted: int = 0
    """Offsets that went back because a member wrote its own position over a foreign one."""
    resets_obeyed: int = 0
    in_flight_overlaps: int = 0
    """Records begun by an old owner before, and finished after, the new owner's first: allowed, bounded."""
    overlap_ms_max: float = 0.0

    @property
    def unknown_share(self) -> float:
        return self.unknown_outcomes / self.operations if self.operations else 0.0

    def __add__(self, other: Figures) -> Figures:
        """The figures of a batch of runs."""
        total = Figures(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})
        total.overlap_ms_max = max(self.overlap_ms_max, other.overlap_ms_max)
        return total


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict over one history."""

    violations: tuple[Violation, ...]
    decided: frozenset[str]
    """The invariants that this history allowed to decide; of the others nothing is said."""
    figures: Figures
    damage: tuple[str, ...] = field(default=())
    """What is missing in the recording, so that no verdict can rest on it."""

    @property
    def holds(self) -> bool:
        """No violation, and nothing that makes the verdict worthless."""
        return not self.violations and not self.damage and self.figures.unknown_share <= UNKNOWN_SHARE_MAX

    def shortfalls(self, least: Mapping[str, int]) -> tuple[str, ...]:
        """Figures below what a run must have to count, as `commits: 12 of 500`."""
        found = {name: getattr(self.figures, name) for name in least}
        return tuple(f"{name}: {found[name]} of {least[name]}" for name in least if found[name] < least[name])
