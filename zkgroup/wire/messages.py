"""Headers, and requests and responses as whole frames.

Sources: kafka/api/*.scala@0.8.2.2, clients/src/main/resources/common/message/*.json@2.8.2 (RequestHeader,
ResponseHeader) and Kafka's protocol guide. A frame is an int32 size and so many bytes: header, then body.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Annotated, Any, ClassVar, Final, NamedTuple, TypeVar

from zkgroup.errors import CorruptFrameError, UnencodableError, UnsupportedRequestError
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode as ErrorCode
from zkgroup.model.error_codes import describe as describe
from zkgroup.wire.codec import codec_of
from zkgroup.wire.primitives import Read, Write, limit_items
from zkgroup.wire.schema import Buffer, Int16, Int32, Text, Versions

MessageT = TypeVar("MessageT")
ResponseT = TypeVar("ResponseT", bound="Response")

RowT = TypeVar("RowT")
TopicT = TypeVar("TopicT")

SIZE = struct.Struct(">i")


class Api(IntEnum):
    """API keys of Kafka."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    """ConsumerMetadata, as 0.8.2.2 calls it."""
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_CLUSTER = 60


class Message:
    """A request or a response.

    `VERSIONS` are those written and read here. From `FLEXIBLE_FROM` on lengths are compact and records end
    with tagged fields (KIP-482); None where no version is so.
    """

    __slots__ = ()
    VERSIONS: ClassVar[range] = range(1)
    FLEXIBLE_FROM: ClassVar[int | None] = None

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Returns whether this version has compact lengths and tagged fields."""
        return cls.FLEXIBLE_FROM is not None and version >= cls.FLEXIBLE_FROM


class Response(Message):
    """The answer to a request; it does not say to which."""

    __slots__ = ()

    @classmethod
    def header_version(cls, version: int) -> int:
        """The version of `ResponseHeader` before this version of the response."""
        return 1 if cls.is_flexible(version) else 0


class EncodedResponse(Response):
    """A response whose body is encoded already, because it is sent again and again."""

    __slots__ = ("_rest", "_size", "response")

    def __init__(self, response: Response, version: int) -> None:
        """`version`: the one in which it is sent."""
        self.response = response
        kind: Any = type(response)
        writers, body = _response_writers(kind, version), encode(response, version)
        head = writers.head(writers.header_bytes + len(body), 0)
        self._size, self._rest = head[: SIZE.size], head[2 * SIZE.size :] + body

    def frame(self, correlation_id: int) -> bytes:
        """It as the answer to the request with this number."""
        return self._size + SIZE.pack(correlation_id) + self._rest


class Request(Message):
    """A request of an API."""

    __slots__ = ()
    API: ClassVar[Api]
    RESPONSE: ClassVar[type[Response]]

    @classmethod
    def header_version(cls, version: int) -> int:
        """The version of `RequestHeader` before this version of the request."""
        return 2 if cls.is_flexible(version) else 1


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """Stands before the body of a request.

    Version 0 only before ControlledShutdown version 0, version 2 before flexible versions.
    """

    FLEXIBLE_FROM: ClassVar[int] = 2

    api_key: Int16
    version: Int16
    correlation_id: Int32
    """Comes back in the response."""
    client_id: Annotated[str | None, Text(nullable=True, compact=False), Versions(1)]
    """Its length is an int16 in every version."""


@dataclass(frozen=True, slots=True)
class ResponseHeader:
    """Stands before the body of a response; version 1 before flexible versions except ApiVersions."""

    FLEXIBLE_FROM: ClassVar[int] = 1

    correlation_id: Int32


def by_topic(rows: Iterable[tuple[TopicPartition, RowT]], make: Callable[..., TopicT]) -> tuple[TopicT, ...]:
    """The rows of partitions topic by topic, in the order of their first rows.

    `make` gets the `topic` and the rows of its `partitions`.
    """
    topics: dict[str, list[RowT]] = {}
    for tp, row in rows:
        topics.setdefault(tp.topic, []).append(row)
    return tuple([make(topic=topic, partitions=tuple(found)) for topic, found in topics.items()])


def framed(*parts: Buffer) -> bytes:
    """The parts behind their size. Raises UnencodableError beyond 2^31 - 1 bytes."""
    return b"".join((_size_of(parts), *parts))


def _size_of(parts: Sequence[Buffer]) -> bytes:
    size = sum(map(len, parts))
    try:
        return SIZE.pack(size)
    except struct.error as error:
        raise UnencodableError("frame", "at most 2147483647 bytes", str(size)) from error


