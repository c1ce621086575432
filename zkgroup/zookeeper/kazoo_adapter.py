"""Everything that leans on kazoo's behaviour: a session on its loop, the handler that it runs on, its logger.

kazoo sets a session up: it finds a server, connects, authenticates and reconnects. Requests and pings of
zkgroup are frames on the same connection, distinguished by xid, so they need no system call, lock or object
of kazoo's queue. The handler is kazoo's public extension point; that these hold is not:

* the loop ends at `RetryFailedError`, so `ShutdownError` ends it: this client opens no second session;
* its loop selects on [connection, wake-ups] once a session is set up and authenticated, and on the connection
  alone within the set-up, so zkgroup's requests are sent in the former only;
* of a connection it uses `send`, `recv`, `pending`, `fileno`, `setblocking` and `close`;
* its xids begin at 1 on each connection, and it reads again after `ssl.SSLWantReadError` (`sockets`);
* it writes into its pair of sockets for its own queue only, which zkgroup does not use;
* it reads `auth_data` and the dictionary of SASL options at each handshake;
* it passes `last_zxid` in its handshake, and calls listeners with the session's state in `client_state`;
* its warnings begin with "Cannot resolve" and "Connection dropped".

`tests/pure/zookeeper/test_connection.py` shows them, with the oldest and the newest kazoo that is allowed.

Everything of one client happens on one thread, the one that runs kazoo's loop: it is woken by a `Waker` and
calls its driver (`turn`) in each round; replies and watches are called back on it; the wait ends at the
driver's deadline. A process with a hundred clients therefore has a hundred sleeping threads and no more.
"""

from __future__ import annotations

import contextlib
import logging
import math
import select
import sys
import threading
import time
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol, TypeVar

from zkgroup.model.ports import Clock, Sleeper
from zkgroup.zookeeper.settings import Address, ClientSettings, Digest, Sasl
from zkgroup.zookeeper.sockets import SharedSocket, Waker

try:
    from kazoo.client import KazooClient
    from kazoo.exceptions import ConnectionDropped, SASLException
    from kazoo.handlers.threading import KazooTimeoutError
    from kazoo.handlers.utils import AsyncResult
    from kazoo.protocol.connection import ConnectionHandler
    from kazoo.protocol.serialization import Connect as Connect
    from kazoo.protocol.serialization import Create as Create
    from kazoo.protocol.states import KazooState, KeeperState
    from kazoo.retry import RetryFailedError
    from kazoo.security import OPEN_ACL_UNSAFE as OPEN_ACL_UNSAFE

    _EXPECTED = {
        KazooClient: ("add_listener", "client_state", "close", "start_async"),
        ConnectionHandler: ("zk_loop", "_connect_loop", "_connect_attempt", "_connect"),
        KeeperState: ("AUTH_FAILED", "EXPIRED_SESSION"),
        KazooState: ("LOST", "SUSPENDED"),
    }
    for _owner, _names in _EXPECTED.items():
        for _name in _names:
            getattr(_owner, _name)
except (ImportError, AttributeError) as error:
    from importlib.metadata import version

    raise ImportError(
        f"zkgroup.zookeeper: expected the inside of kazoo 2.11, found kazoo {version('kazoo')}: {error}; "
        "install a tested one with `pip install 'kazoo >= 2.11, < 2.12'`"
    ) from error

T = TypeVar("T")


class ConnectionTimers:
    """The time and the waits of a connection thread, on `time.monotonic` or on a clock that a test moves."""

    def __init__(self, clock: Clock | None, name: str, has_news: Callable[[], object]) -> None:
        """`has_news`: whether the thread is awake, or `wake` was called."""
        self.now: Callable[[], float] = time.monotonic
        self._sleeper: Sleeper | None = None
        if clock is not None:
            self.now = lambda: clock.now_ms() / 1000
            self._sleeper = Sleeper(clock, name, has_news)

    def begin(self) -> None:
        """Registers the thread at its clock. Called on the thread, before anything else."""
        if self._sleeper is not None:
            self._sleeper.worker = threading.get_ident()
            self._sleeper.join()

    def end(self) -> None:
        """Removes the thread from its clock: it ends."""
        if self._sleeper is not None:
            self._sleeper.leave()

    def sleep(self, seconds: float | None, wait: Callable[[float | None], T], wake: Callable[[], None]) -> T:
        """The result of `wait(seconds)`, which `wake` ends; without a limit on a clock that a test moves."""
        if self._sleeper is None:
            return wait(seconds)
        until_ms = None if seconds is None else math.ceil((self.now() + seconds) * 1000)
        return self._sleeper.sleep(until_ms, wait, wake)


