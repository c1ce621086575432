"""One ZooKeeper session: one `KazooSession` from its first connection to its end.

kazoo maintains the session: it finds a server, connects, authenticates, pings and reconnects. It would also
open a new session under the same object after the old one has expired. A `ClientConnection` (ZooKeeper's
`ClientCnxn`) prevents that: when its session ends, or when it is shut down, kazoo's loop ends. The next
session is another `ClientConnection`. The requests go through a `RequestPipeline`.

Threads: `offer`, `shutdown`, `last_zxid` and the like may be called from anywhere; everything else runs on
the connection thread (see `kazoo_adapter`), so nothing there needs a lock.
"""

from __future__ import annotations

import contextlib
import logging
import ssl
import threading
from collections.abc import Callable
from typing import Protocol

from zkgroup.errors import AuthenticationError, ConfigError, ZkGroupError
from zkgroup.model.ports import Clock
from zkgroup.model.requests import Session
from zkgroup.security.secret_files import Followed
from zkgroup.zookeeper import bulk_requests
from zkgroup.zookeeper.kazoo_adapter import KazooHandler, KazooSession, SessionState, ShutdownError
from zkgroup.zookeeper.pipeline import RequestPipeline
from zkgroup.zookeeper.refusals import Refusals, check_ticket
from zkgroup.zookeeper.requests import ChrootCheck, CloseSession
from zkgroup.zookeeper.settings import Address, ClientSettings, Sasl, present
from zkgroup.zookeeper.sockets import SharedSocket, open_connection, refuses_certificate
from zkgroup.zookeeper.wire import ChrootPaths, Op, encode_read

_log = logging.getLogger("zkgroup.zookeeper")

_UNASKED = "no server has been asked yet"
_HANDSHAKE_MIN_S = 1.0
"""Seconds that a server under load may take to create a session; each attempt costs it a write."""


class ConnectionOwner(Protocol):
    """Receives the state changes of a connection. Called on the connection thread."""

    def on_connected(self, connection: ClientConnection, session: Session) -> None: ...

    def on_suspended(self, connection: ClientConnection) -> None: ...

    def on_lost(self, connection: ClientConnection, reason: str, fatal: ZkGroupError | None) -> None:
        """The session is lost; no more requests are sent. The owner may already have reported it itself."""
        ...

    def on_ended(self, connection: ClientConnection) -> None:
        """The connection has ended: its thread and sockets are gone."""
        ...