def encode(value: object, version: int, *, flexible: bool | None = None) -> bytes:
    """A body, a header or a record of a body by itself: what goes to many brokers is encoded once.

    `version` is the message's; `flexible` is for records, which do not know their message.
    Raises UnencodableError where a value does not fit its field.
    """
    parts: list[Buffer] = []
    kind: type = type(value)
    codec_of(kind, version, flexible).write(value, parts)
    return b"".join(parts)


def encode_request(
    request: Request,
    correlation_id: int,
    client_id: str | None,
    *,
    version: int = 0,
    body: bytes | None = None,
) -> bytes:
    """A request as a frame. Raises UnencodableError.

    `body` is what `encode` made of it, where that is at hand.
    """
    assert version in request.VERSIONS
    header = RequestHeader(request.API, version, correlation_id, client_id)
    head = encode(header, request.header_version(version))
    return framed(head, encode(request, version) if body is None else body)


def response_buffers(response: Response, correlation_id: int, *, version: int = 0) -> list[Buffer]:
    """A response as a frame, in buffers to be sent one after the other. Raises UnencodableError.

    Large values (the records of a fetch) are passed on as they are, without a copy; what lies between them
    is joined.
    """
    if isinstance(response, EncodedResponse):
        return [response.frame(correlation_id)]
    kind: Any = type(response)
    writers, body = _response_writers(kind, version), list[Buffer]()
    writers.body(response, body)
    size = writers.header_bytes + sum(map(len, body))
    if size < LARGE_BYTES:
        return [b"".join((writers.head(size, correlation_id), *body))]
    header = encode(ResponseHeader(correlation_id), response.header_version(version))
    parts: list[Buffer] = [header, *body]
    found: list[Buffer] = []
    small: list[Buffer] = [_size_of(parts)]
    for part in parts:
        if len(part) < LARGE_BYTES:
            small.append(part)
            continue
        found += (b"".join(small), part)
        small.clear()
    if small:
        found.append(b"".join(small))
    return found


class _Writers(NamedTuple):
    """Those of one version of a response."""

    head: Callable[[int, int], bytes]
    """Packs the size of the frame and `ResponseHeader`."""
    header_bytes: int
    """Of `ResponseHeader`."""
    body: Write


@cache
def _response_writers(kind: Any, version: int) -> _Writers:
    assert version in kind.VERSIONS
    head = struct.Struct(">ii" if kind.header_version(version) == 0 else ">iix")
    return _Writers(head.pack, head.size - SIZE.size, codec_of(kind, version).write)


LARGE_BYTES = 4 * 1024
"""From so many on a value is a buffer of its own: a system call for it costs less than its copy."""


def decode_response(kind: type[ResponseT], payload: bytes, *, version: int = 0) -> tuple[int, ResponseT]:
    """Correlation id and body of a response, from a frame without its size.

    `kind` and `version` are those of the request that it answers. Raises CorruptFrameError.
    """
    assert version in kind.VERSIONS
    header, at = decode_part(ResponseHeader, kind.header_version(version), payload, 0)
    return header.correlation_id, decode_rest(kind, version, payload, at)


def decode_part(kind: type[MessageT], version: int, payload: bytes, at: int) -> tuple[MessageT, int]:
    """The header or body that starts at an offset, and where it ends. Raises CorruptFrameError."""
    made: type = kind
    values: list[MessageT] = []
    end = codec_of(made, version).read(payload, at, values)
    return values[0], end


def decode_rest(kind: type[MessageT], version: int, payload: bytes, at: int) -> MessageT:
    """The body that starts at an offset and fills the rest of the frame. Raises CorruptFrameError."""
    value, end = decode_part(kind, version, payload, at)
    if end != len(payload):
        raise CorruptFrameError(kind.__name__, end, "the end", f"{len(payload) - end} bytes more")
    return value


ITEMS_MAX: Final = 100_000
"""Most items of arrays in one request, whatever its size; clients name tens of thousands of partitions.
Without a limit 100 MB of empty names took 2.8 GB, and minutes in which no other request was answered."""
CONTROL_ITEMS_MAX: Final = 250_000
"""Those of a controller's request: one of 200,000 partitions names as many."""
_START: Final = struct.Struct(">hhi")
"""The first fields of every header: API key, version, correlation id."""
_CONTROL: Final = (Api.LEADER_AND_ISR, Api.STOP_REPLICA, Api.UPDATE_METADATA)


