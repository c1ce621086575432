"""The bases of machines in a ZooKeeper session, and of those that run one procedure at a time.

Brokers and controllers are such machines (docs/adr/0017). A subclass chooses the next procedure and handles
its timers, connections and the end of a session.
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
"""Milliseconds of pause after a missing reply while the connection exists."""
UNEXPECTED_REPLY_BACKOFF_MS: Final = 1000
STARTS_MAX: Final = 1000
LOST: Final = "the session is lost"

E = TypeVar("E")
Work = tuple[str, Callable[[], Procedure[None]]]
"""A procedure to run: its name for the log, and the function that starts it."""


class ProcedureLoop(ABC, Generic[E]):
    """Starts procedures one after another, and pauses after one that failed.

    The machines of brokers and controllers are such loops; a member's machine has one. `E`: the effects of
    the machine.
    """

    def __init__(self, context: MachineContext[E]) -> None:
        self._context = context
        self._runner = Runner(context)
        self.is_backing_off = False

    @property
    def is_idle(self) -> bool:
        """Whether no procedure runs."""
        return self._runner.is_idle

    @abstractmethod
    def _next(self) -> Work | None:
        """The most urgent work; called only while there is a connection and no procedure runs."""

    def _run(self) -> None:
        """Starts procedures until one waits for a reply or none is left."""
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
        return self.is_idle and self._context.connected and not self.is_backing_off

    def _ended_by(self, error: Exception) -> None:
        """Handles the error that ended the last procedure."""
        match error:
            case ConnectionLossError():
                self._back_off(self._context.jittered(BACKOFF_MS, 0.5))
            case GuardRefusedError():
                self._fenced(error)
            case NoAuthError() | UnexpectedReplyError():
                self._context.note("unexpected_reply", detail=str(error), work=self._runner.name)
                self._back_off(UNEXPECTED_REPLY_BACKOFF_MS)
            case _:
                raise error

    def _fenced(self, error: GuardRefusedError) -> None:
        """Handles a write that was refused by its guard. Raises it if no write of the machine has one."""
        raise error

    def _back_off(self, ms: int) -> None:
        if self._context.connected:
            self.is_backing_off = True
            self._context.set_timer(BACKOFF_TIMER, self._context.now.ms + ms)

    def end_backoff(self) -> None:
        """Ends the pause: its timer (`BACKOFF_TIMER`) has fired, or the connection is new."""
        self.is_backing_off = False


class SessionMachine(ABC, Generic[E]):
    """A machine that takes the shared events."""

    _context: MachineContext[E]

    @abstractmethod
    def _timer_fired(self, name: str) -> None:
        """Handles a timer of the subclass that is due."""

    @abstractmethod
    def _connected(self) -> None:
        """Handles a new connection, of the same session or of a new one: watches are gone."""

    @abstractmethod
    def _session_over(self, reason: str) -> None:
        """Handles the end of the session, which the context still has during this call."""

    @abstractmethod
    def _stop_procedures(self) -> None:
        """Ends the procedures that run: their session has ended."""

    @abstractmethod
    def end_backoff(self) -> None:
        """Ends the pause: its timer (`BACKOFF_TIMER`) has fired, or the connection is new."""

    def _take_shared(self, event: SharedEvent) -> None:
        context = self._context
        match event:
            case Answered(request_id, outcome):
                context.answered(request_id, outcome)
            case WatchFired(request_id, _):
                context.watch_fired(request_id)
            case TimerFired(name):
                if context.timer_fired(name):
                    self._wake(name)
            case SessionConnected(session):
                self._take_connection(session)
            case SessionSuspended(incarnation):
                if context.is_present(incarnation):
                    context.connected = False  # unknown outcomes are read back on the next connection
            case SessionLost(incarnation, reason):
                if context.is_present(incarnation):
                    self._end_session(reason or LOST)
            case _:
                assert_never(event)

    def _wake(self, name: str) -> None:
        if name == BACKOFF_TIMER:
            self.end_backoff()
        else:
            self._timer_fired(name)

    def _take_connection(self, session: Session) -> None:
        before = self._context.session
        if before is not None and session.incarnation < before.incarnation:
            return
        if before is not None and session.incarnation > before.incarnation:
            self._end_session(LOST)
        self._context.connected_to(session)
        self.end_backoff()
        self._connected()

    def _end_session(self, reason: str) -> None:
        """Ends the old session, before anything is done in a new one."""
        self._stop_procedures()
        self._session_over(reason)
        self._context.forget_session()


class ProcedureMachine(ProcedureLoop[E], SessionMachine[E]):
    """A machine whose step takes one event, and then runs procedures."""

    def _stop_procedures(self) -> None:
        self._runner.stop()
        self._runner.error = None
