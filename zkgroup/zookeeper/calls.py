"""Requests on their way: from `zkgroup.model.requests` to bytes, and from a reply to an outcome.

A call is made on the thread that submits it, which checks and encodes, and lives on the connection
thread from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from zkgroup.model.requests import (
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
from zkgroup.zookeeper.codes import NO_NODE, refusal
from zkgroup.zookeeper.settings import ClientSettings
from zkgroup.zookeeper.watching import Watcher
from zkgroup.zookeeper.wire import (
    FRAME_OVERHEAD,
    Op,
    Paths,
    decode_multi,
    decode_names,
    decode_stat,
    decode_znode,
    encode_multi,
    encode_path,
    encode_read,
)


class Answer(Protocol):
    """Waits for the reply to one packet; exactly one of the three is called, once."""

    def done(self, buffer: bytes, offset: int, zxid: int) -> None:
        """The server's reply, whose body starts at `offset`. Any exception means that it is unreadable."""
        ...

    def refused(self, number: int) -> None:
        """The reply's header carries an error."""
        ...

    def lost(self, sent: bool) -> None:
        """No reply will come; `sent` is false where the packet certainly did not leave."""
        ...


class Wire(Protocol):
    """What a call may use once it is begun. On the connection thread only."""

    paths: Paths
    settings: ClientSettings

    def send(self, op: Op, body: bytes, answer: Answer) -> None:
        """Queues one packet."""
        ...

    def settled(self) -> None:
        """A call has its outcome: deliver it, if all before it have theirs."""
        ...

    def watch(self, watcher: Watcher, raw_path: bytes, *, children: bool) -> None:
        """The server has armed a watch."""
        ...

    def hold(self, held: bool) -> None:
        """While held no later call is begun."""
        ...

    @property
    def multi_read(self) -> bool | None:
        """Whether this server understands multiRead. Known before a call that `wants_multi_read` begins."""
        ...

    def reads_per_packet(self, op: Op) -> int: ...

    def note_reply(self, op: Op, reads: int, size: int) -> None:
        """What a bulk read's reply held, for the next one's size."""
        ...


class Call:
    """One submitted request. `outcome` is set exactly once."""

    __slots__ = ("_wire", "on_outcome", "outcome", "path")

    wants_multi_read = False

    def __init__(self, path: str, on_outcome: Callable[[Outcome], None]) -> None:
        self.path = path
        """Named when the server refuses the request as a whole."""
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
        return Unanswered("the connection was lost before the answer")
    return NotSent("the connection was lost before the request was sent")


class RefusedHere(Call):
    """Not sent at all, and told so in its turn."""

    __slots__ = ("_reason",)

    def __init__(self, reason: NotSent, on_outcome: Callable[[Outcome], None]) -> None:
        super().__init__("", on_outcome)
        self._reason = reason

    @property
    def size(self) -> int:
        return 0

    def _send(self) -> None:
        self.settle(self._reason)


# --- reads of one znode ---------------------------------------------------------------------------


class _OneRead(Call):
    """A read that may leave a watch; where there is no such znode, one for its creation."""

    __slots__ = ("_body", "_raw", "_watcher")

    op: Op
    watches_children = False

    def __init__(
        self,
        request: Read | ListChildren | Exists,
        paths: Paths,
        on_outcome: Callable[[Outcome], None],
        on_watch: Callable[[str], None] | None,
    ) -> None:
        """Raises `ValueError` for a path that is none."""
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
        """getData and getChildren leave no watch where nothing is; exists does."""
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
    """Answer to the exists request that watches for the creation of what a read did not find."""

    __slots__ = ("_raw", "_watcher", "_wire")

    def __init__(self, wire: Wire, watcher: Watcher, raw: bytes) -> None:
        self._wire = wire
        self._watcher = watcher
        self._raw = raw

    def done(self, buffer: bytes, offset: int, zxid: int) -> None:
        self._watcher.fire()  # it was created between the two requests

    def refused(self, number: int) -> None:
        if number == NO_NODE:
            self._wire.watch(self._watcher, self._raw, children=False)
        # otherwise nobody lets us watch it, so there is nothing to tell

    def lost(self, sent: bool) -> None:
        """No watch survives a disconnect."""


def _ignore(path: str) -> None:
    """For a watch that nobody wants to hear of."""


class SyncCall(Call):
    __slots__ = ("_body",)

    def __init__(self, request: Sync, paths: Paths, on_outcome: Callable[[Outcome], None]) -> None:
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


# --- transactions ---------------------------------------------------------------------------------


class MultiCall(Call):
    __slots__ = ("_body", "_operations", "_paths")

    def __init__(
        self, request: Multi, paths: Paths, acl: bytes, on_outcome: Callable[[Outcome], None]
    ) -> None:
        """Raises `ValueError` for a path that is none."""
        operations = request.operations
        super().__init__(operations[0].path if operations else "/", on_outcome)
        self._operations = operations
        self._paths = paths
        self._body = encode_multi(operations, paths, acl)

    @property
    def size(self) -> int:
        return len(self._body) + FRAME_OVERHEAD

    def _send(self) -> None:
        if not self._operations:
            self.settle(MultiDone((), None))
        else:
            self._wire.send(Op.MULTI, self._body, self)

    def done(self, buffer: bytes, offset: int, zxid: int) -> None:
        self.settle(decode_multi(buffer, offset, self._operations, self._paths, zxid))

    def refused(self, number: int) -> None:
        outcome = refusal(number, self.path)
        if isinstance(outcome, Refused):  # the transaction as a whole
            outcome = MultiRefused(0, outcome.code)
        self.settle(outcome)
