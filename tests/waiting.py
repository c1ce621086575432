"""How tests wait: for the thing itself, with one patience, and a wait that ends by its timeout fails.

`eventually` returns the value that it waited for. A test asserts on that value: a second look at a server
may see something else. Nobody passes a number of seconds; `ZKGROUP_TEST_PATIENCE_S` is the one patience,
which costs nothing where nothing is wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from zkgroup.testing.patience import PATIENCE_S

if TYPE_CHECKING:
    from tests.worlds.prefork import Started
    from zkgroup.testing.clock import FakeClock

T = TypeVar("T")
What = str | Callable[[], str]

_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.05
_SHOWN_CHARACTERS = 4000


def eventually(
    read: Callable[[], T],
    predicate: Callable[[T], object] = bool,
    *,
    what: What = "",
    ignoring: tuple[type[Exception], ...] = (),
) -> T:
    """The first value of `read()` that satisfies the predicate.

    `what`: what is waited for, for the failure, which also has the last value read. `ignoring`: kinds of
    exceptions that `read` may raise meanwhile, such as `StoreUnavailableError` while servers are away.
    """
    look = _Look(read, predicate, what, ignoring)
    with waiting():
        for pause_s in _pauses():
            if look.again():
                return look.found
            time.sleep(pause_s)
        look.last()
        return look.found


async def eventually_on_loop(
    read: Callable[[], T], predicate: Callable[[T], object] = bool, *, what: What = ""
) -> T:
    """As `eventually`, on an event loop, which goes on meanwhile."""
    look = _Look(read, predicate, what, ())
    for pause_s in _pauses():
        if look.again():
            return look.found
        await asyncio.sleep(pause_s)
    look.last()
    return look.found


def eventually_at(
    clock: FakeClock,
    read: Callable[[], T],
    predicate: Callable[[T], object] = bool,
    *,
    what: What = "",
) -> T:
    """As `eventually`, on a clock that moves until then, by an hour of its own at most."""
    found: list[T] = []

    def is_so() -> bool:
        found[:] = [read()]
        return bool(predicate(found[0]))

    with waiting():
        clock.advance_until(is_so, lambda: f"{_text(what)}; last read {found!r}", timeout_s=PATIENCE_S)
    return found[0]


def becomes(
    read: Callable[[], T],
    expected: object,
    *,
    what: What = "",
    ignoring: tuple[type[Exception], ...] = (),
) -> T:
    """`read()` once it equals what is expected; the failure shows both."""

    def told() -> str:
        return f"{_text(what)}{': ' if what else ''}expected {expected!r}"

    return eventually(read, lambda found: found == expected, what=told, ignoring=ignoring)


def next_of(items: queue.Queue[T], *, what: What = "the next of a queue") -> T:
    """The next item of the queue."""
    with waiting():
        try:
            return items.get(timeout=PATIENCE_S)
        except queue.Empty:
            raise _late(what, "nothing came") from None


def next_like(items: queue.Queue[T], wanted: Callable[[T], object], *, what: What = "") -> T:
    """The next item that is wanted; others before it are dropped, and told by the failure.

    None ends a stream: whoever still waits for something else fails at once.
    """
    dropped: list[T] = []
    deadline = time.monotonic() + PATIENCE_S
    with waiting():
        while True:
            try:
                item = items.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise _late(what, f"came: {dropped!r}") from None
            if item is None and not wanted(item):
                raise AssertionError(f"the stream ended without it: {_text(what)}; came: {dropped!r}")
            if wanted(item):
                return item
            dropped.append(item)


class _Waits(Protocol):
    def wait(self, timeout: float, /) -> bool: ...


def happened(event: _Waits, *, what: What = "an event") -> None:
    """Returns once the event is set."""
    with waiting():
        if not event.wait(PATIENCE_S):
            raise _late(what, "it is not set")


def joined(*threads: threading.Thread) -> None:
    """Returns once the threads have ended."""
    with waiting():
        for thread in threads:
            thread.join(PATIENCE_S)
            if thread.is_alive():
                raise _late(f"the end of the thread {thread.name!r}", "it runs")


def outcome(future: Future[T], *, what: What = "an outcome") -> T:
    """The result of the future, or the exception that it ended with."""
    with waiting():
        try:
            return future.result(PATIENCE_S)
        except FutureTimeoutError:
            if future.done():
                raise  # its own
            raise _late(what, "it has none") from None


def ended(process: subprocess.Popen[Any] | Started) -> int:
    """The exit code of the process, once it has ended."""
    with waiting():
        try:
            return process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise _late(f"the end of {process.args!r}", f"process {process.pid} runs") from None


class Waited:
    """Seconds that the main thread has waited in this module's functions, and how many of them idle.

    Not idle is the time for which threads of this process, or processes of its own that ended meanwhile,
    had a CPU: what is waited for was at work.
    """

    def __init__(self) -> None:
        self.seconds = self.idle = 0.0
        self._depth = 0

    def taken(self) -> tuple[float, float]:
        """The seconds since the last call: idle, and all."""
        taken = self.idle, self.seconds
        self.seconds = self.idle = 0.0
        return taken

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Counts the time inside; once where one wait is made of others."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        began, worked = time.monotonic(), _worked_s()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                seconds = time.monotonic() - began
                self.seconds += seconds
                self.idle += max(0.0, seconds - (_worked_s() - worked))


def _worked_s() -> float:
    """CPU of this process, and of those of its own that have ended."""
    return sum(os.times()[:4])


waited = Waited()


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """Around any other wait of a test: its time counts as idle."""
    with waited.counted():
        yield


def _pauses() -> Iterator[float]:
    """The pause after each look until the patience is over; a last look comes after it."""
    deadline = time.monotonic() + PATIENCE_S
    pause_s = _FIRST_PAUSE_S
    while time.monotonic() < deadline:
        yield pause_s
        pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)


class _Look(Generic[T]):
    """One read at a time, and what the last one saw."""

    found: T

    def __init__(
        self,
        read: Callable[[], T],
        predicate: Callable[[T], object],
        what: What,
        ignoring: tuple[type[Exception], ...],
    ) -> None:
        self._read = read
        self._predicate = predicate
        self._what = what
        self._ignoring = ignoring
        self._raised: Exception | None = None

    def again(self) -> bool:
        """Whether this look has found it, in `found`."""
        try:
            self.found = self._read()
        except self._ignoring as error:
            self._raised = error
            return False
        self._raised = None
        return bool(self._predicate(self.found))

    def last(self) -> None:
        """Looks once more; AssertionError where that has not found it either."""
        if not self.again():
            saw = f"raised {self._raised!r}" if self._raised else f"read {self.found!r}"
            raise _late(self._what, f"last {saw}")


def _text(what: What) -> str:
    return what() if callable(what) else what


def _late(what: What, saw: str) -> AssertionError:
    told = " ".join(filter(None, (f"not within {PATIENCE_S:g} s:", _text(what))))
    return AssertionError(f"{told}; {saw[:_SHOWN_CHARACTERS]}")
