"""What a controller has yet to look at. Source: controller.md D7, section 10 rule 5.

An event says only that something may have changed; the state is read when its turn comes. So an event that
waits already need not wait twice.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, Self


class EventKind(IntEnum):
    """Kinds of events, in the order in which they are taken: what ends this controller comes first.

    The text of a kind is the reason, in the log, of the leaders and leader epochs that its handler changes.
    """

    reason: str

    def __new__(cls, order: int, reason: str = "") -> Self:
        """`order` is the value."""
        kind = int.__new__(cls, order)
        kind._value_ = order
        kind.reason = reason
        return kind

    EXPIRED = 0
    CONTROLLER = 1
    """`/controller`, `/controller_epoch` or a request to resign."""
    LOAD = 2, "take-over"
    """Everything: at the start of a rule, on each new connection, and after a missing answer."""
    EPOCH = 3
    """A new epoch, as an old copy of a StopReplica with deletion may still arrive."""
    BROKERS = 4, "brokers came or went"
    TOPICS = 5, "new topic"
    TOPIC = 6, "new partition"
    """The replica lists of one topic."""
    UNREADABLE_STATES = 7, "state mended"
    """States of partitions that somebody may have mended."""
    ISR_CHANGES = 8
    CONFIG_CHANGES = 9
    ELECTIONS = 10, "leader cannot serve"
    """Partitions without a leader, or without a state."""
    SHUTDOWNS = 11, "controlled shutdown"
    """Brokers that ask to be relieved of their leaderships before they stop."""
    REASSIGNMENT = 12, "reassignment"
    PREFERRED_ELECTION = 13, "preferred election"
    UNCLEAN_ELECTION = 14, "unclean election asked for"
    DELETIONS = 15, "deletion"
    STRAYS = 16
    """Replicas that a move has left behind and that could not be deleted."""
    ABANDONED = 17, "broker let in again"
    """Replicas that forced deletions have not waited for."""
    STRAY_RECORDS = 18
    """What is recorded of replicas that brokers may still have."""
    BALANCE = 19, "preferred election, automatic"
    PLANS = 20
    """Stored plans whose next phase is to be submitted."""
    STATUS = 21


class QueuedEvent(NamedTuple):
    """Something to look at; equal ones are one."""

    kind: EventKind
    subject: str = ""
    """The topic, for `EventKind.TOPIC`."""

    def __str__(self) -> str:
        return f"{self.kind.name.lower().replace('_', ' ')} {self.subject}".rstrip()


class Waited(NamedTuple):
    """How a piece of work came to wait."""

    since_ms: int
    is_own: bool
    """A procedure of the controller has asked for it, and no event since."""


TURNS_MAX: Final = 20
"""So often in a row other kinds of work are taken before one that waits."""


class EventQueue:
    """Waiting work: each once, by kind, within a kind as it came.

    The kinds have their order, so that what a later one rests on is looked at before it. But none starves:
    one that was passed over `TURNS_MAX` times is next. What ends the rule, and loading, always come first.
    """

    def __init__(self) -> None:
        self._waiting: dict[EventKind, dict[QueuedEvent, Waited]] = {}
        self._turn = 0
        self._passed_since: dict[EventKind, int] = {}
        """Kind to the turn in which it was taken last, or began to wait."""

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, work: QueuedEvent, now_ms: int, *, is_own: bool = False) -> bool:
        """Whether it is new. What waits already keeps its place and its time."""
        waiting = self._waiting.setdefault(work.kind, {})
        known = waiting.get(work)
        if known is not None:
            waiting[work] = known._replace(is_own=known.is_own and is_own)
            return False
        if not waiting:
            self._passed_since[work.kind] = self._turn
        waiting[work] = Waited(now_ms, is_own)
        return True

    @property
    def oldest_ms(self) -> int | None:
        """Since when the work has waited that has waited longest; None where none does."""
        firsts = (next(iter(waiting.values())).since_ms for waiting in self._waiting.values() if waiting)
        return min(firsts, default=None)

    def discard(self, work: QueuedEvent) -> None:
        """Nobody need look there any more."""
        self._waiting.get(work.kind, {}).pop(work, None)

    def take(self, last: EventKind = EventKind.STATUS) -> tuple[QueuedEvent, Waited] | None:
        """The next work of a kind up to `last`, and since when it has waited."""
        kinds = [look for look in EventKind if look <= last and self._waiting.get(look)]
        if not kinds:
            return None
        look = kinds[0]
        if look > EventKind.LOAD:
            longest = min(kinds, key=lambda kind: self._passed_since[kind])
            if self._turn - self._passed_since[longest] >= TURNS_MAX:
                look = longest
        self._turn += 1
        self._passed_since[look] = self._turn
        waiting = self._waiting[look]
        work = next(iter(waiting))
        return work, waiting.pop(work)

    def clear(self) -> None:
        """Everything that waits is void: another session, another picture."""
        self._waiting.clear()


TRIES_AT_ONCE: Final = 3
BACKOFF_MS: Final = 1_000
BACKOFF_MAX_MS: Final = 30_000


class Backoffs:
    """Work that asks for itself again and again, and changes nothing in ZooKeeper, is put off.

    It is begun `TRIES_AT_ONCE` times, as somebody else may have come before its writes; then after pauses
    that grow from `BACKOFF_MS` to `BACKOFF_MAX_MS`, until something is written or an event says where to
    look. What was begun long ago does not count: a new connection, with which all is looked at, is no
    repetition.
    """

    def __init__(self) -> None:
        self._begun: dict[QueuedEvent, tuple[int, int]] = {}
        """How often since the last change, and when for the last time."""

    def begun(self, work: QueuedEvent, now_ms: int) -> None:
        """The work is begun now."""
        self._begun[work] = self._times(work, now_ms) + 1, now_ms

    def changed(self) -> None:
        """Something was written, or has happened: whatever was in the way may be gone."""
        self._begun.clear()

    def before_ms(self, work: QueuedEvent, now_ms: int) -> int:
        """How long the work has to wait before it is begun again."""
        excess = self._times(work, now_ms) - TRIES_AT_ONCE
        return 0 if excess < 0 else min(BACKOFF_MS << min(excess, 10), BACKOFF_MAX_MS)

    def _times(self, work: QueuedEvent, now_ms: int) -> int:
        times, last_ms = self._begun.get(work, (0, now_ms))
        return times if now_ms - last_ms <= 2 * BACKOFF_MAX_MS else 0
