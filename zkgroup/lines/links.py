"""Connections to many brokers, waited for by one thread.

A broker answers one request of a connection at a time, and holds an answer back as long as it may (acks=all,
a fetch that waits for lines). So whatever must not wait for something else gets a connection of its own,
up to a limit for each broker.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import selectors
import socket
import time
from collections.abc import Hashable
from dataclasses import dataclass

from zkgroup.errors import WireError
from zkgroup.lines.leaders import Address
from zkgroup.model.ports import Clock, DrivenClock
from zkgroup.wire.messages import FrameSplitter, Request, Response, decode_response, encode_request

CHUNK_BYTES = 256 * 1024
CONNECTIONS_MAX = 16
"""To one broker, for one client."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of a request."""

    tag: Hashable
    """As it was asked."""
    request: Request
    response: Response | None
    """None: there is none, and the connection is gone."""
    trouble: str = ""
    """Why there is none, with the address."""
    sent: bool = True
    """Whether the broker may have got it: without a response, False says that it surely has not."""


class Link:
    """One connection, with at most one request under way."""

    __slots__ = (
        "address",
        "correlation_id",
        "deadline_ms",
        "is_connected",
        "out",
        "request",
        "sock",
        "splitter",
        "tag",
        "targets",
        "was_sent",
    )

    def __init__(self, address: Address) -> None:
        self.address = address
        self.sock: socket.socket | None = None
        self.is_connected = False
        self.splitter = FrameSplitter()
        self.targets: list[tuple[socket.AddressFamily, tuple[object, ...]]] = []
        """What is left to try of what the host name stands for."""
        self.request: Request | None = None
        self.tag: Hashable = None
        self.correlation_id = 0
        self.out = memoryview(b"")
        self.deadline_ms = 0
        self.was_sent = False

    @property
    def is_busy(self) -> bool:
        return self.request is not None


