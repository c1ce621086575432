"""A machine of procedures: the session it has, and one procedure at a time.

Brokers and controllers are both of this kind (docs/adr/0017). What such a machine is for, its subclass says:
what is next, what a timer means, and what a connection and the end of a session change in its books.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Generic, TypeVar, assert_never

from zkgroup.machinery.books import Books
from zkgroup.machinery.events import (
    Answered,
    SessionConnected,
    SessionLost,
    SessionSuspended,
    SharedEvent,
    TimerFired,
    WatchFired,
)
from zkgroup.machinery.procedures import (
    DeniedError,
    FencedError,
    NoAnswerError,
    OddAnswerError,
    Procedure,
    Runner,
)
from zkgroup.model.requests import Session

REST_TIMER: Final = "rest"
REST_MS: Final = 150
"""Pause after a missing answer while the connection stands."""
ODD_REST_MS: Final = 1000
STARTS_MAX: Final = 1000
LOST: Final = "the session is lost"

E = TypeVar("E")
Work = tuple[str, Callable[[], Procedure[None]]]
"""What to do next: its name for people, and how it is begun."""


class ProcedureMachine(ABC, Generic[E]):
    """`E`: the effects of this machine. Its step takes the event, and then runs what is next."""

    def __init__(self, books: Books[E]) -> None:
        self._books = books
        self._runner = Runner(books)
        self._is_resting = False

    @property
    def is_idle(self) -> bool:
        """Whether no procedure is under way."""
        return self._runner.is_idle

    # --- what a subclass says ---------------------------------------------------------------------

    @abstractmethod
    def _next(self) -> Work | None:
        """The most urgent work; asked only while there is a connection and nothing is under way."""

    @abstractmethod
    def _timer_fired(self, name: str) -> None:
        """A timer of its own is due."""

    @abstractmethod
    def _connected(self) -> None:
        """A connection has been made, in the same session or in a new one: watches are gone."""

    @abstractmethod
    def _session_over(self, reason: str) -> None:
        """Nothing of the session is continued; it is forgotten as soon as this is done."""

    def _fenced(self, error: FencedError) -> None:
        """A write was refused at its fence. Raises it where no write of the machine has one."""
        raise error

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
        if name == REST_TIMER:
            self._is_resting = False
        else:
            self._timer_fired(name)

    def _take_connection(self, session: Session) -> None:
        before = self._books.session
        if before is not None and session.incarnation < before.incarnation:
            return
        if before is not None and session.incarnation > before.incarnation:
            self._end_session(LOST)
        self._books.connected_to(session)
        self._is_resting = False
        self._connected()

    def _end_session(self, reason: str) -> None:
        """Nothing of the old session is continued, and nothing of a new one begun, before this is done."""
        self._runner.stop()
        self._runner.error = None
        self._session_over(reason)
        self._books.forget_session()

    # --- work -------------------------------------------------------------------------------------

    def _run(self) -> None:
        """Starts what is next until something waits for an answer or nothing is left."""
        for _ in range(STARTS_MAX):
            self._look_at_error()
            if not self._runner.is_idle or not self._books.connected or self._is_resting:
                return
            work = self._next()
            if work is None:
                return
            name, procedure = work
            self._runner.start(name, procedure())
        raise AssertionError(f"{self._runner.name} is started again and again without asking anything")

    def _look_at_error(self) -> None:
        """How the last procedure ended, where it did not come to its end."""
        error, self._runner.error = self._runner.error, None
        match error:
            case None:
                pass
            case NoAnswerError():
                self._rest(self._books.jittered(REST_MS, 0.5))
            case FencedError():
                self._fenced(error)
            case DeniedError() | OddAnswerError():
                self._books.note("odd_answer", detail=str(error), work=self._runner.name)
                self._rest(ODD_REST_MS)
            case _:
                raise error

    def _rest(self, ms: int) -> None:
        if self._books.connected:
            self._is_resting = True
            self._books.set_timer(REST_TIMER, self._books.now.ms + ms)
