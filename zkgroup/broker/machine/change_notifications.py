"""State in ZooKeeper that a broker follows by notifications: configurations, and access control lists.

A notification is only a trigger: what it names is read again. An unreadable one does not stop later ones.
Everything is read once in each session, so that no notification is missed; after that only what notifications
name. Source: kafka/common/ZkNodeChangeNotificationListener.scala@2.8.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

from zkgroup.broker.machine.events import BrokerContext
from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import Znode
from zkgroup.model.requests import Delete, ListChildren, Sync
from zkgroup.runtime.events import Watch
from zkgroup.runtime.procedures import (
    ConnectionLossError,
    NoAuthError,
    Procedure,
    Query,
    UnexpectedReplyError,
    Work,
    ask,
    list_done,
    read_allowed,
    write,
)

SubjectT = TypeVar("SubjectT")

DELETED_AT_ONCE: Final = 100


class ChangeFolder(NamedTuple):
    """A folder of notifications."""

    path: str
    znode: Callable[[int], str]
    """The path of a notification by its number."""
    sequence_of: Callable[[str], int | None]
    """The number of a child; None for a foreign name."""


class NotifiedState(ABC, Generic[SubjectT]):
    """What a broker has read, and the notifications that it has applied. A subject is what one names."""

    KIND: ClassVar[str]
    """The kind of change in log events: `config_change`."""
    FOLDERS: ClassVar[tuple[ChangeFolder, ...]]

    def __init__(self, core: BrokerContext) -> None:
        self._core = core
        self._must_load = self._must_read = True
        self._applied: frozenset[str] = frozenset()
        """The notifications that were applied and are still listed. Kafka keeps only the greatest number, and
        applies no change below one that a person has made by hand."""
        self._known: dict[str, Znode] = {}
        """Notifications that still exist."""
        self.has_read = False
        """True if the state of the start was emitted."""

    @abstractmethod
    def _loaded(self) -> Procedure[list[SubjectT]]:
        """Every subject that has a state, or had one at the last read."""

    @abstractmethod
    def _decode(self, znode: Znode) -> SubjectT:
        """The subject of a notification. Raises CorruptZnodeError, ConfigError."""

    @abstractmethod
    def _read(self, subjects: Iterable[SubjectT]) -> Procedure[None]:
        """Reads the state of these subjects, and emits what has changed."""

    def connected(self) -> None:
        """Notes a new connection: the watches are gone."""
        self._must_read = True

    def session_over(self) -> None:
        self._must_load = True

    def next(self) -> Work | None:
        if self._must_read or self._must_load:
            return f"apply each {self.KIND}", self._apply
        return None

    def next_later(self) -> Work | None:
        """Work that waits until everything else is done."""
        return (f"delete each old {self.KIND}", self._delete_old) if self._old() else None

    def _apply(self) -> Procedure[None]:
        self._must_read = False
        try:
            listed = yield from self._list()
            subjects = list((yield from self._loaded())) if self._must_load else []
            subjects += yield from self._named([path for path in listed if path not in self._applied])
            yield from self._read(dict.fromkeys(subjects))
        except (ConnectionLossError, NoAuthError, UnexpectedReplyError):
            self._must_read = True  # there may be no watch that would say so
            raise
        self._applied = frozenset(listed)
        self._must_load, self.has_read = False, True

    def _list(self) -> Procedure[list[str]]:
        """The paths of the present notifications; the watches are armed before they are read."""
        lists = yield from ask(
            Query(Sync(self.FOLDERS[0].path)),
            *(Query(ListChildren(each.path, watch=True), Watch(self._changed)) for each in self.FOLDERS),
        )
        paths = []
        for folder, outcome in zip(self.FOLDERS, lists[1:], strict=True):
            found = map(folder.sequence_of, list_done(outcome).children)
            paths += [folder.znode(number) for number in sorted(one for one in found if one is not None)]
        self._known = {path: znode for path, znode in self._known.items() if path in set(paths)}
        return paths

    def _changed(self) -> None:
        self._must_read = True

    def _named(self, paths: Sequence[str]) -> Procedure[list[SubjectT]]:
        """The subjects of notifications. A deleted or unreadable one counts as applied."""
        if not paths:
            return []
        subjects = []
        for znode in (yield from read_allowed(paths)):
            if not isinstance(znode, Znode):
                continue
            self._known[znode.path] = znode
            try:
                subjects.append(self._decode(znode))
            except (CorruptZnodeError, ConfigError) as error:
                self._core.note(f"{self.KIND}.unreadable", path=znode.path, detail=str(error))
        return subjects

    def _old(self) -> list[str]:
        """The notifications that were applied and have expired, by the servers' clock."""
        now_ms = self._core.server_time_ms
        if now_ms is None:
            return []
        since_ms = now_ms - self._core.config.change_age_max_ms
        return [path for path, znode in self._known.items() if znode.stat.ctime < since_ms]

    def _delete_old(self) -> Procedure[None]:
        """Deletes old notifications one by one: another broker may delete them too."""
        for path in self._old()[:DELETED_AT_ONCE]:
            znode = self._known.pop(path)
            yield from write([Delete(znode.path, znode.stat.version)], ())
