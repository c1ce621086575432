"""The handler that kazoo runs on: `KazooClient(handler=LineHandler(...))`, its public seam.

Everything of one client happens on one thread, the one that runs kazoo's loop:

* it is woken by `Bell` and asks its driver for work (`turn`) each time it comes by, so requests go
  out on this thread only, and never while it is not connected and authenticated;
* answers and watches are called back on it: no completion thread, no callback thread;
* the wait is cut short where the driver has a deadline, so no timer thread is needed either.

A process with a hundred clients therefore has a hundred sleeping threads and no more.
"""

from __future__ import annotations

import contextlib
import select
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from kazoo.exceptions import ConnectionDropped
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.handlers.utils import AsyncResult
from kazoo.retry import RetryFailedError

from zkgroup.model.ports import Clock
from zkgroup.zookeeper.line_time import LineTime
from zkgroup.zookeeper.sockets import Bell, SharedSocket, WakeUps

_GATHER_S = 0.0005
"""A pipelined read then costs a third less CPU and, where cores are few, a quarter less time."""


class Retired(RetryFailedError):  # type: ignore[misc]  # noqa: N818
    """Ends kazoo's loop for good: this client must not connect again."""


class Driver(Protocol):
    """Who decides what the loop does. Called on the connection thread only."""

    def turn(self) -> None:
        """The loop is connected and comes by: send requests. May raise `Retired`."""
        ...

    def has_work(self) -> bool:
        """Whether something came up since `turn`."""
        ...

    def crowded(self) -> bool:
        """Whether so many answers are awaited that a moment more costs nobody anything."""
        ...

    def patience_s(self) -> float | None:
        """How long to wait at most before `tired` is asked; None without limit."""
        ...

    def tired(self) -> str | None:
        """Why the connection must be given up now, None while it need not. Pings. May raise `Retired`."""
        ...

    def retired(self) -> bool:
        """Whether the loop has to end instead of waiting or connecting."""
        ...

    def connect(self, address: tuple[str, int], host: str, timeout_s: float) -> SharedSocket:
        """A new connection to one server. Raises `OSError` or `Retired`."""
        ...

    def run(self, loop: Callable[[], object]) -> None:
        """Runs kazoo's loop to its end, on the new thread."""
        ...


class _AtOnce:
    """In place of a queue with a thread behind it."""

    def put(self, action: Callable[[], object]) -> None:
        action()


