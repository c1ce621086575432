"""One ZooKeeper session: one `KazooClient` from its first connection to its end.

kazoo keeps the session: it finds a server, shakes hands, authenticates, pings and reconnects. It would
also open a new session under the same object once the old one has expired. A `Line` never lets it: at
the end of its session, or when it is retired, it lets kazoo's loop end. The next session is another
line. The requests are an `Exchange`'s.

Threads: `offer`, `retire`, `last_zxid` and the like may be called from anywhere; everything else runs on
the connection thread (see `handler`), so nothing there needs a lock.
"""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable
from typing import Any, Protocol

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState, KeeperState

from zkgroup.errors import AuthenticationError, ZkGroupError
from zkgroup.model.ports import Clock
from zkgroup.model.requests import Session
from zkgroup.zookeeper import multiread
from zkgroup.zookeeper.address import Address
from zkgroup.zookeeper.connecting import open_connection
from zkgroup.zookeeper.exchange import Exchange
from zkgroup.zookeeper.handler import LineHandler, Retired
from zkgroup.zookeeper.own_requests import ChrootLook, Goodbye
from zkgroup.zookeeper.quiet import QuietLogger
from zkgroup.zookeeper.settings import ClientSettings, Digest, Sasl
from zkgroup.zookeeper.sockets import SharedSocket
from zkgroup.zookeeper.wire import Op, Paths, encode_read

_log = logging.getLogger("zkgroup.zookeeper")

_RETRY = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 0.5, "max_jitter": 0.4}
"""kazoo's pauses between rounds over the servers: 50 ms, doubling up to half a second, each ± 40 %."""
_UNASKED = "no server has been asked yet"
_HELLO_MIN_S = 1.0
"""A server under load may take so long to make a session; each attempt costs it a write."""


class LineOwner(Protocol):
    """Told what becomes of a line. Called on the connection thread."""

    def line_connected(self, line: Line, session: Session) -> None: ...

    def line_suspended(self, line: Line) -> None: ...

    def line_lost(self, line: Line, reason: str, fatal: ZkGroupError | None) -> None:
        """No request of this line goes out any more. May come after the owner said so itself."""
        ...

    def line_ended(self, line: Line) -> None:
        """Thread and sockets are gone."""
        ...


