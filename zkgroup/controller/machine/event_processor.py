"""The reads, watches and events of the active controller: one handler runs at a time.

What a rule has to do and when: duties in their order, one at a time; refused ones again after a pause.

An event says where to look (`ZnodeReader.enqueue`), or a time does (`enqueue_later`). A duty that ends
without an answer has everything loaded again. One that an ACL or a limit refuses, or that asks for itself
again and again and changes nothing, is put off with growing pauses, and the status says why: nothing behind
it waits for it.

What a rule reads, and what it cannot use: watches that say where to look, bulk reads, reports by path.

A znode that nobody can read stops nothing: its path is in `ControllerContext.unreadable`, and so in the
status, until it can be read or is gone (controller.md 1.4).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Final, TypeVar

from zkgroup.controller.machine import event_queue
from zkgroup.controller.machine.context import ControllerContext
from zkgroup.controller.machine.event_queue import BACKOFF_MS, Backoffs, EventKind, EventQueue, QueuedEvent
from zkgroup.controller.machine.fenced_writes import Denied
from zkgroup.controller.machine.settings import ElectorContext
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import Znode
from zkgroup.model.requests import Code, Exists, ListChildren, MultiDone, Outcome, Read
from zkgroup.runtime.events import Watch
from zkgroup.runtime.machine import Work
from zkgroup.runtime.procedures import (
    ConnectionLossError,
    NoAuthError,
    Procedure,
    Query,
    UnexpectedReplyError,
    read_allowed,
)
from zkgroup.znodes.brokers import topics_path

T = TypeVar("T")


class ZnodeReader:
    """The books of what one rule has read."""

    def __init__(self, core: ElectorContext) -> None:
        self.core = core
        self.context = ControllerContext()
        self.queue = EventQueue()
        self.zxid = 0
        """The greatest one seen of a change that was processed."""
        self._armed: dict[str, Watch] = {}

    def enqueue(self, look: EventKind, subject: str = "") -> None:
        """Something may have changed there; it is read when its turn comes."""
        self.queue.add(QueuedEvent(look, subject), self.core.now.ms)

    def forget_watches(self) -> None:
        """They are gone, or it is not known whether they were armed: the next reading arms them again."""
        self._armed.clear()

    def forget_watch(self, path: str) -> None:
        """It was not armed."""
        self._armed.pop(path, None)

    def forget_topics(self, names: Collection[str]) -> None:
        """These are gone: what watches of them have to tell is known."""
        prefix = f"{topics_path()}/"
        for path in [path for path in self._armed if path.startswith(prefix)]:
            if path.removeprefix(prefix).partition("/")[0] in names:
                self._armed.pop(path).fired = True
        for name in names:
            self.queue.discard(QueuedEvent(EventKind.TOPIC, name))

    def watched(self, request: Read | ListChildren | Exists, look: EventKind, subject: str = "") -> Query:
        """The request, made without a watch, as a query that arms one unless one is armed: it says `enqueue`.

        A request that fails leaves it unknown whether the watch is armed; `EventKind.LOAD` follows then.
        """
        path = request.path
        armed = self._armed.get(path)
        if armed is not None and not armed.fired:
            return Query(request)
        watch = self._armed[path] = Watch(lambda: self.enqueue(look, subject))
        return Query(type(request)(path, watch=True), watch)

    def read_many(self, paths: Iterable[str]) -> Procedure[dict[str, Znode]]:
        """Bulk read without watches: path to znode, of those that exist and may be read.

        A znode that an ACL hides is reported; so what is not in the result is missing, or `unreadable`.
        """
        asked = tuple(dict.fromkeys(paths))
        found = yield from self.read_each(asked)
        return {path: znode for path, znode in zip(asked, found, strict=True) if znode is not None}

    def read_each(self, paths: Sequence[str]) -> Procedure[Sequence[Znode | None]]:
        """The same, in the order of the paths; None for what does not exist or may not be read."""
        if not paths:
            return ()
        answered = yield from read_allowed(paths)
        return self.allowed(paths, answered)

    def allowed(
        self, paths: Sequence[str], answered: Sequence[Znode | Code | None]
    ) -> Sequence[Znode | None]:
        """What a bulk read has found, None for what does not exist or may not be read, which is reported."""
        found: list[Znode | None] = []
        for path, znode in zip(paths, answered, strict=True):
            if isinstance(znode, Znode):
                found.append(znode)
                continue
            found.append(None)
            if znode is None:
                self.context.unreadable.pop(path, None)
            else:
                self.report(path, f"cannot be read: {znode.value}")
        self.saw(max((znode.stat.mzxid for znode in found if znode is not None), default=0))
        return found

    def decoded(self, znode: Znode | None, decode: Callable[[str, bytes | None], T]) -> T | None:
        """What a znode holds; None, and its path reported, where it cannot be understood."""
        if znode is None:
            return None
        self.saw(znode.stat.mzxid)
        try:
            value = decode(znode.path, znode.data)
        except CorruptZnodeError as error:
            self.report(znode.path, str(error))
            return None
        self.context.unreadable.pop(znode.path, None)
        return value

    def report(self, path: str, why: str) -> None:
        """This znode cannot be used; the status names it until it can."""
        if self.context.unreadable.get(path) != why:
            self.context.unreadable[path] = why
            self.core.note("znode.unreadable", path=path, detail=why)

    def only(self, parent: str, names: Collection[str]) -> None:
        """The children that a parent has now: no other one is unreadable any more, nor what is below it."""
        listed = {f"{parent}/{name}" for name in names}
        length = len(parent.split("/")) + 1
        for path in list(self.context.unreadable):
            child = "/".join(path.split("/")[:length])
            if path.startswith(f"{parent}/") and child not in listed:
                del self.context.unreadable[path]

    def saw(self, zxid: int | None) -> None:
        """A change with this zxid was processed."""
        self.zxid = max(self.zxid, zxid or 0)


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