def decode_request(
    payload: bytes, served: Mapping[int, type[Request]], items_max: int | None = None
) -> tuple[RequestHeader, Request]:
    """Header and body of a request, from a frame without its size.

    The header's first fields are the same in all its versions, so an unknown API can be named. Bytes behind
    the body are ignored, as Kafka does: librdkafka sends three in Metadata 9 to 11 for all topics.

    Args:
        served: requests by API key, with their `VERSIONS`; others are refused.
        items_max: items of its arrays; an array of numbers counts as an eighth. By default the limit of the
            API.

    Raises:
        UnsupportedRequestError: an API or version that is not served; Kafka closes the connection.
        TooManyItemsError: it has more items.
        CorruptFrameError: the bytes are not what they should be.
    """
    if len(payload) < _START.size:
        decode_part(RequestHeader, 0, payload, 0)  # raises CorruptFrameError
    api_key, version, correlation_id = _START.unpack_from(payload)
    kind: Any = served.get(api_key)
    if kind is None or version not in kind.VERSIONS:
        raise UnsupportedRequestError(api_key, version, correlation_id)
    if items_max is None:
        items_max = CONTROL_ITEMS_MAX if api_key in _CONTROL else ITEMS_MAX
    is_counted = len(payload) > items_max  # an item has at least one byte
    readers = _readers(kind, version, is_counted)
    header: list[RequestHeader] = []
    body: list[Request] = []
    if is_counted:
        limit_items(items_max)
    at = readers.header(payload, 0, header)
    if is_counted:
        limit_items(items_max)
    readers.body(payload, at, body)
    return header[0], body[0]


class _Readers(NamedTuple):
    """Those of one version of a request."""

    header: Read
    body: Read


@cache
def _readers(kind: Any, version: int, is_counted: bool) -> _Readers:
    header = codec_of(RequestHeader, kind.header_version(version), is_counted=is_counted)
    return _Readers(header.read, codec_of(kind, version, is_counted=is_counted).read)


REQUEST_BYTES_MAX = 100 * 1024 * 1024
"""`socket.request.max.bytes` of Kafka: larger requests close the connection."""


PART_BYTES: Final = 1024
"""Shorter pieces are joined at once: those of single bytes take no memory beyond the bytes."""


class FrameSplitter:
    """Takes bytes as they come and gives frames without their size, in order.

    Holds what was fed and not yet given, at most one frame and one chunk where each `feed` is followed by
    `next_frame` until None. A size is believed only up to the limit, and no memory is set aside for it.
    """

    __slots__ = ("_at", "_held", "_max_bytes", "_parts", "_wanted")

    def __init__(self, max_bytes: int = REQUEST_BYTES_MAX) -> None:
        """`max_bytes` bounds a frame, without its size."""
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        """The bytes fed, joined only when a frame is whole: a buffer that grows is copied again and again."""
        self._at = 0
        """Bytes of the first part that were given already."""
        self._held = 0
        """Bytes of all parts behind `_at`."""
        self._wanted = SIZE.size
        """Bytes from `_at` to the end of the next frame, or of its size while that has not come."""

    def limit(self, max_bytes: int) -> None:
        """Sets another bound of a frame, without its size."""
        self._max_bytes = max_bytes

    def feed(self, data: bytes) -> None:
        """More bytes of the stream, cut anywhere."""
        if self._parts and len(self._parts[-1]) < PART_BYTES:
            self._parts[-1] += data
        elif data:
            self._parts.append(data)
        self._held += len(data)

    def next_frame(self) -> bytes | None:
        """The next whole frame, or None until more is fed.

        Raises CorruptFrameError, now and ever after, for a size below zero or beyond the limit.
        """
        if self._held < self._wanted:
            return None
        if len(self._parts[0]) < self._at + SIZE.size:
            self._parts[:2] = [self._parts[0][self._at :] + self._parts[1]]
            self._at = 0
        (size,) = SIZE.unpack_from(self._parts[0], self._at)
        if not 0 <= size <= self._max_bytes:
            raise CorruptFrameError("size", 0, f"0 to {self._max_bytes} bytes", str(size))
        self._wanted = SIZE.size + size
        if self._held < self._wanted:
            return None
        self._held -= self._wanted
        self._wanted = SIZE.size
        self._at += SIZE.size
        if not self._held and len(self._parts) == 1:  # the last part has one frame left, and nothing more
            frame = self._parts.pop()[self._at :]
            self._at = 0
            return frame
        return self._take(size)

    def _take(self, size: int) -> bytes:
        """The next bytes, which are all there; copied once."""
        taken: list[bytes] = []
        left, whole = size, 0
        while left >= (there := len(self._parts[whole]) - self._at):
            taken.append(self._parts[whole][self._at :])
            left, whole, self._at = left - there, whole + 1, 0
            if whole == len(self._parts):
                break
        del self._parts[:whole]
        if left:
            taken.append(self._parts[0][self._at : self._at + left])
            self._at += left
        return taken[0] if len(taken) == 1 else b"".join(taken)

    def finish(self) -> None:
        """The stream has ended. Raises CorruptFrameError where it ended within a frame."""
        if came := self._held:
            found = f"{came} bytes of size and frame, then the end of the stream"
            raise CorruptFrameError("frame", max(0, came - SIZE.size), "a whole frame", found)
