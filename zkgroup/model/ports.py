"""Ports: Protocols for what machines and runtimes need from outside; and waiting on a clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from zkgroup.model.requests import Outcome, Request, SessionEvent


class Instant(NamedTuple):
    """One reading of a Clock."""

    ms: int
    wall_ms: int


class Clock(Protocol):
    """Milliseconds on a clock that counts suspended time (CLOCK_BOOTTIME), and wall time for display."""

    def now_ms(self) -> int: ...

    def wall_ms(self) -> int:
        """Epoch milliseconds. Written into znodes and shown to people; never compared."""
        ...

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` once, on any thread, when the clock comes to `at_ms`; the result cancels it.

        At once where that time has come. For what waits until then, `zkgroup.model.ports` costs less.
        """
        ...


class Party(Protocol):
    """Something that works now and then and waits on a `DrivenClock`, such as `model.waiting.Sleeper`."""

    @property
    def name(self) -> str:
        """For messages."""
        ...

    @property
    def worker(self) -> object:
        """What does its work: the number of a thread, or an asyncio task; None while that is not known."""
        ...

    @property
    def turns(self) -> int:
        """How often it has worked; grows with each time."""
        ...

    def is_quiet(self) -> bool:
        """Whether it waits, and nothing that it waits for has come. Takes no lock for long."""
        ...


@runtime_checkable
class DrivenClock(Clock, Protocol):
    """A clock that stands still until it is moved, which waits for what takes part.

    `zkgroup.testing.FakeClock` is one. A wait on it takes no real time by itself.
    """

    def join(self, party: Party) -> Callable[[], None]:
        """From now on the clock is not moved while the party works; the result ends that."""
        ...

    def notice(self) -> None:
        """A party has begun to wait."""
        ...

    def wait_for(self, is_over: Callable[[], object], until_ms: int | None = None) -> None:
        """A call of the application blocks until `is_over()` or this time, which may move the clock."""
        ...

    async def await_for(self, is_over: Callable[[], object], until_ms: int | None = None) -> None:
        """`wait_for` on an event loop, which goes on meanwhile."""
        ...


class Store(Protocol):
    """A ZooKeeper client as the rest of zkgroup sees it.

    Implemented by `zkgroup.zookeeper.ZooKeeperClient` and `zkgroup.testing.MemoryZooKeeper.client()`;
    both pass `zkgroup.testing.conformance`.

    Contract
    * `submit` never blocks and never raises for what the world does; `on_outcome` is called exactly
      once, from any thread, within a bounded time. It must only enqueue.
    * Requests of one incarnation are executed, and answered, in the order submitted.
    * Writes are never re-sent by the client. A write whose answer is missing ends as `Unanswered`.
    * Nothing is sent while suspended or for an incarnation that is not the connected one: `NotSent`.
    * `on_watch` is called at most once for a request with `watch=True`. A watch does not survive a
      disconnect: `Connected` says that all of them are gone.
    * Listeners are told `Connected`, `Suspended`, `Lost` in order, from any thread; they must only
      enqueue. A listener that comes late is told the present state at once.
    * Before a new session is opened, every listener has been told `Lost` of the old one.
    """

    def submit(
        self,
        request: Request,
        *,
        incarnation: int,
        on_outcome: Callable[[Outcome], None],
        on_watch: Callable[[str], None] | None = None,
    ) -> None: ...

    @property
    def last_zxid(self) -> int:
        """The highest zxid that any answer has shown."""
        ...

    def listen(self, listener: Callable[[SessionEvent], None]) -> Callable[[], None]:
        """Registers a listener; the result takes it off again."""
        ...

    def abandon(self, incarnation: int, reason: str) -> None:
        """Give this session up by the own expiry clock: tell `Lost`, close, connect anew."""
        ...

    def close(self, timeout_s: float = 5.0) -> None:
        """End the session (its ephemerals go at once). Always returns; idempotent."""
        ...


class HistorySink(Protocol):
    """Where a member records what it did, for `zkgroup.history`.

    Called on the member's own thread, which waits for it, and for deliveries on the application's. What
    it raises is logged once, and nothing more is recorded.
    """

    def record(self, kind: str, fields: Mapping[str, object]) -> None: ...