_GATHER_S = 0.0005
"""Seconds. A pipelined read then costs a third less CPU and, with few cores, a quarter less time."""


class ShutdownError(RetryFailedError):  # type: ignore[misc]
    """Ends kazoo's loop for good: this client must not connect again."""


class Driver(Protocol):
    """The object that decides what the loop does. Called on the connection thread only."""

    def turn(self) -> None:
        """Sends requests; called in each round of a connected loop. May raise `ShutdownError`."""
        ...

    def has_work(self) -> bool:
        """Returns whether there is new work since `turn`."""
        ...

    def should_batch(self) -> bool:
        """Returns whether so many replies are expected that waiting a moment longer costs nothing."""
        ...

    def next_deadline_s(self) -> float | None:
        """Seconds until `check_timeouts` must be called; None without limit."""
        ...

    def check_timeouts(self) -> str | None:
        """Returns the reason to close the connection now, or None. Sends pings. Raises `ShutdownError`."""
        ...

    def shutting_down(self) -> bool:
        """Returns whether the loop must end instead of waiting or connecting."""
        ...

    def connect(self, address: tuple[str, int], host: str, timeout_s: float) -> SharedSocket:
        """A new connection to one server. Raises `OSError` or `ShutdownError`."""
        ...

    def run(self, loop: Callable[[], object]) -> None:
        """Runs kazoo's loop to its end, on the new thread."""
        ...

    def on_state(self, state: SessionState, error: BaseException | None) -> None:
        """Takes a new state of the session, and the error by which kazoo's loop ends."""
        ...

    def on_unresolved(self, text: str) -> None:
        """Takes the text about a host without an address."""
        ...

    def on_dropped(self) -> None:
        """Takes the end of a connection."""
        ...

    def is_ending(self) -> bool:
        """Returns whether the session is over, or is being closed."""
        ...


class SessionState(Enum):
    """The states of a session that kazoo reports."""

    CONNECTED = "connected"
    """Reported before authentication."""
    SUSPENDED = "suspended"
    REFUSED = "refused"
    """The server refused the credentials."""
    EXPIRED = "expired"
    ENDED = "ended"
    """kazoo's loop ends."""


_RETRY = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 0.5, "max_jitter": 0.4}
"""kazoo's pauses between rounds over the servers: 50 ms, doubling up to half a second, each ± 40 %."""


class KazooSession:
    """One `KazooClient`, from its first connection to the end of its session."""

    def __init__(
        self, driver: Driver, handler: KazooHandler, address: Address, settings: ClientSettings
    ) -> None:
        self._driver = driver
        self._sasl = settings.auth.options() if isinstance(settings.auth, Sasl) else None
        self._client = KazooClient(
            hosts=address.servers,
            timeout=(settings.session_timeout_ms + 0.5) / 1000,  # kazoo cuts the fraction off
            handler=handler,
            sasl_options=self._sasl,
            connection_retry={**_RETRY, "sleep_func": handler.sleep_func},
            logger=RedactingLogger(str(address), driver.is_ending, self._warns),
        )
        self._client.add_listener(self._listen)

    def start(self) -> None:
        """Starts the thread and connects."""
        self._client.start_async()

    def log_in_as(self, auth: Digest | Sasl) -> None:
        """Has the next handshake use these credentials: kazoo reads them there."""
        if isinstance(auth, Digest):
            self._client.auth_data = {("digest", auth.credential)}
        elif self._sasl is not None:
            self._sasl.clear()
            self._sasl.update(auth.options())

    def requires(self, zxid: int) -> None:
        """Has a server refuse the session that is behind this zxid."""
        self._client.last_zxid = zxid

    def close(self) -> None:
        """Releases what kazoo has. Called when its loop has ended."""
        self._client.close()

    def _warns(self, text: str) -> None:
        if text.startswith("Cannot resolve"):
            self._driver.on_unresolved(text)
        elif text.startswith("Connection dropped"):
            self._driver.on_dropped()

    def _listen(self, state: str) -> None:
        error = sys.exception()
        if state == KazooState.SUSPENDED:
            found = SessionState.SUSPENDED
        elif state != KazooState.LOST:
            found = SessionState.CONNECTED
        elif self._client.client_state == KeeperState.AUTH_FAILED:
            found, error = SessionState.REFUSED, None
        elif isinstance(error, SASLException):
            found = SessionState.REFUSED
        elif self._client.client_state == KeeperState.EXPIRED_SESSION:
            found = SessionState.EXPIRED
        else:
            found = SessionState.ENDED
        self._driver.on_state(found, error)


