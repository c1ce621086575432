"""Sources of tree snapshots over time: a series of them, alone or beside the folders of servers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from zkgroup.audit.inputs.events import seeds_of
from zkgroup.audit.inputs.found_files import FoundFiles
from zkgroup.audit.inputs.one_tree import inconsistency_of
from zkgroup.audit.inputs.snapshots import Series, SeriesReader
from zkgroup.audit.inputs.source import (
    Covered,
    Difference,
    PointInTime,
    Progress,
    Rows,
    SeenTree,
    Source,
    quiet,
    standing_text,
)
from zkgroup.errors import ConfigError, NotFoundError
from zkgroup.model.text import counted, time_text
from zkgroup.zkfiles.history import History, diff_trees
from zkgroup.zkfiles.records import StoredZnode, hole_between
from zkgroup.zkfiles.tree import Tree

if TYPE_CHECKING:
    from zkgroup.audit.inputs.rows import Columns


class SeriesSource(Source):
    """Tree snapshots of one ensemble."""

    def __init__(self, found: FoundFiles, chroot: str = "", progress: Progress = quiet) -> None:
        """Reads all of them, and raises as `SeriesReader` does."""
        super().__init__(chroot, progress)
        files = sorted((*found.snapshots, *found.covered), key=lambda each: each.zxid)
        reader = SeriesReader(files, chroot, progress, is_whole=bool(found.folders))
        self.whole = reader.series()
        self.series = [self.whole]
        self.skipped = [*found.skipped, *reader.skipped]
        self._details |= dict.fromkeys(found.notes)
        details = [
            text for number in range(len(self.whole.snapshots)) if (text := self._inconsistency(number))
        ]
        if details:
            one = self.whole.snapshots
            of = f"{len(details)} of {len(one)} snapshots are not exact and whole, the last: "
            self._details[details[-1] if len(one) == 1 else of + details[-1]] = None
        if reader.twins:
            self._details[f"{counted(reader.twins, 'snapshot')} of a zxid that another one has, too"] = None

    def tree(self, at: PointInTime | None = None) -> SeenTree:
        number = self._number(at)
        snapshot = self.whole.snapshots[number]
        detail = self._inconsistency(number)
        if at is not None and at.zxid != snapshot.end_zxid:
            known = f"{snapshot.path} is the last snapshot until then"
            detail = f"{known}; {detail}" if detail else known
        zxid, time_ms = snapshot.end_zxid, snapshot.time_ms or None
        return SeenTree(self._tree(number), zxid, time_ms, not detail, False, detail, snapshot.unreadable)

    def rows(self, start: PointInTime | None = None, end: PointInTime | None = None) -> Rows:
        """Of the last snapshot of the range alone: rules about states read `series`."""
        self.zxids(start, end)
        seen = self.tree(end)
        self._note_chroot(is_empty=not seen.tree.paths(self.chroot))

        def parts(rows_per_part: int, groups: Collection[str] | None = None) -> Iterator[Columns]:
            from zkgroup.audit.inputs.rows import columns_of

            yield columns_of(seeds_of(seen.tree, self.chroot))

        return Rows(parts, seen, None, is_one_tree=True)

    def zxid_at(self, time_ms: int) -> int:
        return self.zxid_of_last(PointInTime(time_ms=time_ms))

    def diff(self, start: PointInTime, end: PointInTime, below: str = "/") -> Difference:
        """What is known at both of the last snapshots until two moments, and differs."""
        if start != end and self._number(start) == self._number(end):
            path = self.whole.snapshots[self._number(end)].path
            raise NotFoundError(f"{path} is the last snapshot until both moments, so nothing can be compared")
        return self.compared(self.tree(start), self.tree(end), below)

    def compared(self, before: SeenTree, after: SeenTree, below: str) -> Difference:
        """What differs between two trees, without what a snapshot does not tell."""
        told = [self._told_at(each.zxid) for each in (before, after)]
        changes = [
            each
            for each in diff_trees(before.tree, after.tree, below)
            if all(tells(each.path) for tells in told)
        ]
        for moment in (before, after):
            if not moment.is_exact:
                self._details[standing_text(moment.zxid, moment.detail)] = None
        is_exact = before.is_exact and after.is_exact
        later = max(before, after, key=lambda each: each.zxid)
        last = self.whole.snapshots[-1].end_zxid
        return Difference(changes, before.zxid, after.zxid, later.time_ms, is_exact, last)

    def _told_at(self, zxid: int) -> Callable[[str], bool]:
        """Returns whether the snapshot that ends there tells about a path; all paths where there is none."""
        ends = [each.end_zxid for each in self.whole.snapshots]
        number = max((each for each, end in enumerate(ends) if end == zxid), default=None)
        if number is None or not self.whole.snapshots[number].unknown:
            return lambda path: True
        return {self._outside(path) for path in self.whole.known(number)}.__contains__

    def zxid_of_last(self, at: PointInTime) -> int:
        """That of the last snapshot at or before a moment. Raises NotFoundError."""
        return self.whole.snapshots[self._number(at)].end_zxid

    def damages(self) -> list[str]:
        return [*(f"{each.path}: {each.reason}" for each in self.skipped), *super().damages()]

    def _covered(self) -> Covered:
        if len(self.whole.snapshots) == 1:
            raise ConfigError("one tree has no history: --since and --until need logs, or several snapshots")
        return self.ends()

    def ends(self) -> Covered:
        """The first and the last snapshot."""
        first, last = self.whole.snapshots[0], self.whole.snapshots[-1]
        return Covered(first.zxid, first.time_ms, last.end_zxid, last.time_ms, "snapshots")

    def _number(self, at: PointInTime | None) -> int:
        """Of the last snapshot at or before a moment. Raises NotFoundError."""
        snapshots = self.whole.snapshots
        for number in reversed(range(len(snapshots))):
            one = snapshots[number]
            if at is None or (
                one.end_zxid <= at.zxid if at.zxid is not None else one.time_ms <= (at.time_ms or 0)
            ):
                return number
        assert at is not None
        asked = time_text(at.time_ms or 0) if at.zxid is None else f"{at.zxid:#x}"
        path, _, zxid, time_ms, *_ = snapshots[0]
        of = f"{zxid:#x} ({time_text(time_ms)})"
        raise NotFoundError(f"{path}: the first snapshot is of {of}, after {asked}")

    def _inconsistency(self, number: int) -> str:
        snapshot = self.whole.snapshots[number]
        return snapshot.detail if snapshot.header is None else inconsistency_of(snapshot.header)

    def _tree(self, number: int) -> Tree:
        states = self.whole.tree(number)
        znodes = (StoredZnode(self._outside(each.path), each.data, each.acl, each.stat) for each in states)
        snapshot = self.whole.snapshots[number]
        return Tree.from_znodes(znodes, zxid=snapshot.end_zxid, sessions=snapshot.sessions, digests=False)

    def _outside(self, path: str) -> str:
        return (self.chroot + path).rstrip("/") or "/"


class MixedSource(Source):
    """The folders of servers with logs, and snapshots of before and after, for what the logs do not cover."""

    def __init__(self, folders: Source, history: History, snapshots: SeriesSource) -> None:
        super().__init__(folders.chroot, folders.progress)
        self.history = history
        self.skipped = snapshots.skipped
        self._folders, self._snapshots = folders, snapshots
        ensemble = history.ensemble
        self._first, self._last = ensemble.first_logged or 0, ensemble.last_record or 0
        self.series = self._parts()

    def covers(self, zxid: int) -> bool:
        """Returns whether the logs tell of a moment."""
        return hole_between(zxid, self._first) is None and zxid <= self._last

    def _parts(self) -> Sequence[Series]:
        """The snapshots up to the first one that the logs cover, and from the last such one on."""
        whole = self._snapshots.whole
        last = len(whole.snapshots) - 1
        covered = [number for number, each in enumerate(whole.snapshots) if self.covers(each.end_zxid)]
        if not covered:
            return [whole]
        self.logged_from = PointInTime(self._first)
        parts = [whole.within(0, covered[0], ends=False)] if covered[0] > 0 else []
        return [*parts, whole.within(covered[-1], last)] if covered[-1] < last else parts

    def tree(self, at: PointInTime | None = None) -> SeenTree:
        return self._of(at).tree(at)

    def rows(self, start: PointInTime | None = None, end: PointInTime | None = None) -> Rows:
        """Of the logs; where they begin behind the range of the last snapshot in it."""
        is_before = end is not None and self.zxid_of(end) < self._first
        return (self._snapshots if is_before else self._folders).rows(start, end)

    def zxid_at(self, time_ms: int) -> int:
        try:
            found = self._folders.zxid_at(time_ms)
        except NotFoundError:
            return self._snapshots.zxid_at(time_ms)
        with suppress(NotFoundError):
            later = self._snapshots.zxid_at(time_ms)
            return later if found >= self._last else found
        return found

    def diff(self, start: PointInTime, end: PointInTime, below: str = "/") -> Difference:
        if self._of(start) is self._of(end):
            found = self._of(start).diff(start, end, below)
        else:
            found = self._snapshots.compared(self.tree(start), self.tree(end), below)
        return found._replace(last_zxid=self._covered().last_zxid)

    def damages(self) -> list[str]:
        return [*self._folders.damages(), *self._snapshots.damages(), *super().damages()]

    def notes(self) -> list[str]:
        return [*self._folders.notes(), *self._snapshots.notes(), *super().notes()]

    def _covered(self) -> Covered:
        one, other = self._folders._covered(), self._snapshots.ends()
        first = min((one, other), key=lambda each: each.first_zxid or 0)
        last = max((one, other), key=lambda each: each.last_zxid)
        return Covered(first.first_zxid, first.first_ms, last.last_zxid, last.last_ms, first.what)

    def _of(self, at: PointInTime | None) -> Source:
        """The one that knows the tree of a moment best."""
        zxid = self.zxid_of(at) if at is not None else self._covered().last_zxid
        if self.covers(zxid):
            return self._folders
        with suppress(NotFoundError):
            number = self._snapshots.zxid_of_last(PointInTime(zxid) if at is None else at)
            return self._snapshots if zxid < self._first or number > self._last else self._folders
        return self._folders
