"""Reports and options of both checkers: violations, and figures that show how much a run proves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from zkgroup.model import TopicPartition

UNKNOWN_SHARE_MAX = 0.2
"""Beyond this share of operations with unknown outcome a run proves nothing."""


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that did not hold, with its partition and zxid."""

    invariant: str
    """`S1` to `S34`, `L1` to `L7`, or `records`; `zkgroup.history` explains them."""
    detail: str
    """The state that was found and the one that was expected, as text for people."""
    topic_partition: TopicPartition | None = None
    """The partition; None if the violation is not about one."""
    zxid: int | None = None
    """The transaction, or the token of the claim; None if the violation is not about one."""

    def __str__(self) -> str:
        where = "" if self.topic_partition is None else f" {self.topic_partition}"
        when = "" if self.zxid is None else f" at zxid 0x{self.zxid:x}"
        return f"{self.invariant}{where}{when}: {self.detail}"


@dataclass(slots=True)
class Figures:
    """Counts of what happened: a run in which nothing happened proves nothing."""

    records: int = 0
    """Records of the history."""
    transactions: int = 0
    """Transactions of the server."""
    deliveries: int = 0
    """Records of a source whose delivery began."""
    commits: int = 0
    """Accepted changes of an offset by a commit or a release, each partition counted."""
    claims: int = 0
    """Accepted claims, each partition counted."""
    ownership_changes: int = 0
    """Claims whose partition had another owner before."""
    rebalances: int = 0
    """Rebalances that members began, each member counted."""
    refused_commits: int = 0
    """Commits and releases that the server refused, for any reason."""
    refused_stale_commits: int = 0
    """Of these, those by a writer that did not own the partition any more: the fence refused them."""
    unknown_outcomes: int = 0
    """Claims, commits and releases whose outcome the member does not know."""
    operations: int = 0
    """Claims, commits and releases begun."""
    lease_expiries: int = 0
    """Leases that ended without an answer of the server."""
    foreign_writes: int = 0
    """Changes of an offset by foreign writers; from records alone: versions that no record explains."""
    foreign_member_writes: int = 0
    """Changes of an offset by members that are not of zkgroup."""
    reasserted: int = 0
    """Offsets that went back because a member wrote its own position over a foreign one."""
    resets_applied: int = 0
    """Offset resets that owners applied."""
    in_flight_overlaps: int = 0
    """Records that an old owner began before and finished after the new owner's first: allowed, bounded."""
    overlap_ms_max: float = 0.0
    """Longest time, in milliseconds, after which an old owner began a record beside the new owner."""

    @property
    def unknown_share(self) -> float:
        """Share of the operations whose outcome is unknown, from 0 to 1."""
        return self.unknown_outcomes / self.operations if self.operations else 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """The result of checking one group's history."""

    violations: tuple[Violation, ...]
    """Every invariant that did not hold, once for each place."""
    decided: frozenset[str]
    """The invariants that this history could decide; the report says nothing about the others."""
    figures: Figures
    """Counts of what happened."""
    damage: tuple[str, ...] = field(default=())
    """The gaps of the recording: with damage the history proves nothing."""

    @property
    def holds(self) -> bool:
        """True if there is no violation, no damage, and not too many unknown outcomes."""
        return not self.violations and not self.damage and self.figures.unknown_share <= UNKNOWN_SHARE_MAX

    def shortfalls(self, least: Mapping[str, int]) -> tuple[str, ...]:
        """Figures below the least values that a run must have, as `commits: 12 of 500`."""
        return shortfalls(self.figures, least)


def shortfalls(figures: Figures | ClusterFigures, least: Mapping[str, int]) -> tuple[str, ...]:
    """Figures below the least values that a run must have, as `commits: 12 of 500`."""
    found = {name: getattr(figures, name) for name in least}
    return tuple(f"{name}: {found[name]} of {least[name]}" for name in least if found[name] < least[name])


TAKEOVER_MS = 10_000
"""The longest that a cluster may be without a controller: a session of 6 s, a tick and 2 s (L6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """Facts that are not in the log. Times are on the clock of the log, in milliseconds."""

    quiet_from_ms: int | None = None
    """Time of the last repair or other change; without it convergence (L6, L7) is not decided."""
    takeover_ms: int = TAKEOVER_MS
    """Longest time without a controller after that."""
    recovery_ms: int = 10_000
    """Longest time for unfinished work after that; add the time that copying takes."""
    same_process: Collection[Collection[int]] = ()
    """Sessions that one process had in turn: it may delete its own stale registration."""
    down: Collection[int] = ()
    """Brokers that are registered but cannot lead any partition, because their disks fail."""
    unserved: Mapping[TopicPartition, Collection[int]] = field(default_factory=dict)
    """Brokers that run and refuse a partition until they are restarted (storage error 56)."""


@dataclass(slots=True)
class ClusterFigures:
    """Counts of what happened: a run in which nothing happened proves nothing."""

    transactions: int = 0
    """Transactions of the server."""
    elections: int = 0
    """Epochs that were won."""
    governed_writes: int = 0
    """Accepted writes of zkgroup's controllers to znodes that only a controller may write."""
    isr_writes: int = 0
    """Accepted writes of leaders to the states of their partitions."""
    refused_writes: int = 0
    """Refused transactions of zkgroup's controllers."""
    fenced_writes: int = 0
    """Of these, refused at `/controller` or `/controller_epoch`: the fence refused them."""
    foreign_writes: int = 0
    """Accepted writes of others to these znodes: Kafka's controllers, operators."""
    leader_changes: int = 0
    """Writes of a partition state with another leader than before."""
    moves_begun: int = 0
    """Partitions that entered `/admin/reassign_partitions`."""
    moves_ended: int = 0
    """Records of finished reassignments."""
    moves_taken_away: int = 0
    """Entries that a foreign writer has removed without a record."""
    topics_deleted: int = 0
    """Deletions of topic znodes."""
    acknowledged_records: int = 0
    """Records of partitions that an append acknowledged."""


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """The result of checking one cluster's history."""

    violations: tuple[Violation, ...]
    """Every invariant that did not hold, once for each place."""
    decided: frozenset[str]
    """The invariants that this history could decide; the report says nothing about the others."""
    figures: ClusterFigures
    """Counts of what happened."""
    damage: tuple[str, ...] = ()
    """The gaps of the recording: with damage the history proves nothing."""

    @property
    def holds(self) -> bool:
        """True if there is no violation and no damage."""
        return not self.violations and not self.damage
