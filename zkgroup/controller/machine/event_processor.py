"""Runs the handlers of the active controller's events, one at a time.

A handler that ends without a reply from ZooKeeper has everything loaded again. One that an ACL or a limit
refuses, or that enqueues itself again and again and changes nothing, runs again with growing backoffs, and
the status says why: no other event waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial
from typing import NamedTuple

from zkgroup.controller.machine import event_kinds
from zkgroup.controller.machine.context import ControllerContext
from zkgroup.controller.machine.event_manager import EventManager
from zkgroup.controller.machine.event_queue import EventKind, QueuedEvent
from zkgroup.controller.machine.settings import ElectorContext
from zkgroup.controller.machine.state_writes import StateWriter
from zkgroup.controller.machine.znode_reader import ZnodeReader
from zkgroup.model.requests import MultiDone, Outcome
from zkgroup.runtime.procedures import ConnectionLossError, NoAuthError, Procedure, UnexpectedReplyError, Work

Handler = Callable[[str], Procedure[None]]
"""Handles an event; the text is its subject, the topic for `event_kinds.TOPIC`."""


class EventHandler(NamedTuple):
    """The handler of one kind, and the reason that the log gives for the leaders that it changes."""

    kind: EventKind
    handle: Handler
    reason: str


class EventProcessor:
    """Takes the next event and runs its handler as a procedure."""

    def __init__(
        self,
        core: ElectorContext,
        context: ControllerContext,
        events: EventManager,
        reader: ZnodeReader,
        states: StateWriter,
        handlers: Iterable[EventHandler],
        *,
        after_event: Callable[[], None],
    ) -> None:
        """after_event: follows every handler; sends to the brokers what it has written and not sent."""
        self._core = core
        self._context = context
        self._events = events
        self._reader = reader
        self._states = states
        self._handlers = {each.kind: each for each in handlers}
        self._after_event = after_event

    def load_again(self) -> None:
        """Watches are gone, or the context may be out of date: everything is read again before all else."""
        self._reader.forget_watches()
        self._context.is_loaded = False
        self._events.enqueue_load()

    def next(self) -> Work | None:
        """The procedure that is due, or None. Nothing but loading before everything is loaded."""
        event = self._events.take(load_only=not self._context.is_loaded)
        return None if event is None else (str(event), partial(self._handle, event))

    def _handle(self, event: QueuedEvent) -> Procedure[None]:
        handler, begun_ms = self._handlers[event.kind], self._core.now.ms
        self._events.begin(event)
        self._states.begin(handler.reason or str(event))
        why = None
        try:
            yield from self._run(event, handler.handle(event.subject))
        except ConnectionLossError as error:
            if not error.too_big:
                self.load_again()
                self._events.repeat(event)
                raise
            why = str(error)
        except (NoAuthError, UnexpectedReplyError) as error:
            why = str(error)
        if leaders := self._states.leaders_changed:
            took_ms = self._core.now.ms - begun_ms
            self._core.note("election.done", leaders=leaders, reason=self._states.reason, ms=took_ms)
        if why is not None:
            self._reader.forget_watches()
        with self._events.in_handler():
            self._events.end(event, why)
            self._after_event()
            if event.kind != event_kinds.STATUS:
                self._events.enqueue(event_kinds.STATUS)

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
                if event.kind != event_kinds.STATUS and any(isinstance(each, MultiDone) for each in outcomes):
                    self._events.written()
