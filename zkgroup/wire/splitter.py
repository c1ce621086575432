"""Frames out of a stream of bytes."""

from __future__ import annotations

from zkgroup.errors import CorruptFrameError
from zkgroup.wire.messages import SIZE

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
