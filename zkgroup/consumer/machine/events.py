"""The inputs (events) and outputs (effects) of a member's machine.

Events are facts, in the past tense. Every event goes to `MemberMachine.step(event, now)`. A watch or a timer
only means that something may have changed; the machine reads the state anew (level-triggered).

Effects are commands, in the imperative. The engine performs the effects of a step in the order given, all of
them before the next event. None of them blocks: results come back as events.

Order rules of the machine, which the simulator checks on every step (`EffectOrderChecker`):
* `Revoke` of a partition, and `Revoked` or `EndOverdue`, come before any `Submit` that releases it, and that
  before any `Submit` that claims partitions which the same rebalance gains.
* `Assign` of a partition comes only after a claim of it.
* A registration is created, not replaced, only by a member that owns nothing.
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
    """The application has opened the member, which joins the group."""


@dataclass(frozen=True, slots=True)
class Revoked:
    """Delivery has stopped and the callback has returned for the effect `Revoke` with this id."""

    call_id: int
    positions: Mapping[TopicPartition, int]
    """Processed positions to commit with the release; unchanged partitions are absent."""
    last_seek_id: int | None = None
    """As in `CommitRequested`."""
    seeks: Mapping[TopicPartition, int] = field(default_factory=dict)
    """As in `CommitRequested`."""


@dataclass(frozen=True, slots=True)
class PreparationDone:
    """`on_prepare` has returned for the effect `Prepare` with this id."""

    call_id: int


@dataclass(frozen=True, slots=True)
class CommitRequested:
    """The application commits positions. Exactly one effect `FinishCommit` follows."""

    commit_id: int
    positions: Mapping[TopicPartition, int]
    seeks: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The partitions with a seek of the application in the present claim, with a number that each seek
    increases: only the first position written after a seek may be lower than the one before."""
    last_seek_id: int | None = None
    """`seek_id` of the last `Assign` or `SeekTo` carried out when the positions were taken; None: all were.

    A position from before an operator's reset must not be written after it, nor one from an earlier lease: a
    partition can be lost and claimed again while this event is queued."""


@dataclass(frozen=True, slots=True)
class HandBackRequested:
    """The application gives partitions up; the member claims them again only by a later assignment."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class SubscriptionChanged:
    """The application has a new subscription: the registration is replaced (it is never rewritten)."""

    subscription: Subscription


@dataclass(frozen=True, slots=True)
class TurnBegan:
    """The turn that the member waited for has begun (`zkgroup.consumer.turns`)."""


@dataclass(frozen=True, slots=True)
class PollOverdue:
    """`max_poll_interval_ms` was exceeded: the member leaves the group until `Polled`."""


@dataclass(frozen=True, slots=True)
class Polled:
    """The application polls again after `PollOverdue`: the member rejoins."""


@dataclass(frozen=True, slots=True)
class ApplicationFailed:
    """A callback or the source raised: the member leaves and ends in the state `failed`."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class CloseRequested:
    """The application closes the member: it commits, releases and leaves, and ends with `Finish`."""

    close_session: bool
    """The client belongs to this member: the session's end then removes all its znodes at once."""
    deadline_ms: int
    """The time at which the machine must finish, even without replies.

    If the session goes on (a shared client) and has the registration, the machine may take up to a session
    timeout longer: callbacks have ended by then, and `Finish` comes when its znodes are gone."""
    leave: bool = True
    """False: a static member keeps its claims for its grace."""


Event = (
    Opened
    | SharedEvent
    | Revoked
    | PreparationDone
    | CommitRequested
    | HandBackRequested
    | SubscriptionChanged
    | PollOverdue
    | Polled
    | ApplicationFailed
    | CloseRequested
    | TurnBegan
)


class MemberState(StrEnum):
    """The public state of a member; as a string, each is its own name."""

    NEW = "new"
    """Not started."""
    JOINING = "joining"
    """Not registered yet, or registered and without an assignment."""
    STABLE = "stable"
    """Owns every partition that the assignment gives it, and no other."""
    REBALANCING = "rebalancing"
    """Has an assignment that it has not carried out yet: it releases or claims partitions."""
    SUSPENDED = "suspended"
    """The lease has ended, while the session may still be alive: delivery and commits pause."""
    LOST = "lost"
    """The session has ended. The member joins again by itself."""
    CLOSING = "closing"
    """Leaves the group, after `close`."""
    CLOSED = "closed"
    """Has left the group; final."""
    FAILED = "failed"
    """Ended by an error, which the next call raises; final."""


@dataclass(frozen=True, slots=True)
class Assign:
    """The member owns these partitions: call `on_assigned`, then deliver from each grant's offset."""

    grants: tuple[LeaseGrant, ...]
    seek_id: int = 0
    """Increases with every `Assign` and `SeekTo`: see `CommitRequested`."""


@dataclass(frozen=True, slots=True)
class Revoke:
    """Stop delivering these, call `on_revoked`, then report `Revoked` with the processed positions."""

    call_id: int
    partitions: tuple[TopicPartition, ...]
    deadline_ms: int
    """At this time the machine goes on without `Revoked`, and emits `EndOverdue`."""
    reason: str


@dataclass(frozen=True, slots=True)
class Prepare:
    """Call `on_prepare`, then report `PreparationDone`; the partitions are not owned yet, and may never
    be."""

    call_id: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class EndOverdue:
    """The callback of this `Revoke` is overdue: its leases have ended, a later `Revoked` is ignored."""

    call_id: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class EndLease:
    """These partitions were released and are no longer owned (after a `Revoke`; no callback)."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Lose:
    """These partitions are lost: stop delivery at once, call `on_lost`, commit nothing."""

    partitions: tuple[TopicPartition, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ExtendLease:
    """Delivery and commits are allowed until this time (all partitions of this member)."""

    until_ms: int


@dataclass(frozen=True, slots=True)
class SeekTo:
    """The member takes over another client's offset: drop buffered records and deliver from here.

    `reason` is `reset` (an operator's marker) or `foreign_commit` (`on_foreign_commit` is `adopt`).
    """

    topic_partition: TopicPartition
    offset: int
    """A negative offset means that the reset policy decides."""
    reason: str
    seek_id: int = 0
    """Increases with every `Assign` and `SeekTo`. Positions taken before it was performed are void."""


@dataclass(frozen=True, slots=True)
class FinishCommit:
    """The outcome of a `CommitRequested`."""

    commit_id: int
    committed: Mapping[TopicPartition, int]
    """The positions as requested."""
    refused: Mapping[TopicPartition, CommitRefusedError]
    stored: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The offsets in ZooKeeper of the committed partitions: another commit may have written a later one."""


@dataclass(frozen=True, slots=True)
class ChangeState:
    """The state of the member changes: log it, count it, call `on_state`."""

    before: MemberState
    after: MemberState
    reason: str


@dataclass(frozen=True, slots=True)
class Abandon:
    """The session has expired by the member's own clock: call `Store.abandon`."""

    incarnation: int
    reason: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The member has ended (closed or failed). With `close_session` the engine closes the client now.

    This is the last effect; afterwards a `CommitRequested` is refused and every other event ignored.
    """

    close_session: bool
    error: BaseException | None


OwnEffect = (
    Assign
    | Revoke
    | Prepare
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
"""The effects of a member only; `MachineLoop` performs those of every machine."""

Effect = SharedEffect | OwnEffect
