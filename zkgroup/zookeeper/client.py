"""`ZooKeeperClient`, the store on a real ZooKeeper, and `SystemClock`, the clock that goes with it."""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

from zkgroup.errors import NOTHING_LEFT, ForkedClientError, StoreUnavailableError, ZkGroupError
from zkgroup.model.ports import Clock
from zkgroup.model.requests import (
    Connected,
    CreateMissing,
    Exists,
    ListChildren,
    ListMany,
    Lost,
    Multi,
    NotSent,
    Outcome,
    Read,
    ReadAcls,
    ReadMany,
    Request,
    Session,
    SessionEvent,
    SetAcls,
    Suspended,
)
from zkgroup.security.secret_files import check_secret_file
from zkgroup.zookeeper import bulk_requests
from zkgroup.zookeeper.acls import CreationAcls
from zkgroup.zookeeper.bulk_requests import (
    SUPPORT,
    CreateMissingCall,
    ListManyCall,
    ReadAclsCall,
    ReadManyCall,
    SetAclsCall,
)
from zkgroup.zookeeper.connection import ClientConnection
from zkgroup.zookeeper.requests import (
    Call,
    ExistsCall,
    ListCall,
    MultiCall,
    ReadCall,
    RefusedHere,
    SyncCall,
    too_big,
)
from zkgroup.zookeeper.settings import Address, ClientSettings, Digest
from zkgroup.zookeeper.sockets import followed_tls
from zkgroup.zookeeper.wire import ChrootPaths

_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    """Implements `zkgroup.model.ports.Clock`.

    CLOCK_BOOTTIME runs while the machine sleeps, so a lease is over when it wakes. On a system without it
    (macOS, Windows) the clock is CLOCK_MONOTONIC: a lease may then appear valid for a moment after a suspend.
    """

    def now_ms(self) -> int:
        if _BOOTTIME is None:
            return time.monotonic_ns() // 1_000_000
        return time.clock_gettime_ns(_BOOTTIME) // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        """See `Clock.call_at`. Each call takes a thread."""
        left_ms = at_ms - self.now_ms()
        if left_ms <= 0:
            callback()
            return lambda: None
        timer = threading.Timer(left_ms / 1000, callback)
        timer.daemon = True
        timer.start()
        return timer.cancel


_log = logging.getLogger("zkgroup.zookeeper")

_CLOSE_SESSION_S = 1.0
"""Seconds in which a session that was given up may still be closed at the server."""
_NOTHING_LEFT_PAUSE_S = 0.5
"""Seconds before a session is opened again for which there was no descriptor."""
_CRASH_PAUSE_S = 0.5
"""Seconds before the session after one that ended unexpectedly, which avoids a busy loop."""

Listener = Callable[[SessionEvent], None]