class WakeUps:
    """Replaces kazoo's pair of sockets: one side counts a wake-up, the other takes it.

    kazoo writes into it only for its own queue, which zkgroup does not use; `wake` covers that, too.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self.count = 0
        self._wake = wake

    def send(self, data: bytes) -> int:
        self.count += len(data)
        self._wake()
        return len(data)

    def recv(self, size: int) -> bytes:
        taken = min(size, self.count)
        self.count -= taken
        return b"\0" * taken

    def close(self) -> None:
        self.count = 0


class _AtOnce:
    """A queue that runs each action at once, in place of kazoo's with a thread."""

    def put(self, action: Callable[[], object]) -> None:
        action()


class KazooHandler:
    """Implements `kazoo.interfaces.IHandler` for one `KazooClient`."""

    name = "zkgroup"
    timeout_exception = KazooTimeoutError
    running = True

    def __init__(
        self, driver: Driver, thread_name: str, clock: Clock | None = None, *, logs_in: bool = False
    ) -> None:
        """`logs_in`: whether the client logs in by SASL."""
        self._driver = driver
        self._logs_in = logs_in
        self._thread_name = thread_name
        self.completion_queue = self.callback_queue = _AtOnce()
        self.waker = Waker()
        self.time = ConnectionTimers(clock, thread_name, self.waker.is_awake)
        self.socket: SharedSocket | None = None
        self.thread: threading.Thread | None = None

    def select(
        self, rlist: Sequence[Any], wlist: Sequence[Any], xlist: Sequence[Any], timeout: float | None = None
    ) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        """The ready objects. kazoo calls it before a write, within a reply, and in its main loop.

        Its loop waits for [connection, wake-ups]; the connection is then set up and authenticated. The
        timeout of the loop is for kazoo's ping, which does not count zkgroup's requests: it would give up a
        busy server that replies late. So the driver pings.
        """
        if wlist:
            return [], wlist, []  # SharedSocket takes any amount
        if len(rlist) == 2:
            return self._await(rlist[0], rlist[1], None), [], []
        return self._await(rlist[0], None, timeout), [], []

    def _await(self, sock: SharedSocket, wakeups: WakeUps | None, timeout: float | None) -> list[Any]:
        """The objects that are ready; empty only at the timeout of a reply that kazoo waits for."""
        driver = self._driver
        end = None if timeout is None else self.time.now() + timeout
        while True:
            if wakeups is not None:
                driver.turn()
            elif driver.shutting_down():
                raise ShutdownError("this session has ended")
            if self._logs_in and sock.lacks_sasl:
                raise ConnectionDropped("the server has no SASL")
            ready: list[Any] = [sock] if sock.pending() else []
            if wakeups is not None and wakeups.count:
                ready.append(wakeups)
            if ready:
                return ready
            left = None if end is None else end - self.time.now()
            # Read at least once: after a pause of this process the replies may all be there.
            if self._wait(sock, _least(left, driver.next_deadline_s()), wakeups is not None):
                continue
            if left is not None and left <= 0:
                return []
            reason = driver.check_timeouts()
            if reason is not None:
                raise ConnectionDropped(reason)

    def _wait(self, sock: SharedSocket, timeout: float | None, connected: bool) -> bool:
        """Sends what is queued; sleeps until bytes were read (true), the waker is called or time is up."""
        sock.flush()
        if sock.more_to_read:
            sock.fill()
            return True
        if connected and self._driver.should_batch():
            time.sleep(_GATHER_S)  # else each reply would wake this thread by itself
        self.waker.arm()
        if self._driver.shutting_down() or (connected and self._driver.has_work()):
            timeout = 0.0  # the work came before the waker was armed, so `wake` was not called
        poll = select.poll()
        poll.register(sock.fileno(), select.POLLIN | (select.POLLOUT if sock.unsent else 0))
        poll.register(self.waker.fileno(), select.POLLIN)
        if timeout is not None and timeout <= 0:
            events = dict(poll.poll(0))
        else:
            events = dict(self.time.sleep(timeout, lambda left: _polled(poll, left), self.waker.wake))
        if self.waker.fileno() in events:
            self.waker.clear()
        else:
            self.waker.disarm()
        if events.get(sock.fileno(), 0) & ~select.POLLOUT:
            sock.fill()
            return True
        return False

    def sleep_func(self, seconds: float) -> None:
        """Sleeps between two of kazoo's attempts to connect."""
        end = self.time.now() + seconds
        poll = select.poll()
        poll.register(self.waker.fileno(), select.POLLIN)
        while (left := end - self.time.now()) > 0:
            self.waker.arm()
            if self._driver.shutting_down():
                raise ShutdownError("this session has ended")
            self.time.sleep(left, lambda left_s: _polled(poll, left_s), self.waker.wake)
            self.waker.clear()

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_tls: object
    ) -> SharedSocket:
        """A new connection, made by the driver; kazoo's TLS options are not used."""
        if self._driver.shutting_down():
            raise ShutdownError("this session has ended")
        self.socket = self._driver.connect(address, hostname, timeout)
        return self.socket

    def create_socket_pair(self) -> tuple[WakeUps, WakeUps]:
        both = WakeUps(self.waker.wake)
        return both, both

    def discard_descriptors(self) -> None:
        """Closes the parent's descriptors in a forked child, without sending anything on them."""
        with contextlib.suppress(OSError):
            self.waker.close()
        if self.socket is not None:
            self.socket.close()

    def start(self) -> None:
        """Does nothing: there are no worker threads to start."""

    def stop(self) -> None:
        """Does nothing: the loop ends by itself (`Driver.shutting_down`)."""

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
        """A result for kazoo's own calls; zkgroup's requests have lighter ones (`requests.Call`)."""
        return AsyncResult(self, threading.Condition, KazooTimeoutError)