@runtime_checkable
class NamedHistorySink(HistorySink, Protocol):
    """A `HistorySink` whose records carry the name of their member."""

    def belongs_to(self, member: str, clock: Clock) -> None:
        """The whole id of the member that starts to record here, and its clock.

        Raises `ConfigError` where the records are another member's.
        """
        ...


class MetricsSink(Protocol):
    """Where counters and gauges go. Names and labels: docs/operations.md.

    Called on the member's own thread, which waits for it; of a broker on its own threads, two at a time. What
    it raises is logged once.
    """

    def count(self, name: str, labels: Mapping[str, str], amount: float = 1.0) -> None: ...

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None: ...

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None: ...


WAIT_MAX_S = 3600.0
"""Longest single wait of a thread: a bound, not a poll."""

T = TypeVar("T")


def seconds_until(clock: Clock, at_ms: int | None) -> float:
    """How long a real wait may last on a clock that goes by itself; at most `WAIT_MAX_S`, never negative."""
    if at_ms is None:
        return WAIT_MAX_S
    return max(0.0, min(WAIT_MAX_S, (at_ms - clock.now_ms()) / 1000))


def after(clock: Clock, seconds: float) -> int:
    """The time of the clock in so many seconds."""
    return clock.now_ms() + int(seconds * 1000)


SIGNAL_CHECK_S = 0.5
"""A wait of the application's lasts this long at a time.

CPython runs a signal handler between two bytecodes of the main thread. A signal that comes just before the
thread blocks, or that the system gives to another thread, does not end the blocking: its handler, which may
call `stop()`, would run at the end of the whole wait.
"""


def wait_for(
    clock: Clock, is_over: Callable[[], object], until_ms: int | None, wait: Callable[[float], object]
) -> bool:
    """For calls that block: returns `is_over()` once that is true or the clock has come to `until_ms`.

    `wait(timeout_s)` waits for it in real time, and may return before. `is_over` is asked by other threads
    as well, and takes no lock that is held for long.
    """
    if isinstance(clock, DrivenClock):
        clock.wait_for(is_over, until_ms)
        return bool(is_over())
    while not (over := bool(is_over())) and (left_s := seconds_until(clock, until_ms)) > 0:
        wait(min(left_s, SIGNAL_CHECK_S))
    return over


class Sleeper:
    """The waits of one thread, which works in between. A `Party` of a `DrivenClock`."""

    def __init__(self, clock: Clock, name: str, has_news: Callable[[], object]) -> None:
        """`has_news`: whether what the thread waits for has come. It stays true until the thread wakes."""
        self.name = name
        self.worker: object = None
        self.turns = 0
        self.clock = clock
        self._driven = clock if isinstance(clock, DrivenClock) else None
        self._usual_news = self._has_news = has_news
        self._asleep = False
        self._until_ms: int | None = None
        self._leave: Callable[[], None] | None = None

    def join(self) -> None:
        """The thread takes part from now on; it may be called before its start."""
        if self._driven is not None and self._leave is None:
            self._leave = self._driven.join(self)

    def leave(self) -> None:
        """The thread ends."""
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
        """Calls `wait(timeout_s)`, which ends when there is news, and on this clock by `until_ms`.

        `wake` ends `wait`, from any thread. It may end before there is any reason for it. `has_news` is what
        this wait is for, where that is not the usual.
        """
        if self._driven is None:
            return wait(seconds_until(self.clock, until_ms))
        if until_ms is None:
            with self.resting(has_news=has_news):
                return wait(WAIT_MAX_S)
        cancel = self._driven.call_at(until_ms, wake)
        try:
            with self.resting(until_ms, has_news):
                return wait(WAIT_MAX_S)
        finally:
            cancel()

    @contextmanager
    def resting(
        self, until_ms: int | None = None, has_news: Callable[[], object] | None = None
    ) -> Iterator[None]:
        """The thread waits meanwhile, by means of its own; it may be woken by news, or at this time."""
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
