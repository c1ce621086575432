"""Digests of a tree as DigestCalculator.java makes them, counted anew from all of its znodes."""

from __future__ import annotations

from zlib import crc32

from tests.worlds.server_history import znodes_of
from zkgroup.zkfiles.records import StoredZnode
from zkgroup.zkfiles.tree import Tree


def naive_digest(tree: Tree) -> int:
    """The digest of a whole tree, without what `Tree` keeps up as it goes."""
    total = 0
    for znode in znodes_of(tree):
        path = "" if znode.path == "/" else znode.path
        if not path.startswith("/zookeeper/"):
            total += counted_as(znode, path.encode())
    return total % 2**64


def counted_as(znode: StoredZnode, path: bytes) -> int:
    """What one znode adds, field by field, with its path in the bytes of some charset."""
    stat = znode.stat
    longs = (stat.czxid, stat.mzxid, stat.pzxid, stat.ctime, stat.mtime)
    raw = b"".join(each.to_bytes(8, "big", signed=True) for each in longs)
    raw += b"".join(
        each.to_bytes(4, "big", signed=True) for each in (stat.version, stat.cversion, stat.aversion)
    )
    raw += stat.ephemeral_owner.to_bytes(8, "big", signed=True)
    return crc32(path + (znode.data or b"") + raw)