def _polled(poll: select.poll, seconds: float | None) -> list[tuple[int, int]]:
    return poll.poll(None if seconds is None else seconds * 1000)


def _least(first: float | None, second: float | None) -> float | None:
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)


_log = logging.getLogger("zkgroup.zookeeper")
_CONNECTING = {"connecting": True}
"""Marks log records about connecting, so that a program which prints the final error can leave them out."""


class RedactingLogger:
    """The logger for kazoo, with the methods that it uses; it logs no secrets and no data."""

    def __init__(self, where: str, over: Callable[[], bool], on_warning: Callable[[str], None]) -> None:
        """where: the client's name in the log; over: true once it shuts down, which mutes warnings."""
        self._where = where
        self._over = over
        self._on_warning = on_warning
        self._told = set[str]()
        """Warnings since the last connection: while a server is away, kazoo repeats two in turn."""

    def debug(self, message: str, *args: object, **_more: object) -> None:
        """Drops the record: it may contain secrets and data."""

    def log(self, level: int, message: str, *args: object, **_more: object) -> None:
        """Drops the record: kazoo uses this for levels at and below DEBUG only."""

    def info(self, message: str, *args: object, **_more: object) -> None:
        text = message % args if args else message
        if "connection established" in text:
            self._told.clear()
        _log.debug("%s: %s", self._where, text)

    def warning(self, message: str, *args: object, **_more: object) -> None:
        text = message % args if args else message
        self._on_warning(text)
        news = not self._over() and text not in self._told and not text.startswith("Transition to")
        self._told.add(text)
        level = logging.WARNING if news else logging.DEBUG
        _log.log(level, "%s: %s", self._where, text, extra=_CONNECTING)

    warn = warning

    def error(self, message: str, *args: object, **_more: object) -> None:
        """Logs the message without arguments and traceback: they may contain a request.

        What ends kazoo's loop is logged by the thread that ran it.
        """
        if not self._over() and not message.startswith("Unhandled exception in connection loop"):
            _log.error("%s: kazoo: %s", self._where, message, extra=_CONNECTING)

    exception = error
