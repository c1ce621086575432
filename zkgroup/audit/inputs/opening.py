"""Opens the inputs of an audit: folders and tree snapshots of one ensemble, or Parquet of `audit run`.

The source of folders is here: trees, rows, and faults of the files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from zkgroup.audit.inputs import source
from zkgroup.audit.inputs.events import seeds_of
from zkgroup.audit.inputs.found_files import FoundFiles, SnapshotFile, find_files
from zkgroup.audit.inputs.manifest import Folder, OutputFolder, is_converted
from zkgroup.audit.inputs.source import Difference, PointInTime, Progress, Rows, SeenTree, Source, quiet
from zkgroup.errors import ConfigError, NotFoundError
from zkgroup.model.text import named
from zkgroup.zkfiles.exports import ExportHeader
from zkgroup.zkfiles.history import Account, History, PastTree
from zkgroup.zkfiles.tree import Tree
from zkgroup.znodes.consumers import consumers_path, group_path

if TYPE_CHECKING:
    from zkgroup.audit.inputs.rows import Columns
    from zkgroup.zkfiles.arrow import LeftOutWrites


def path_of(text: str) -> Path:
    """The path of an argument of the command line, which may be a `file:` URI, as Spark takes them."""
    rest = text.removeprefix("file:")
    return Path(rest.removeprefix("//") if rest.startswith("///") else rest)


def require_source(path: Path) -> None:
    """Raises NotZooKeeperFileError for paths that `open_source` refuses; reads only names and headers."""
    if not is_converted(path):
        find_files((path,))


def open_source(
    paths: Sequence[Path], chroot: str = "", progress: Progress | None = None, *, ensemble: str | None = None
) -> Source:
    """Opens the folders and tree snapshots of one ensemble's servers, or Parquet that `audit run` wrote.

    Args:
        ensemble: the name of one, for Parquet that has several.

    Raises NotZooKeeperFileError for any other path, ConfigError for something beside Parquet, and where
    numpy or pyarrow is not installed. Tree snapshots are read at once, so it raises what `SeriesReader` does.
    """
    tables = [path for path in paths if is_converted(path)]
    if tables:
        if len(paths) > 1:
            raise ConfigError(f"{tables[0]} is Parquet of `audit run`: expected nothing beside it")
        source.require_columns()
        from zkgroup.audit.inputs.converted import ConvertedSource

        output = OutputFolder(Folder(str(tables[0])))
        converted = ConvertedSource(output, output.named(ensemble), chroot, progress or quiet)
        if converted.converted.series:
            from zkgroup.audit.inputs.stored_series import stored_series

            return stored_series(converted)
        return converted
    if ensemble is not None:
        raise ConfigError(f"ensemble {ensemble!r}: only Parquet of `audit run` has ensembles by name")
    found = find_files(paths)
    folders = Folders(History(*found.folders), chroot, progress or quiet) if found.folders else None
    end_logs(found, folders)
    if folders is not None and not (found.snapshots or found.skipped):
        return folders
    source.require_columns()
    from zkgroup.audit.inputs.series_source import read_series

    return read_series(found, chroot, progress or quiet, folders)


def end_logs(found: FoundFiles, folders: Folders | None, known: Collection[int] = ()) -> None:
    """Takes the snapshots behind the last record, and the tree there, which they are compared with.

    Args:
        known: the zxids of other snapshots, which are read already.
    """
    if folders is None:
        return
    is_unlogged = folders.history.ensemble.unlogged is not None
    # The newest log is read to its end only where something may lie behind it.
    last = folders.history.ensemble.last_record if is_unlogged or found.snapshots or known else None
    if last is None:
        return
    if is_unlogged:
        found.end_logs(last)
    if last not in known and any(zxid > last for zxid in (*(each.zxid for each in found.snapshots), *known)):
        seen, path = folders.tree(PointInTime(last)), found.folders[0]
        header = ExportHeader(
            time_ms=seen.time_ms, source="", zxid_before=last, zxid_after=last, detail=seen.detail
        )
        tail = SnapshotFile(last, path, header, lambda reader: reader.read_tree(path, header, seen.tree))
        found.covered.append(tail)


class Folders(Source):
    """The folders of servers of one ensemble as a source."""

    def __init__(self, history: History, chroot: str = "", progress: Progress = quiet) -> None:
        super().__init__(chroot, progress)
        self.history: History = history

    @property
    def logged(self) -> tuple[int, int, int]:
        ensemble = self.history.ensemble
        first = ensemble.first_logged or 0
        return first, max(first, self.history.first_followed + 1), ensemble.last_record or 0

    def tree(self, at: PointInTime | None = None) -> SeenTree:
        self._note_outside(None, at)
        at = at or PointInTime()
        past = self.history.tree_at(zxid=at.zxid, time_ms=at.time_ms)
        self._note_skipped(past.account)
        return _seen(past)

    def rows(self, start: PointInTime | None = None, end: PointInTime | None = None) -> Rows:
        from_zxid, to_zxid = zxids = self.zxids(start, end)
        self.note_unlogged(self.history.ensemble, zxids, end)
        # Where all rows up to the end are read anyway, a record at the end of the newest log is enough.
        servers = self.history.ensemble.servers if to_zxid is None else ()
        if not any(server.about_last_zxid() for server in servers) and not self.history.last_zxid:
            self._details["the files have no transaction and no tree, so nothing was searched"] = None
        try:
            past = self._before(from_zxid, to_zxid)
        except NotFoundError as error:
            first = self.history.ensemble.first_logged
            if first is None or from_zxid > 1:
                raise
            return self._log_alone(first - 1, to_zxid, str(error))
        self._note(past.account)
        return self._rows(_seen(past), to_zxid, is_whole=past.account.is_whole)

    def _rows(self, seen: SeenTree, to_zxid: int | None, *, is_whole: bool) -> Rows:
        """The rows behind a tree; `is_whole` is True if it has all znodes of that moment."""

        def parts(rows_per_part: int, groups: Collection[str] | None = None) -> Iterator[Columns]:
            from zkgroup.audit.inputs.logs import Ends, LoggedRange
            from zkgroup.audit.inputs.rows import columns_of

            # If the tree lacks znodes, a set may be the only trace of a group.
            left_out = _offsets_of_others(groups, self.chroot) if is_whole and groups is not None else None
            before = columns_of(seeds_of(seen.tree, self.chroot))
            log = LoggedRange(self.history, seen.zxid, to_zxid, self.chroot, self.progress, self._holes)
            ends, has_paths = Ends(), False
            for part in chain([before], log.parts(rows_per_part, left_out)):
                has_paths = has_paths or any(part.paths)
                yield ends.added(part)
            self._note_chroot(is_empty=not has_paths)

        return Rows(parts, seen, to_zxid, self.progress)

    def zxid_at(self, time_ms: int) -> int:
        return self.history.zxid_at(time_ms)

    def diff(self, start: PointInTime, end: PointInTime, below: str = "/") -> Difference:
        """The changes at and below a path of the servers between two moments, in either order.

        The range is replayed once, in one tree. Raises NotFoundError where the files begin later.
        """
        for moment in (start, end):
            self._note_outside(None, moment)
        zxids = self.zxid_of(start), self.zxid_of(end)
        first, last = min(zxids), max(zxids)
        found = self.history.compared(first, last, below)
        for account in found.accounts:
            self._note(account)
        if self.chroot and not found.changes:
            self._note_chroot(is_empty=not self.tree(end).tree.paths(self.chroot))
        if len(found.accounts) > 1:
            self._details["the logs do not lead from one tree to the other, so both were compared"] = None
        if found.first_bad_zxid is not None:
            text = f"the tree's digest is another than the servers' from {found.first_bad_zxid:#x} on"
            self._lost[text] = None
        behind = [
            hole
            for moment, zxid in zip((start, end), zxids, strict=True)
            if moment.zxid is None and (hole := self.history.unlogged_behind(zxid)) is not None
        ]
        self._holes |= dict.fromkeys(behind)
        is_decided = not any(first < zxid <= last for zxid in self.history.ensemble.undecided)
        is_known = last <= self.history.last_zxid and is_decided and not behind
        is_exact = found.first_bad_zxid is None and all(each.is_exact for each in found.accounts)
        changes = found.changes if zxids[0] <= zxids[1] else [each.reversed() for each in found.changes]
        return Difference(changes, *zxids, found.time_ms, is_exact and is_known, self.history.last_zxid)

    def damages(self) -> list[str]:
        found = [
            f"{damage.path}, byte {damage.offset}: expected {damage.expected}, found {damage.found}"
            for server in self.history.ensemble.servers
            for damage in server.damages.values()
        ]
        return [*found, *super().damages()]

    def notes(self) -> list[str]:
        ensemble = self.history.ensemble
        found = [
            f"{path}: records from {zxid:#x} on stand in an earlier log too, and count once"
            for server in ensemble.servers
            for path, zxid in server.overlaps.items()
        ]
        undecided = {zxid: ensemble.splits[zxid][0] for zxid in ensemble.undecided}
        decided = ensemble.splits.keys() - undecided.keys()
        if decided:
            found.append(
                f"servers have different records at {_some(decided)}; what most of them have is taken"
            )
        if undecided:
            taken = named(dict.fromkeys(chain(*undecided.values())))
            found.append(
                f"servers have different records at {_some(undecided)}, and none is that of most; "
                f"what {taken} has, which goes furthest, is taken"
            )
        if ensemble.rolled_back:
            found.append(f"the ensemble went on without {_some(ensemble.rolled_back)}, so they are left out")
        return [*found, *super().notes()]

    def _note_skipped(self, account: Account) -> None:
        """Notes the snapshots that could not be used for a tree that is not exact, and why."""
        if not account.is_exact:
            self._details |= {f"not used: {why}": None for why in account.skipped}

    def _note(self, account: Account) -> None:
        """Notes that the tree that answers begin with is not exact."""
        self._note_skipped(account)
        if not account.is_exact:
            self._holes |= dict.fromkeys(account.holes)
            notes = self._lost if account.is_damaged and not account.holes else self._details
            notes[source.standing_text(account.zxid, account.detail)] = None

    def _covered(self) -> source.Covered:
        history = self.history
        first, last = history.ensemble.first_logged, history.last_zxid
        ends = [() if zxid is None else history.transactions(zxid, zxid) for zxid in (first, last)]
        first_ms, last_ms = (next((each.time_ms for each in end), None) for end in ends)
        return source.Covered(first, first_ms, last, last_ms)

    def _log_alone(self, before: int, to_zxid: int | None, why: str) -> Rows:
        """The rows of a log without its beginning; they have no seeds, as the tree before is not known."""
        detail = "what stood before the first record is not known"
        if any(server.files.snapshots for server in self.history.ensemble.servers):
            self._lost[why] = None
        else:
            detail += ", as there is no snapshot"
        nothing = Tree.from_znodes((), zxid=before, digests=False)
        self._details[source.standing_text(before, detail)] = None
        return self._rows(SeenTree(nothing, before, None, False, False, detail), to_zxid, is_whole=False)

    def _before(self, from_zxid: int, to_zxid: int | None) -> PastTree:
        """The tree before a transaction, or the first one that is known to be of one moment.

        Without a record behind it, it is the last one that is asked for.
        """
        ensemble = self.history.ensemble
        if not any(log.zxid >= from_zxid for server in ensemble.servers for log in server.files.logs):
            last = ensemble.last_record  # nothing is read if names are enough
            if last is None or last < from_zxid:
                return self.history.tree_at(zxid=to_zxid)
        if from_zxid > 1:
            with suppress(NotFoundError):
                past = self.history.tree_at(zxid=from_zxid - 1)
                if past.account.is_whole and past.account.snapshot_zxid >= self.history.first_followed:
                    return past
        return self.history.beginning()


def _offsets_of_others(groups: Collection[str], chroot: str) -> LeftOutWrites:
    """The writes that a question about one group, or about no group, does not need: commits of the others.

    They are nine tenths of a log. Facts and the names of groups are those of all rows: only applied rows are
    left out, whose parent a row that stays created, and only below `/offsets/`, where no facts are.
    """
    from zkgroup.zkfiles.arrow import LeftOutWrites

    but = next((f"{chroot}{group_path(group)}/" for group in groups), None)
    return LeftOutWrites(f"{chroot}{consumers_path()}/", "/offsets/", but)


def _seen(past: PastTree) -> SeenTree:
    tree, of = past
    return SeenTree(tree, of.zxid, of.time_ms, of.is_exact, of.is_damaged, of.detail)


def _some(zxids: Iterable[int]) -> str:
    return named(f"{zxid:#x}" for zxid in sorted(zxids))
