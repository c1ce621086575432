"""Opens what an audit reads: the folders of servers, one tree, or Parquet of `audit run`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zkgroup.audit.inputs.events import seeds_of
from zkgroup.audit.inputs.folders import Folders
from zkgroup.audit.inputs.manifest import is_converted
from zkgroup.audit.inputs.source import (
    PointInTime,
    Progress,
    Rows,
    SeenTree,
    Source,
    empty_chroot_text,
    few,
    quiet,
    require_columns,
)
from zkgroup.errors import ConfigError, NotFoundError
from zkgroup.zkfiles.exports import ExportReader, is_export
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.names import list_files
from zkgroup.zkfiles.records import StoredZnode
from zkgroup.zkfiles.tree import Tree

if TYPE_CHECKING:
    from zkgroup.audit.inputs.rows import Columns


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

        def parts(rows_per_part: int, groups: Collection[str] | None = None) -> Iterator[Columns]:
            from zkgroup.audit.inputs.rows import columns_of

            yield columns_of(seeds_of(seeds, self.chroot))

        return Rows(parts, seen, None, is_one_tree=True)

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
    """Returns what keeps a walked tree from being one moment's; empty where nothing does."""
    found = []
    if changed:
        found.append(f"{len(changed)} paths changed while it was read, up to {zxid_after:#x}: {few(changed)}")
    if unreadable:
        found.append(f"{len(unreadable)} paths could not be read: {few(unreadable)}")
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
    header = reader.header
    return OneTree(
        znodes=reader.znodes,
        zxid=header.zxid_before,
        time_ms=header.time_ms,
        is_exact=header.is_exact,
        detail=header.detail or inconsistency_of(header.changed, header.unreadable, header.zxid_after),
        chroot=chroot,
    )
