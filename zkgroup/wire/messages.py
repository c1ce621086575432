"""Error codes, headers, and requests and responses as whole frames.

Sources: kafka/api/*.scala@0.8.2.2 and Kafka's protocol guide. A frame is an int32 size and so many bytes:
header, then body.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, ClassVar, TypeVar

from zkgroup.errors import CorruptFrameError, UnencodableError
from zkgroup.wire.codec import codec_of
from zkgroup.wire.schema import Int16, Int32, NullableString, Versions


class ErrorCode(IntEnum):
    """Those that we send or act upon; a response may hold any other int16.

    Kafka 0.8.2.2's (kafka/common/ErrorMapping.scala), from 56 on those of later clients
    (org/apache/kafka/common/protocol/Errors.java).
    """

    UNKNOWN = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_FOR_PARTITION = 6
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    STALE_CONTROLLER_EPOCH = 11
    STALE_LEADER_EPOCH = 13
    """To Kafka's later clients 13 means a network exception."""
    COORDINATOR_NOT_AVAILABLE = 15
    INVALID_TOPIC = 17
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    KAFKA_STORAGE_ERROR = 56
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    STALE_BROKER_EPOCH = 77
    INVALID_RECORD = 87


def describe(code: int) -> str:
    """`11 (stale controller epoch)`; the number alone where it is not in this table."""
    try:
        return f"{code} ({ErrorCode(code).name.lower().replace('_', ' ')})"
    except ValueError:
        return str(code)


MessageT = TypeVar("MessageT")
ResponseT = TypeVar("ResponseT", bound="Response")

SIZE = struct.Struct(">i")


class Api(IntEnum):
    """API keys: Kafka's (kafka/api/RequestKeys.scala@0.8.2.2), and three of zkgroup far above them."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    FIND_COORDINATOR = 10
    """ConsumerMetadata, as 0.8.2.2 calls it."""
    APPEND_LINES = 32001
    FETCH_LINES = 32002
    FAILED_REPLICAS = 32003


class Message:
    """A request or a response. `VERSIONS` are those written and read here."""

    __slots__ = ()
    VERSIONS: ClassVar[range] = range(1)


class Response(Message):
    """The answer to a request; it does not say to which."""

    __slots__ = ()


class Request(Message):
    """A request of an API."""

    __slots__ = ()
    API: ClassVar[Api]
    RESPONSE: ClassVar[type[Response]]

    @classmethod
    def header_version(cls, version: int) -> int:
        """The version of `RequestHeader` before this version of the request."""
        return 1


@dataclass(frozen=True, slots=True)
class RequestHeader:
    """What stands before the body of a request; version 0 only before ControlledShutdown version 0."""

    api_key: Int16
    version: Int16
    correlation_id: Int32
    """Comes back in the response."""
    client_id: Annotated[NullableString, Versions(1)]


@dataclass(frozen=True, slots=True)
class ResponseHeader:
    """What stands before the body of a response."""

    correlation_id: Int32


def framed(*parts: bytes) -> bytes:
    """The parts behind their size. Raises UnencodableError beyond 2^31 - 1 bytes."""
    size = sum(map(len, parts))
    try:
        return b"".join((SIZE.pack(size), *parts))
    except struct.error as error:
        raise UnencodableError("frame", "at most 2147483647 bytes", str(size)) from error


def encode(value: object, version: int) -> bytes:
    """A body or a header by itself: what goes to many brokers is encoded once.

    Raises UnencodableError where a value does not fit its field.
    """
    parts: list[bytes] = []
    kind: type = type(value)
    codec_of(kind, version).write(value, parts)
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


def encode_response(response: Response, correlation_id: int, *, version: int = 0) -> bytes:
    """A response as a frame. Raises UnencodableError."""
    assert version in response.VERSIONS
    return framed(encode(ResponseHeader(correlation_id), 0), encode(response, version))


def decode_response(kind: type[ResponseT], payload: bytes, *, version: int = 0) -> tuple[int, ResponseT]:
    """Correlation id and body of a response, from a frame without its size.

    `kind` and `version` are those of the request that it answers. Raises CorruptFrameError.
    """
    assert version in kind.VERSIONS
    header, at = decode_part(ResponseHeader, 0, payload, 0)
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


REQUEST_BYTES_MAX = 100 * 1024 * 1024
"""`socket.request.max.bytes` of Kafka: larger requests close the connection."""


class FrameSplitter:
    """Takes bytes as they come and gives frames without their size, in order.

    Holds what was fed and not yet given, at most one frame and one chunk where each `feed` is followed by
    `next_frame` until None. A size is believed only up to the limit, and no memory is set aside for it.
    """

    __slots__ = ("_buffer", "_max_bytes")

    def __init__(self, max_bytes: int = REQUEST_BYTES_MAX) -> None:
        """`max_bytes` bounds a frame, without its size."""
        self._max_bytes = max_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """More bytes of the stream, cut anywhere."""
        self._buffer += data

    def next_frame(self) -> bytes | None:
        """The next whole frame, or None until more is fed.

        Raises CorruptFrameError, now and ever after, for a size below zero or beyond the limit.
        """
        buffer = self._buffer
        if len(buffer) < SIZE.size:
            return None
        (size,) = SIZE.unpack_from(buffer)
        if not 0 <= size <= self._max_bytes:
            raise CorruptFrameError("size", 0, f"0 to {self._max_bytes} bytes", str(size))
        end = SIZE.size + size
        if len(buffer) < end:
            return None
        with memoryview(buffer) as view:
            payload = bytes(view[SIZE.size : end])
        del buffer[:end]
        return payload

    def finish(self) -> None:
        """The stream has ended. Raises CorruptFrameError where it ended within a frame."""
        if self._buffer:
            came = len(self._buffer)
            found = f"{came} bytes of size and frame, then the end of the stream"
            raise CorruptFrameError("frame", max(0, came - SIZE.size), "a whole frame", found)
