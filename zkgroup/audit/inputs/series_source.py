"""The source of tree snapshots over time, alone or beside the folders of servers with logs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from zkgroup.audit.inputs import source
from zkgroup.audit.inputs.events import seeds_of
from zkgroup.audit.inputs.found_files import FoundFiles, SkippedFile
from zkgroup.audit.inputs.one_tree import inconsistency_of
from zkgroup.audit.inputs.snapshots import Series, SeriesReader
from zkgroup.audit.inputs.source import Difference, PointInTime, Progress, Rows, SeenTree, Source, quiet
from zkgroup.errors import ConfigError, DamagedFileError, NotFoundError
from zkgroup.model.text import counted, time_text
from zkgroup.zkfiles.history import diff_trees
from zkgroup.zkfiles.records import hole_between, is_below
from zkgroup.zkfiles.snapshots import TreeSnapshot
from zkgroup.zkfiles.tree import Tree

if TYPE_CHECKING:
    from zkgroup.audit.inputs.rows import Columns


def read_series(
    found: FoundFiles, chroot: str = "", progress: Progress = quiet, folders: Source | None = None
) -> Source:
    """The source of what was found; of logs alone where no snapshot can be read. Raises as `SeriesReader`."""
    reader = SeriesReader(found.read, chroot, progress, is_whole=folders is not None)
    skipped = reader.skipped = [*found.skipped]
    try:
        return SeriesSource(reader.series(), chroot, progress, folders, skipped, found.notes, reader.twins)
    except DamagedFileError:
        if folders is None:
            raise
        folders.skipped = skipped
        return folders


class SeriesSource(Source):
    """Tree snapshots of one ensemble, for what its logs do not cover where there are folders with some."""

    def __init__(
        self,
        whole: Series,
        chroot: str = "",
        progress: Progress = quiet,
        folders: Source | None = None,
        skipped: Sequence[SkippedFile] = (),
        notes: Sequence[str] = (),
        twins: int = 0,
    ) -> None:
        """`twins` is the number of snapshots that count with another one of their zxid."""
        super().__init__(chroot, progress)
        self.skipped, self.series = skipped, [whole]
        self.whole, self._folders = whole, folders
        self.has_logs, self._first, self._last = folders is not None, 0, 0
        if folders is not None:
            self.history, (logged, self._first, self._last) = folders.history, folders.logged
            if logged < self._first and hole_between(whole.snapshots[0].end_zxid, logged) is not None:
                hole = f"the logs begin at {logged:#x}, behind a hole"
                self._details[f"{hole}, so they are read from {self._first:#x} on"] = None
        covered = [each.number for each in whole.snapshots if self.covers(each.end_zxid)]
        if covered:
            behind = whole.within(covered[-1], len(whole.snapshots) - 1)
            parts = [whole.within(0, covered[0], ends=False), behind]
            self.series = [each for each in parts if len(each.snapshots) > 1]
        self._details |= dict.fromkeys(notes)
        details = [text for each in whole.snapshots if (text := _inconsistency(each))]
        if details:
            are = "is" if len(details) == 1 else "are"
            of = f"{len(details)} of {len(whole.snapshots)} snapshots {are} not exact and whole, the last: "
            self._details[details[-1] if len(whole.snapshots) == 1 else of + details[-1]] = None
        if twins:
            self._details[f"{counted(twins, 'snapshot')} of a zxid that another one has, too"] = None

    def covers(self, zxid: int) -> bool:
        """Returns whether logs tell of a moment."""
        is_within = self._folders is not None and zxid <= self._last
        return is_within and hole_between(zxid, self._first) is None

    def is_logged(self, start: PointInTime | None, end: PointInTime | None) -> bool:
        """True if logs tell of a range: it does not end before them, and does not begin behind them."""
        if self._folders is None or (end is not None and self.zxid_of(end) < self._first):
            return False
        return start is None or self.zxid_range(start, None)[0] <= max(self._last, self._first)

    def tree(self, at: PointInTime | None = None) -> SeenTree:
        if self._folders is not None and self._is_logged(at):
            return self._folders.tree(at)
        return self._seen(at)

    def rows(self, start: PointInTime | None = None, end: PointInTime | None = None) -> Rows:
        """Of the logs; where there are none, or they begin later, of the last snapshot of the range alone."""
        if self._folders is not None and self.is_logged(start, end):
            return self._folders.rows(start, end)
        self.zxids(start, end)
        seen = self._seen(end)
        self._note_chroot(is_empty=not seen.tree.paths(self.chroot))

        def parts(rows_per_part: int, groups: Collection[str] | None = None) -> Iterator[Columns]:
            from zkgroup.audit.inputs.rows import columns_of

            yield columns_of(seeds_of(seen.tree, self.chroot))

        return Rows(parts, seen, None, is_one_tree=True)

    def zxid_at(self, time_ms: int) -> int:
        logged = None
        if self._folders is not None:
            with suppress(NotFoundError):
                logged = self._folders.zxid_at(time_ms)
        if logged is None:
            return self.snapshot(PointInTime(time_ms=time_ms)).end_zxid
        with suppress(NotFoundError):
            is_behind = logged >= self._last
            return max(logged, self.snapshot(PointInTime(time_ms=time_ms)).end_zxid) if is_behind else logged
        return logged

    def diff(self, start: PointInTime, end: PointInTime, below: str = "/") -> Difference:
        """What is known at both moments, and differs. Raises NotFoundError for those of one snapshot."""
        last = self._ends().last_zxid
        told = [None if self._is_logged(at) else self.snapshot(at) for at in (start, end)]
        if self._folders is not None and told == [None, None]:
            return self._folders.diff(start, end, below)._replace(last_zxid=last)
        if start != end and told[0] is not None and told[0] == told[1]:
            of = f"{told[0].path} is the last snapshot until both moments"
            raise NotFoundError(f"{of}, so nothing can be compared")
        before, after = self.tree(start), self.tree(end)
        changes = [*diff_trees(before.tree, after.tree, below)]
        for moment in (before, after):
            moment.require_known(below, self.chroot)
            changes = [each for each in changes if moment.tells(each.path, self.chroot)]
            if not moment.is_exact:
                notes = self._lost if moment.is_damaged else self._details
                notes[source.standing_text(moment.zxid, moment.detail)] = None
        is_exact = before.is_exact and after.is_exact
        later = max(before, after, key=lambda each: each.zxid)
        inside = below.removeprefix(self.chroot) or "/"
        unknown = (each for each in {**before.unknown, **after.unknown} if is_below(each, (inside,)))
        return Difference(changes, before.zxid, after.zxid, later.time_ms, is_exact, last, sorted(unknown))

    def damages(self) -> list[str]:
        return [*(() if self._folders is None else self._folders.damages()), *super().damages()]

    def notes(self) -> list[str]:
        return [*(() if self._folders is None else self._folders.notes()), *super().notes()]

    def _covered(self) -> source.Covered:
        if self._folders is None and len(self.whole.snapshots) == 1:
            raise ConfigError("one tree has no history: --since and --until need logs, or several snapshots")
        return self._ends()

    def _ends(self) -> source.Covered:
        first, last = self.whole.snapshots[0], self.whole.snapshots[-1]
        ends = source.Covered(first.zxid, first.time_ms, last.end_zxid, last.time_ms, "snapshots")
        if self._folders is None:
            return ends
        both = self._folders._covered(), ends
        end = max(both, key=lambda each: each.last_zxid)
        begin = min(both, key=lambda each: each.first_zxid or 0)
        return begin._replace(last_zxid=end.last_zxid, last_ms=end.last_ms)

    def _is_logged(self, at: PointInTime | None) -> bool:
        """True if logs know the tree of a moment best."""
        if self._folders is None:
            return False
        at = at or PointInTime(self._ends().last_zxid)
        is_early = hole_between(self.zxid_of(at), self._first) is not None
        with suppress(NotFoundError):
            return not is_early and self.snapshot(at).end_zxid <= self._last
        return True

    def snapshot(self, at: PointInTime | None) -> TreeSnapshot:
        """The last one at or before a moment. Raises NotFoundError."""
        snapshots = self.whole.snapshots
        for one in reversed(snapshots):
            if at is None or (
                one.end_zxid <= at.zxid if at.zxid is not None else one.time_ms <= (at.time_ms or 0)
            ):
                return one
        assert at is not None
        asked = time_text(at.time_ms or 0) if at.zxid is None else f"{at.zxid:#x}"
        first = snapshots[0]
        of = f"{first.end_zxid:#x} ({time_text(first.time_ms)})"
        raise NotFoundError(f"{first.path}: the first snapshot is of {of}, after {asked}")

    def _seen(self, at: PointInTime | None) -> SeenTree:
        """The tree of the last snapshot at or before a moment."""
        one = self.snapshot(at)
        zxid, time_ms, detail = one.end_zxid, one.time_ms or None, _inconsistency(one)
        if at is not None and at.zxid != zxid:
            known = f"{one.path} is the last snapshot until then"
            detail = f"{known}; {detail}" if detail else known
        znodes = (
            each._replace(path=(self.chroot + each.path).rstrip("/") or "/")
            for each in self.whole.tree(one.number)
        )
        tree = Tree.from_znodes(znodes, zxid=zxid, sessions=one.sessions, digests=False)
        return SeenTree(tree, zxid, time_ms, not detail, False, detail, one)


def _inconsistency(snapshot: TreeSnapshot) -> str:
    return snapshot.detail if snapshot.header is None else inconsistency_of(snapshot.header)
