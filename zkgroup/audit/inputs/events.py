"""The row on which every finding stands: one change, in the order of zxid and place in its multi.

In one process rows come from `zkgroup.zkfiles`, in Spark from Parquet; findings are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from zkgroup.zkfiles.records import Acl, StoredZnode, lifetime_of
from zkgroup.zkfiles.tree import Tree

OPS: Final = ("create", "delete", "set", "setACL", "check", "createSession", "closeSession", "error")
CREATE, DELETE, SET, SET_ACL, CHECK, CREATE_SESSION, CLOSE_SESSION, ERROR = range(8)
LIFETIMES: Final = (None, "session", "container", "ttl")
OF_SESSION: Final = 1
"""The code of an ephemeral."""


Op = Literal["create", "delete", "set", "setACL", "check", "createSession", "closeSession", "error"]
Lifetime = Literal["session", "container", "ttl"]

SINGLE = -1
"""`sub` of an operation that stood alone, and of a seed."""


class Event(NamedTuple):
    """One operation. Multis and session closes are opened; a failed multi's rows are there, not applied.

    A history begins with seeds: each znode of the snapshot it starts from, as a create at its czxid with the
    data and version that the snapshot has; and each of its sessions, as a createSession at zxid 0.
    """

    zxid: int
    sub: int
    """Place in its multi or close, from 0; -1 for an operation that stood alone, and for seeds."""
    time_ms: int
    """The leader's clock, since 1970. For durations only: it can step back."""
    session: int
    """Names who did it. A seed has its ephemeralOwner, or 0: a snapshot does not say who wrote."""
    cxid: int
    """0 where a closeSession is an expiry, and for rows that came of it."""
    op: Op
    path: str
    """Empty where there is none: sessions, and single requests that failed."""
    data: bytes | None = None
    version: int | None = None
    ephemeral: Lifetime | None = None
    timeout_ms: int | None = None
    error: int | None = None
    applied: bool = True
    seed: bool = False
    synthetic: bool = False
    """A deletion that no record names: an ephemeral that went with its session, before 3.6."""
    acl: Acl | None = None
    """create and setACL. None in a seed whose ACL the snapshot lacks, or where ACLs were not read."""
    mtime_ms: int | None = None
    """A seed: when its data was last written; `time_ms` is when it was created."""


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
