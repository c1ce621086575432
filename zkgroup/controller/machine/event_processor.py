"""What a rule has to do and when: duties in their order, one at a time; refused ones again after a pause.

An event says where to look (`ZnodeReader.enqueue`), or a time does (`enqueue_later`). A duty that ends
without an answer has everything loaded again. One that an ACL or a limit refuses, or that asks for itself
again and again and changes nothing, is put off with growing pauses, and the status says why: nothing behind
it waits for it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from functools import partial
from typing import Final

from zkgroup.controller.machine import event_queue
from zkgroup.controller.machine.elector_context import ElectorContext
from zkgroup.controller.machine.event_queue import BACKOFF_MS, Backoffs, EventKind
from zkgroup.controller.machine.fenced_writes import Denied
from zkgroup.controller.machine.znode_reader import ZnodeReader
from zkgroup.model.requests import MultiDone, Outcome
from zkgroup.runtime.machine import Work
from zkgroup.runtime.procedures import ConnectionLossError, NoAuthError, Procedure, UnexpectedReplyError

EVENT_TIMER: Final = "duties"


class EventProcessor(ZnodeReader):
    """The duties of one rule: which is next, and what becomes of it."""

    def __init__(
        self, core: ElectorContext, duties: Mapping[EventKind, Callable[[str], Procedure[None]]]
    ) -> None:
        """duties: one for each kind of event; the text is the subject, the topic for `EventKind.TOPIC`."""
        super().__init__(core)
        self.waiting: dict[str, str] = {}
        """What waits (`move of t-0`, `deletion of t`, `leader of t-0`), and for what; for the status."""
        self.is_loaded = False
        self.was_loaded = False
        """At least once: what is loaded now is compared with it."""
        self.reason = ""
        """Why the duty under way changes something; for the log."""
        self.elected = 0
        """Leaders that the duty under way has changed."""
        self._duties = duties
        self._later: dict[event_queue.QueuedEvent, int] = {}
        self._pauses = Backoffs()
        self._refused: str | None = None
        """Why the duty under way rests."""
        self._is_told = False
        """The status tells that of what waits for it."""
        self._is_on_duty = False
        """What is asked for now comes from a duty, not from an event."""

    @abstractmethod
    def after_event(self) -> None:
        """Follows every handler: sends to the brokers what it has written and not sent."""

    def wait(self, what: str, why: str | None) -> None:
        """`what` waits for something, for the status; None: no more."""
        if why is None:
            self.waiting.pop(what, None)
        else:
            self.waiting[what] = why

    def enqueue(self, look: EventKind, subject: str = "") -> None:
        """Something may have changed there; it is read when its turn comes."""
        if not self._is_on_duty:
            self._pauses.changed()
        self.queue.add(event_queue.QueuedEvent(look, subject), self.core.now.ms, is_own=self._is_on_duty)

    def enqueue_later(self, look: EventKind, ms: int, subject: str = "") -> None:
        """`enqueue`, after this time; an earlier time that was given before stays."""
        work, at_ms = event_queue.QueuedEvent(look, subject), self.core.now.ms + ms
        self._later[work] = min(at_ms, self._later.get(work, at_ms))
        self.core.set_timer_sooner(EVENT_TIMER, self._later[work])

    def back_off(self, why: str, waiting: Iterable[str] = ()) -> None:
        """The duty under way was refused something, by an ACL: it is tried again, after pauses that grow.

        waiting: what waits for it, for the status; the duty where nothing is named.
        """
        self._refused = self._refused or why
        for what in waiting:
            self.wait(what, why)
            self._is_told = True

    def again(self, look: EventKind, refused: Iterable[str]) -> None:
        """`enqueue`, after pauses that grow, where an ACL or a limit has refused: no event tells of these."""
        if any(isinstance(why, Denied) for why in refused):
            pause_ms = self._pauses.before_ms(event_queue.QueuedEvent(look), self.core.now.ms)
            self.enqueue_later(look, max(BACKOFF_MS, pause_ms))

    def timer_fired(self) -> None:
        """Work that was put off is due, some of it at least."""
        for work in [work for work, at_ms in self._later.items() if at_ms <= self.core.now.ms]:
            del self._later[work]
            self.queue.add(work, self.core.now.ms)
        if self._later:
            self.core.set_timer(EVENT_TIMER, min(self._later.values()))

    def load_again(self) -> None:
        """Watches are gone, or what is known is in doubt: nothing else is done before all is read again."""
        self.forget_watches()
        self.is_loaded = False
        self.queue.add(
            event_queue.QueuedEvent(EventKind.LOAD), self.core.now.ms
        )  # that is no change of what is there

    def next(self) -> Work | None:
        """The procedure that is due, or None. Nothing but loading before everything is loaded."""
        while (taken := self.queue.take(EventKind.STATUS if self.is_loaded else EventKind.LOAD)) is not None:
            work, waiting = taken
            duty = self._duties.get(work.kind)
            if duty is None:
                continue
            pause_ms = self._pauses.before_ms(work, self.core.now.ms)
            if pause_ms and waiting.is_own and work.kind is not EventKind.STATUS:
                self.core.note("duty.put_off", work=str(work), pause_ms=pause_ms)
                self.enqueue_later(work.kind, pause_ms, work.subject)
                continue
            return str(work), partial(self._on_duty, work, duty)
        return None

    def _on_duty(
        self, work: event_queue.QueuedEvent, duty: Callable[[str], Procedure[None]]
    ) -> Procedure[None]:
        self._pauses.begun(work, self.core.now.ms)
        self.reason, self.elected, begun_ms = work.kind.reason or str(work), 0, self.core.now.ms
        why, self._refused, self._is_told = None, None, False
        try:
            yield from self._stepped(work, duty(work.subject))
        except ConnectionLossError as error:
            if not error.too_big:
                self.load_again()
                self.queue.add(work, self.core.now.ms, is_own=True)
                raise
            why = str(error)
        except (NoAuthError, UnexpectedReplyError) as error:
            why = str(error)
        if self.elected:
            took_ms = self.core.now.ms - begun_ms
            self.core.note("election.done", leaders=self.elected, reason=self.reason, ms=took_ms)
        self._is_on_duty = True
        self._done(work, why)
        self._is_on_duty = False

    def _done(self, work: event_queue.QueuedEvent, refused: str | None) -> None:
        """What follows from a duty that is done, or was refused and will be tried again."""
        if refused is not None:
            self.forget_watches()
        why = self._refused if refused is None else refused
        if why is not None:
            self.core.note("duty.refused", work=work.kind.name, subject=work.subject, detail=why)
            self.enqueue_later(
                work.kind, max(BACKOFF_MS, self._pauses.before_ms(work, self.core.now.ms)), work.subject
            )
        told = None if self._is_told else self._refused
        self.wait(str(work), told if refused is None else f"refused: {refused}")
        self.after_event()
        if work.kind is not EventKind.STATUS:
            self.enqueue(EventKind.STATUS)

    def _stepped(self, work: event_queue.QueuedEvent, procedure: Procedure[None]) -> Procedure[None]:
        """The procedure, with what it asks for known as its own, and what it changes noticed."""
        outcomes: tuple[Outcome, ...] | None = None
        with closing(procedure):
            while True:
                self._is_on_duty = True
                try:
                    queries = next(procedure) if outcomes is None else procedure.send(outcomes)
                except StopIteration:
                    return
                finally:
                    self._is_on_duty = False
                outcomes = yield queries
                if work.kind is not EventKind.STATUS and any(
                    isinstance(each, MultiDone) for each in outcomes
                ):
                    self._pauses.changed()