class ClientConnection:
    """One session on one `KazooSession`. Implements `kazoo_adapter.Driver`."""

    def __init__(
        self,
        owner: ConnectionOwner,
        incarnation: int,
        address: Address,
        settings: ClientSettings,
        tls: Followed[ssl.SSLContext] | None,
        clock: Clock | None = None,
    ) -> None:
        self.incarnation = incarnation
        self.ended = threading.Event()
        self.crash = ""
        """The error by which kazoo's loop has ended, although it was not asked to."""
        self.last_crash = ""
        """The error that ended the connection before."""
        self.last_error = _UNASKED
        """The error of the latest attempt to connect as text; during the first attempt, the server's name."""
        self._owner = owner
        self._address = address
        self._settings = settings
        self._tls = tls
        self._auth = settings.auth
        self._up = False
        """True if it is connected and authenticated and the chroot exists: requests are sent."""
        self._over = False
        self._shutdown_at: float | None = None
        self._close_session = CloseSession()
        self._chroot = ChrootCheck(address)
        self._refusals = Refusals(address, settings.tls)
        self._failed: OSError | None = None
        """The error of the latest attempt to connect."""
        self._had_session = False
        self._server: bulk_requests.Server = ("", 0)
        self._host = ""
        self._asking = False
        self._pause_s = 0.0
        self._read_timeout_s = self._timeout_s = self._ping_s = settings.session_timeout_ms / 1000
        logs_in = isinstance(settings.auth, Sasl)
        self.handler = KazooHandler(self, f"zkgroup-zookeeper-{incarnation}", clock, logs_in=logs_in)
        self._now = self.handler.time.now
        self.pipeline = RequestPipeline(
            settings, ChrootPaths(address.chroot), self.handler.waker.wake, self._now
        )
        self._kazoo = KazooSession(self, self.handler, address, settings)

    def open(self, pause_s: float = 0.0) -> None:
        """Starts to connect, after a pause in seconds."""
        self._pause_s = pause_s
        self._kazoo.start()

    def shutdown(self, within_s: float, *, drop_waiting: bool) -> None:
        """Takes no more requests, closes the session if the server still replies, and ends in any case.

        drop_waiting: requests that have not been sent yet are dropped.
        """
        self.pipeline.refuse_more(drop_waiting=drop_waiting)
        at = self._now() + within_s
        self._shutdown_at = at if self._shutdown_at is None else min(at, self._shutdown_at)
        self.handler.waker.wake()

    def runs_here(self) -> bool:
        return threading.current_thread() is self.handler.thread

    def run(self, loop: Callable[[], object]) -> None:
        self.handler.time.begin()
        try:
            if self._pause_s:
                self.handler.sleep_func(self._pause_s)
            loop()
        except ShutdownError:
            pass
        except Exception:  # noqa: BLE001  kazoo's loop must not end without a word
            if self.crash != self.last_crash:
                _log.exception("the connection thread of %s failed", self._address)
        finally:
            self._end("the session was closed", None)
            self._kazoo.close()
            self.handler.time.end()
            self.handler.waker.close()
            self.ended.set()
            self._owner.on_ended(self)

    def connect(self, address: tuple[str, int], host: str, timeout_s: float) -> SharedSocket:
        self._kazoo.requires(self.pipeline.zxid)
        self._failed = self.handler.socket = None
        self._server, self._host = address, host
        self._log_in_as_now()
        if self.last_error == _UNASKED:
            self.last_error = f"{address[0]}:{address[1]}: no answer yet"
        share_s = min(timeout_s, self._settings.session_timeout_ms / 1000 / len(self._address.hosts))
        try:
            if isinstance(self._auth, Sasl):
                check_ticket(self._auth, host)
            sock = open_connection(
                address,
                host,
                timeout_s=share_s,
                tls=self._context(),
                waker=self.handler.waker,
                check=self._check,
            )
        except OSError as error:
            self._failed = error
            self.last_error = f"{address[0]}:{address[1]}: {error.strerror or error}"
            raise
        self.last_error = f"{address[0]}:{address[1]}: connected, but the server granted no session"
        self.pipeline.multi_read = bulk_requests.SUPPORT.known(address)
        self._asking = False
        self._chroot.asked = False
        return SharedSocket(sock, self.pipeline.receive, self._now)

    def _context(self) -> ssl.SSLContext | None:
        return None if self._tls is None else self._tls.current()

    def _log_in_as_now(self) -> None:
        """Takes the credentials as their file has them: a password that has changed is used from now on."""
        if self._auth is None:
            return
        try:
            self._auth = present(self._auth)
        except ConfigError as error:
            _log.warning("%s: %s; the former credentials are still used", self._address, error)
        self._kazoo.log_in_as(self._auth)

    def turn(self) -> None:
        if self._demands_auth:
            self._end("authentication failed", self._unauthenticated())
        if self._over or self._close_session.answered:
            raise ShutdownError("this session has ended")
        if not self._up:
            self._on_connected()
        elif self._shutdown_at is not None:
            self._send_close_session()
        else:
            self._process()

    def has_work(self) -> bool:
        if self._over:
            return True
        if not self._up:
            return False
        if self._shutdown_at is not None:
            if self.pipeline.dropping and self.pipeline.waiting:
                return True
            if self.pipeline.idle:
                return not self._close_session.said
        return self.pipeline.can_begin or (self.pipeline.needs_multi_read and not self._asking)

    def should_batch(self) -> bool:
        return self.pipeline.should_batch

    def next_deadline_s(self) -> float | None:
        ends = [] if self._shutdown_at is None else [self._shutdown_at]
        give_up_at = self._give_up_at()
        if give_up_at is not None:
            ends.append(give_up_at)
        handshake_deadline = self._handshake_deadline()
        if handshake_deadline is not None:
            ends.append(handshake_deadline)
        if self._up and not self.pipeline.pinging:
            ends.append(self._ping_at())
        return min(ends) - self._now() if ends else None

    def check_timeouts(self) -> str | None:
        now = self._now()
        if self._shutdown_at is not None and now >= self._shutdown_at:
            raise ShutdownError("the time to close has run out")
        give_up_at = self._give_up_at()
        if give_up_at is not None and now >= give_up_at:
            return f"no reply for {now - (self.pipeline.oldest or now):.1f} s"
        handshake_deadline = self._handshake_deadline()
        if handshake_deadline is not None and now >= handshake_deadline:
            return f"no session granted within {self._handshake_timeout_s():.1f} s"
        if self._up and not self.pipeline.pinging and now >= self._ping_at():
            self.pipeline.ping()
        return None

    def shutting_down(self) -> bool:
        return self._over or (self._shutdown_at is not None and not self._up)

    def is_ending(self) -> bool:
        return self._over or self._shutdown_at is not None or self._demands_auth

    @property
    def _demands_auth(self) -> bool:
        return self.handler.socket is not None and self.handler.socket.demands_auth

    def _check(self) -> None:
        if self.shutting_down():
            raise ShutdownError("this session has ended")

    def _handshake_timeout_s(self) -> float:
        """Seconds that a server may take to grant a session before the next attempt.

        kazoo would wait as long as the caller that waits for the connection. A starting server can accept a
        connection and never reply.
        """
        settings = self._settings
        whole_ms = min(
            settings.session_timeout_ms, settings.connection_timeout_ms or settings.session_timeout_ms
        )
        share_s = whole_ms / 1000 / max(3, len(self._address.hosts))
        return max(share_s, min(_HANDSHAKE_MIN_S, whole_ms / 2000))

    def _handshake_deadline(self) -> float | None:
        """The time by which the server must have granted a requested session; None without a request."""
        sock = self.handler.socket
        if self._up or sock is None or sock.connect_response is not None:
            return None
        return sock.last_heard + self._handshake_timeout_s()

    def _give_up_at(self) -> float | None:
        """The time at which the connection is given up: a request waits too long, or nothing arrives.

        kazoo counts a request that it sent as a sign of life, so it does not notice a missing reply as long
        as requests are sent.
        """
        sent_at = self.pipeline.oldest
        if sent_at is None or self.handler.socket is None:
            return None
        heard_at = self.handler.socket.last_heard
        return min(sent_at + self._timeout_s, max(sent_at, heard_at) + self._read_timeout_s)

    def _ping_at(self) -> float:
        """The time of the next ping: a third of the session timeout after a request, as Java's client."""
        sock = self.handler.socket
        return (sock.last_sent if sock is not None else 0.0) + self._ping_s

    def _on_connected(self) -> None:
        """Takes the first turns on a connection, authenticated by now (kazoo reports CONNECTED earlier)."""
        sock = self.handler.socket
        if sock is None or sock.connect_response is None:
            return
        connect_response = sock.connect_response
        self._timeout_s = (self._settings.request_timeout_ms or connect_response.timeout_ms) / 1000
        self._read_timeout_s = (self._settings.silence_timeout_ms or connect_response.timeout_ms / 3) / 1000
        self._ping_s = connect_response.timeout_ms / 3000
        self.pipeline.attach(sock)
        if not self._chroot.exists:
            self._check_chroot()
            if not self._chroot.exists:
                return
        self._up = self._had_session = True
        self._refusals.forget()
        self.last_error = ""
        if self._shutdown_at is None:
            self.pipeline.accept()
            self._owner.on_connected(
                self, Session(self.incarnation, connect_response.session_id, connect_response.timeout_ms)
            )

    def _check_chroot(self) -> None:
        check = self._chroot
        if check.missing:
            self._send_close_session()
            if self.handler.socket is not None:
                with contextlib.suppress(OSError):  # then the session expires
                    self.handler.socket.flush()
            self._end("the chroot does not exist", check.error())
            raise ShutdownError("the chroot does not exist")
        if not check.asked:
            check.asked = True
            self.pipeline.send(Op.EXISTS, encode_read(self._address.chroot.encode(), False), check)

    def _process(self) -> None:
        if self.pipeline.waiting:
            if self.pipeline.needs_multi_read and not self._asking:
                self._ask_for_multi_read()
            self.pipeline.begin()

    def _ask_for_multi_read(self) -> None:
        self._asking = True
        server, host, tls, auth = self._server, self._host, self._context(), self._auth

        def report(answer: bool) -> None:  # on the probe's thread
            if self._server == server:
                self.pipeline.multi_read = answer
                self.handler.waker.wake()

        bulk_requests.SUPPORT.find_out(server, lambda: bulk_requests.probe(server, host, tls, auth), report)

    def _send_close_session(self) -> None:
        """Closes the session after all requests that were sent."""
        if self.pipeline.dropping:
            self.pipeline.refuse_unsent("the session was given up")
        else:
            self._process()
        if not self._close_session.said and self.pipeline.idle:
            self._close_session.said = True
            self.pipeline.send(Op.CLOSE_SESSION, b"", self._close_session)

    def on_unresolved(self, text: str) -> None:
        self.last_error = text

    def on_dropped(self) -> None:
        """Takes the error of an attempt to connect, which in TLS 1.3 may come after the handshake."""
        if self._up:
            return
        error = self._failed
        if self.handler.socket is not None and self.handler.socket.error is not None:
            error = self.handler.socket.error
            self.last_error = f"{self._server[0]}:{self._server[1]}: {error.strerror or error}"
        if self.incarnation != 1 or self._had_session:
            return  # it was served before
        if refuses_certificate(error):
            what = "refused the client's certificate" if self._shows_certificate else "demands a certificate"
            advice = "renew or replace that of" if self._shows_certificate else "give"
            found = f"ZooKeeper at {self._address} {what}: {error}; {advice} --zk-tls-cert and --zk-tls-key"
            self._end("authentication failed", AuthenticationError(found))
        elif reason := self._refusals.after(self._host, self._server, error):
            self._end("authentication failed", AuthenticationError(f"no connection to ZooKeeper: {reason}"))

    @property
    def _shows_certificate(self) -> bool:
        return self._settings.tls is not None and self._settings.tls.cert_file is not None

    def on_state(self, state: SessionState, error: BaseException | None) -> None:
        """Takes a state from kazoo; `_on_connected` handles that it is connected and authenticated."""
        if self._demands_auth:
            self._end("authentication failed", self._unauthenticated())
            return
        match state:
            case SessionState.SUSPENDED:
                self._disconnect()
            case SessionState.REFUSED:
                detail = f" (SASL, {error}: {error.__cause__})" if error is not None else ""
                self._end("authentication failed", self._unauthenticated(detail))
            case SessionState.EXPIRED:
                self._end("the session expired", None)
            case SessionState.ENDED if self.is_ending():
                self._end("the session was closed", None)
            case SessionState.ENDED:
                self.crash = f"{type(error).__name__}: {error}"
                self.last_error = f"the connection thread failed, {self.crash}"
                self._end("the connection thread failed", None)

    def _unauthenticated(self, detail: str = "") -> AuthenticationError:
        auth = self._settings.auth
        if self.handler.socket is not None and self.handler.socket.lacks_sasl:
            return AuthenticationError(
                f"ZooKeeper at {self._address}: expected a login by SASL, found a server without it; leave "
                "out --zk-sasl-file, or give the server a JAAS file and authProvider.sasl"
            )
        if isinstance(auth, Sasl) or not self._demands_auth:
            return AuthenticationError(
                f"ZooKeeper at {self._address} refused the client's credentials{detail}"
            )
        found = "a digest" if auth else "no credentials"
        return AuthenticationError(
            f"ZooKeeper at {self._address} serves authenticated clients only: expected a login by SASL, or "
            f"what its enforce.auth.schemes says, found {found}; give --zk-sasl-file, or "
            "--zk-digest-file where it takes that (in a program: ClientSettings(auth=...))"
        )

    def _disconnect(self) -> None:
        was_up, self._up = self._up, False
        if self.pipeline.asks_in_bulk:
            bulk_requests.SUPPORT.forget(self._server)
        self.pipeline.detach()
        if was_up and not self.is_ending():
            self._owner.on_suspended(self)

    def _end(self, reason: str, fatal: ZkGroupError | None) -> None:
        """Ends the session: no request is sent any more, then the owner is notified."""
        if self._over:
            return
        self._up = False
        self.pipeline.detach()
        self._over = True
        self._owner.on_lost(self, reason, fatal)
