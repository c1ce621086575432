"""What happens to a member: the inputs of the machine. Facts, in the past tense.

Every event is given to `MemberMachine.step(event, now)`. Watches and timers say only *that*
something may have changed; the machine reads the state anew (level-triggered).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from zkgroup.machinery.events import SharedEvent
from zkgroup.model import Subscription, TopicPartition


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
    """`move_id` of the last `Assign` or `MoveTo` carried out when the positions were taken; None: all were.

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
