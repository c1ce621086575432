"""The time of threads that a request takes; only requests of clients with a quota for it are measured."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextvars import ContextVar
from typing import Any, Final, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class RequestTime:
    """The CPU time of the requests of one connection, in seconds, on whatever threads."""

    __slots__ = ("_cpu_s", "thread_s")

    def __init__(self, thread_s: Callable[[], float]) -> None:
        """`thread_s` returns the CPU time of the thread that calls it, in seconds."""
        self._cpu_s, self.thread_s = 0.0, thread_s

    def add(self, cpu_s: float) -> None:
        """Counts some time."""
        self._cpu_s += cpu_s

    def take(self) -> float:
        """The time since the last call."""
        taken, self._cpu_s = self._cpu_s, 0.0
        return taken

    def measured(self, work: Callable[P, T]) -> Callable[P, T]:
        """The same work, which adds its time."""

        def timed(*args: P.args, **kwargs: P.kwargs) -> T:
            begun_s = self.thread_s()
            try:
                return work(*args, **kwargs)
            finally:
                self._cpu_s += self.thread_s() - begun_s

        return timed


_PRESENT: Final[ContextVar[RequestTime | None]] = ContextVar("request_time", default=None)


def measured(work: Callable[P, T]) -> Callable[P, T]:
    """Work for another thread: it adds its time to that of the request which is handled now, if any."""
    present = _PRESENT.get()
    return work if present is None else present.measured(work)


class Timed(Generic[T]):
    """An awaitable whose steps add their time, and what they give to `measured`."""

    def __init__(self, time: RequestTime, begin: Callable[[], Awaitable[T]]) -> None:
        """`begin` returns the awaitable; its call counts too."""
        self._time, self._begin = time, begin

    def __await__(self) -> Generator[Any, Any, T]:
        time, steps = self._time, None
        value: Any = None
        error: BaseException | None = None
        while True:
            token, begun_s = _PRESENT.set(time), time.thread_s()
            try:
                if steps is None:
                    steps = self._begin().__await__()
                waits_for = steps.send(value) if error is None else steps.throw(error)
            except StopIteration as done:
                result: T = done.value
                return result
            finally:
                time.add(time.thread_s() - begun_s)
                _PRESENT.reset(token)
            value = error = None
            try:
                value = yield waits_for
            except BaseException as raised:  # noqa: BLE001  # the steps take it
                error = raised
