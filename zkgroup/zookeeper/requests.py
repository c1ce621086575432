"""Calls of the client: a request of `zkgroup.model.requests` as bytes, its reply as an outcome, its watches.

The server has one watch for each (connection, path, kind), fires it once and drops it at the end of the
connection; several requests of one client may share it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from zkgroup.errors import ConfigError
from zkgroup.model.requests import (
    AclEntry,
    Create,
    Exists,
    ExistsDone,
    ListChildren,
    ListChildrenDone,
    Multi,
    MultiDone,
    MultiRefused,
    NotSent,
    Outcome,
    Read,
    ReadDone,
    Refused,
    Sync,
    SyncDone,
    Unanswered,
)
from zkgroup.zookeeper.acls import CreationAcls
from zkgroup.zookeeper.settings import Address, ClientSettings
from zkgroup.zookeeper.wire import (
    FRAME_OVERHEAD,
    NO_NODE,
    ChrootPaths,
    EventType,
    Op,
    decode_acl,
    decode_multi,
    decode_names,
    decode_stat,
    decode_znode,
    encode_multi,
    encode_path,
    encode_read,
    refusal,
)


class Watcher:
    """Calls one request's `on_watch`, at most once."""

    __slots__ = ("_on_watch", "_path")

    def __init__(self, path: str, on_watch: Callable[[str], None]) -> None:
        self._path = path
        self._on_watch: Callable[[str], None] | None = on_watch

    def fire(self) -> None:
        on_watch, self._on_watch = self._on_watch, None
        if on_watch is not None:
            on_watch(self._path)


class Watches:
    """The watches of one connection, by absolute path. On the connection thread only."""

    def __init__(self) -> None:
        self._data: dict[str, list[Watcher]] = {}
        self._children: dict[str, list[Watcher]] = {}

    def add(self, watcher: Watcher, path: str, *, children: bool) -> None:
        table = self._children if children else self._data
        table.setdefault(path, []).append(watcher)

    def fired(self, kind: int, path: str) -> list[Watcher]:
        """Removes and returns the watchers of an event."""
        found: list[Watcher] = []
        if kind in (EventType.CREATED, EventType.DATA_CHANGED, EventType.DELETED):
            found += self._data.pop(path, ())
        if kind in (EventType.CHILDREN_CHANGED, EventType.DELETED):
            found += self._children.pop(path, ())
        return found

    def clear(self) -> None:
        """Drops all watches without firing: the connection is lost."""
        self._data.clear()
        self._children.clear()


class Answer(Protocol):
    """Receives the reply to one packet: exactly one of the three methods is called, once."""

    def done(self, buffer: bytes, offset: int, zxid: int) -> None:
        """Takes the server's reply, whose body starts at `offset`. Raises for one that it cannot decode."""
        ...

    def refused(self, number: int) -> None:
        """Takes a reply whose header has an error number."""
        ...

    def lost(self, sent: bool) -> None:
        """Takes the end of the connection: no reply will come. `sent`: false if the packet was not sent."""
        ...


class Wire(Protocol):
    """The pipeline as a started call uses it. On the connection thread only."""

    paths: ChrootPaths
    settings: ClientSettings

    def send(self, op: Op, body: bytes, answer: Answer) -> None:
        """Queues one packet."""
        ...

    def settled(self) -> None:
        """Delivers the outcomes of calls whose predecessors all have theirs."""
        ...

    def watch(self, watcher: Watcher, raw_path: bytes, *, children: bool) -> None:
        """Adds a watch that the server has armed."""
        ...

    def block(self, blocked: bool) -> None:
        """Blocks later calls from being started, or lets them start again."""
        ...

    @property
    def multi_read(self) -> bool | None:
        """True if the server has multiRead. Known before a call with `wants_multi_read` starts."""
        ...

    def reads_per_packet(self, op: Op) -> int: ...

    def note_reply(self, op: Op, reads: int, size: int) -> None:
        """Takes the size in bytes of a bulk read's reply, to choose the size of the next one."""
        ...


class Call:
    """One submitted request. `outcome` is set exactly once."""

    __slots__ = ("_wire", "on_outcome", "outcome", "path")

    wants_multi_read = False

    def __init__(self, path: str, on_outcome: Callable[[Outcome], None]) -> None:
        self.path = path
        """The path in the outcome when the server refuses the request as a whole."""
        self.on_outcome = on_outcome
        self.outcome: Outcome | None = None
        self._wire: Wire

    @property
    def size(self) -> int:
        """Bytes of its largest packet, as `jute.maxbuffer` counts them."""
        raise NotImplementedError

    def begin(self, wire: Wire) -> None:
        """Queues the packets."""
        self._wire = wire
        self._send()

    def _send(self) -> None:
        raise NotImplementedError

    def settle(self, outcome: Outcome) -> None:
        if self.outcome is None:
            self.outcome = outcome
            self._wire.settled()

    def refused(self, number: int) -> None:
        self.settle(refusal(number, self.path))

    def lost(self, sent: bool) -> None:
        self.settle(lost(sent))