class LineHandler:
    """Implements `kazoo.interfaces.IHandler` for one `KazooClient`."""

    name = "zkgroup"
    timeout_exception = KazooTimeoutError
    running = True

    def __init__(self, driver: Driver, thread_name: str, clock: Clock | None = None) -> None:
        self._driver = driver
        self._thread_name = thread_name
        self.completion_queue = self.callback_queue = _AtOnce()
        self.bell = Bell()
        self.time = LineTime(clock, thread_name, self.bell.has_rung)
        self.socket: SharedSocket | None = None
        self.thread: threading.Thread | None = None

    # --- waiting -----------------------------------------------------------------------------------

    def select(
        self, rlist: Sequence[Any], wlist: Sequence[Any], xlist: Sequence[Any], timeout: float | None = None
    ) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        """Three callers in kazoo: about to write, in the middle of a reply, or in the main loop.

        The main loop waits for two things, [connection, wake-ups]. Reaching it says that the
        connection is set up and authenticated. Its timeout is for kazoo's ping, which would know
        nothing of our traffic: a busy server that answers it late would be given up. The driver pings.
        """
        if wlist:
            return [], wlist, []  # SharedSocket takes any amount
        if len(rlist) == 2:
            return self._await(rlist[0], rlist[1], None), [], []
        return self._await(rlist[0], None, timeout), [], []

    def _await(self, sock: SharedSocket, wakeups: WakeUps | None, timeout: float | None) -> list[Any]:
        """Returns empty only at the timeout of a reply that kazoo waits for."""
        driver = self._driver
        end = None if timeout is None else self.time.now() + timeout
        while True:
            if wakeups is not None:
                driver.turn()
            elif driver.retired():
                raise Retired("this session is over for us")
            ready: list[Any] = [sock] if sock.pending() else []
            if wakeups is not None and wakeups.count:
                ready.append(wakeups)
            if ready:
                return ready
            left = None if end is None else end - self.time.now()
            # Look at least once: after a pause of this process the answers may all be there.
            if self._wait(sock, _least(left, driver.patience_s()), wakeups is not None):
                continue
            if left is not None and left <= 0:
                return []
            reason = driver.tired()
            if reason is not None:
                raise ConnectionDropped(reason)

    def _wait(self, sock: SharedSocket, timeout: float | None, connected: bool) -> bool:
        """Sends what waits and sleeps until bytes came and were read (true), the bell rang or time is up."""
        sock.flush()
        if sock.more_to_read:
            sock.fill()
            return True
        if connected and self._driver.crowded():
            time.sleep(_GATHER_S)  # else each answer would wake this thread by itself
        self.bell.arm()
        if self._driver.retired() or (connected and self._driver.has_work()):
            timeout = 0.0  # it came before the bell was armed, so nobody rang
        poll = select.poll()
        poll.register(sock.fileno(), select.POLLIN | (select.POLLOUT if sock.unsent else 0))
        poll.register(self.bell.fileno(), select.POLLIN)
        if timeout is not None and timeout <= 0:
            events = dict(poll.poll(0))
        else:
            events = dict(self.time.sleep(timeout, lambda left: _polled(poll, left), self.bell.ring))
        if self.bell.fileno() in events:
            self.bell.silence()
        else:
            self.bell.disarm()
        if events.get(sock.fileno(), 0) & ~select.POLLOUT:
            sock.fill()
            return True
        return False

    def sleep_func(self, seconds: float) -> None:
        """kazoo's pause between two attempts to connect."""
        end = self.time.now() + seconds
        poll = select.poll()
        poll.register(self.bell.fileno(), select.POLLIN)
        while (left := end - self.time.now()) > 0:
            self.bell.arm()
            if self._driver.retired():
                raise Retired("this session is over for us")
            self.time.sleep(left, lambda left_s: _polled(poll, left_s), self.bell.ring)
            self.bell.silence()

    # --- connections -------------------------------------------------------------------------------

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_tls: object
    ) -> SharedSocket:
        """kazoo's TLS options are not used: the driver knows how to connect."""
        if self._driver.retired():
            raise Retired("this session is over for us")
        self.socket = self._driver.connect(address, hostname, timeout)
        return self.socket

    def create_socket_pair(self) -> tuple[WakeUps, WakeUps]:
        both = WakeUps(self.bell.ring)
        return both, both

    def discard_descriptors(self) -> None:
        """In a forked child: give the parent's descriptors back without a word on them."""
        with contextlib.suppress(OSError):
            self.bell.close()
        if self.socket is not None:
            self.socket.close()

    # --- the rest of what kazoo expects ------------------------------------------------------------

    def start(self) -> None:
        """No worker threads to start."""

    def stop(self) -> None:
        """The loop ends by itself (`Driver.retired`)."""

    def spawn(self, func: Callable[..., object], *args: object, **kwargs: object) -> threading.Thread:
        thread = threading.Thread(
            target=self._driver.run, args=(lambda: func(*args, **kwargs),), name=self._thread_name
        )
        thread.daemon = True
        self.thread = thread
        thread.start()
        return thread

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)

    def event_object(self) -> threading.Event:
        return threading.Event()

    def lock_object(self) -> threading.Lock:
        return threading.Lock()

    def rlock_object(self) -> threading.RLock:
        return threading.RLock()

    def async_result(self) -> Any:
        """For kazoo's own calls, which we do not use: our requests carry light results of their own."""
        return AsyncResult(self, threading.Condition, KazooTimeoutError)


def _polled(poll: select.poll, seconds: float | None) -> list[tuple[int, int]]:
    return poll.poll(None if seconds is None else seconds * 1000)


def _least(first: float | None, second: float | None) -> float | None:
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)
