"""One znode of a replayed tree: what changes, and how a client is shown it.

Source: DataNode.java@3.9.4.
"""

from __future__ import annotations

from zkgroup.model.requests import Znode, ZnodeStat
from zkgroup.zkfiles.lifetimes import lifetime_of
from zkgroup.zkfiles.records import Acl, StoredStat


class Node:
    """One znode. `base` is the CRC of path and data, None where digests are not kept; `crc` its digest."""

    __slots__ = (
        "acl",
        "aversion",
        "base",
        "children",
        "crc",
        "ctime",
        "cversion",
        "czxid",
        "data",
        "mtime",
        "mzxid",
        "owner",
        "pzxid",
        "version",
    )

    def __init__(
        self, data: bytes | None, acl: Acl | None, owner: int = 0, zxid: int = 0, time_ms: int = 0
    ) -> None:
        self.data = data
        self.acl = acl
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime = self.mtime = time_ms
        self.version = self.cversion = self.aversion = 0
        self.owner = owner
        self.children = 0
        self.base: int | None = None
        self.crc = 0

    def stored(self) -> StoredStat:
        return StoredStat(
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            self.version,
            self.cversion,
            self.aversion,
            self.owner,
            self.pzxid,
        )


def are_equal(one: Node, other: Node, *, with_pzxid: bool) -> bool:
    """Whether data and history are the same, and the ACL as far as both know it."""
    return (
        one.data == other.data
        and one.stored()[:-1] == other.stored()[:-1]
        and (one.pzxid == other.pzxid or not with_pzxid)
        and (one.acl == other.acl or None in (one.acl, other.acl))
    )


def seen(path: str, node: Node) -> Znode:
    """A client is shown the sessions of ephemerals only, and counts changes of children, not creates."""
    stat = ZnodeStat(
        node.czxid,
        node.mzxid,
        node.ctime,
        node.mtime,
        node.version,
        2 * node.cversion - node.children,
        node.aversion,
        node.owner if lifetime_of(node.owner) == "session" else 0,
        len(node.data or b""),
        node.children,
        node.pzxid,
    )
    return Znode(path or "/", node.data, stat)
