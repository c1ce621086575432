"""Ports: the Protocols of clocks, ZooKeeper clients, history and metrics sinks; and waiting on a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple, Protocol, TypeGuard, TypeVar, runtime_checkable

from zkgroup.model.requests import Outcome, Request, SessionEvent


class Instant(NamedTuple):
    """One reading of a Clock."""

    ms: int
    wall_ms: int


class Clock(Protocol):
    """Milliseconds on a clock that counts suspended time (CLOCK_BOOTTIME), and wall time for display."""

    def now_ms(self) -> int:
        """Milliseconds since an arbitrary start, suspended time included; never goes back."""
        ...

    def wall_ms(self) -> int:
        """Epoch milliseconds. Written into znodes and printed; never compared."""
        ...

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` once, on any thread, when the clock comes to `at_ms`; the result cancels it.

        It is called at once if that time has passed. A thread that waits for a time uses `Sleeper`, which
        costs less.
        """
        ...


class Party(Protocol):
    """Something that works at times and waits on a `DrivenClock` between them, such as `Sleeper`."""

    @property
    def name(self) -> str:
        """For messages."""
        ...

    @property
    def worker(self) -> object:
        """The number of the thread, or the asyncio task, that does its work; None while it is not known."""
        ...

    @property
    def turns(self) -> int:
        """The number of times that it has begun to work."""
        ...

    def is_quiet(self) -> bool:
        """Returns whether it waits and nothing that it waits for has arrived. Takes no lock for long."""
        ...


@runtime_checkable
class DrivenClock(Clock, Protocol):
    """A clock that stands still until it is moved, and is moved only while every party waits.

    `zkgroup.testing.FakeClock` is one. A wait on it takes no real time by itself.
    """

    def join(self, party: Party) -> Callable[[], None]:
        """Registers a party: the clock is not moved while it works. The result removes it."""
        ...

    def notice(self) -> None:
        """A party has begun to wait."""
        ...

    def wait_for(self, is_over: Callable[[], object], until_ms: int | None = None) -> None:
        """Blocks a call of the application until `is_over()` or this time; it may move the clock."""
        ...

    async def await_for(self, is_over: Callable[[], object], until_ms: int | None = None) -> None:
        """`wait_for` on an event loop, which goes on meanwhile."""
        ...


def is_driven(clock: Clock | None) -> TypeGuard[DrivenClock]:
    """Returns whether the clock is a `DrivenClock`.

    Every wait asks this, and `isinstance` of a protocol goes through all its methods each time.
    """
    kind: type = type(clock)
    return _is_driven(kind)


@cache
def _is_driven(kind: type) -> bool:
    return issubclass(kind, DrivenClock)


class Store(Protocol):
    """A ZooKeeper client as the rest of zkgroup sees it.

    Implemented by `zkgroup.zookeeper.ZooKeeperClient` and `zkgroup.testing.MemoryZooKeeper.client()`;
    both pass `zkgroup.testing.conformance`.

    Contract
    * `submit` never blocks, and never raises for a fault of the server or the network; `on_outcome` is called
      exactly once, from any thread, within a bounded time. It must only enqueue.
    * Requests of one incarnation are executed, and answered, in the order submitted.
    * Writes are never re-sent by the client. A write whose answer is missing ends as `Unanswered`.
    * Nothing is sent while suspended or for an incarnation that is not the connected one: `NotSent`.
    * `on_watch` is called at most once for a request with `watch=True`. A watch does not survive a
      disconnect: after `Connected` all of them are gone.
    * Listeners get `Connected`, `Suspended`, `Lost` in order, from any thread; they must only enqueue. A
      listener that registers later gets the present state at once.
    * Before a new session is opened, every listener has got `Lost` of the old one.
    """

    def submit(
        self,
        request: Request,
        *,
        incarnation: int,
        on_outcome: Callable[[Outcome], None],
        on_watch: Callable[[str], None] | None = None,
    ) -> None:
        """Sends a request of this incarnation; see the contract of the class."""
        ...

    @property
    def last_zxid(self) -> int:
        """The highest zxid of any reply so far."""
        ...

    def listen(self, listener: Callable[[SessionEvent], None]) -> Callable[[], None]:
        """Registers a listener; the result removes it."""
        ...

    def abandon(self, incarnation: int, reason: str) -> None:
        """Gives this session up by the client's own expiry clock: sends `Lost`, closes, connects anew."""
        ...

    def close(self, timeout_s: float = 5.0) -> None:
        """Ends the session (its ephemerals go at once). Always returns; idempotent."""
        ...


class HistorySink(Protocol):
    """Records what a member did, for `zkgroup.history`.

    Called on the member's own thread, which waits for it, and for deliveries on the application's. An error
    that it raises is logged once, and nothing more is recorded.
    """

    def record(self, kind: str, fields: Mapping[str, object]) -> None: ...


