"""The seam between a member's engine and what delivers records for it.

A member that only holds leases has no share; `Consumer` puts its delivery here. All methods are
called on the thread that owns the member and must return at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from zkgroup.consumer.effects import Assign, FinishCommit, MoveTo
from zkgroup.model import LeaseGrant, TopicPartition


@dataclass(frozen=True, slots=True)
class Processed:
    """How far partitions are processed, as far as that is news."""

    positions: Mapping[TopicPartition, int]
    seeks: Mapping[TopicPartition, int] = field(default_factory=dict)
    """As in `CommitRequested`."""
    last_move_id: int | None = None
    """`move_id` of the last `Assign` or `MoveTo` carried out before these were taken; None: all were."""


class Share(Protocol):
    """What a member's engine tells the delivery."""

    def assigned(self, effect: Assign) -> None:
        """Granted; nothing is delivered before `started`."""
        ...

    def started(self, grants: Iterable[LeaseGrant]) -> None:
        """`on_assigned` has returned for these claims: deliver (a later claim waits for its own)."""
        ...

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        """Deliver nothing more of these; what is in the application's hands may be acknowledged."""
        ...

    def drain(
        self,
        partitions: Iterable[TopicPartition],
        until_ms: int,
        done: Callable[[Processed], None],
    ) -> None:
        """Call `done` once all that was delivered is acknowledged, or at `until_ms`; with what to commit."""
        ...

    def ended(self, partitions: Iterable[TopicPartition]) -> None:
        """No longer owned: forget them."""
        ...

    def extended(self) -> None:
        """The lease runs longer: what it held back may be delivered."""
        ...

    def moved(self, move: MoveTo) -> None:
        """Drop what is buffered and go on from the offset given; negative: by the reset policy."""
        ...

    def committed(self, outcome: FinishCommit) -> None:
        """What became of a commit, whoever asked for it."""
        ...

    def finished(self) -> None:
        """The member has ended: wake everybody who waits for records."""
        ...
