"""Opens what an audit reads: the folders of servers, one tree, or Parquet of `audit run`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zkgroup.audit.inputs.events import seeds_of
from zkgroup.audit.inputs.folders import Folders
from zkgroup.audit.inputs.manifest import is_converted
from zkgroup.audit.inputs.source import (
    Covered,
    PointInTime,
    Progress,
    Rows,
    SeenTree,
    Source,
    quiet,
    require_columns,
)
from zkgroup.audit.inputs.texts import first_of
from zkgroup.errors import ConfigError, NotFoundError
from zkgroup.zkfiles.exports import ExportHeader, ExportReader, is_export
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.names import list_files
from zkgroup.zkfiles.records import StoredZnode
from zkgroup.zkfiles.tree import Tree

if TYPE_CHECKING:
    from zkgroup.audit.inputs.rows import Columns


class OneTree(Source):
    """One tree: an export, or what a walk found."""

    def __init__(
        self, header: ExportHeader, znodes: Callable[[], Iterable[StoredZnode]], chroot: str = ""
    ) -> None:
        super().__init__(chroot)
        self._header, self._znodes = header, znodes
        self._details |= dict.fromkeys(filter(None, [inconsistency_of(header)]))

    def tree(self, at: PointInTime | None = None) -> SeenTree:
        header, zxid = self._header, self._header.zxid_before
        if at is not None and at.zxid != zxid:
            raise NotFoundError(
                f"nothing but the tree at zxid {zxid:#x} is known; other moments need the folders of servers"
            )
        tree = Tree.from_znodes(self._znodes(), zxid=zxid, digests=False)
        return SeenTree(tree, zxid, header.time_ms, header.is_exact, False, inconsistency_of(header))

    def rows(self, start: PointInTime | None = None, end: PointInTime | None = None) -> Rows:
        self.zxids(start, end)
        seen = self.tree()
        self._note_chroot(is_empty=not seen.tree.paths(self.chroot))

        def parts(rows_per_part: int, groups: Collection[str] | None = None) -> Iterator[Columns]:
            from zkgroup.audit.inputs.rows import columns_of

            yield columns_of(seeds_of(seen.tree, self.chroot))

        return Rows(parts, seen, None, is_one_tree=True)

    def zxid_at(self, time_ms: int) -> int:
        return self._header.zxid_before

    def _covered(self) -> Covered:
        raise ConfigError("one tree has no history: --since and --until are for the folders of servers")


def inconsistency_of(header: ExportHeader) -> str:
    """Returns what keeps a tree from being exact; empty where nothing does."""
    if header.detail:
        return header.detail
    found, changed, unreadable = [], header.changed, header.unreadable
    if changed:
        until = f"while it was read, up to {header.zxid_after:#x}"
        found.append(f"{len(changed)} paths changed {until}: {first_of(changed, 5)}")
    if unreadable:
        found.append(f"{len(unreadable)} paths could not be read: {first_of(unreadable, 5)}")
    return "; ".join(found)


def path_of(text: str) -> Path:
    """The path of a word of the command line, which may also be a `file:` URI, as Spark takes them."""
    rest = text.removeprefix("file:")
    return Path(rest.removeprefix("//") if rest.startswith("///") else rest)


def require_source(path: Path) -> None:
    """Raises NotZooKeeperFileError for what `open_source` takes for none; reads no more than names."""
    if not (is_converted(path) or is_export(path)):
        list_files(path)


def open_source(
    paths: Sequence[Path],
    chroot: str = "",
    progress: Progress | None = None,
    *,
    ensemble: str | None = None,
) -> Source:
    """The folders of one ensemble's servers, one export, or Parquet that `audit run` wrote.

    Args:
        ensemble: which one, of Parquet that has several.

    Raises NotZooKeeperFileError for what is none of these, ConfigError for a mixture, and for Parquet where
    numpy or pyarrow is not installed.
    """
    tables = [path for path in paths if is_converted(path)]
    if tables:
        if len(paths) > 1:
            raise ConfigError(f"{tables[0]} is Parquet of `audit run`: expected nothing beside it")
        require_columns()
        from zkgroup.audit.inputs.converted import open_converted

        return open_converted(tables[0], ensemble, chroot, progress or quiet)
    if ensemble is not None:
        raise ConfigError(f"ensemble {ensemble!r}: only Parquet of `audit run` has ensembles by name")
    exports = [path for path in paths if is_export(path)]
    if not exports:
        return Folders(History(*paths), chroot, progress or quiet)
    if len(paths) > 1:
        raise ConfigError(f"{exports[0]} is an export, which is asked alone: expected nothing beside it")
    reader = ExportReader(exports[0])
    return OneTree(reader.header, reader.znodes, chroot)
