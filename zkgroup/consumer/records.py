"""What travels from a source to the application."""

from __future__ import annotations

from dataclasses import dataclass

from zkgroup.model import TopicPartition

Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """One record as a source reads it."""

    topic: str
    partition: int
    offset: int
    """Position in the partition. Rising, not necessarily by one (compacted topics have gaps)."""
    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int | None = None
    """Epoch milliseconds, where the source knows."""
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Record:
    """One record as the application gets it, with the ownership under which it was delivered."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None
    headers: Headers
    thread: int
    """Number of the owning thread (stream) of this member, from 0."""
    token: int
    """Fencing token: the owner znode's czxid. Give it to the store that you write to."""

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)