@runtime_checkable
class NamedHistorySink(HistorySink, Protocol):
    """A `HistorySink` whose records carry the name of their member."""

    def belongs_to(self, member: str, clock: Clock) -> None:
        """Names the member that starts to record here by its whole id, and its clock.

        Raises `ConfigError` if the records are another member's.
        """
        ...


class MetricsSink(Protocol):
    """Receives counters, gauges and observations. Names and labels: `zkgroup.metrics`.

    A member calls it on its own thread, which waits for it; a broker on its own threads, two at a time. An
    error that it raises is logged once.
    """

    def count(self, name: str, labels: Mapping[str, str], amount: float = 1.0) -> None: ...

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None: ...

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None: ...


WAIT_MAX_S = 3600.0
"""Longest single wait of a thread: a bound, not a poll."""

T = TypeVar("T")


def seconds_until(clock: Clock, at_ms: int | None) -> float:
    """Seconds that a real wait may last on a clock that runs by itself: from 0 to `WAIT_MAX_S`."""
    if at_ms is None:
        return WAIT_MAX_S
    return max(0.0, min(WAIT_MAX_S, (at_ms - clock.now_ms()) / 1000))


def after(clock: Clock, seconds: float) -> int:
    """The time of the clock this many seconds from now, in milliseconds."""
    return clock.now_ms() + int(seconds * 1000)


SIGNAL_CHECK_S = 0.5
"""Seconds. A call of the application that blocks waits this long at a time.

CPython runs a signal handler between two bytecodes of the main thread. A signal that comes just before the
thread blocks, or that the system gives to another thread, does not end the blocking: its handler, which may
call `stop()`, would run at the end of the whole wait.
"""


def wait_for(
    clock: Clock, is_over: Callable[[], object], until_ms: int | None, wait: Callable[[float], object]
) -> bool:
    """Blocks until `is_over()` is true or the clock has come to `until_ms`; whether it was true.

    `wait(timeout_s)` waits in real time, and may return early. Other threads call `is_over` as well, so it
    takes no lock for long.
    """
    if is_driven(clock):
        clock.wait_for(is_over, until_ms)
        return bool(is_over())
    while not (over := bool(is_over())) and (left_s := seconds_until(clock, until_ms)) > 0:
        wait(min(left_s, SIGNAL_CHECK_S))
    return over


class Sleeper:
    """The waits of one thread, which works in between. A `Party` of a `DrivenClock`."""

    def __init__(self, clock: Clock, name: str, has_news: Callable[[], object]) -> None:
        """`has_news`: whether what the thread waits for has arrived. It stays true until the thread wakes."""
        self.name = name
        self.worker: object = None
        self.turns = 0
        self.clock = clock
        self._driven = clock if is_driven(clock) else None
        self._usual_news = self._has_news = has_news
        self._asleep = False
        self._until_ms: int | None = None
        self._leave: Callable[[], None] | None = None

    def join(self) -> None:
        """Registers the thread at its clock; may be called before the thread starts."""
        if self._driven is not None and self._leave is None:
            self._leave = self._driven.join(self)

    def leave(self) -> None:
        """Removes the thread from its clock: it ends."""
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()

    def after(self, seconds: float) -> int:
        """The time of its clock in so many seconds."""
        return after(self.clock, seconds)

    def is_quiet(self) -> bool:
        if not self._asleep or self._has_news():
            return False
        return self._until_ms is None or self.clock.now_ms() < self._until_ms

    def sleep(
        self,
        until_ms: int | None,
        wait: Callable[[float], T],
        wake: Callable[[], None],
        has_news: Callable[[], object] | None = None,
    ) -> T:
        """The result of `wait(timeout_s)`, which ends when `has_news` is true or at `until_ms`.

        `wake` ends `wait`, from any thread; `wait` may also end without a reason. `has_news` replaces the
        thread's own for this wait.
        """
        if self._driven is None:
            return wait(seconds_until(self.clock, until_ms))
        if until_ms is None:
            with self.blocking(has_news=has_news):
                return wait(WAIT_MAX_S)
        cancel = self._driven.call_at(until_ms, wake)
        try:
            with self.blocking(until_ms, has_news):
                return wait(WAIT_MAX_S)
        finally:
            cancel()

    @contextmanager
    def blocking(
        self, until_ms: int | None = None, has_news: Callable[[], object] | None = None
    ) -> Iterator[None]:
        """A context in which the thread waits by its own means, until it is woken or this time has come."""
        self._until_ms = until_ms
        self._has_news = has_news or self._usual_news
        self._asleep = True
        if self._driven is not None:
            self._driven.notice()
        try:
            yield
        finally:
            self.turns += 1
            self._asleep = False