class Links:
    """Asks brokers and gives their answers as they come. For one thread, except `wake`.

    What goes wrong with a connection is a `Reply`, never an exception; UnencodableError goes through.
    """

    def __init__(
        self, client_id: str, connections_max: int = CONNECTIONS_MAX, clock: Clock | None = None
    ) -> None:
        """`clock`: time is that of the system where there is none."""
        self._client_id = client_id
        self._clock = clock
        self._connections_max = connections_max
        self._selector = selectors.DefaultSelector()
        self._links: dict[Address, list[Link]] = {}
        self._replies: list[Reply] = []
        self._numbers = itertools.count(1)
        self._bell, self._ringer = socket.socketpair()
        self._bell.setblocking(False)
        self._ringer.setblocking(False)
        self._selector.register(self._bell, selectors.EVENT_READ, None)
        self._is_closed = False

    def has_room(self, address: Address) -> bool:
        """Whether a request to this broker could go out at once, within the limit."""
        return sum(link.is_busy for link in self._links.get(address, ())) < self._connections_max

    def connections(self, address: Address) -> int:
        """How many there are to this broker."""
        return len(self._links.get(address, ()))

    def ask(self, tag: Hashable, address: Address, request: Request, timeout_ms: int) -> None:
        """Sends a request on a connection that is free, or a new one, also beyond the limit.

        Its reply comes from `wait`, at the latest after `timeout_ms`.
        """
        links = self._links.setdefault(address, [])
        link = next((one for one in links if not one.is_busy), None)
        if link is None:
            link = Link(address)
            links.append(link)
        link.correlation_id = next(self._numbers) & 0x7FFFFFFF
        link.out = memoryview(encode_request(request, link.correlation_id, self._client_id))
        link.request, link.tag, link.was_sent = request, tag, False
        link.deadline_ms = self.now_ms() + timeout_ms
        if link.sock is None:
            self._find(link)
        else:
            self._write(link)

    def wait(self, timeout_ms: int) -> list[Reply]:
        """Replies, as soon as there is one; none after so long, or after `wake`."""
        until_ms = self.now_ms() + timeout_ms
        while not self._replies:
            busy = [link for links in self._links.values() for link in links if link.is_busy]
            soonest_ms = min((link.deadline_ms for link in busy), default=until_ms)
            rang = False
            for key, events in self._select(min(until_ms, soonest_ms)):
                if key.data is None:
                    rang = self._has_rung() or rang
                else:
                    self._attend(key.data, events)
            self._end_late(busy)
            if rang or self.now_ms() >= until_ms:
                break
        replies, self._replies = self._replies, []
        return replies

    def now_ms(self) -> int:
        """A steady time, which timeouts are counted in."""
        return time.monotonic_ns() // 1_000_000 if self._clock is None else self._clock.now_ms()

    def _select(self, until_ms: int) -> list[tuple[selectors.SelectorKey, int]]:
        if not isinstance(self._clock, DrivenClock):
            return self._selector.select(max(0.0, (until_ms - self.now_ms()) / 1000))
        self._clock.wait_for(lambda: self._selector.select(0), until_ms)
        return self._selector.select(0)

    def watch(self, file: int) -> None:
        """From now on `wait` also ends when this file descriptor can be read (a pipe, a terminal)."""
        self._selector.register(file, selectors.EVENT_READ, None)

    def unwatch(self, file: int) -> None:
        self._selector.unregister(file)

    def wake(self) -> None:
        """Ends a `wait`, or the next one; from any thread, also after `close`."""
        with contextlib.suppress(OSError):  # full: it has rung often enough; or closed
            self._ringer.send(b"!")

    def close(self) -> None:
        """Gives all connections up, without replies; again is no matter."""
        if self._is_closed:
            return
        self._is_closed = True
        for links in self._links.values():
            for link in links:
                self._let_go(link)
        self._links.clear()
        self._selector.close()
        self._bell.close()
        self._ringer.close()

    # --- one link ---------------------------------------------------------------------------------

    def _find(self, link: Link) -> None:
        try:
            found = socket.getaddrinfo(link.address.host, link.address.port, type=socket.SOCK_STREAM)
        except OSError as error:
            self._fail(link, str(error.strerror or error))
            return
        link.targets = [(family, name) for family, _, _, _, name in found]
        self._connect(link, "no address of that name")

    def _connect(self, link: Link, trouble: str) -> None:
        """Tries what is left of the name's addresses; `trouble` is why the last one did not do."""
        while link.targets:
            family, name = link.targets.pop(0)
            sock = socket.socket(family, socket.SOCK_STREAM)
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.sock, link.is_connected, link.splitter = sock, False, FrameSplitter()
            self._selector.register(sock, selectors.EVENT_WRITE, link)
            try:
                sock.connect(name)
            except BlockingIOError:
                return
            except OSError as error:
                trouble = str(error.strerror or error)
                self._let_go(link)
            else:
                return  # the selector says so too
        self._fail(link, trouble)

    def _attend(self, link: Link, events: int) -> None:
        if link.sock is None:
            return
        if not link.is_connected:
            code = link.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self._let_go(link)
                self._connect(link, os.strerror(code))
                return
            link.is_connected = True
        if events & selectors.EVENT_READ:
            self._read(link)
        elif link.out:
            self._write(link)

    def _write(self, link: Link) -> None:
        assert link.sock is not None
        if not link.is_connected:
            return
        try:
            while link.out:
                link.was_sent = True
                link.out = link.out[link.sock.send(link.out) :]
        except BlockingIOError:
            pass
        except OSError as error:
            self._fail(link, str(error.strerror or error))
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.out else 0)
        self._selector.modify(link.sock, events, link)

    def _read(self, link: Link) -> None:
        assert link.sock is not None
        try:
            chunk = link.sock.recv(CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(link, str(error.strerror or error))
            return
        if not chunk:
            self._fail(link, "the connection was closed")
            return
        link.splitter.feed(chunk)
        try:
            while (frame := link.splitter.next_frame()) is not None and self._answered(link, frame):
                pass  # a second one is one too many
        except WireError as error:
            self._fail(link, str(error))

    def _answered(self, link: Link, frame: bytes) -> bool:
        """Whether the connection is still of use."""
        request = link.request
        if request is None:
            self._fail(link, "an answer came that nobody asked for")
            return False
        correlation_id, response = decode_response(request.RESPONSE, frame)
        if correlation_id != link.correlation_id:
            self._fail(link, f"expected the answer to request {link.correlation_id}, found {correlation_id}")
            return False
        link.request = None
        self._replies.append(Reply(link.tag, request, response))
        return True

    def _end_late(self, busy: list[Link]) -> None:
        now_ms = self.now_ms()
        for link in busy:
            if link.is_busy and link.deadline_ms <= now_ms:
                self._fail(link, "no answer in time")

    def _fail(self, link: Link, trouble: str) -> None:
        """The connection is of no use any more; whoever waits for it is told."""
        self._let_go(link)
        self._links[link.address].remove(link)
        if link.request is not None:
            request, link.request = link.request, None
            self._replies.append(
                Reply(link.tag, request, None, f"{link.address}: {trouble}", sent=link.was_sent)
            )

    def _let_go(self, link: Link) -> None:
        if link.sock is not None:
            self._selector.unregister(link.sock)
            link.sock.close()
            link.sock = None

    def _has_rung(self) -> bool:
        """True also for a watched file, which is not read here."""
        with contextlib.suppress(BlockingIOError):
            self._bell.recv(4096)
        return True
