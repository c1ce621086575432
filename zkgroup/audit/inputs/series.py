"""A series of tree snapshots of one ensemble, as rules see it: what a path was in which of them.

A snapshot is a file of `audit export`, or one that a server wrote. They are numbered from 0 in the order of
their zxids. Paths are those that clients of the chroot see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from zkgroup.zkfiles.records import StoredZnode

ZnodeState = StoredZnode
"""A znode as one or more snapshots have it; its `cversion` counts creates only, as a server stores it."""


class Seen(NamedTuple):
    """What consecutive snapshots have of a path, all of them the same."""

    state: ZnodeState | None
    """None where the path was not there."""
    first: int
    last: int
    """Numbers of snapshots. A run ends before one in which the path is unknown."""


States = Mapping[str, Sequence[Seen]]
"""By path, or by a name in it, the runs in order."""
