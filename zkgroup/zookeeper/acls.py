"""The ACL that a znode is created with, by its path. Every client of zkgroup creates by this rule alone."""

from __future__ import annotations

from collections.abc import Sequence

from zkgroup.znodes.access import HIDDEN_PATHS, OPEN_PATH
from zkgroup.zookeeper.settings import ANYONE, OPEN_ACL, Acl
from zkgroup.zookeeper.wire import pack_acl


def acl_at(path: str, acl: Sequence[Acl]) -> tuple[Acl, ...]:
    """The ACL of a new znode at this path, for a client whose setting `acl` is this one.

    `path` is relative to the chroot. Where secrets are, the entries for everyone are left out, unless there
    are no others: an open cluster is open there, too.
    """
    if path == OPEN_PATH:
        return OPEN_ACL
    if path.startswith(HIDDEN_PATHS):
        return tuple(entry for entry in acl if (entry.scheme, entry.identity) != ANYONE) or tuple(acl)
    return tuple(acl)


class PackedAcls:
    """The ACL of each new znode as bytes, packed once."""

    __slots__ = ("_hidden", "_open", "_usual")

    def __init__(self, acl: Sequence[Acl]) -> None:
        """`acl`: as in `ClientSettings`."""
        self._usual = pack_acl(acl)
        self._hidden = pack_acl(acl_at(HIDDEN_PATHS[0], acl))
        self._open = pack_acl(OPEN_ACL)

    def at(self, path: str) -> bytes:
        """`acl_at` of a path relative to the chroot."""
        if path == OPEN_PATH:
            return self._open
        return self._hidden if path.startswith(HIDDEN_PATHS) else self._usual
