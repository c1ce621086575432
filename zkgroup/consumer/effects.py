"""What a member must do next: the outputs of the machine. Orders, in the imperative.

The shell performs the effects of a step in the order given, all of them before the next event.
None of them blocks: results come back as events.

Order rules that the machine keeps, and that the simulator checks on every step (`testing.simulation.order`):
* `Revoke` of a partition, and its answer or `EndOverdue`, come before any `Ask` that releases it, and
  that before any `Ask` that claims what the same rebalance gains.
* `Assign` of a partition comes only after a claim of it.
* A registration is created, not replaced, only by a member that holds nothing.
* After `Lose` no offset of those partitions is written, until they are claimed anew.
* `ExtendLease` is given only for an acknowledged quorum write, and for each once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from zkgroup.errors import CommitRefusedError
from zkgroup.machinery.effects import Note, SharedEffect
from zkgroup.model import LeaseGrant, TopicPartition


class MemberState(StrEnum):
    """What a person sees of a member; each is its own word as a text."""

    NEW = "new"
    JOINING = "joining"
    STABLE = "stable"
    REBALANCING = "rebalancing"
    SUSPENDED = "suspended"
    LOST = "lost"
    CLOSING = "closing"
    CLOSED = "closed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Assign:
    """These partitions are ours: call `on_assigned`, then deliver from each grant's offset."""

    grants: tuple[LeaseGrant, ...]
    move_id: int = 0
    """Grows with every `Assign` and `MoveTo`: see `CommitRequested`."""


@dataclass(frozen=True, slots=True)
class Revoke:
    """Stop delivering these, call `on_revoked`, then report `Revoked` with the processed positions."""

    call_id: int
    partitions: tuple[TopicPartition, ...]
    deadline_ms: int
    """The machine goes on without the answer at this time (it then gives `EndOverdue`)."""
    reason: str


@dataclass(frozen=True, slots=True)
class EndOverdue:
    """The callback of this `Revoke` is too late: its leases are over, its later answer is ignored."""

    call_id: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class EndLease:
    """Released: these partitions are no longer ours (after a `Revoke`, no callback)."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Lose:
    """These partitions are no longer ours, without notice: stop at once, call `on_lost`, commit nothing."""

    partitions: tuple[TopicPartition, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ExtendLease:
    """Delivery and commits are allowed until this time (all partitions of this member)."""

    until_ms: int


@dataclass(frozen=True, slots=True)
class MoveTo:
    """Somebody else's offset is obeyed: drop what is buffered and deliver from here.

    `reason` is `reset` (an operator's marker) or `foreign_commit` (`on_foreign_commit` is `adopt`).
    """

    topic_partition: TopicPartition
    offset: int
    """A negative offset means: by the reset policy."""
    reason: str
    move_id: int = 0
    """Grows with every `Assign` and `MoveTo`. Positions taken before it was carried out are void."""


@dataclass(frozen=True, slots=True)
class FinishCommit:
    """What became of a `CommitRequested`."""

    commit_id: int
    committed: Mapping[TopicPartition, int]
    """As asked for."""
    refused: Mapping[TopicPartition, CommitRefusedError]
    stands: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Where the offsets of those committed stood then: another commit may have led further."""


@dataclass(frozen=True, slots=True)
class ChangeState:
    """Log it, count it, call `on_state`."""

    before: MemberState
    after: MemberState
    reason: str


@dataclass(frozen=True, slots=True)
class Abandon:
    """Our own clock says that the session is over: `Store.abandon`."""

    incarnation: int
    reason: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The member is done (closed or failed). With `close_session` the shell closes the client now.

    It comes once and last; afterwards a `CommitRequested` is refused and every other event ignored.
    """

    close_session: bool
    error: BaseException | None


OwnEffect = (
    Assign
    | Revoke
    | EndOverdue
    | EndLease
    | Lose
    | ExtendLease
    | MoveTo
    | FinishCommit
    | ChangeState
    | Abandon
    | Note
    | Finish
)
"""What only a member does; the loop that every machine has performs the others."""

Effect = SharedEffect | OwnEffect
