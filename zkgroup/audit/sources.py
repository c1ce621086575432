"""Opens what an audit reads: the folders of servers, one export, or Parquet of `audit run`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zkgroup.audit.folders import Folders
from zkgroup.audit.installed import require_columns
from zkgroup.audit.manifest import is_converted
from zkgroup.audit.one_tree import OneTree, inconsistency_of
from zkgroup.audit.progress import Progress, quiet
from zkgroup.audit.source import Source
from zkgroup.errors import ConfigError
from zkgroup.zkfiles.exports import ExportReader, is_export
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.names import list_files


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
        from zkgroup.audit.converted import open_converted

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
