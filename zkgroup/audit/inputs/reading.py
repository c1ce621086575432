"""The znodes and sessions that a history begins with, as rows."""

from __future__ import annotations

from collections.abc import Iterator

from zkgroup.audit.inputs.events import SINGLE, Event
from zkgroup.zkfiles.lifetimes import lifetime_of
from zkgroup.zkfiles.records import StoredZnode
from zkgroup.zkfiles.tree import Tree


def seeds_of(tree: Tree, chroot: str = "") -> Iterator[Event]:
    """The sessions of a tree, and its znodes by zxid and path, without those outside a chroot."""
    for session, timeout_ms in sorted(tree.sessions.items()):
        yield Event(0, SINGLE, 0, session, 0, "createSession", "", timeout_ms=timeout_ms, seed=True)
    znodes = (one for path in tree.paths() if (one := tree.stored(path)) is not None)
    for znode in sorted(znodes, key=lambda each: (each.stat.czxid, each.path)):
        path = inside_path(znode.path, chroot)
        if path is not None and path != "/":
            yield seed_of(znode, path)


def seed_of(znode: StoredZnode, path: str) -> Event:
    """A znode as a seed, with the path that clients see."""
    stat = znode.stat
    lifetime = lifetime_of(stat.ephemeral_owner)
    return Event(
        stat.czxid,
        SINGLE,
        stat.ctime,
        stat.ephemeral_owner if lifetime == "session" else 0,
        0,
        "create",
        path,
        znode.data,
        stat.version,
        lifetime,
        seed=True,
        acl=znode.acl,
        mtime_ms=stat.mtime,
    )


def inside_path(path: str, chroot: str) -> str | None:
    """A path as clients of a chroot see it; None outside, and the empty one stays."""
    if not chroot or not path:
        return path
    if path.startswith(f"{chroot}/"):
        return path[len(chroot) :]
    return "/" if path == chroot else None
