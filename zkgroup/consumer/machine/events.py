"""The inputs (events) and outputs (effects) of a member's machine.

Events are facts, in the past tense. Every event is given to `MemberMachine.step(event, now)`. Watches and
timers say only *that* something may have changed; the machine reads the state anew (level-triggered).

Effects are orders, in the imperative. The engine performs the effects of a step in the order given, all of
them before the next event. None of them blocks: results come back as events.

Order rules that the machine keeps, and that the simulator checks on every step (`testing.simulation.order`):
* `Revoke` of a partition, and its answer or `EndOverdue`, come before any `Submit` that releases it, and
  that before any `Submit` that claims what the same rebalance gains.
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
from zkgroup.model import LeaseGrant, Subscription, TopicPartition
from zkgroup.runtime.events import LogEvent, SharedEffect, SharedEvent


@dataclass(frozen=True, slots=True)
class Opened:
    """The application wants this member to join."""


@dataclass(frozen=True, slots=True)
class Revoked:
    """Delivery has stopped and the callback has returned for the effect `Revoke` with this id."""

    call_id: int
    positions: Mapping[TopicPartition, int]
    """Processed positions to commit with the release; partitions without news are absent."""
    last_move_id: int | None = None
    """As in `CommitRequested`."""
    seeks: Mapping[TopicPartition, int] = field(default_factory=dict)
    """As in `CommitRequested`."""


@dataclass(frozen=True, slots=True)
class CommitRequested:
    """Answered by exactly one effect `FinishCommit`, whatever happens."""

    commit_id: int
    positions: Mapping[TopicPartition, int]
    seeks: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Partitions that the application has sought in the present claim, with a number that each seek raises:
    the first position written after a seek may go back, and no other."""
    last_move_id: int | None = None
    """`move_id` of the last `Assign` or `SeekTo` carried out when the positions were taken; None: all were.

    A position from before an operator's reset must not be written after it. Nor one from an earlier lease:
    a partition can be lost and claimed again while this event is under way."""


@dataclass(frozen=True, slots=True)
class HandBackRequested:
    """The application gives partitions up; this member claims them again only by a later plan."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class SubscriptionChanged:
    """Leave and register anew with this subscription (a registration is never rewritten)."""

    subscription: Subscription


@dataclass(frozen=True, slots=True)
class PollOverdue:
    """`max_poll_interval_ms` was exceeded: give everything back and leave the group until `Polled`."""


@dataclass(frozen=True, slots=True)
class Polled:
    """The application is back after `PollOverdue`: join again."""


@dataclass(frozen=True, slots=True)
class ApplicationFailed:
    """A callback or the source raised: leave cleanly, end in the state `failed`."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class CloseRequested:
    """Commit, release, leave. Ends with the effect `Finish`."""

    close_session: bool
    """True when the client belongs to this member: the session's end removes all its znodes at once."""
    deadline_ms: int
    """Point in time at which the machine must be finished, whatever was not answered.

    Where the session lives on (a shared client) and the registration stands in it, the machine may take up
    to a session timeout longer: callbacks are over by then, `Finish` comes when its znodes are gone."""


Event = (
    Opened
    | SharedEvent
    | Revoked
    | CommitRequested
    | HandBackRequested
    | SubscriptionChanged
    | PollOverdue
    | Polled
    | ApplicationFailed
    | CloseRequested
)


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
    """Grows with every `Assign` and `SeekTo`: see `CommitRequested`."""


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
class SeekTo:
    """Another client's offset is obeyed: drop what is buffered and deliver from here.

    `reason` is `reset` (an operator's marker) or `foreign_commit` (`on_foreign_commit` is `adopt`).
    """

    topic_partition: TopicPartition
    offset: int
    """A negative offset means: by the reset policy."""
    reason: str
    move_id: int = 0
    """Grows with every `Assign` and `SeekTo`. Positions taken before it was carried out are void."""


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
    | SeekTo
    | FinishCommit
    | ChangeState
    | Abandon
    | LogEvent
    | Finish
)
"""What only a member does; the loop that every machine has performs the others."""

Effect = SharedEffect | OwnEffect
