"""What the cluster's checker found, how much happened, and what only its caller can know."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields

from zkgroup.history.report import Violation
from zkgroup.model import TopicPartition

TAKEOVER_MS = 10_000
"""The longest that a cluster may be without a controller: a session of 6 s, a tick and 2 s (L6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """What only the caller can know. Times are on the clock of the log, in milliseconds."""

    quiet_from_ms: int | None = None
    """When the last fault was healed and the last change was made; without it L6 and L7 stay open."""
    takeover_ms: int = TAKEOVER_MS
    """How long after that there may be no controller."""
    recovery_ms: int = 10_000
    """How long after that something may be left undone; add the time that copying takes."""
    same_process: Collection[Collection[int]] = ()
    """Sessions that one process had one after the other: it may take its own ghost away (S17)."""
    down: Collection[int] = ()
    """Brokers that are registered and yet cannot lead anything, as their disks fail."""
    unserved: Mapping[TopicPartition, Collection[int]] = field(default_factory=dict)
    """Brokers that live and refuse a partition until they start anew (storage error 56)."""


@dataclass(slots=True)
class ClusterFigures:
    """How much happened: a run in which nothing happened proves nothing."""

    transactions: int = 0
    elections: int = 0
    """Epochs that were won."""
    governed_writes: int = 0
    """Accepted writes of controllers of ours to what a controller governs."""
    isr_writes: int = 0
    """Accepted writes of leaders to the states of their partitions."""
    refused_writes: int = 0
    """Refused transactions of controllers of ours."""
    fenced_writes: int = 0
    """Of these, refused at `/controller` or `/controller_epoch`: the fence bit."""
    foreign_writes: int = 0
    """Accepted writes of others to what a controller governs: real controllers, operators."""
    leader_changes: int = 0
    moves_begun: int = 0
    moves_ended: int = 0
    moves_taken_away: int = 0
    """Entries that somebody not of ours has removed without a record."""
    topics_deleted: int = 0
    acknowledged_lines: int = 0

    def __add__(self, other: ClusterFigures) -> ClusterFigures:
        """The figures of a batch of runs."""
        return ClusterFigures(
            **{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        )


@dataclass(frozen=True, slots=True)
class ClusterReport:
    """The verdict over one history of a cluster."""

    violations: tuple[Violation, ...]
    decided: frozenset[str]
    """The invariants that this history allowed to decide; of the others nothing is said."""
    figures: ClusterFigures
    damage: tuple[str, ...] = ()
    """What is missing in the recording, so that no verdict can rest on it."""

    @property
    def holds(self) -> bool:
        return not self.violations and not self.damage
