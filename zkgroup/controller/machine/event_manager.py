"""The events of the active controller: queued, delayed, and repeated with a backoff.

Features enqueue events here, now or later, and say what is blocked and why; the status publishes that.
`EventProcessor` takes the events and runs their handlers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from zkgroup.controller.machine import event_kinds
from zkgroup.controller.machine.event_queue import BACKOFF_MS, Backoffs, EventKind, EventQueue, QueuedEvent
from zkgroup.controller.machine.fenced_writes import Denied
from zkgroup.controller.machine.settings import ElectorContext

EVENT_TIMER: Final = "events"


class EventManager:
    """The queue of one active controller, and what is blocked."""

    def __init__(self, core: ElectorContext, kinds: Sequence[EventKind]) -> None:
        """kinds: in the order of their ranks."""
        self._core = core
        self._queue = EventQueue(kinds)
        self.blocked: dict[str, str] = {}
        """What waits (`move of t-0`, `deletion of t`, `leader of t-0`), and for what; for the status."""
        self._delayed: dict[QueuedEvent, int] = {}
        self._backoffs = Backoffs()
        self._is_in_handler = False
        """Events that are enqueued now come from a handler."""
        self._refusal: str | None = None
        """Why the running handler has to run again."""
        self._is_reported = False
        """The running handler has named in `blocked` what waits for it."""

    def enqueue(self, kind: EventKind, subject: str = "") -> None:
        """Something may have changed; the handler of the kind reads it when its turn comes."""
        if not self._is_in_handler:
            self._backoffs.changed()
        self._queue.add(QueuedEvent(kind, subject), self._core.now.ms, is_own=self._is_in_handler)

    def enqueue_later(self, kind: EventKind, ms: int, subject: str = "") -> None:
        """`enqueue`, after this time; an earlier time that was given before stays."""
        event, at_ms = QueuedEvent(kind, subject), self._core.now.ms + ms
        self._delayed[event] = min(at_ms, self._delayed.get(event, at_ms))
        self._core.set_timer_sooner(EVENT_TIMER, self._delayed[event])

    def discard(self, kind: EventKind, subject: str = "") -> None:
        """Removes an event from the queue, if it waits."""
        self._queue.discard(QueuedEvent(kind, subject))

    def enqueue_load(self) -> None:
        """Everything has to be read again. That is no change: backoffs stay as they are."""
        self._queue.add(QueuedEvent(event_kinds.LOAD), self._core.now.ms)

    def set_blocked(self, what: str, why: str | None) -> None:
        """`what` waits for something, for the status; None: it waits no more."""
        if why is None:
            self.blocked.pop(what, None)
        else:
            self.blocked[what] = why

    def back_off(self, why: str, waiting: Iterable[str] = ()) -> None:
        """An ACL has refused the running handler something: it runs again, with backoffs that grow.

        waiting: what waits for it, for the status; the event itself where nothing is named.
        """
        self._refusal = self._refusal or why
        for what in waiting:
            self.set_blocked(what, why)
            self._is_reported = True

    def retry_denied(self, kind: EventKind, refused: Iterable[str]) -> None:
        """`enqueue`, with a growing backoff, where an ACL or a limit has refused: no event reports those."""
        if any(isinstance(why, Denied) for why in refused):
            backoff_ms = self._backoffs.before_ms(QueuedEvent(kind), self._core.now.ms)
            self.enqueue_later(kind, max(BACKOFF_MS, backoff_ms))

    def __len__(self) -> int:
        """The number of events that wait."""
        return len(self._queue)

    @property
    def oldest_ms(self) -> int | None:
        """Since when the oldest event has waited; None where none waits."""
        return self._queue.oldest_ms

    def timer_fired(self) -> None:
        """Some of the delayed events are due."""
        for event in [event for event, at_ms in self._delayed.items() if at_ms <= self._core.now.ms]:
            del self._delayed[event]
            self._queue.add(event, self._core.now.ms)
        if self._delayed:
            self._core.set_timer(EVENT_TIMER, min(self._delayed.values()))

    def cancel_timer(self) -> None:
        """No event is due any more."""
        self._core.cancel_timer(EVENT_TIMER)

    def take(self, *, load_only: bool) -> QueuedEvent | None:
        """Removes and returns the next event; those that are in a backoff are delayed."""
        while (taken := self._queue.take(first_kind_only=load_only)) is not None:
            event, waited = taken
            backoff_ms = self._backoffs.before_ms(event, self._core.now.ms)
            if not backoff_ms or not waited.is_own or event.kind == event_kinds.STATUS:
                return event
            self._core.note("event.backoff", event=str(event), backoff_ms=backoff_ms)
            self.enqueue_later(event.kind, backoff_ms, event.subject)
        return None

    def begin(self, event: QueuedEvent) -> None:
        """The handler of the event starts."""
        self._backoffs.begun(event, self._core.now.ms)
        self._refusal, self._is_reported = None, False

    @contextmanager
    def in_handler(self) -> Iterator[None]:
        """Events that are enqueued inside come from a handler."""
        self._is_in_handler = True
        try:
            yield
        finally:
            self._is_in_handler = False

    def written(self) -> None:
        """The running handler has changed something in ZooKeeper."""
        self._backoffs.changed()

    def repeat(self, event: QueuedEvent) -> None:
        """The handler of the event could not finish: it runs again after loading."""
        self._queue.add(event, self._core.now.ms, is_own=True)

    def end(self, event: QueuedEvent, refused: str | None) -> None:
        """The handler has ended; `refused`: a request of it was refused, so it runs again after a backoff."""
        why = self._refusal if refused is None else refused
        if why is not None:
            self._core.note("event.refused", event=event.kind.name, subject=event.subject, detail=why)
            backoff_ms = max(BACKOFF_MS, self._backoffs.before_ms(event, self._core.now.ms))
            self.enqueue_later(event.kind, backoff_ms, event.subject)
        reported = None if self._is_reported else self._refusal
        self.set_blocked(str(event), reported if refused is None else f"refused: {refused}")
