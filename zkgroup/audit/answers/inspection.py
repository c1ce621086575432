"""The health of each file of an input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from zkgroup.audit.inputs.found_files import folder_content
from zkgroup.audit.inputs.manifest import is_converted
from zkgroup.errors import NotZooKeeperFileError
from zkgroup.zkfiles.exports import EXPORT, inspect_export
from zkgroup.zkfiles.files import LOG, SNAPSHOT, ServerFile
from zkgroup.zkfiles.health import FileHealth, inspect_log
from zkgroup.zkfiles.records import Hole, hole_between
from zkgroup.zkfiles.snapshots import inspect_snapshot

_INSPECTORS: dict[str, Callable[[Path], FileHealth]] = {
    SNAPSHOT: inspect_snapshot,
    LOG: inspect_log,
    EXPORT: inspect_export,
}


def health_of(inputs: Iterable[Path]) -> Iterator[FileHealth]:
    """The health of each of these snapshots and exports, and of the files of these folders by zxid.

    Parquet that `audit run` wrote has none of these files. Raises NotZooKeeperFileError for any other input.
    """
    for path in inputs:
        if is_converted(path):
            continue
        alone = {path: EXPORT if ServerFile.of(path) is None else SNAPSHOT}
        for file, kind in (folder_content(path).kinds if path.is_dir() else alone).items():
            yield inspected(file, kind)


def inspected(path: Path, kind: str) -> FileHealth:
    """The health of a file; one that cannot be read, or is not what its name says, is damaged."""
    try:
        return _INSPECTORS[kind](path)
    except NotZooKeeperFileError as error:
        detail = f"expected {error.expected}, found {error.found}"
        return FileHealth(path, kind, None, None, 0, False, None, False, detail)


def holes_of(files: Sequence[FileHealth]) -> list[Hole]:
    """The zxids between these logs, and up to the newest snapshot, that are in none of them.

    Transactions had them. The logs of a server to which its leader sent a snapshot have such a hole too.
    """
    logs = sorted(
        (one.first_zxid or 0, one.last_zxid or 0) for one in files if one.kind == LOG and one.records
    )
    newest = max((one.first_zxid or 0 for one in files if one.kind == SNAPSHOT), default=0)
    begins = [*(first for first, _ in logs), newest + 1]
    reached = accumulate((last for _, last in logs), max)
    found = [hole_between(last, first) for last, first in zip(reached, begins[1:], strict=True)]
    return [hole for hole in found if hole is not None]