def lost(sent: bool) -> Outcome:
    """The outcome of a packet whose connection is gone."""
    if sent:
        return Unanswered("the connection was lost before the reply")
    return NotSent("the connection was lost before the request was sent")


def too_big(size: int, settings: ClientSettings) -> NotSent:
    """The outcome of a request that the server would refuse by closing the connection."""
    limit = settings.max_request_bytes
    return NotSent(f"the request has {size:,} bytes, the limit is {limit:,}", too_big=True)


class RefusedHere(Call):
    """A call that is not sent and gets its outcome in the order of the calls."""

    __slots__ = ("_reason",)

    def __init__(self, reason: NotSent, on_outcome: Callable[[Outcome], None]) -> None:
        super().__init__("", on_outcome)
        self._reason = reason

    @property
    def size(self) -> int:
        return 0

    def _send(self) -> None:
        self.settle(self._reason)


class _OneRead(Call):
    """A read that may arm a watch; for a missing znode, a watch for its creation."""

    __slots__ = ("_body", "_raw", "_watcher")

    op: Op
    watches_children = False

    def __init__(
        self,
        request: Read | ListChildren | Exists,
        paths: ChrootPaths,
        on_outcome: Callable[[Outcome], None],
        on_watch: Callable[[str], None] | None,
    ) -> None:
        """Raises `ValueError` for an invalid path."""
        super().__init__(request.path, on_outcome)
        self._raw = paths.raw(request.path)
        self._body = encode_read(self._raw, request.watch)
        self._watcher: Watcher | None = None
        if request.watch:
            self._watcher = Watcher(request.path, on_watch or _ignore)

    @property
    def size(self) -> int:
        return len(self._body) + FRAME_OVERHEAD

    def _send(self) -> None:
        self._wire.send(self.op, self._body, self)

    def done(self, buffer: bytes, offset: int, zxid: int) -> None:
        outcome = self._decode(buffer, offset)
        if self._watcher is not None:
            self._wire.watch(self._watcher, self._raw, children=self.watches_children)
        self.settle(outcome)

    def refused(self, number: int) -> None:
        if number != NO_NODE:
            super().refused(number)
            return
        if self._watcher is not None:
            self._watch_for_creation(self._watcher)
        self.settle(self._none())

    def _watch_for_creation(self, watcher: Watcher) -> None:
        """Arms a watch by exists: getData and getChildren arm none for a missing znode."""
        arming = _Arming(self._wire, watcher, self._raw)
        self._wire.send(Op.EXISTS, encode_read(self._raw, True), arming)

    def _none(self) -> Outcome:
        raise NotImplementedError

    def _decode(self, buffer: bytes, offset: int) -> Outcome:
        raise NotImplementedError


class ReadCall(_OneRead):
    __slots__ = ()

    op = Op.GET_DATA

    def _none(self) -> Outcome:
        return ReadDone(None)

    def _decode(self, buffer: bytes, offset: int) -> Outcome:
        return ReadDone(decode_znode(self.path, buffer, offset))


class ListCall(_OneRead):
    __slots__ = ()

    op = Op.GET_CHILDREN2
    watches_children = True

    def _none(self) -> Outcome:
        return ListChildrenDone((), None)

    def _decode(self, buffer: bytes, offset: int) -> Outcome:
        names, offset = decode_names(buffer, offset)
        return ListChildrenDone(names, decode_stat(buffer, offset))


class ExistsCall(_OneRead):
    __slots__ = ()

    op = Op.EXISTS

    def _watch_for_creation(self, watcher: Watcher) -> None:
        self._wire.watch(watcher, self._raw, children=False)

    def _none(self) -> Outcome:
        return ExistsDone(None)

    def _decode(self, buffer: bytes, offset: int) -> Outcome:
        return ExistsDone(decode_stat(buffer, offset))


class _Arming:
    """Receives the reply to the exists request that watches for the creation of a missing znode."""

    __slots__ = ("_raw", "_watcher", "_wire")

    def __init__(self, wire: Wire, watcher: Watcher, raw: bytes) -> None:
        self._wire = wire
        self._watcher = watcher
        self._raw = raw

    def done(self, buffer: bytes, offset: int, zxid: int) -> None:
        self._watcher.fire()  # the znode was created between the two requests

    def refused(self, number: int) -> None:
        if number == NO_NODE:
            self._wire.watch(self._watcher, self._raw, children=False)
        # otherwise the watch is not permitted, so there is nothing to report

    def lost(self, sent: bool) -> None:
        """No watch survives a disconnect."""


def _ignore(path: str) -> None:
    """Does nothing: the listener of a watch without one."""


class SyncCall(Call):
    __slots__ = ("_body",)

    def __init__(self, request: Sync, paths: ChrootPaths, on_outcome: Callable[[Outcome], None]) -> None:
        """Raises `ValueError` for a path that is none."""
        super().__init__(request.path, on_outcome)
        self._body = encode_path(paths.raw(request.path))

    @property
    def size(self) -> int:
        return len(self._body) + FRAME_OVERHEAD

    def _send(self) -> None:
        self._wire.send(Op.SYNC, self._body, self)

    def done(self, buffer: bytes, offset: int, zxid: int) -> None:
        self.settle(SyncDone())


