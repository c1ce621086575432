"""What is known of a replica: its role, its followers, its failure; as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

FETCH_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of batches in one answer, whatever is asked for; a larger batch comes alone. (`fetch.max.bytes` of Kafka's
brokers is 55 MiB, but they send from the page cache: an answer here stands in memory until it is taken.)"""


class Role(Enum):
    """What a replica does now."""

    LEADER = "leader"
    FOLLOWER = "follower"
    NONE = "none"
    """Stopped, failed, or without a role since the manager was opened: its lines are kept and not served."""


@dataclass(frozen=True, slots=True)
class Follower:
    """How far a follower has come, as its leader knows."""

    log_end_offset: int | None
    """None until it has fetched in this term with a log that does not diverge."""
    caught_up: bool
    """It may join the ISR: it is at the high watermark and at the start of this term, or past them, and where
    the answer to its fetch before said that the leader's log ends."""
    lost: bool
    """It fetched below the high watermark, so lines that it once acknowledged are gone. An ISR member of
    which this is true must leave the ISR at once; it is given no line before `set_isr` leaves it out."""


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """What a host knows of one partition."""

    role: Role
    leader_epoch: int
    """Of the role; -1 with none."""
    log_end_offset: int
    """Offset that the next line will get."""
    high_watermark: int
    """The first offset that consumers may not read yet. A follower's is the one that its leader sent last."""
    term_start: int
    """Of a leader: its log end offset when it became leader; else -1."""
    followers: Mapping[int, Follower] = field(default_factory=dict)
    """Of a leader: every other replica, by broker id."""
    failure: str | None = None
    """What keeps this replica from its role, or from its leader's lines; for people."""


class Failure(NamedTuple):
    """Why a replica has no role, or cannot go on with its leader's lines; for people."""

    reason: str
    since_ms: int
    """Epoch milliseconds."""
