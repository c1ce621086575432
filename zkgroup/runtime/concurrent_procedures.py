"""Many procedures of one machine at once, each with a key; a missing reply makes one start again.

A procedure that starts again begins with what it, or its owner, has recorded of the writes that it sent
(`procedures`). Requests of one connection are executed in the order in which the procedures send them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from zkgroup.runtime.procedures import (
    BACKOFF_MS,
    BACKOFF_TIMER,
    UNEXPECTED_REPLY_BACKOFF_MS,
    ConnectionLossError,
    MachineContext,
    NoAuthError,
    Procedure,
    Runner,
    UnexpectedReplyError,
)

E = TypeVar("E")


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
    """The procedures of a machine. Those without a connection wait for one."""

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
