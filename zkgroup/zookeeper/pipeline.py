"""The requests of one session, from submission to outcome, and the watches that they arm.

A submitted call waits in the `_unsent`. The connection thread starts it, and it is in `_in_progress` until it
has its outcome; each of its packets is in `_pending` until its reply has come. ZooKeeper replies in the order
of the requests, and outcomes are delivered in the same order. At most `max_in_flight` packets are without a
reply at once; further ones wait in `_queued`, and so do the calls after them.

Threads: `offer`, `refuse_more` and `zxid` from anywhere, all else on the connection thread.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from zkgroup.model.requests import NotSent
from zkgroup.zookeeper.requests import Answer, Call, Watcher, Watches, lost
from zkgroup.zookeeper.settings import ClientSettings
from zkgroup.zookeeper.sockets import FIRST_XID, LAST_XID, SharedSocket
from zkgroup.zookeeper.wire import PING_XID, WATCH_XID, ChrootPaths, Op, decode_event, frame

_log = logging.getLogger("zkgroup.zookeeper")

_SEND_AT = 1 << 14
"""Bytes of requests that are passed to the system at once: the server works while the rest is encoded."""
_BACKLOG = 1 << 20
"""Bytes that the server has not read, beyond which no call is started."""


_BATCH_FROM = 200


class _Queued(NamedTuple):
    op: Op
    body: bytes
    answer: Answer


class _Packet(NamedTuple):
    xid: int
    answer: Answer
    start: int
    """Position of its first byte in everything written to this connection."""
    sent_at: float


class RequestPipeline:
    """The calls of one session, across its reconnects. Implements `requests.Wire`."""

    def __init__(
        self,
        settings: ClientSettings,
        paths: ChrootPaths,
        wake: Callable[[], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """wake: wakes the connection thread."""
        self.settings = settings
        self.paths = paths
        self.multi_read: bool | None = None
        self.zxid = 0
        """The highest zxid of any reply so far."""
        self.packets = 0
        """The number of requests sent."""
        self._wake = wake
        self._now = now
        self._lock = threading.Lock()
        self.accepting = False
        self._refusing = False
        self.dropping = False
        """True if waiting calls are dropped."""
        self._unsent: deque[Call] = deque()
        self._in_progress: deque[Call] = deque()
        self._pending: deque[_Packet] = deque()
        self._queued: deque[_Queued] = deque()
        self._watches = Watches()
        self._is_blocked_by_call = False
        self._sock: SharedSocket | None = None
        self._xid = FIRST_XID
        self._pinged_at: float | None = None
        self._reply_sizes = {Op.GET_DATA: 200.0, Op.GET_CHILDREN: 1000.0}

    def offer(self, call: Call) -> bool:
        """Takes a call if the session is connected; whether it did. A taken call gets its outcome."""
        with self._lock:
            if not self.accepting:
                return False
            self._unsent.append(call)
        self._wake()
        return True

    def refuse_more(self, *, drop_waiting: bool) -> None:
        """Makes `offer` refuse all calls from now on; drop_waiting: waiting calls are not started either."""
        with self._lock:
            self.accepting = False
            self._refusing = True
            self.dropping = self.dropping or drop_waiting

    def attach(self, sock: SharedSocket) -> None:
        """Takes a new connection; no call is taken before `accept`."""
        if self._sock is not sock:
            self._sock = sock
            self._xid = FIRST_XID

    def accept(self) -> None:
        """Makes `offer` take calls from now on, unless `refuse_more` was called."""
        with self._lock:
            self.accepting = not self._refusing

    def detach(self) -> None:
        """Gives every call an outcome, in order, and takes no more: the connection is lost."""
        self._watches.clear()
        while True:
            while self._pending:
                packet = self._pending.popleft()
                packet.answer.lost(self._sock is not None and self._sock.sent > packet.start)
            while self._queued:
                self._queued.popleft().answer.lost(False)
            while self._in_progress:
                self._in_progress[0].settle(lost(True))
            self.refuse_unsent("the connection was lost")
            with self._lock:
                if not self._unsent and not self._pending and not self._queued:
                    self.accepting = False
                    break
        self._is_blocked_by_call = False
        self._sock = None
        self._pinged_at = None  # else the silence of this connection would count for the next handshake

    def refuse_unsent(self, reason: str) -> None:
        """Refuses the calls that have not been started."""
        while self._unsent:
            call = self._unsent.popleft()
            call.outcome = NotSent(reason)
            self._deliver(call)

    @property
    def waiting(self) -> bool:
        """True if calls wait to be started."""
        return bool(self._unsent)

    @property
    def can_begin(self) -> bool:
        """True if `begin` would start a call: nothing blocks the first one."""
        return bool(self._unsent) and not self._blocked() and not self.needs_multi_read

    @property
    def needs_multi_read(self) -> bool:
        """True if the first call waits until `multi_read` is known."""
        return bool(self._unsent) and self._unsent[0].wants_multi_read and self.multi_read is None

    @property
    def idle(self) -> bool:
        """True if a CloseSession may be sent: no call is going to send more."""
        return not self._is_blocked_by_call and not self._unsent and not self._queued

    def begin(self) -> None:
        """Starts waiting calls, in order, until one is blocked."""
        unsent, in_progress = self._unsent, self._in_progress
        while unsent and not self._blocked() and not self.needs_multi_read:
            call = unsent.popleft()
            in_progress.append(call)
            call.begin(self)

    def _blocked(self) -> bool:
        return (
            self._is_blocked_by_call
            or self.dropping
            or self._sock is None
            or self._sock.unsent > _BACKLOG
            or self._is_full
        )

    @property
    def _is_full(self) -> bool:
        return bool(self._queued) or len(self._pending) >= self.settings.max_in_flight

    @property
    def should_batch(self) -> bool:
        """True if many replies are expected, so that waiting for a few more saves work."""
        return len(self._pending) > _BATCH_FROM

    def ping(self) -> None:
        """Sends a ping, which the server answers."""
        if self._sock is not None:
            self._pinged_at = self._now()
            self._sock.put(frame(PING_XID, Op.PING, b""))

    @property
    def pinging(self) -> bool:
        """True if a ping waits for its reply."""
        return self._pinged_at is not None

    @property
    def oldest(self) -> float | None:
        """The send time of the oldest packet without a reply."""
        if self._pending:
            sent_at = self._pending[0].sent_at
            return sent_at if self._pinged_at is None else min(sent_at, self._pinged_at)
        return self._pinged_at

    @property
    def asks_in_bulk(self) -> bool:
        return any(call.wants_multi_read for call in self._in_progress)

    def receive(self, xid: int, zxid: int, number: int, buffer: bytes, offset: int) -> None:
        """Takes one frame of zkgroup. Raises `OSError` for an invalid one, which ends the connection."""
        if xid == WATCH_XID:
            self._fire(*decode_event(buffer, offset))
            return
        if xid == PING_XID:
            self._pinged_at = None
            return
        if not self._pending or self._pending[0].xid != xid:
            raise OSError(errno.EPROTO, "a reply does not belong to the oldest request")
        answer = self._pending.popleft().answer
        if zxid > self.zxid:
            self.zxid = zxid
        try:
            if number:
                answer.refused(number)
            else:
                answer.done(buffer, offset, zxid)
        except Exception:  # noqa: BLE001
            _log.exception("a reply of ZooKeeper could not be decoded")
            answer.lost(True)
        if self._queued and len(self._pending) < self.settings.max_in_flight:
            self._write(*self._queued.popleft())

    def _fire(self, kind: int, path: str) -> None:
        for watcher in self._watches.fired(kind, path):
            try:
                watcher.fire()
            except Exception:  # noqa: BLE001
                _log.exception("a receiver of a watch failed")

    def _deliver(self, call: Call) -> None:
        assert call.outcome is not None
        try:
            call.on_outcome(call.outcome)
        except Exception:  # noqa: BLE001
            _log.exception("a receiver of an outcome failed")

    def send(self, op: Op, body: bytes, answer: Answer) -> None:
        if self._is_full:
            self._queued.append(_Queued(op, body, answer))
        else:
            self._write(op, body, answer)

    def _write(self, op: Op, body: bytes, answer: Answer) -> None:
        sock = self._sock
        assert sock is not None
        xid = self._xid
        self._xid = xid + 1 if xid < LAST_XID else FIRST_XID
        self._pending.append(_Packet(xid, answer, sock.written, self._now()))
        self.packets += 1
        sock.put(frame(xid, op, body))
        if sock.unsent >= _SEND_AT:
            with contextlib.suppress(OSError):  # the next flush, or the end of the stream, raises it
                sock.flush()

    def settled(self) -> None:
        in_progress = self._in_progress
        while in_progress and in_progress[0].outcome is not None:
            self._deliver(in_progress.popleft())

    def watch(self, watcher: Watcher, raw_path: bytes, *, children: bool) -> None:
        self._watches.add(watcher, raw_path.decode(), children=children)

    def block(self, blocked: bool) -> None:
        self._is_blocked_by_call = blocked

    def reads_per_packet(self, op: Op) -> int:
        by_size = int(self.settings.bulk_reply_bytes / self._reply_sizes[op])
        return max(1, min(self.settings.bulk_paths, by_size))

    def note_reply(self, op: Op, reads: int, size: int) -> None:
        """Takes the size of a bulk reply.

        The estimate grows at once and shrinks slowly: too low costs more.
        """
        self._reply_sizes[op] = max(size / reads, 0.9 * self._reply_sizes[op])