class AclLearning:
    """Reads the ACLs that new znodes get, before they are created. The wire is blocked meanwhile."""

    def __init__(
        self, call: Call, wire: Wire, acls: CreationAcls, unknown: Sequence[str], then: Callable[[], None]
    ) -> None:
        """`call` is settled if the connection is lost; else `then` is called."""
        self._call = call
        self._wire = wire
        self._acls = acls
        self._left = len(unknown)
        self._then = then
        wire.block(True)
        for path in unknown:
            wire.send(Op.GET_ACL, encode_path(wire.paths.raw(path)), _Learnt(self, path))

    def take(self, path: str, number: int, acl: Sequence[AclEntry] | None) -> None:
        """Takes one reply; `number` is that of an error, or 0."""
        if number == NO_NODE:
            self._acls.forget(path)
        else:
            self._acls.learn(path, acl)
        self._left -= 1
        if not self._left:
            self._then()

    def lost(self) -> None:
        """Takes the end of the connection, or a reply that cannot be decoded: nothing was created."""
        self._wire.block(False)
        self._call.settle(lost(False))


class _Learnt:
    """Receives the ACL of one znode."""

    __slots__ = ("_learning", "_path")

    def __init__(self, learning: AclLearning, path: str) -> None:
        self._learning = learning
        self._path = path

    def done(self, buffer: bytes, offset: int, zxid: int) -> None:
        self._learning.take(self._path, 0, decode_acl(buffer, offset).acl)

    def refused(self, number: int) -> None:
        self._learning.take(self._path, number, None)

    def lost(self, sent: bool) -> None:
        self._learning.lost()


class MultiCall(Call):
    __slots__ = ("_acls", "_body", "_operations", "_paths", "_version")

    def __init__(
        self, request: Multi, paths: ChrootPaths, acls: CreationAcls, on_outcome: Callable[[Outcome], None]
    ) -> None:
        """Raises `ValueError` for a path that is none."""
        operations = request.operations
        super().__init__(operations[0].path if operations else "/", on_outcome)
        self._operations = operations
        self._paths = paths
        self._acls = acls
        self._version = acls.version
        self._body = encode_multi(operations, paths, acls.at)

    @property
    def size(self) -> int:
        return len(self._body) + FRAME_OVERHEAD

    def _send(self) -> None:
        if not self._operations:
            self.settle(MultiDone((), None))
            return
        creates = [each.path for each in self._operations if type(each) is Create]
        unknown = self._acls.unknown(creates) if creates else ()
        if unknown:
            AclLearning(self, self._wire, self._acls, unknown, self._send_learnt)
        elif self._acls.version != self._version:  # by a call that began since this one was made
            self._send_learnt()
        else:
            self._wire.send(Op.MULTI, self._body, self)

    def _send_learnt(self) -> None:
        self._wire.block(False)
        self._body = encode_multi(self._operations, self._paths, self._acls.at)
        if self.size > self._wire.settings.max_request_bytes:
            self.settle(too_big(self.size, self._wire.settings))
        else:
            self._wire.send(Op.MULTI, self._body, self)

    def done(self, buffer: bytes, offset: int, zxid: int) -> None:
        self.settle(decode_multi(buffer, offset, self._operations, self._paths, zxid))

    def refused(self, number: int) -> None:
        outcome = refusal(number, self.path)
        if isinstance(outcome, Refused):  # the transaction as a whole
            outcome = MultiRefused(0, outcome.code)
        self.settle(outcome)


class CloseSession:
    """Receives the reply to the request that closes the session."""

    def __init__(self) -> None:
        self.said = False
        self.answered = False

    def done(self, buffer: bytes, offset: int, zxid: int) -> None:
        self.answered = True

    def refused(self, number: int) -> None:
        self.answered = True

    def lost(self, sent: bool) -> None:
        """Takes the end of the connection: the server ends the session by its own clock, unless it has."""


class ChrootCheck:
    """Checks whether the chroot exists, before anything else is sent; receives the reply to that request."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.exists = not address.chroot
        self.missing = False
        self.asked = False

    def done(self, buffer: bytes, offset: int, zxid: int) -> None:
        self.exists = True

    def refused(self, number: int) -> None:
        self.missing = number == NO_NODE
        self.exists = not self.missing  # a znode that may not be read exists

    def lost(self, sent: bool) -> None:
        """Takes the end of the connection; the next one checks again."""

    def error(self) -> ConfigError:
        return ConfigError(
            f"{self._address.chroot}: expected the chroot of ZooKeeper address {self._address}, found no "
            f"such znode; `zkgroup zookeeper create-chroot -z {self._address}` creates it, "
            f"`zkgroup znode ls / -z {self._address.servers}` shows what there is"
        )
