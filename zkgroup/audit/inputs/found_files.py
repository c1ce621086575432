"""Finds what an audit reads among files and folders: tree snapshots, and the folders of servers with logs.

Also the health of each file of an input.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from zkgroup.audit.inputs.manifest import is_converted
from zkgroup.errors import DamagedFileError, MissingFileError, NotZooKeeperFileError
from zkgroup.model.text import named
from zkgroup.zkfiles.exports import EXPORT, ExportHeader, ExportReader, begins_as_export, inspect_export
from zkgroup.zkfiles.files import LOG, SNAPSHOT, ServerFile, ServerFiles, list_files
from zkgroup.zkfiles.logs import FileHealth, inspect_log
from zkgroup.zkfiles.records import Hole, hole_between
from zkgroup.zkfiles.snapshots import TreeSnapshot, inspect_snapshot

if TYPE_CHECKING:
    from zkgroup.zkfiles.states import StatesReader

_OF_SERVERS: Final = frozenset(
    ("acceptedEpoch", "currentEpoch", "initialize", "myid", "zookeeper_server.pid")
)
OF_EXPORTS: Final = (".zkexport", ".gz")


class SkippedFile(NamedTuple):
    """A file that could not be read, and why."""

    path: str
    reason: str


class SnapshotFile(NamedTuple):
    """A tree snapshot, as its name or its header says."""

    zxid: int
    path: Path
    header: ExportHeader | None
    """That of an export; None for a server's snapshot."""
    read: Callable[[StatesReader], tuple[TreeSnapshot, Any]] | None = None
    """Reads what is no file: the end of logs, a walked tree, and what `audit run` stored."""


Stamp = tuple[str, int, int]
"""A file's path, its bytes and the time of its last change: while these are the same, it is the same."""


def stamp_of(path: Path) -> Stamp:
    """The stamp of a file, with the time in nanoseconds; that of one that is not there is of no file."""
    try:
        stat = path.lstat()
    except OSError:
        return str(path), -1, 0
    return str(path), stat.st_size, stat.st_mtime_ns


@dataclass(slots=True)
class FoundFiles:
    """What some paths hold for an audit."""

    known: Mapping[Stamp, SnapshotFile] | None = None
    """Exports that were read before, which are not opened again."""
    servers: list[ServerFiles] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    """Those of servers, where any has logs."""
    snapshots: list[SnapshotFile] = field(default_factory=list)
    """Exports, and servers' snapshots that no log leads on from, by zxid."""
    covered: list[SnapshotFile] = field(default_factory=list)
    """The other snapshots of the folders by zxid, and the trees at the end of logs."""
    skipped: list[SkippedFile] = field(default_factory=list)
    """What cannot be read."""
    notes: list[str] = field(default_factory=list)

    def export(self, path: Path) -> bool:
        """Takes an export, also one that cannot be read. Returns whether it is one."""
        known = self.known.get(stamp_of(path)) if self.known else None
        if known is not None:
            self.snapshots.append(known)
            return True
        try:
            if not begins_as_export(path):
                return False
            header = ExportReader(path).header
        except (DamagedFileError, NotZooKeeperFileError) as error:
            is_empty = path.suffix in OF_EXPORTS and path.is_file() and not path.stat().st_size
            is_lost = path.is_file() and not path.is_symlink() and (is_empty or not os.access(path, os.R_OK))
            if not is_lost and isinstance(error, NotZooKeeperFileError):
                return False
            self.skipped.append(SkippedFile(str(path), reason_of(error)))
        else:
            self.snapshots.append(SnapshotFile(header.zxid_before, path, header))
        return True

    def end_logs(self, zxid: int) -> None:
        """Takes the snapshots behind the last record, which no log tells of."""
        self.snapshots += (each for each in self.covered if each.zxid > zxid)
        self.covered = [each for each in self.covered if each.zxid <= zxid]

    @property
    def read(self) -> list[SnapshotFile]:
        """Those that a series is made of, by zxid: of what logs tell of the first and the last one."""
        ends = (*self.covered[:1], *self.covered[1:][-1:])
        return sorted((*self.snapshots, *ends), key=lambda each: each.zxid)

    @property
    def kinds(self) -> dict[Path, str]:
        """Servers' snapshots and logs by zxid, and then exports by zxid and those that cannot be read."""
        files = sorted(file for server in self.servers for file in (*server.snapshots, *server.logs))
        exports = (
            *(each.path for each in sorted(self.snapshots)),
            *(Path(each.path) for each in self.skipped),
        )
        return {**{file.path: file.kind for file in files}, **dict.fromkeys(exports, EXPORT)}


