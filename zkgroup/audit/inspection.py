"""How far each file of an input is good."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from zkgroup.audit.manifest import is_converted
from zkgroup.errors import NotZooKeeperFileError
from zkgroup.zkfiles.exports import EXPORT, inspect_export, is_export
from zkgroup.zkfiles.health import FileHealth
from zkgroup.zkfiles.log_health import inspect_log
from zkgroup.zkfiles.names import LOG, SNAPSHOT, list_files
from zkgroup.zkfiles.snapshots import inspect_snapshot

_INSPECTORS: dict[str, Callable[[Path], FileHealth]] = {
    SNAPSHOT: inspect_snapshot,
    LOG: inspect_log,
    EXPORT: inspect_export,
}


def health_of(inputs: Iterable[Path]) -> Iterator[FileHealth]:
    """That of each file of these folders of servers, by zxid, and of these exports.

    Parquet that `audit run` wrote has none of their files. Raises NotZooKeeperFileError for what is neither.
    """
    for path in inputs:
        if is_export(path):
            yield inspected(path, EXPORT)
            continue
        if is_converted(path):
            continue
        listed = list_files(path)
        for file in sorted((*listed.snapshots, *listed.logs)):
            yield inspected(file.path, file.kind)


def inspected(path: Path, kind: str) -> FileHealth:
    """One that cannot be read, or is something else than its name says, is damaged like any other."""
    try:
        return _INSPECTORS[kind](path)
    except NotZooKeeperFileError as error:
        return FileHealth(
            path=path,
            kind=kind,
            first_zxid=None,
            last_zxid=None,
            records=0,
            is_healthy=False,
            good_until_zxid=None,
            is_exact=False,
            detail=f"expected {error.expected}, found {error.found}",
        )
