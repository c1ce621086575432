"""What ZooKeeper tells about a znode beside its data."""

from __future__ import annotations

from typing import Final, NamedTuple


class ZnodeStat(NamedTuple):
    """The eleven fields of ZooKeeper's Stat, in wire order (zookeeper.jute, `Stat`).

    A tuple rather than a dataclass: bulk reads make tens of thousands of them.
    """

    czxid: int
    """Transaction that created the znode."""
    mzxid: int
    """Transaction that last set its data."""
    ctime: int
    """Creation time, epoch milliseconds by the leader's clock."""
    mtime: int
    version: int
    """Number of data changes; a re-created znode starts again at 0."""
    cversion: int
    """Number of child creations and deletions."""
    aversion: int
    ephemeral_owner: int
    """Session id of the owner; 0 for a persistent znode."""
    data_length: int
    children_count: int
    pzxid: int
    """Transaction that last created or deleted a child."""


STAT_NAMES: Final = (
    "czxid",
    "mzxid",
    "ctime",
    "mtime",
    "version",
    "cversion",
    "aversion",
    "ephemeralOwner",
    "dataLength",
    "numChildren",
    "pzxid",
)
"""How ZooKeeper's own tools name the fields of ZnodeStat, in the same order."""


class AclEntry(NamedTuple):
    """One entry of an ACL: `perms` are bits (read 1, write 2, create 4, delete 8, admin 16)."""

    perms: int
    scheme: str
    id: str


class ZnodeAcl(NamedTuple):
    """Who may do what with a znode, and its Stat at the same moment.

    From 3.5.5 on a server shows who has no admin right to a znode the ids of digest entries masked.
    """

    acl: tuple[AclEntry, ...]
    stat: ZnodeStat


class Znode(NamedTuple):
    """A znode as read: `data` is None where the server stores null, which is not the empty string."""

    path: str
    data: bytes | None
    stat: ZnodeStat
