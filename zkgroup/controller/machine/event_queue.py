"""The queue of events that wait for their handlers, and the backoff of handlers that achieve nothing.

An event says only that something may have changed; its handler reads the state when its turn comes. So an
event that waits already need not wait twice. Source: controller.md D7, section 10 rule 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True)
class EventKind:
    """What may have changed, so that its handler has to run. The table of handlers ranks the kinds."""

    name: str


class QueuedEvent(NamedTuple):
    """An event that waits; equal ones are one."""

    kind: EventKind
    subject: str = ""
    """The topic, for `event_kinds.TOPIC`."""

    def __str__(self) -> str:
        return f"{self.kind.name} {self.subject}".rstrip()


class Waited(NamedTuple):
    """Since when an event waits, and where it came from."""

    since_ms: int
    is_own: bool
    """A handler of this controller enqueued it, and nothing else has since."""


PASSED_OVER_MAX: Final = 20
"""Events of other kinds that are taken, at most, before one that waits."""


class EventQueue:
    """Waiting events: each once, by kind, within a kind in the order of their arrival.

    Kinds have ranks, so that a handler runs after those on whose results it depends. But none starves: a kind
    that was passed over `PASSED_OVER_MAX` times is next. The first kind, loading, always comes first.
    """

    def __init__(self, kinds: Sequence[EventKind]) -> None:
        """kinds: in the order of their ranks."""
        self._kinds = tuple(kinds)
        self._waiting: dict[EventKind, dict[QueuedEvent, Waited]] = {kind: {} for kind in self._kinds}
        self._turn = 0
        self._passed_since: dict[EventKind, int] = {}
        """Kind to the turn in which it was taken last, or began to wait."""

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, event: QueuedEvent, now_ms: int, *, is_own: bool = False) -> bool:
        """Returns whether it is new. An event that waits already keeps its place and its time.

        Raises KeyError for a kind that is not in the table of handlers.
        """
        waiting = self._waiting[event.kind]
        known = waiting.get(event)
        if known is not None:
            waiting[event] = known._replace(is_own=known.is_own and is_own)
            return False
        if not waiting:
            self._passed_since[event.kind] = self._turn
        waiting[event] = Waited(now_ms, is_own)
        return True

    @property
    def oldest_ms(self) -> int | None:
        """Since when the oldest event has waited; None where none waits."""
        firsts = (next(iter(waiting.values())).since_ms for waiting in self._waiting.values() if waiting)
        return min(firsts, default=None)

    def discard(self, event: QueuedEvent) -> None:
        """Removes the event, if it waits."""
        self._waiting[event.kind].pop(event, None)

    def take(self, *, first_kind_only: bool = False) -> tuple[QueuedEvent, Waited] | None:
        """Removes and returns the next event."""
        kinds = self._kinds[:1] if first_kind_only else self._kinds
        kinds = tuple(kind for kind in kinds if self._waiting[kind])
        if not kinds:
            return None
        chosen = kinds[0]
        if chosen != self._kinds[0]:
            longest = min(kinds, key=lambda kind: self._passed_since[kind])
            if self._turn - self._passed_since[longest] >= PASSED_OVER_MAX:
                chosen = longest
        self._turn += 1
        self._passed_since[chosen] = self._turn
        waiting = self._waiting[chosen]
        event = next(iter(waiting))
        return event, waiting.pop(event)


ATTEMPTS_WITHOUT_BACKOFF: Final = 3
BACKOFF_MS: Final = 1_000
BACKOFF_MAX_MS: Final = 30_000


class Backoffs:
    """How long an event waits whose handler enqueues it again and again and changes nothing in ZooKeeper.

    A handler runs `ATTEMPTS_WITHOUT_BACKOFF` times at once, as another client may have written before it;
    then with backoffs that grow from `BACKOFF_MS` to `BACKOFF_MAX_MS`, until something is written or an event
    arrives from outside. Runs of long ago do not count: a new connection, after which everything is read, is
    no repetition.
    """

    def __init__(self) -> None:
        self._begun: dict[QueuedEvent, tuple[int, int]] = {}
        """Number of runs since the last change, and the time of the last run."""

    def begun(self, event: QueuedEvent, now_ms: int) -> None:
        """The handler of the event starts now."""
        self._begun[event] = self._times(event, now_ms) + 1, now_ms

    def changed(self) -> None:
        """Something was written, or an event has arrived: what was in the way may be gone."""
        self._begun.clear()

    def before_ms(self, event: QueuedEvent, now_ms: int) -> int:
        """The backoff before the next run of the event's handler."""
        excess = self._times(event, now_ms) - ATTEMPTS_WITHOUT_BACKOFF
        return 0 if excess < 0 else min(BACKOFF_MS << min(excess, 10), BACKOFF_MAX_MS)

    def _times(self, event: QueuedEvent, now_ms: int) -> int:
        times, last_ms = self._begun.get(event, (0, now_ms))
        return times if now_ms - last_ms <= 2 * BACKOFF_MAX_MS else 0
