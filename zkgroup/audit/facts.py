"""What every fold may know beside its own rows: small things about the whole history.

They are a fold themselves, over sessions, brokers, controllers and topics only, done first; in Spark they are
collected and sent to each worker. What grows with commits is not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Life(NamedTuple):
    """One existence of a znode, from its create to its delete."""

    path: str
    session: int
    """Who created it; for an ephemeral its owner."""
    data: bytes | None
    """What it was created with."""
    from_zxid: int
    from_ms: int
    to_zxid: int | None = None
    """None while it lives."""
    to_ms: int | None = None
    ended_by: int | None = None
    """The session that deleted it."""


class SessionLife(NamedTuple):
    """One session: None where the history began after its creation, or ended before its end."""

    session: int
    timeout_ms: int | None
    from_zxid: int | None
    from_ms: int | None
    to_zxid: int | None = None
    to_ms: int | None = None
    expired: bool | None = None
    """Whether the server ended it (closeSession with cxid 0); None while it lives."""


class Requested(NamedTuple):
    """A time in which a move of a partition was asked for."""

    partition: int
    from_zxid: int
    to_zxid: int | None = None
    """None while the request stands."""


class DataChange(NamedTuple):
    """What a znode held from a zxid on; None for its deletion."""

    zxid: int
    time_ms: int
    session: int
    data: bytes | None


@dataclass(frozen=True, slots=True)
class Facts:
    """The small things of one history. All sequences are ordered by zxid."""

    start_zxid: int = 0
    """Where the log begins; seeds are before it."""
    start_ms: int = 0
    end_zxid: int = 0
    end_ms: int = 0
    """The latest time in the history: what stands at the end has stood until then."""
    has_log: bool = True
    """False where only a snapshot was given."""
    is_whole: bool = True
    """False where what stood before the log is not known: no snapshot, nor the ensemble's first record."""
    sessions: Mapping[int, SessionLife] = field(default_factory=dict)
    open_by_server: Mapping[int, int] = field(default_factory=dict)
    """How many sessions live at the end, by the `myid` of the server that issued them."""
    controllers: tuple[Life, ...] = ()
    """The lives of `/controller`."""
    controller_epochs: tuple[DataChange, ...] = ()
    brokers: Mapping[str, tuple[Life, ...]] = field(default_factory=dict)
    """The lives of `/brokers/ids/<id>`, by id."""
    topics: Mapping[str, tuple[DataChange, ...]] = field(default_factory=dict)
    """What `/brokers/topics/<topic>` held, by topic."""
    slots_zxid: int | None = None
    """Since when `__consumer_offsets` has the slots of zkgroup's group coordinators; None: never."""
    moves: Mapping[str, tuple[Requested, ...]] = field(default_factory=dict)
    """By topic: the moves that `/admin/reassign_partitions` asked for, in the order in which they ended."""
    members: Mapping[str, tuple[Life, ...]] = field(default_factory=dict)
    """The lives of `/consumers/<group>/ids/<member>`, by group."""
    operator_acts: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """By group, the zxids of transactions with a reset marker or an audit record (recipes 6 and 18)."""
    derived: dict[tuple[str, ...], Any] = field(default_factory=dict, compare=False, repr=False)
    """What rules computed of the other fields, kept for the next one that needs it."""
