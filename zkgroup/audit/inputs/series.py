"""A series of tree snapshots of one ensemble, as rules see it: what a path was in which of them.

A snapshot is a file of `audit export`, or one that a server wrote. They are numbered from 0 in the order of
their zxids. Paths are those that clients of the chroot see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from zkgroup.zkfiles.records import Acl, StoredStat, is_below


class ZnodeState(NamedTuple):
    """A znode as one or more snapshots have it."""

    path: str
    data: bytes | None
    acl: Acl | None
    """None where it is not known."""
    stat: StoredStat
    """Its `cversion` counts creates only, as a server stores it."""


class Seen(NamedTuple):
    """What consecutive snapshots have of a path, all of them the same."""

    state: ZnodeState | None
    """None where the path was not there."""
    first: int
    last: int
    """Numbers of snapshots. A run ends before one in which the path is unknown."""


class SeriesSnapshot(NamedTuple):
    """One snapshot of a series."""

    number: int
    name: str
    """Its path or URI."""
    zxid: int
    """Everything that is known in it is at least as new."""
    end_zxid: int
    """Nothing in it is newer. The same as `zxid` for an export, and for a server's snapshot that is exact."""
    time_ms: int
    """When it was walked; of a server's snapshot the newest ctime or mtime in it, a lower bound."""
    is_exact: bool
    """True if all that is known in it is of `end_zxid`."""
    is_server: bool
    """True for a server's snapshot, which lists its sessions."""
    unknown: frozenset[str]
    """Paths of which it proves nothing, in an export; use `SeriesFacts.is_known`."""
    sessions: frozenset[int] | None
    """Those that lived, of a server's snapshot; None for an export."""


States = Mapping[str, Sequence[Seen]]
"""Of one key: each of its paths that any snapshot has, with its runs in order."""


@dataclass(frozen=True, slots=True)
class SeriesFacts:
    """The small things of a series, which each rule may know beside the states of its key."""

    snapshots: Sequence[SeriesSnapshot]
    members: Mapping[str, States] = field(default_factory=dict)
    """By group: the registrations `/consumers/<group>/ids/<member>`."""
    brokers: Mapping[str, Sequence[Seen]] = field(default_factory=dict)
    """By id: `/brokers/ids/<id>`."""
    topics: Mapping[str, Sequence[Seen]] = field(default_factory=dict)
    """By topic: `/brokers/topics/<topic>`."""
    controller: Sequence[Seen] = ()
    """`/controller`."""
    controller_epoch: Sequence[Seen] = ()
    """`/controller_epoch`."""
    ends: bool = True
    """False where logs go on behind the last snapshot."""
    derived: dict[tuple[object, ...], Any] = field(default_factory=dict, compare=False, repr=False)
    """Results that rules computed of the other fields, kept for the next one that needs them."""

    def is_known(self, path: str, number: int) -> bool:
        """False where a snapshot, by its number, may lack this path or have it as it was later."""
        unknown = self.snapshots[number].unknown
        return not (unknown and is_below(path, unknown))
