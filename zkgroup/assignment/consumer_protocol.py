"""Encodes what consumers of Kafka's group protocol send by their coordinator: subscriptions, assignments.

The bytes of the protocol type `consumer`; a coordinator passes them on unread. A version above the known ones
is read as the highest known one, and what follows is ignored.
Source: clients/src/main/resources/common/message/ConsumerProtocol*.json@3.9.1.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from zkgroup.errors import CorruptFrameError
from zkgroup.model import TopicPartition

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
"""Protocol type of the groups whose bytes are these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSubscription:
    """The topics that a member subscribes to, and what it owned when it joined."""

    version: int
    topics: tuple[str, ...]
    user_data: bytes | None = None
    """Of the assignment strategy; opaque."""
    owned: tuple[TopicPartition, ...] = ()
    """Version 1 on: what it still owns, of cooperative strategies."""
    generation: int = -1
    """Version 2 on: the one in which it owned these; -1 for unknown."""
    rack: str | None = None
    """Version 3 on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerAssignment:
    """The partitions that are assigned to a member."""

    version: int
    partitions: tuple[TopicPartition, ...]
    user_data: bytes | None = None
    """Of the assignment strategy; opaque."""


def decode_subscription(data: bytes) -> ConsumerSubscription:
    """The metadata of a member. Raises CorruptFrameError."""
    reader = _ProtocolReader("subscription", data)
    version = reader.version()
    topics, user_data = reader.texts(), reader.nullable_bytes()
    return ConsumerSubscription(
        version=version,
        topics=topics,
        user_data=user_data,
        owned=reader.partitions() if version >= 1 else (),
        generation=reader.int32() if version >= 2 else -1,
        rack=reader.nullable_text() if version >= 3 else None,
    )


def subscribed_topics(data: bytes) -> tuple[str, ...]:
    """The topics in the metadata of a member, whatever follows them. Raises CorruptFrameError."""
    reader = _ProtocolReader("subscription", data)
    reader.version()
    return reader.texts()


def decode_assignment(data: bytes) -> ConsumerAssignment:
    """The assignment of a member; no bytes at all are an empty one. Raises CorruptFrameError."""
    if not data:
        return ConsumerAssignment(version=0, partitions=())
    reader = _ProtocolReader("assignment", data)
    version = reader.version()
    return ConsumerAssignment(
        version=version, partitions=reader.partitions(), user_data=reader.nullable_bytes()
    )


class _ProtocolReader:
    """Reads one text of bytes from its beginning."""

    def __init__(self, what: str, data: bytes) -> None:
        self._what, self._data, self._at = what, data, 0

    def version(self) -> int:
        version = self._number(">h", 2)
        if version < 0:
            raise self._error("a version from 0 on", str(version))
        return version

    def int32(self) -> int:
        return self._number(">i", 4)

    def texts(self) -> tuple[str, ...]:
        return tuple(self._text() for _ in range(self._count()))

    def partitions(self) -> tuple[TopicPartition, ...]:
        found = []
        for _ in range(self._count()):
            topic = self._text()
            found += [TopicPartition(topic, self.int32()) for _ in range(self._count())]
        return tuple(found)

    def nullable_bytes(self) -> bytes | None:
        size = self.int32()
        return None if size < 0 else self._take(size)

    def nullable_text(self) -> str | None:
        size = self._number(">h", 2)
        return None if size < 0 else self._decoded(size)

    def _text(self) -> str:
        size = self._number(">h", 2)
        if size < 0:
            raise self._error("a text", "null")
        return self._decoded(size)

    def _decoded(self, size: int) -> str:
        raw = self._take(size)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._error("UTF-8", repr(raw)) from error

    def _count(self) -> int:
        count = self.int32()
        if not 0 <= count <= len(self._data):  # each item has a byte at least
            raise self._error("a number of items", str(count))
        return count

    def _number(self, form: str, size: int) -> int:
        (value,) = struct.unpack(form, self._take(size))
        return int(value)

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise self._error(f"{size} bytes", f"{len(taken)}")
        self._at += size
        return taken

    def _error(self, expected: str, found: str) -> CorruptFrameError:
        return CorruptFrameError(f"consumer protocol {self._what}", self._at, expected, found)
