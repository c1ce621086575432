"""One tree as a source: an export, or what a walk found. It has seeds only, so nothing that needs a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from zkgroup.audit.events import Event
from zkgroup.audit.points_in_time import PointInTime
from zkgroup.audit.reading import events_of
from zkgroup.audit.source import Rows, SeenTree, empty_chroot_text, few
from zkgroup.errors import ConfigError, NotFoundError
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.records import StoredZnode
from zkgroup.zkfiles.tree import Tree


@dataclass(slots=True)
class OneTree:
    """One tree: an export, or what a walk found."""

    znodes: Callable[[], Iterable[StoredZnode]]
    zxid: int
    time_ms: int | None
    is_exact: bool
    detail: str = ""
    chroot: str = ""
    history: History | None = None
    _is_chroot_empty: bool = False

    def tree(self, at: PointInTime | None = None) -> SeenTree:
        self._require(at)
        tree = Tree.from_znodes(self.znodes(), zxid=self.zxid, digests=False)
        return SeenTree(tree, self.zxid, self.time_ms, self.is_exact, False, self.detail)

    def rows(self, start: PointInTime | None = None, end: PointInTime | None = None) -> Rows:
        self.zxids(start, end)
        seen = self.tree()
        seeds = seen.tree
        self._is_chroot_empty = bool(self.chroot) and not seeds.paths(self.chroot)

        def events() -> Iterator[Event]:
            stored = (one for path in seeds.paths() if (one := seeds.stored(path)) is not None)
            return events_of((), stored, self.chroot)

        return Rows(events, seen, None, is_one_tree=True)

    def zxids(
        self, start: PointInTime | None = None, end: PointInTime | None = None
    ) -> tuple[int, int | None]:
        if start is not None or end is not None:
            raise ConfigError("one tree has no history: --since and --until are for the folders of servers")
        return 0, None

    def damages(self) -> list[str]:
        return []

    def notes(self) -> list[str]:
        details = [self.detail] if self.detail else []
        return [*details, empty_chroot_text(self.chroot)] if self._is_chroot_empty else details

    def _require(self, at: PointInTime | None) -> None:
        if at is None or at.zxid == self.zxid:
            return
        raise NotFoundError(
            f"nothing but the tree at zxid {self.zxid:#x} is known; other moments need the folders of servers"
        )


def inconsistency_of(changed: Sequence[str], unreadable: Sequence[str], zxid_after: int) -> str:
    """What keeps a walked tree from being one moment's; empty where nothing does."""
    found = []
    if changed:
        found.append(f"{len(changed)} paths changed while it was read, up to {zxid_after:#x}: {few(changed)}")
    if unreadable:
        found.append(f"{len(unreadable)} paths could not be read: {few(unreadable)}")
    return "; ".join(found)
