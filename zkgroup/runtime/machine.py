"""The bases of machines in a ZooKeeper session.

Brokers and controllers are such machines (docs/adr/0017). A subclass chooses the next procedure and handles
its timers, connections and the end of a session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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
    BACKOFF_TIMER,
    MachineContext,
    ProcedureLoop,
)

LOST: Final = "the session is lost"

E = TypeVar("E")


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