def reason_of(error: DamagedFileError | NotZooKeeperFileError) -> str:
    """What is wrong with a file, without its path."""
    place = f"byte {error.offset}: " if isinstance(error, DamagedFileError) else ""
    return f"{place}expected {error.expected}, found {error.found}"


def find_files(paths: Iterable[Path], known: Mapping[Stamp, SnapshotFile] | None = None) -> FoundFiles:
    """All of these files and folders, each once; `known` exports are not opened.

    Of several paths those that are nothing of ZooKeeper are noted, for `*` names them too. Raises
    NotZooKeeperFileError where nothing is left, and MissingFileError where something is not there.
    """
    found, refused = FoundFiles(), []
    for path in dict.fromkeys(Path(os.path.normpath(path)) for path in paths):
        try:
            here = folder_content(path, known) if path.is_dir() else _file_content(path, known)
        except MissingFileError:
            raise
        except NotZooKeeperFileError as error:
            refused.append(error)
            continue
        found.servers += here.servers
        if here.snapshots or not any(each.logs for each in here.servers):  # whose folders may hold anything
            found.snapshots += here.snapshots
            found.skipped += here.skipped
            found.notes += here.notes
    if refused and not (found.servers or found.snapshots or found.skipped):
        raise refused[0]
    found.notes += [f"ignored: {error}" for error in refused]
    _sort_out(found)
    return found


def _sort_out(found: FoundFiles) -> None:
    """Decides which folders are read for their logs, and which snapshots logs lead on from."""
    with_logs = [each for each in found.servers if each.logs]
    first_logged = min((each.logs[0].zxid for each in with_logs), default=None)

    def is_led_on(file: ServerFile) -> bool:
        return first_logged is not None and hole_between(file.zxid, first_logged) is None

    based = [each for each in found.servers if any(map(is_led_on, each.snapshots))]
    if with_logs and not any(each in with_logs for each in based):
        with_logs += based  # a server may keep its snapshots apart from its logs
    found.folders = [each.folder for each in found.servers if each in with_logs]
    for server in found.servers:
        for each in server.snapshots:
            some = found.covered if server in with_logs and is_led_on(each) else found.snapshots
            some.append(SnapshotFile(each.zxid, each.path, None))
    found.covered.sort(key=lambda each: each.zxid)
    real = cache(Path.resolve)
    by_path = {(real(each.path.parent), each.path.name): each for each in found.snapshots}
    found.snapshots = sorted(by_path.values(), key=lambda each: (each.zxid, each.header is None, each.path))


def folder_content(path: Path, known: Mapping[Stamp, SnapshotFile] | None = None) -> FoundFiles:
    """The exports in a folder, and the files of a server there or in the `version-2` below it.

    Raises NotZooKeeperFileError where there are none, or the folder cannot be read.
    """
    found, refused, others = FoundFiles(known), None, []
    try:
        found.servers.append(_server_files(path))
    except NotZooKeeperFileError as error:
        if not (path.is_dir() and os.access(path, os.R_OK | os.X_OK)):
            raise
        refused = error
    for each in sorted(path.iterdir()):
        is_of_server = ServerFile.of(each) is not None or each.name in _OF_SERVERS
        is_hidden = each.name.startswith(".")  # as what `audit export` has not finished is
        if not (is_of_server or is_hidden) and not each.is_dir() and not found.export(each):
            others.append(each.name)
    if refused is not None and not (found.snapshots or found.skipped):
        raise refused
    if others and (found.snapshots or not any(each.logs for each in found.servers)):
        found.notes.append(f"{path}: neither snapshots nor exports, so ignored: {named(others)}")
    return found


def _file_content(path: Path, known: Mapping[Stamp, SnapshotFile] | None) -> FoundFiles:
    found, named_so = FoundFiles(known), ServerFile.of(path)
    if named_so is not None and named_so.kind == SNAPSHOT and os.path.lexists(path):
        found.snapshots.append(SnapshotFile(named_so.zxid, path, None))
    elif named_so is not None or not found.export(path):
        _server_files(path)  # says what it is
    return found


def _server_files(path: Path) -> ServerFiles:
    """As `list_files`, but errors say that an export is allowed, too."""
    try:
        return list_files(path)
    except NotZooKeeperFileError as error:
        raise type(error)(error.path, f"an export, or {error.expected}", error.found) from error


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
