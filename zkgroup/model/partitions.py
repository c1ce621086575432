"""Names of things and the values built from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic; ordered by topic, then by number.

    A tuple rather than a dataclass: it is the key of every map of a group's assignment, and a tuple is
    hashed seven times as fast.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseGrant:
    """What a claim that the server accepted gives to the application."""

    topic_partition: TopicPartition
    thread: int
    """Number of the owning thread (stream) of the member, from 0."""
    token: int
    """The owner znode's czxid: the fencing token. It only ever grows for a partition."""
    offset: int | None
    """Position to start from, written with the claim; None where nothing was ever committed."""
