"""The bases of machines in a ZooKeeper session, and many procedures of one machine at once.

Brokers, their stores of groups and controllers are such machines (docs/adr/0017). A subclass chooses the next
procedure and handles its timers, connections and the end of a session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
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
    BACKOFF_MS,
    BACKOFF_TIMER,
    UNEXPECTED_REPLY_BACKOFF_MS,
    ConnectionLossError,
    MachineContext,
    NoAuthError,
    Procedure,
    ProcedureLoop,
    Runner,
    UnexpectedReplyError,
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


@dataclass(frozen=True, slots=True)
class Job:
    """A procedure to run, as often as it takes."""

    name: str
    """For the log."""
    start: Callable[[], Procedure[None]]
    ended: Callable[[Exception | None], None]
    """Called once, at the end: with None, with the error that ended it, or with the loss of the connection
    where the request was too large.
    """
    is_repeated: bool = False
    """True if an unexpected refusal makes it start again as well, after a longer pause."""


class ConcurrentProcedures(Generic[E]):
    """The procedures of a machine, each with a key; a missing reply makes one start again.

    Those without a connection wait for one. A procedure that starts again begins with what it, or its owner,
    has recorded of the writes that it sent (`procedures`). Requests of one connection are executed in the
    order in which the procedures send them.
    """

    def __init__(self, context: MachineContext[E]) -> None:
        self._context = context
        self._jobs: dict[Hashable, Job] = {}
        self._runners: dict[Hashable, Runner[E]] = {}
        self._waiting: dict[Hashable, None] = {}
        """Keys of jobs without a runner, in the order in which they are to start."""

    def __contains__(self, key: Hashable) -> bool:
        """Returns whether there is a job with this key, running or waiting."""
        return key in self._jobs

    def is_running(self, key: Hashable) -> bool:
        """Returns whether the job with this key has requests without a reply."""
        return key in self._runners

    def add(self, key: Hashable, job: Job) -> None:
        """Starts a job, now if there is a connection."""
        assert key not in self._jobs, f"{job.name}: there is one already"
        self._jobs[key] = job
        if self._context.connected:
            self._start(key, job)
        else:
            self._waiting[key] = None

    def cancel(self, key: Hashable) -> None:
        """Ends a job, if there is one, without a call of `ended`."""
        self._jobs.pop(key, None)
        self._waiting.pop(key, None)
        runner = self._runners.pop(key, None)
        if runner is not None:
            runner.stop()
            runner.on_end = _do_nothing

    def stop(self) -> None:
        """Ends all jobs, without a call of `ended`: the session is over."""
        for key in list(self._jobs):
            self.cancel(key)

    def resume(self) -> None:
        """Starts the jobs that wait: the connection is new, or the pause is over."""
        if self._context.connected:
            waiting, self._waiting = self._waiting, {}
            for key in waiting:
                if key in self._jobs and key not in self._runners:
                    self._start(key, self._jobs[key])

    def _start(self, key: Hashable, job: Job) -> None:
        runner = self._runners[key] = Runner(self._context)
        runner.on_end = partial(self._runner_ended, key, job, runner)
        runner.start(job.name, job.start())

    def _runner_ended(self, key: Hashable, job: Job, runner: Runner[E]) -> None:
        if self._runners.get(key) is not runner:
            return
        del self._runners[key]
        runner.on_end = _do_nothing  # it names the runner: both would keep each other, and the job
        error = runner.error
        if isinstance(error, (NoAuthError, UnexpectedReplyError)):
            self._context.note("unexpected_reply", detail=str(error), work=job.name)
        pause_ms = self._pause_ms(job, error)
        if pause_ms is None:
            del self._jobs[key]
            job.ended(error)
            return
        self._waiting[key] = None
        if self._context.connected:
            self._context.set_timer_sooner(BACKOFF_TIMER, self._context.now.ms + pause_ms)

    def _pause_ms(self, job: Job, error: Exception | None) -> int | None:
        """Returns how long the job pauses before it starts again; None if it has ended."""
        match error:
            case ConnectionLossError(too_big=False):
                return self._context.jittered(BACKOFF_MS, 0.5)
            case NoAuthError() | UnexpectedReplyError() if job.is_repeated:
                return UNEXPECTED_REPLY_BACKOFF_MS
            case _:
                return None


def _do_nothing() -> None: ...
