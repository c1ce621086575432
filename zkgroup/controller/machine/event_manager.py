"""The events of the active controller: their kinds, their queue, and the processor that runs their handlers.

An event says only that something may have changed; its handler reads the state when its turn comes. So an
event that waits already need not wait twice. One handler runs at a time. One that ends without a reply from
ZooKeeper has everything loaded again. One that an ACL or a limit refuses, or that enqueues itself again and
again and changes nothing, runs again with growing backoffs, and the status says why: no other event waits for
it. Source: kafka/controller/ControllerEventManager.scala@2.8.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from zkgroup.controller.machine.context import ControllerContext
from zkgroup.controller.machine.fenced_writes import Denied
from zkgroup.controller.machine.settings import ElectorContext
from zkgroup.model.requests import MultiDone, Outcome
from zkgroup.runtime.procedures import ConnectionLossError, NoAuthError, Procedure, UnexpectedReplyError, Work


@dataclass(frozen=True, slots=True)
class EventKind:
    """A kind of change. The table of handlers ranks the kinds; a feature declares those that it alone
    enqueues."""

    name: str


LOAD: Final = EventKind("load")
"""Read everything: after an election, on each new connection, and after a missing reply."""
EPOCH_BUMP: Final = EventKind("epoch")
"""A new controller epoch, as an old copy of a StopReplica with deletion may still arrive."""
BROKERS: Final = EventKind("brokers")
"""The registrations of brokers."""
TOPICS: Final = EventKind("topics")
"""The list of topics."""
TOPIC: Final = EventKind("topic")
"""The replica lists of one topic."""
UNREADABLE_STATES: Final = EventKind("unreadable states")
"""States of partitions that could not be read."""
ISR_CHANGES: Final = EventKind("isr changes")
"""Notifications of leaders that have changed an ISR."""
CONFIG_CHANGES: Final = EventKind("config changes")
"""Notifications of tools that have changed a configuration."""
ELECTIONS: Final = EventKind("elections")
"""Partitions without a leader that can serve, or without a state."""
SHUTDOWNS: Final = EventKind("shutdowns")
"""Brokers that have requested a controlled shutdown."""
REASSIGNMENT: Final = EventKind("reassignment")
"""The open reassignments, and the request for them."""
DELETIONS: Final = EventKind("deletions")
"""Topics that are queued for deletion."""
SLOT_REPLICAS: Final = EventKind("slot replicas")
"""Slots of group coordinators that may have more replicas."""
STRAY_REPLICAS: Final = EventKind("stray replicas")
"""Replicas that a reassignment has left behind and that could not be deleted."""
REPLICAS_OF_DELETED_TOPICS: Final = EventKind("replicas of deleted topics")
"""Replicas of deleted topics, on brokers that the deletion has not waited for."""
STRAY_RECORDS: Final = EventKind("stray records")
"""The records of replicas that brokers may still have."""
PLANS: Final = EventKind("plans")
"""Stored reassignment plans whose next phase may be submitted."""
STATUS: Final = EventKind("status")
"""The status znode of the controller."""


class QueuedEvent(NamedTuple):
    """An event that waits; equal ones are one."""

    kind: EventKind
    subject: str = ""
    """The topic, for `TOPIC`."""

    def __str__(self) -> str:
        return f"{self.kind.name} {self.subject}".rstrip()


class Waited(NamedTuple):
    """The time since which an event waits, and its origin."""

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
        """Returns whether it is new; one that waits keeps its place and time. Raises KeyError for an unknown
        kind."""
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
        self._waiting[event.kind].pop(event, None)

    def take(self, *, first_kind_only: bool = False) -> tuple[QueuedEvent, Waited] | None:
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
    """The pauses of an event whose handler enqueues it again and again and writes nothing.

    A handler runs `ATTEMPTS_WITHOUT_BACKOFF` times at once, as another client may have written before it;
    then with backoffs that grow from `BACKOFF_MS` to `BACKOFF_MAX_MS`, until something is written or an event
    arrives from outside. Runs of long ago do not count: a new connection, after which everything is read, is
    no repetition.
    """

    def __init__(self) -> None:
        self._begun: dict[QueuedEvent, tuple[int, int]] = {}
        """Number of runs since the last change, and the time of the last run."""

    def begun(self, event: QueuedEvent, now_ms: int) -> None:
        self._begun[event] = self._times(event, now_ms) + 1, now_ms

    def changed(self) -> None:
        """Something was written, or an event has arrived: what was in the way may be gone."""
        self._begun.clear()

    def before_ms(self, event: QueuedEvent, now_ms: int) -> int:
        excess = self._times(event, now_ms) - ATTEMPTS_WITHOUT_BACKOFF
        return 0 if excess < 0 else min(BACKOFF_MS << min(excess, 10), BACKOFF_MAX_MS)

    def _times(self, event: QueuedEvent, now_ms: int) -> int:
        times, last_ms = self._begun.get(event, (0, now_ms))
        return times if now_ms - last_ms <= 2 * BACKOFF_MAX_MS else 0


EVENT_TIMER: Final = "events"


class EventManager:
    """The queue of one active controller, and what is blocked."""

    def __init__(self, core: ElectorContext, kinds: Sequence[EventKind]) -> None:
        self._core = core
        self.queue = EventQueue(kinds)
        self.blocked: dict[str, str] = {}
        """Blocked work (`move of t-0`, `deletion of t`) to what it waits for; for the status."""
        self._delayed: dict[QueuedEvent, int] = {}
        self._backoffs = Backoffs()
        self._is_in_handler = False
        """Events that are enqueued now come from a handler."""
        self._refusal: str | None = None
        """The reason why the running handler has to run again."""
        self._is_reported = False
        """The running handler has named in `blocked` what waits for it."""
        self.reason = ""
        """The reason for which the running handler changes leaders; for the log."""
        self.leaders_changed = 0

    def enqueue(self, kind: EventKind, subject: str = "") -> None:
        """Something may have changed; the handler of the kind reads it when its turn comes."""
        if not self._is_in_handler:
            self._backoffs.changed()
        self.queue.add(QueuedEvent(kind, subject), self._core.now.ms, is_own=self._is_in_handler)

    def enqueue_later(self, kind: EventKind, ms: int, subject: str = "") -> None:
        """`enqueue`, after this time; an earlier time that was given before stays."""
        event, at_ms = QueuedEvent(kind, subject), self._core.now.ms + ms
        self._delayed[event] = min(at_ms, self._delayed.get(event, at_ms))
        self._core.set_timer_sooner(EVENT_TIMER, self._delayed[event])

    def discard(self, kind: EventKind, subject: str = "") -> None:
        self.queue.discard(QueuedEvent(kind, subject))

    def enqueue_load(self) -> None:
        """Everything has to be read again. That is no change: backoffs stay as they are."""
        self.queue.add(QueuedEvent(LOAD), self._core.now.ms)

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

    def timer_fired(self) -> None:
        for event in [event for event, at_ms in self._delayed.items() if at_ms <= self._core.now.ms]:
            del self._delayed[event]
            self.queue.add(event, self._core.now.ms)
        if self._delayed:
            self._core.set_timer(EVENT_TIMER, min(self._delayed.values()))

    def take(self, *, load_only: bool) -> QueuedEvent | None:
        """Removes and returns the next event; those that are in a backoff are delayed."""
        while (taken := self.queue.take(first_kind_only=load_only)) is not None:
            event, waited = taken
            backoff_ms = self._backoffs.before_ms(event, self._core.now.ms)
            if not backoff_ms or not waited.is_own or event.kind == STATUS:
                return event
            self._core.note("event.backoff", event=str(event), backoff_ms=backoff_ms)
            self.enqueue_later(event.kind, backoff_ms, event.subject)
        return None

    def begin(self, event: QueuedEvent, reason: str) -> None:
        """The handler of the event starts; it changes leaders for this reason."""
        self._backoffs.begun(event, self._core.now.ms)
        self._refusal, self._is_reported = None, False
        self.reason, self.leaders_changed = reason or str(event), 0

    @contextmanager
    def in_handler(self) -> Iterator[None]:
        self._is_in_handler = True
        try:
            yield
        finally:
            self._is_in_handler = False

    def written(self) -> None:
        self._backoffs.changed()

    def repeat(self, event: QueuedEvent) -> None:
        """The handler of the event could not finish: it runs again after loading."""
        self.queue.add(event, self._core.now.ms, is_own=True)

    def end(self, event: QueuedEvent, refused: str | None) -> None:
        """The handler has ended; `refused`: a request of it was refused, so it runs again after a backoff."""
        why = self._refusal if refused is None else refused
        if why is not None:
            self._core.note("event.refused", event=event.kind.name, subject=event.subject, detail=why)
            backoff_ms = max(BACKOFF_MS, self._backoffs.before_ms(event, self._core.now.ms))
            self.enqueue_later(event.kind, backoff_ms, event.subject)
        reported = None if self._is_reported else self._refusal
        self.set_blocked(str(event), reported if refused is None else f"refused: {refused}")


Handler = Callable[..., Procedure[None]]
"""Handles an event; that of `TOPIC` gets the topic."""


class EventProcessor:
    """Takes the next event and runs its handler as a procedure."""

    def __init__(
        self,
        core: ElectorContext,
        context: ControllerContext,
        events: EventManager,
        handlers: Mapping[EventKind, tuple[Handler, str]],
        *,
        forget_watches: Callable[[], None],
        after_event: Callable[[], None],
    ) -> None:
        """
        Args:
            handlers: kind to its handler, and why that changes leaders; the kind's name where it is empty.
            after_event: follows every handler; sends to the brokers what it has written and not sent.
        """
        self._core = core
        self._context = context
        self._events = events
        self._handlers = handlers
        self._forget_watches = forget_watches
        self._after_event = after_event

    def load_again(self) -> None:
        """Watches are gone, or the context may be out of date: everything is read again before all else."""
        self._forget_watches()
        self._context.is_loaded = False
        self._events.enqueue_load()

    def next(self) -> Work | None:
        """The procedure that is due, or None. Nothing but loading before everything is loaded."""
        event = self._events.take(load_only=not self._context.is_loaded)
        return None if event is None else (str(event), partial(self._handle, event))

    def _handle(self, event: QueuedEvent) -> Procedure[None]:
        (handle, reason), begun_ms = self._handlers[event.kind], self._core.now.ms
        self._events.begin(event, reason)
        why = None
        try:
            yield from self._run(event, handle(event.subject) if event.subject else handle())
        except ConnectionLossError as error:
            if not error.too_big:
                self.load_again()
                self._events.repeat(event)
                raise
            why = str(error)
        except (NoAuthError, UnexpectedReplyError) as error:
            why = str(error)
        if leaders := self._events.leaders_changed:
            took_ms = self._core.now.ms - begun_ms
            self._core.note("election.done", leaders=leaders, reason=self._events.reason, ms=took_ms)
        if why is not None:
            self._forget_watches()
        with self._events.in_handler():
            self._events.end(event, why)
            self._after_event()
            if event.kind != STATUS:
                self._events.enqueue(STATUS)

    def _run(self, event: QueuedEvent, procedure: Procedure[None]) -> Procedure[None]:
        """The procedure, with the events that it enqueues marked as its own, and its writes noticed."""
        outcomes: tuple[Outcome, ...] | None = None
        with closing(procedure):
            while True:
                with self._events.in_handler():
                    try:
                        queries = next(procedure) if outcomes is None else procedure.send(outcomes)
                    except StopIteration:
                        return
                outcomes = yield queries
                if event.kind != STATUS and any(isinstance(each, MultiDone) for each in outcomes):
                    self._events.written()