class ZooKeeperClient:
    """Implements `zkgroup.model.ports.Store` with one connection, shared by all its users.

    Connects at the first listener or wait, or by `start`. All methods may be called from any thread;
    outcomes, watches and events are called back on the connection's thread and must only enqueue.
    After the loss of a session the client opens the next one by itself. Only `close` and errors that waiting
    does not resolve end it (a missing chroot, refused credentials): listeners get a `Lost` with `fatal` set,
    and `wait_connected` raises it.

    After a fork, every method except `close` raises `ForkedClientError` in the child; `close` does nothing.
    """

    def __init__(
        self, address: str, settings: ClientSettings | None = None, *, clock: Clock | None = None
    ) -> None:
        """Does not connect yet. Raises `ConfigError`.

        Args:
            address: `HOST:PORT[,HOST:PORT...][/CHROOT]`.
            settings: authentication, TLS, timeouts.
            clock: for tests; measures pings and silence on an established connection.
        """
        self._clock = clock
        self._address = Address.parse(address)
        self._settings = settings or ClientSettings()
        self._tls = followed_tls(self._settings.tls) if self._settings.tls else None
        self._paths = ChrootPaths(self._address.chroot)
        self._acls = CreationAcls(
            self._settings.acl, time.monotonic if self._settings.is_authenticated else None
        )
        self._changed = threading.Condition()
        self._events = EventDispatcher()
        self._listeners: dict[int, Listener] = {}
        self._listener_keys = itertools.count()
        self._last_event: SessionEvent | None = None
        self._connection: ClientConnection | None = None
        self._connections: set[ClientConnection] = set()
        self._incarnation = 0
        self._lost_up_to = 0
        self._session: Session | None = None
        self._fatal: ZkGroupError | None = None
        self._closed = False
        self._forked = False
        self._zxid = 0
        self._packets = 0
        if self._settings.auth is not None and self._settings.auth.file is not None:
            check_secret_file(self._settings.auth.file)
        if isinstance(self._settings.auth, Digest) and self._tls is None:
            _log.warning("%s: digest credentials are sent without TLS", self._address)
        _clients.add(self)

    def __repr__(self) -> str:
        return f"ZooKeeperClient({str(self._address)!r})"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def address(self) -> str:
        """`HOST:PORT[,HOST:PORT...][/CHROOT]`, as given."""
        return str(self._address)

    def start(self) -> None:
        """Starts to connect, in the background. The first `listen` or `wait_connected` does it as well."""
        self._check_process()
        with self._changed:
            if self._connection is not None or self._closed:
                return
            self._open_next(0.0)

    def wait_connected(self, timeout_s: float | None = None) -> Session:
        """The connected session. The timeout is by default the connection timeout of the settings.

        Raises `StoreUnavailableError` at the timeout, `ConfigError` for a missing chroot and
        `AuthenticationError` for refused credentials.
        """
        self.start()
        settings = self._settings
        if timeout_s is None:
            timeout_s = (settings.connection_timeout_ms or settings.session_timeout_ms) / 1000
        end = time.monotonic() + timeout_s
        with self._changed:
            while self._session is None:
                if self._fatal is not None:
                    raise self._fatal
                if self._closed:
                    raise StoreUnavailableError(f"the client of {self._address} is closed")
                left = end - time.monotonic()
                if left <= 0:
                    raise self._unconnected(timeout_s)
                self._changed.wait(left)
            return self._session

    def _unconnected(self, timeout_s: float) -> StoreUnavailableError:
        """The error for a timeout before the first connection: the address, and the last attempt's error."""
        connection = self._connection
        found = connection.last_error if connection is not None else ""
        return StoreUnavailableError(
            f"no connection to ZooKeeper: expected {self._address} to answer within {timeout_s:g} s, found "
            f"{found or 'no answer'}; check the address, or start a server with `zkgroup zookeeper start`"
        )

    def close(self, timeout_s: float = 5.0) -> None:
        """Ends the session: submitted requests still get their replies, its ephemerals go at once.

        Always returns within the timeout; then connections are cut and the server ends the session by
        its own clock. Idempotent. Called from a callback of this client, it does not wait.
        """
        if self._forked:
            return
        end = time.monotonic() + timeout_s
        with self._changed:
            self._closed = True
            connections = set(self._connections)
            self._changed.notify_all()
        for connection in connections:
            connection.shutdown(0.8 * timeout_s, drop_waiting=False)
        if any(connection.runs_here() for connection in connections):
            return
        for connection in connections:
            if not connection.ended.wait(max(0.0, end - time.monotonic())):
                self.on_lost(connection, "the client was closed; the server did not answer in time", None)
        bulk_requests.SUPPORT.join(max(0.0, end - time.monotonic()))

    def submit(
        self,
        request: Request,
        *,
        incarnation: int,
        on_outcome: Callable[[Outcome], None],
        on_watch: Callable[[str], None] | None = None,
    ) -> None:
        """See `Store`. Raises `ValueError` for a path that does not start with a slash."""
        self._check_process()
        connection = self._connection
        if connection is None or connection.incarnation != incarnation:
            on_outcome(NotSent(f"session {incarnation} is not the present one"))
            return
        if not connection.pipeline.accepting:
            on_outcome(NotSent("not connected"))
            return
        call = self._call(request, on_outcome, on_watch)
        if call.size > self._settings.max_request_bytes:
            call = RefusedHere(too_big(call.size, self._settings), on_outcome)
        if not connection.pipeline.offer(call):
            on_outcome(NotSent("not connected"))

    def _call(
        self, request: Request, on_outcome: Callable[[Outcome], None], on_watch: Callable[[str], None] | None
    ) -> Call:
        paths = self._paths
        match request:
            case Multi():
                return MultiCall(request, paths, self._acls, on_outcome)
            case Read():
                return ReadCall(request, paths, on_outcome, on_watch)
            case ReadMany():
                return ReadManyCall(request.paths, paths, on_outcome)
            case ListMany():
                return ListManyCall(request.paths, paths, on_outcome)
            case ReadAcls():
                return ReadAclsCall(request.paths, paths, on_outcome)
            case SetAcls():
                return SetAclsCall(request.changes, paths, on_outcome)
            case ListChildren():
                return ListCall(request, paths, on_outcome, on_watch)
            case Exists():
                return ExistsCall(request, paths, on_outcome, on_watch)
            case CreateMissing():
                return CreateMissingCall(request.paths, paths, self._acls, on_outcome)
            case _:
                return SyncCall(request, paths, on_outcome)

    @property
    def is_authenticated(self) -> bool:
        """Whether it has credentials."""
        return self._settings.is_authenticated

    @property
    def opened(self) -> str | None:
        """The first path that it has created with the open ACL although it has credentials; of what is in
        `/consumers`, and of secrets, none."""
        return self._acls.opened

    @property
    def last_zxid(self) -> int:
        """The highest zxid of any reply so far."""
        self._check_process()
        connection = self._connection
        return max(self._zxid, connection.pipeline.zxid) if connection is not None else self._zxid

    @property
    def packets(self) -> int:
        """The number of requests sent so far, without logins and pings."""
        connection = self._connection
        if connection is None or connection.incarnation <= self._lost_up_to:
            return self._packets
        return self._packets + connection.pipeline.packets

    def listen(self, listener: Listener) -> Callable[[], None]:
        """See `Store`. A new listener gets the present state, but no `Lost` of an earlier session."""
        self._check_process()
        self.start()
        key = next(self._listener_keys)  # the same function may be registered twice

        def add() -> None:
            self._listeners[key] = listener
            latest = self._last_event
            if latest is not None and (
                not isinstance(latest, Lost) or latest.fatal is not None or self._closed
            ):
                listener(latest)

        def remove() -> None:
            self._listeners.pop(key, None)

        self._events.post(add)
        self._events.run()
        return remove

    def abandon(self, incarnation: int, reason: str) -> None:
        """See `Store`. The old session is closed at the server if that is possible within a second."""
        self._check_process()
        connection = self._connection
        if connection is None or connection.incarnation != incarnation:
            return
        connection.shutdown(_CLOSE_SESSION_S, drop_waiting=True)
        self.on_lost(connection, reason, None)

    def on_connected(self, connection: ClientConnection, session: Session) -> None:
        """Posts `Connected` to every listener. Called by the connection, not by applications."""
        with self._changed:
            if connection.incarnation <= self._lost_up_to:
                return
            self._session = session
            self._acls.forget()
            self._changed.notify_all()
            self._post(Connected(session))
        self._events.run()

    def on_suspended(self, connection: ClientConnection) -> None:
        """Posts `Suspended` to every listener. Called by the connection, not by applications."""
        with self._changed:
            if connection.incarnation <= self._lost_up_to:
                return
            self._session = None
            self._post(Suspended(connection.incarnation))
        self._events.run()

    def on_lost(self, connection: ClientConnection, reason: str, fatal: ZkGroupError | None) -> None:
        """Posts `Lost` to every listener, once for each session, before the next session is opened."""
        with self._changed:
            if connection.incarnation <= self._lost_up_to:
                return
            self._lost_up_to = connection.incarnation
            self._session = None
            self._zxid = max(self._zxid, connection.pipeline.zxid)
            self._packets += connection.pipeline.packets
            self._fatal = self._fatal or fatal
            if fatal is not None:
                _log.error("%s: %s", self._address, fatal, extra={"raised": True})
            if self._closed and fatal is None:
                fatal = StoreUnavailableError(f"{self._address}: the client was closed")
            self._post(Lost(connection.incarnation, reason, fatal))
            if not self._closed and self._fatal is None:
                self._events.post(lambda: self._reopen(connection))
            self._changed.notify_all()
        self._events.run()

    def on_ended(self, connection: ClientConnection) -> None:
        """Forgets a connection whose threads have ended. Called by the connection, not by applications."""
        with self._changed:
            self._connections.discard(connection)

    def _post(self, event: SessionEvent) -> None:
        def action() -> None:
            self._last_event = event
            for listener in tuple(self._listeners.values()):
                try:
                    listener(event)
                except Exception:  # noqa: BLE001
                    _log.exception("a listener of %r failed", self)

        self._events.post(action)

    def _reopen(self, lost: ClientConnection) -> None:
        said = False
        with self._changed:
            while not self._closed and self._connection is lost:
                try:
                    self._open_next(_CRASH_PAUSE_S if lost.crash else 0.0, lost)
                except OSError as error:
                    if error.errno not in NOTHING_LEFT:
                        raise
                    if not said:
                        _log.warning("%s: no new session yet: %s", self._address, error.strerror)
                    said = True
                    self._changed.wait(_NOTHING_LEFT_PAUSE_S)

    def _open_next(self, pause_s: float, after: ClientConnection | None = None) -> None:
        """Opens the next session. Called with the lock taken. Raises OSError without a descriptor for it."""
        self._connection = ClientConnection(
            self, self._incarnation + 1, self._address, self._settings, self._tls, self._clock
        )
        self._incarnation += 1
        if after is not None and after.crash:
            self._connection.last_error, self._connection.last_crash = after.last_error, after.crash
        self._connections.add(self._connection)
        self._connection.open(pause_s)

    def _check_process(self) -> None:
        if self._forked:
            raise ForkedClientError(
                f"the client of {self._address} belongs to the parent process: make a new one after a fork"
            )

    def after_fork_in_child(self) -> None:
        """Marks the client as forked and closes its descriptors.

        Takes no lock: the thread that has it may not exist in this process.
        """
        self._forked = True
        for connection in tuple(self._connections):
            connection.handler.discard_descriptors()


class EventDispatcher:
    """Runs actions in the order posted, on the calling threads, never two at a time.

    An action that an action posts runs after it. No lock is taken while an action runs, so a listener may
    take locks of its own and may call the client.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._actions: deque[Callable[[], None]] = deque()
        self._busy = False

    def post(self, *actions: Callable[[], None]) -> None:
        """Queues actions for `run`. May be called with other locks taken."""
        with self._lock:
            self._actions.extend(actions)

    def run(self) -> None:
        """Runs the queued actions, unless another thread is running them."""
        while True:
            with self._lock:
                if self._busy or not self._actions:
                    return
                self._busy = True
                action = self._actions.popleft()
            try:
                action()
            except Exception:  # noqa: BLE001
                _log.exception("a listener of a ZooKeeper client failed")
            finally:
                with self._lock:
                    self._busy = False


_clients: weakref.WeakSet[ZooKeeperClient] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    SUPPORT.after_fork()
    for client in tuple(_clients):
        client.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
