"""Calls for many paths: bulk reads, and the creation of missing parents.

Bulk reads use multiRead (operation 22, ZooKeeper 3.6 and newer) if the server supports it. A 3.4 server
closes the connection at a multiRead, so it is probed on a connection and session of its own. The result is
kept for the whole process, server by server.
"""

from __future__ import annotations

import contextlib
import logging
import ssl
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from zkgroup.model.requests import (
    AclChange,
    CreateMissingDone,
    ListManyDone,
    Outcome,
    ReadAclsDone,
    ReadManyDone,
    Refused,
    SetAclsDone,
)
from zkgroup.zookeeper.acls import CreationAcls
from zkgroup.zookeeper.raw_connection import RawConnection
from zkgroup.zookeeper.requests import AclLearning, Call, lost
from zkgroup.zookeeper.settings import Digest
from zkgroup.zookeeper.sockets import open_connection
from zkgroup.zookeeper.wire import (
    NO_NODE,
    NODE_EXISTS,
    READ_OVERHEAD,
    UNIMPLEMENTED,
    ChrootPaths,
    Op,
    decode_acl,
    decode_children,
    decode_data,
    decode_names,
    decode_stat,
    decode_znode,
    encode_create,
    encode_path,
    encode_read,
    encode_reads,
    encode_set_acl,
    refusal,
)

_log = logging.getLogger("zkgroup.zookeeper")

Server = tuple[str, int]
"""Numeric address and port."""

PROBE_TIMEOUT_S = 2.0
_AUTH_XID, _AUTH = -4, 100
"""xid and operation of an AuthPacket (ZooDefs.OpCode.auth)."""


