"""The ACL that a znode is created with. Every client of zkgroup creates by this rule alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from zkgroup.model.requests import AclEntry
from zkgroup.znodes.access import HIDDEN_PATHS, OPEN_PATH, models_of, secret_acl
from zkgroup.zookeeper.settings import ANYONE, OPEN_ACL, Acl
from zkgroup.zookeeper.wire import pack_acl, pack_entries

KNOWN_S: Final = 60.0
"""Seconds after which the ACL of a group is read again."""


def acl_at(path: str, acl: Sequence[Acl]) -> tuple[Acl, ...]:
    """The ACL of a new znode at this path, for a client whose setting `acl` is this one.

    `path` is relative to the chroot. Where secrets are, the entries for everyone are left out, unless there
    are no others: an open cluster is open there, too. In a group that exists, and for secrets in a closed
    cluster, `models_of` decides instead.
    """
    if path == OPEN_PATH:
        return OPEN_ACL
    if path.startswith(HIDDEN_PATHS):
        return tuple(entry for entry in acl if (entry.scheme, entry.identity) != ANYONE) or tuple(acl)
    return tuple(acl)


class CreationAcls:
    """The ACL of each new znode of one client, as bytes.

    A client with credentials creates what is in a group with the ACL that the group has (`models_of`), and a
    secret, if it is set to create open znodes, with that of a parent that is closed (`secret_acl`). It
    reads that once in a while, before it creates something there: a packet or two. A client without
    credentials can be no member of a closed group, and reads nothing.
    """

    __slots__ = ("_hidden", "_known", "_now", "_open", "_usual", "opened", "version")

    def __init__(self, acl: Sequence[Acl], now: Callable[[], float] | None = None) -> None:
        """`acl`: as in `ClientSettings`; `now`: the clock, in seconds, of a client with credentials."""
        self._usual = pack_acl(acl)
        self._hidden = pack_acl(acl_at(HIDDEN_PATHS[0], acl))
        self._open = pack_acl(OPEN_ACL)
        self._now = now
        self._known: dict[str, tuple[bytes, float]] = {}
        """ACL of groups, of their offsets, and of secrets; and until when it counts."""
        self.version = 0
        """Changes with what `at` returns."""
        self.opened: str | None = None
        """See `ZooKeeperClient.opened`."""

    def at(self, path: str) -> bytes:
        """The ACL of a new znode at a path relative to the chroot, by what is known."""
        if path == OPEN_PATH:
            return self._open
        is_secret = path.startswith(HIDDEN_PATHS)
        if self._known and not (is_secret and self._hidden != self._open):
            for model in models_of(path):
                found = self._known.get(model)  # another thread may forget it
                if found is not None:
                    return found[0]
        is_counted = self._now is not None and not is_secret and not path.startswith(OPEN_PATH)
        if is_counted and self._usual == self._open:
            self.opened = self.opened or path
        return self._hidden if is_secret else self._usual

    def unknown(self, paths: Iterable[str]) -> list[str]:
        """The znodes whose ACL is to be read before these are created."""
        if self._now is None:
            return []
        models = dict.fromkeys(model for path in paths for model in models_of(path))
        now = self._now()
        return [model for model in models if model not in self._known or self._known[model][1] <= now]

    def learn(self, path: str, acl: Sequence[AclEntry] | None) -> None:
        """Takes the ACL of a znode; None where it may not be read."""
        assert self._now is not None
        if path.startswith(HIDDEN_PATHS):
            acl = None if acl is None else secret_acl(acl)
        packed = self._usual if acl is None else pack_entries(acl)
        self._known[path] = packed, self._now() + KNOWN_S
        self.version += 1

    def forget(self, path: str | None = None) -> None:
        """Forgets a znode that does not exist; or everything, on a new connection."""
        self.version += 1
        if path is None:
            self._known.clear()
        else:
            self._known.pop(path, None)
