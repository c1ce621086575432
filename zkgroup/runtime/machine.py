"""A machine of procedures: the session it has, and one procedure at a time.

Brokers and controllers are both of this kind (docs/adr/0017). What such a machine is for, its subclass says:
what is next, what a timer means, and what a connection and the end of a session change in its books.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Generic, TypeVar, assert_never

from zkgroup.model.requests import Session
from zkgroup.runtime.events import (
    Answered,
    SessionConnected,
    SessionLost,
    SessionSuspended,
    SharedEvent,
    TimerFired,
    WatchFired,
)
from zkgroup.runtime.procedures import (
    ConnectionLossError,
    GuardRefusedError,
    MachineContext,
    NoAuthError,
    Procedure,
    Runner,
    UnexpectedReplyError,
)

BACKOFF_TIMER: Final = "rest"
BACKOFF_MS: Final = 150
"""Pause after a missing answer while the connection stands."""
UNEXPECTED_REPLY_BACKOFF_MS: Final = 1000
STARTS_MAX: Final = 1000
LOST: Final = "the session is lost"

E = TypeVar("E")
Work = tuple[str, Callable[[], Procedure[None]]]
"""What to do next: its name for people, and how it is begun."""


class ProcedureLoop(ABC, Generic[E]):
    """Starts procedures one after another, and pauses after one that was not carried out.

    The only loop of its kind: machines of brokers and controllers are one, a member's machine has one.
    `E`: the effects of the machine.
    """

    def __init__(self, books: MachineContext[E]) -> None:
        self._books = books
        self._runner = Runner(books)
        self.is_backing_off = False

    @property
    def is_idle(self) -> bool:
        """Whether no procedure is under way."""
        return self._runner.is_idle

    @abstractmethod
    def _next(self) -> Work | None:
        """The most urgent work; asked only while there is a connection and nothing is under way."""

    def _run(self) -> None:
        """Starts what is next until something waits for an answer or nothing is left."""
        for _ in range(STARTS_MAX):
            error, self._runner.error = self._runner.error, None
            if error is not None:
                self._ended_by(error)
            if not self._may_start():
                return
            work = self._next()
            if work is None:
                return
            name, procedure = work
            self._runner.start(name, procedure())
        raise AssertionError(f"{self._runner.name} is started again and again without asking anything")

    def _may_start(self) -> bool:
        return self.is_idle and self._books.connected and not self.is_backing_off

    def _ended_by(self, error: Exception) -> None:
        """The last procedure did not come to its end."""
        match error:
            case ConnectionLossError():
                self._back_off(self._books.jittered(BACKOFF_MS, 0.5))
            case GuardRefusedError():
                self._fenced(error)
            case NoAuthError() | UnexpectedReplyError():
                self._books.note("odd_answer", detail=str(error), work=self._runner.name)
                self._back_off(UNEXPECTED_REPLY_BACKOFF_MS)
            case _:
                raise error

    def _fenced(self, error: GuardRefusedError) -> None:
        """A write was refused at its fence. Raises it where no write of the machine has one."""
        raise error

    def _back_off(self, ms: int) -> None:
        if self._books.connected:
            self.is_backing_off = True
            self._books.set_timer(BACKOFF_TIMER, self._books.now.ms + ms)

    def end_backoff(self) -> None:
        """The pause is over (`BACKOFF_TIMER`), or the connection is new."""
        self.is_backing_off = False


class ProcedureMachine(ProcedureLoop[E]):
    """Its step takes the event, and then runs what is next."""

    # --- what a subclass says ---------------------------------------------------------------------

    @abstractmethod
    def _timer_fired(self, name: str) -> None:
        """A timer of its own is due."""

    @abstractmethod
    def _connected(self) -> None:
        """A connection has been made, in the same session or in a new one: watches are gone."""

    @abstractmethod
    def _session_over(self, reason: str) -> None:
        """Nothing of the session is continued; it is forgotten as soon as this is done."""

    # --- events -----------------------------------------------------------------------------------

    def _take_shared(self, event: SharedEvent) -> None:
        books = self._books
        match event:
            case Answered(request_id, outcome):
                books.answered(request_id, outcome)
            case WatchFired(request_id, _):
                books.watch_fired(request_id)
            case TimerFired(name):
                if books.timer_fired(name):
                    self._wake(name)
            case SessionConnected(session):
                self._take_connection(session)
            case SessionSuspended(incarnation):
                if books.is_present(incarnation):
                    books.connected = False  # what was in doubt is read back on the next connection
            case SessionLost(incarnation, reason):
                if books.is_present(incarnation):
                    self._end_session(reason or LOST)
            case _:
                assert_never(event)

    def _wake(self, name: str) -> None:
        if name == BACKOFF_TIMER:
            self.end_backoff()
        else:
            self._timer_fired(name)

    def _take_connection(self, session: Session) -> None:
        before = self._books.session
        if before is not None and session.incarnation < before.incarnation:
            return
        if before is not None and session.incarnation > before.incarnation:
            self._end_session(LOST)
        self._books.connected_to(session)
        self.end_backoff()
        self._connected()

    def _end_session(self, reason: str) -> None:
        """Nothing of the old session is continued, and nothing of a new one begun, before this is done."""
        self._runner.stop()
        self._runner.error = None
        self._session_over(reason)
        self._books.forget_session()