class Support:
    """The servers that support multiRead; shared by all clients of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Server, bool] = {}
        self._asking: dict[Server, list[Callable[[bool], None]]] = {}
        self._threads: set[threading.Thread] = set()

    def known(self, server: Server) -> bool | None:
        with self._lock:
            return self._known.get(server)

    def forget(self, server: Server) -> None:
        """Forgets a server that closed a connection with an open multiRead: it may be another one now."""
        with self._lock:
            self._known.pop(server, None)

    def find_out(self, server: Server, probe: Callable[[], bool], report: Callable[[bool], None]) -> None:
        """Runs the probe on a thread of its own, once for all callers; that thread calls `report`.

        A probe that fails to connect reports False, and the result is not kept.
        """
        with self._lock:
            waiting = self._asking.setdefault(server, [])
            waiting.append(report)
            if len(waiting) > 1:
                return
            thread = threading.Thread(
                target=self._probe, args=(server, probe), name="zkgroup-multiread-probe", daemon=True
            )
            self._threads.add(thread)
            thread.start()  # with the lock, so that `join` never waits for a thread that has not begun

    def _probe(self, server: Server, probe: Callable[[], bool]) -> None:
        answer: bool | None = None
        try:
            answer = probe()
        except (OSError, struct.error) as error:
            _log.debug("the probe of %s:%d for multiRead failed: %s", *server, error)
        finally:
            with self._lock:
                if answer is not None:
                    self._known[server] = answer
                waiting = self._asking.pop(server, [])
                self._threads.discard(threading.current_thread())
            for report in waiting:
                report(bool(answer))

    def join(self, timeout_s: float) -> None:
        """Waits for running probes, so that a closed client leaves no thread behind."""
        end = time.monotonic() + timeout_s
        with self._lock:
            threads = tuple(self._threads)
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))

    def after_fork(self) -> None:
        """Starts afresh in a child process: a thread that does not exist here may have the lock."""
        self.__init__()  # type: ignore[misc]


SUPPORT = Support()


def probe(server: Server, host: str, tls: ssl.SSLContext | None, auth: object) -> bool:
    """Tries multiRead in a session of its own (3 packets, 4 with digest); returns whether it is supported.

    Raises OSError if the server cannot be connected to, or grants no session.
    """
    with contextlib.closing(open_connection(server, host, timeout_s=PROBE_TIMEOUT_S, tls=tls)) as sock:
        connection = RawConnection(sock, PROBE_TIMEOUT_S)
        if not connection.open_session():
            raise ConnectionError("the server granted no session")
        if isinstance(auth, Digest):
            scheme, credential = b"digest", auth.credential.encode()
            parts = (
                struct.pack(">ii", 0, len(scheme)),
                scheme,
                struct.pack(">i", len(credential)),
                credential,
            )
            connection.request(_AUTH_XID, _AUTH, b"".join(parts))
        _, _, body = next(encode_reads(Op.GET_DATA, [b"/"], max_paths=1, max_bytes=1000))
        try:
            error = connection.request(1, Op.MULTI_READ, body)
        except OSError:
            return False
        connection.close_session(2)
        return error != UNIMPLEMENTED


class _MultiReadReply:
    """Receives the reply to one multiRead, of the paths from `start` up to `stop`."""

    __slots__ = ("_call", "_start", "_stop")

    def __init__(self, call: _BulkCall, start: int, stop: int) -> None:
        self._call = call
        self._start = start
        self._stop = stop

    def done(self, buffer: bytes, offset: int, zxid: int) -> None:
        call, start, stop = self._call, self._start, self._stop
        found: Sequence[Any]
        if call.op is Op.GET_DATA:
            found, end = decode_data(buffer, offset, call.paths[start:stop])
        else:
            found, end = decode_children(buffer, offset, stop - start)
        call.note_reply(stop - start, end - offset)
        call.arrived(start, found)

    def refused(self, number: int) -> None:
        self._call.settle(refusal(number, self._call.paths[self._start]))

    def lost(self, sent: bool) -> None:
        self._call.settle(lost(sent))


class _SingleReply:
    """Receives the reply to one plain read in place of an operation of a multiRead."""

    __slots__ = ("_call", "_index")

    def __init__(self, call: _BulkCall, index: int) -> None:
        self._call = call
        self._index = index

    def done(self, buffer: bytes, offset: int, zxid: int) -> None:
        call, index = self._call, self._index
        call.arrived(index, (call.decode_single(call.paths[index], buffer, offset),))

    def refused(self, number: int) -> None:
        outcome = refusal(number, self._call.paths[self._index])
        if number == NO_NODE:
            self._call.arrived(self._index, (None,))
        elif isinstance(outcome, Refused):
            self._call.arrived(self._index, (outcome.code,))
        else:
            self._call.settle(outcome)

    def lost(self, sent: bool) -> None:
        self._call.settle(lost(sent))


class _BulkCall(Call):
    """Many reads of one kind, by multiRead if the server supports it, else pipelined one by one.

    Once a packet is refused as a whole or lost, later replies to this call are ignored.
    """

    __slots__ = ("_found", "_missing", "_raw", "paths")

    op: Op
    kind: Callable[[tuple[Any, ...]], Outcome]
    """Makes the outcome."""

    def __init__(
        self, paths: Sequence[str], where: ChrootPaths, on_outcome: Callable[[Outcome], None]
    ) -> None:
        """Raises `ValueError` for an invalid path."""
        super().__init__(paths[0] if paths else "/", on_outcome)
        self.paths = paths
        self._raw = where.raws(paths)
        self._found: list[Any] = [None] * len(paths)
        self._missing = len(paths)

    @property
    def size(self) -> int:
        """Bytes of a packet with the longest path alone; packets of several paths are split to fit."""
        return max(map(len, self._raw), default=0) + READ_OVERHEAD

    @property
    def wants_multi_read(self) -> bool:  # type: ignore[override]
        return len(self.paths) > 1

    def _send(self) -> None:
        if not self.paths:
            self._complete()
        elif self.wants_multi_read and self._wire.multi_read:
            self._send_bulk()
        else:
            for index, raw in enumerate(self._raw):
                self._wire.send(self.op, self._single(raw), _SingleReply(self, index))

    def _send_bulk(self) -> None:
        wire = self._wire
        packets = encode_reads(
            self.op,
            self._raw,
            max_paths=wire.reads_per_packet(self.op),
            max_bytes=wire.settings.max_request_bytes,
        )
        for start, stop, body in packets:
            wire.send(Op.MULTI_READ, body, _MultiReadReply(self, start, stop))

    def _single(self, raw: bytes) -> bytes:
        """The body of the plain read of one path."""
        return encode_read(raw, False)

    def decode_single(self, path: str, buffer: bytes, offset: int) -> object:
        """The decoded reply to the plain read of one path."""
        return decode_znode(path, buffer, offset)

    def note_reply(self, reads: int, size: int) -> None:
        self._wire.note_reply(self.op, reads, size)

    def arrived(self, start: int, found: Sequence[Any]) -> None:
        self._found[start : start + len(found)] = found
        self._missing -= len(found)
        if not self._missing and self.outcome is None:
            self._complete()

    def _complete(self) -> None:
        self.settle(self.kind(tuple(self._found)))


class ReadManyCall(_BulkCall):
    __slots__ = ()

    op, kind = Op.GET_DATA, ReadManyDone


class ListManyCall(_BulkCall):
    __slots__ = ()

    op, kind = Op.GET_CHILDREN, ListManyDone

    def decode_single(self, path: str, buffer: bytes, offset: int) -> object:
        return decode_names(buffer, offset)[0]


class ReadAclsCall(_BulkCall):
    """Reads of ACLs, always one by one: multiRead has no such operation."""

    __slots__ = ()

    op, kind = Op.GET_ACL, ReadAclsDone

    @property
    def wants_multi_read(self) -> bool:  # type: ignore[override]
        return False

    def _single(self, raw: bytes) -> bytes:
        return encode_path(raw)

    def decode_single(self, path: str, buffer: bytes, offset: int) -> object:
        return decode_acl(buffer, offset)


class SetAclsCall(_BulkCall):
    """Sets ACLs one by one. A break leaves unknown which of them were set."""

    __slots__ = ("_changes",)

    op, kind = Op.SET_ACL, SetAclsDone

    def __init__(
        self, changes: Sequence[AclChange], where: ChrootPaths, on_outcome: Callable[[Outcome], None]
    ) -> None:
        super().__init__([change.path for change in changes], where, on_outcome)
        self._changes = changes

    @property
    def wants_multi_read(self) -> bool:  # type: ignore[override]
        return False

    def _send(self) -> None:
        for index, (raw, change) in enumerate(zip(self._raw, self._changes, strict=True)):
            self._wire.send(self.op, encode_set_acl(raw, change), _SingleReply(self, index))
        if not self._changes:
            self._complete()

    def decode_single(self, path: str, buffer: bytes, offset: int) -> object:
        return decode_stat(buffer, offset)


class CreateMissingCall(_BulkCall):
    """Reads which paths are missing, then creates those, in order; later calls wait meanwhile.

    Reading first costs one packet. Creating first would cost one packet and one refused quorum write for
    each path that exists, and NoAuth would be the answer for an existing znode under a parent that may not
    be written.
    """

    __slots__ = ("_acls", "_bad", "_creating")

    op = Op.GET_DATA

    def __init__(
        self,
        paths: Sequence[str],
        where: ChrootPaths,
        acls: CreationAcls,
        on_outcome: Callable[[Outcome], None],
    ) -> None:
        super().__init__(paths, where, on_outcome)
        self._acls = acls
        self._creating = 0
        self._bad: Outcome | None = None

    def _send(self) -> None:
        self._wire.block(True)
        super()._send()

    def settle(self, outcome: Outcome) -> None:
        if self.outcome is None:
            self._wire.block(False)
        super().settle(outcome)

    def _complete(self) -> None:
        missing = [index for index, found in enumerate(self._found) if found is None]
        if not missing:
            self.settle(CreateMissingDone())
            return
        unknown = self._acls.unknown(self.paths[index] for index in missing)
        if unknown:
            AclLearning(self, self._wire, self._acls, unknown, lambda: self._create(missing))
        else:
            self._create(missing)

    def _create(self, missing: Sequence[int]) -> None:
        self._creating = len(missing)
        for index in missing:
            path = self.paths[index]
            body = encode_create(self._raw[index], None, self._acls.at(path), 0)
            self._wire.send(Op.CREATE, body, _Creation(self, path))

    def created(self, outcome: Outcome | None) -> None:
        """Takes the reply to one create, in order; the first failure is the outcome."""
        self._creating -= 1
        self._bad = self._bad or outcome
        if not self._creating:
            self.settle(self._bad or CreateMissingDone())


class _Creation:
    """Receives the reply to the create of one missing path."""

    __slots__ = ("_call", "_path")

    def __init__(self, call: CreateMissingCall, path: str) -> None:
        self._call = call
        self._path = path

    def done(self, buffer: bytes, offset: int, zxid: int) -> None:
        self._call.created(None)

    def refused(self, number: int) -> None:
        self._call.created(None if number == NODE_EXISTS else refusal(number, self._path))

    def lost(self, sent: bool) -> None:
        self._call.settle(lost(True))  # an earlier create may have been applied