class Line:
    """Implements `handler.Driver`."""

    def __init__(
        self,
        owner: LineOwner,
        incarnation: int,
        address: Address,
        settings: ClientSettings,
        tls: ssl.SSLContext | None,
        clock: Clock | None = None,
    ) -> None:
        self.incarnation = incarnation
        self.ended = threading.Event()
        self.crashed = False
        self.last_error = _UNASKED
        """Why the latest attempt to connect failed, in words; of the first one, who is being asked."""
        self._owner = owner
        self._address = address
        self._settings = settings
        self._tls = tls
        self._up = False
        """Connected, authenticated, chroot seen: requests go out."""
        self._over = False
        self._retire_at: float | None = None
        self._goodbye = Goodbye()
        self._chroot = ChrootLook(address)
        self._server: multiread.Server = ("", 0)
        self._host = ""
        self._asking = False
        self._pause_s = 0.0
        self._silence_s = self._timeout_s = self._ping_s = settings.session_timeout_ms / 1000
        self.handler = LineHandler(self, f"zkgroup-zookeeper-{incarnation}", clock)
        self._now = self.handler.time.now
        self.exchange = Exchange(settings, Paths(address.chroot), self.handler.bell.ring, self._now)
        self._kazoo = self._make_kazoo()

    def _make_kazoo(self) -> Any:
        auth = self._settings.auth
        client = KazooClient(
            hosts=self._address.servers,
            timeout=(self._settings.session_timeout_ms + 0.5) / 1000,  # kazoo cuts the fraction off
            handler=self.handler,
            auth_data=[("digest", auth.credential)] if isinstance(auth, Digest) else None,
            sasl_options=auth.options() if isinstance(auth, Sasl) else None,
            connection_retry={**_RETRY, "sleep_func": self.handler.sleep_func},
            logger=QuietLogger(str(self._address), self._ending, self._kazoo_warns),
        )
        client.add_listener(self._kazoo_state)
        return client

    # --- from any thread -------------------------------------------------------------------------

    def open(self, pause_s: float = 0.0) -> None:
        """Starts to connect, after a pause."""
        self._pause_s = pause_s
        self._kazoo.start_async()

    def retire(self, within_s: float, *, drop_waiting: bool) -> None:
        """Take nothing more, close the session if the server can still be told, end in any case.

        drop_waiting: what has not been sent yet is not sent any more.
        """
        self.exchange.refuse_more(drop_waiting=drop_waiting)
        at = self._now() + within_s
        self._retire_at = at if self._retire_at is None else min(at, self._retire_at)
        self.handler.bell.ring()

    def runs_here(self) -> bool:
        return threading.current_thread() is self.handler.thread

    # --- Driver ------------------------------------------------------------------------------------

    def run(self, loop: Callable[[], object]) -> None:
        self.handler.time.begin()
        try:
            if self._pause_s:
                self.handler.sleep_func(self._pause_s)
            loop()
        except Retired:
            pass
        except Exception:  # noqa: BLE001  kazoo's loop must not end without a word
            _log.exception("the connection thread of %s failed", self._address)
        finally:
            self._end("the session was closed", None)
            self._kazoo.close()
            self.handler.time.end()
            self.handler.bell.close()
            self.ended.set()
            self._owner.line_ended(self)

    def connect(self, address: tuple[str, int], host: str, timeout_s: float) -> SharedSocket:
        # What this session has seen, no older server may serve; kazoo tells it in its handshake.
        self._kazoo.last_zxid = self.exchange.zxid
        if self.last_error == _UNASKED:
            self.last_error = f"{address[0]}:{address[1]}: no answer yet"
        share_s = min(timeout_s, self._settings.session_timeout_ms / 1000 / len(self._address.hosts))
        try:
            sock = open_connection(
                address, host, timeout_s=share_s, tls=self._tls, bell=self.handler.bell, check=self._check
            )
        except OSError as error:
            self.last_error = f"{address[0]}:{address[1]}: {error.strerror or error}"
            raise
        self.last_error = f"{address[0]}:{address[1]}: connected, but the server granted no session"
        self._server, self._host = address, host
        self.exchange.multi_read = multiread.SUPPORT.known(address)
        self._asking = False
        self._chroot.asked = False
        return SharedSocket(sock, self.exchange.receive, self._now)

    def turn(self) -> None:
        if self._over or self._goodbye.answered:
            raise Retired("this session is over for us")
        if not self._up:
            self._greet()
        elif self._retire_at is not None:
            self._say_goodbye()
        else:
            self._go_on()

    def has_work(self) -> bool:
        if self._over:
            return True
        if not self._up:
            return False
        if self._retire_at is not None:
            if self.exchange.dropping and self.exchange.waiting:
                return True
            if self.exchange.idle:
                return not self._goodbye.said
        return self.exchange.can_begin or (self.exchange.wants_to_know and not self._asking)

    def crowded(self) -> bool:
        return self.exchange.crowded

    def patience_s(self) -> float | None:
        ends = [] if self._retire_at is None else [self._retire_at]
        give_up_at = self._give_up_at()
        if give_up_at is not None:
            ends.append(give_up_at)
        hello_due = self._hello_due()
        if hello_due is not None:
            ends.append(hello_due)
        if self._up and not self.exchange.pinging:
            ends.append(self._ping_at())
        return min(ends) - self._now() if ends else None

    def tired(self) -> str | None:
        now = self._now()
        if self._retire_at is not None and now >= self._retire_at:
            raise Retired("the time to close is over")
        give_up_at = self._give_up_at()
        if give_up_at is not None and now >= give_up_at:
            return f"no answer for {now - (self.exchange.oldest or now):.1f} s"
        hello_due = self._hello_due()
        if hello_due is not None and now >= hello_due:
            return f"no session granted within {self._hello_s():.1f} s"
        if self._up and not self.exchange.pinging and now >= self._ping_at():
            self.exchange.ping()
        return None

    def retired(self) -> bool:
        return self._over or (self._retire_at is not None and not self._up)

    def _ending(self) -> bool:
        return self._over or self._retire_at is not None

    def _check(self) -> None:
        if self.retired():
            raise Retired("this session is over for us")

    def _hello_s(self) -> float:
        """How long a server may take to grant a session before the next one, or it again, is asked.

        kazoo would wait as long as whoever waits for the connection. A starting server can accept a
        connection and forget it.
        """
        settings = self._settings
        whole_ms = min(
            settings.session_timeout_ms, settings.connection_timeout_ms or settings.session_timeout_ms
        )
        share_s = whole_ms / 1000 / max(3, len(self._address.hosts))
        return max(share_s, min(_HELLO_MIN_S, whole_ms / 2000))

    def _hello_due(self) -> float | None:
        """When the server that was asked for a session should have answered; None where none was."""
        sock = self.handler.socket
        if self._up or sock is None or sock.hello is not None:
            return None
        return sock.last_heard + self._hello_s()

    def _give_up_at(self) -> float | None:
        """The oldest request or ping waits too long, or nothing at all comes while it waits.

        kazoo takes a request that was sent for a sign of life, and so never misses an answer as long
        as requests are sent (faults.md, finding 4).
        """
        sent_at = self.exchange.oldest
        if sent_at is None or self.handler.socket is None:
            return None
        heard_at = self.handler.socket.last_heard
        return min(sent_at + self._timeout_s, max(sent_at, heard_at) + self._silence_s)

    def _ping_at(self) -> float:
        """Nothing was sent for a third of the session timeout, as the Java client has it."""
        sock = self.handler.socket
        return (sock.last_sent if sock is not None else 0.0) + self._ping_s

    # --- connected ---------------------------------------------------------------------------------

    def _greet(self) -> None:
        """First turns on a connection: it is authenticated now (kazoo says CONNECTED before)."""
        sock = self.handler.socket
        if sock is None or sock.hello is None:
            return
        hello = sock.hello
        self._timeout_s = (self._settings.request_timeout_ms or hello.timeout_ms) / 1000
        self._silence_s = (self._settings.silence_timeout_ms or hello.timeout_ms / 3) / 1000
        self._ping_s = hello.timeout_ms / 3000
        self.exchange.attach(sock)
        if not self._chroot.exists:
            self._look_for_chroot()
            if not self._chroot.exists:
                return
        self._up = True
        self.last_error = ""
        if self._retire_at is None:
            self.exchange.accept()
            self._owner.line_connected(self, Session(self.incarnation, hello.session_id, hello.timeout_ms))

    def _look_for_chroot(self) -> None:
        look = self._chroot
        if look.missing:
            self._end("the chroot does not exist", look.error())
            raise Retired("the chroot does not exist")
        if not look.asked:
            look.asked = True
            self.exchange.send(Op.EXISTS, encode_read(self._address.chroot.encode(), False), look)

    def _go_on(self) -> None:
        if self.exchange.waiting:
            if self.exchange.wants_to_know and not self._asking:
                self._ask_for_multi_read()
            self.exchange.begin()

    def _ask_for_multi_read(self) -> None:
        self._asking = True
        server, host, tls, auth = self._server, self._host, self._tls, self._settings.auth

        def tell(answer: bool) -> None:  # on the probe's thread
            if self._server == server:
                self.exchange.multi_read = answer
                self.handler.bell.ring()

        multiread.SUPPORT.find_out(server, lambda: multiread.probe(server, host, tls, auth), tell)

    def _say_goodbye(self) -> None:
        """Close the session behind everything that was sent."""
        if self.exchange.dropping:
            self.exchange.refuse_outbox("the session was given up")
        else:
            self._go_on()
        if not self._goodbye.said and self.exchange.idle:
            self._goodbye.said = True
            self.exchange.send(Op.CLOSE_SESSION, b"", self._goodbye)

    def _kazoo_warns(self, text: str) -> None:
        if text.startswith("Cannot resolve"):
            self.last_error = text

    # --- disconnected, over ------------------------------------------------------------------------

    def _kazoo_state(self, state: str) -> None:
        """kazoo's listener: CONNECTED is announced too early for us, see `_greet`."""
        if state == KazooState.SUSPENDED:
            self._disconnect()
        elif state == KazooState.LOST:
            why = self._kazoo.client_state
            if why == KeeperState.AUTH_FAILED:
                refused = AuthenticationError(f"ZooKeeper at {self._address} refused our credentials")
                self._end("authentication failed", refused)
            elif why == KeeperState.EXPIRED_SESSION:
                self._end("the session expired", None)
            elif self._ending():
                self._end("the session was closed", None)
            else:  # kazoo's loop ends, and nobody has wanted it to
                self.crashed = True
                self._end("the connection thread failed", None)

    def _disconnect(self) -> None:
        was_up, self._up = self._up, False
        if self.exchange.asks_in_bulk:
            multiread.SUPPORT.forget(self._server)
        self.exchange.detach()
        if was_up and not self._ending():
            self._owner.line_suspended(self)

    def _end(self, reason: str, fatal: ZkGroupError | None) -> None:
        """The session is over: nothing gets out any more, then the owner is told."""
        if self._over:
            return
        self._up = False
        self.exchange.detach()
        self._over = True
        self._owner.line_lost(self, reason, fatal)
