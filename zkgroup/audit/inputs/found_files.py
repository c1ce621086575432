"""Finds what an audit reads among files and folders: tree snapshots, and the folders of servers with logs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from zkgroup.errors import DamagedFileError, MissingFileError, NotZooKeeperFileError
from zkgroup.model.text import named
from zkgroup.zkfiles.exports import EXPORT, ExportHeader, ExportReader, begins_as_export
from zkgroup.zkfiles.files import SNAPSHOT, ServerFile, ServerFiles, list_files
from zkgroup.zkfiles.records import hole_between
from zkgroup.zkfiles.tree import Tree

_OF_SERVERS: Final = frozenset(
    ("acceptedEpoch", "currentEpoch", "initialize", "myid", "zookeeper_server.pid")
)
"""Files that servers keep beside their snapshots."""
_OF_EXPORTS: Final = (".zkexport", ".gz")


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
    tree: Tree | None = None
    """The tree itself, where that is no file but the end of logs, or a walked one."""


@dataclass(slots=True)
class FoundFiles:
    """What some paths hold for an audit."""

    folders: list[Path] = field(default_factory=list)
    """Those of servers, where any has logs."""
    snapshots: list[SnapshotFile] = field(default_factory=list)
    """Exports, and servers' snapshots that no log leads on from, by zxid."""
    covered: list[SnapshotFile] = field(default_factory=list)
    """The first and the last of the other snapshots of the folders, and the trees at the end of logs."""
    skipped: list[SkippedFile] = field(default_factory=list)
    """What cannot be read."""
    notes: list[str] = field(default_factory=list)

    def export(self, path: Path) -> bool:
        """Takes an export, also one that cannot be read. Returns whether it is one."""
        try:
            if not begins_as_export(path):
                return False
            header = ExportReader(path).header
        except DamagedFileError as error:
            self.skipped.append(SkippedFile(str(path), reason_of(error)))
        except NotZooKeeperFileError as error:
            is_regular = path.is_file() and not path.is_symlink()
            is_empty = is_regular and path.suffix in _OF_EXPORTS and not path.stat().st_size
            if not is_empty and (not is_regular or os.access(path, os.R_OK)):
                return False
            self.skipped.append(SkippedFile(str(path), reason_of(error)))
        else:
            self.snapshots.append(SnapshotFile(header.zxid_before, path, header))
        return True


def reason_of(error: DamagedFileError | NotZooKeeperFileError) -> str:
    """What is wrong with a file, without its path."""
    place = f"byte {error.offset}: " if isinstance(error, DamagedFileError) else ""
    return f"{place}expected {error.expected}, found {error.found}"


def find_files(paths: Iterable[Path]) -> FoundFiles:
    """All of these files and folders, each once.

    Of several paths those that are nothing of ZooKeeper are noted, for `*` names them too. Raises
    NotZooKeeperFileError where nothing is left, and MissingFileError where something is not there.
    """
    found, refused, servers = FoundFiles(), [], []
    for path in dict.fromkeys(Path(os.path.normpath(path)) for path in paths):
        try:
            if path.is_dir():
                servers += _add_folder(found, path)
            else:
                _add_file(found, path)
        except MissingFileError:
            raise
        except NotZooKeeperFileError as error:
            refused.append(error)
    if refused and not (servers or found.snapshots or found.skipped):
        raise refused[0]
    found.notes += [f"ignored: {error}" for error in refused]
    with_logs = [each for each in servers if each.logs]
    first_logged = min((each.logs[0].zxid for each in with_logs), default=None)

    def is_led_on(zxid: int) -> bool:
        return first_logged is not None and hole_between(zxid, first_logged) is None

    based = [each for each in servers if any(is_led_on(file.zxid) for file in each.snapshots)]
    if with_logs and not any(each in with_logs for each in based):
        with_logs = [*with_logs, *based]  # a server may keep its snapshots apart from its logs
    found.folders = [each.folder for each in servers if each in with_logs]
    for server in servers:
        for each in server.snapshots:
            of_logs = server in with_logs and is_led_on(each.zxid)
            (found.covered if of_logs else found.snapshots).append(SnapshotFile(each.zxid, each.path, None))
    in_order = sorted(found.covered, key=lambda each: each.zxid)
    found.covered = [*in_order[:1], *in_order[1:][-1:]]
    by_path = {each.path.resolve(): each for each in found.snapshots}
    found.snapshots = sorted(by_path.values(), key=lambda each: (each.zxid, each.header is None, each.path))
    return found


class FolderContent(NamedTuple):
    """The files of a server and the exports in a folder."""

    server: ServerFiles | None
    exports: FoundFiles
    others: list[str]
    """The names that are neither, nor those of files that servers keep beside their own."""

    @property
    def kinds(self) -> dict[Path, str]:
        """Snapshots and logs by zxid, and then exports by zxid and those that cannot be read."""
        server = self.server or ServerFiles(Path(), (), ())
        exports = [each.path for each in sorted(self.exports.snapshots)]
        exports += [Path(each.path) for each in self.exports.skipped]
        files = {file.path: file.kind for file in sorted((*server.snapshots, *server.logs))}
        return {**files, **dict.fromkeys(exports, EXPORT)}


def folder_content(path: Path) -> FolderContent:
    """The files in a folder, or of a server in the `version-2` below it.

    Raises NotZooKeeperFileError where there are none, or the folder cannot be read.
    """
    server, refused = None, None
    try:
        server = list_files(path)
    except NotZooKeeperFileError as error:
        if path.is_symlink() or not (path.is_dir() and os.access(path, os.R_OK | os.X_OK)):
            raise
        refused = error
    exports, others = FoundFiles(), []
    for each in sorted(path.iterdir()):
        is_of_server = ServerFile.of(each) is not None or each.name in _OF_SERVERS
        is_hidden = each.name.startswith(".")  # as what `audit export` has not finished is
        if not (is_of_server or is_hidden) and not each.is_dir() and not exports.export(each):
            others.append(each.name)
    if refused is not None and not (exports.snapshots or exports.skipped):
        raise refused
    return FolderContent(server, exports, others)


def _add_folder(found: FoundFiles, path: Path) -> list[ServerFiles]:
    """Takes the exports in a folder, and returns the files of a server there."""
    server, exports, others = folder_content(path)
    if server is None or not server.logs or exports.snapshots:  # a server's folder may hold anything
        found.snapshots += exports.snapshots
        found.skipped += exports.skipped
        if others:
            found.notes.append(f"{path}: neither snapshots nor exports, so ignored: {named(others)}")
    return [] if server is None else [server]


def _add_file(found: FoundFiles, path: Path) -> None:
    named_so = ServerFile.of(path)
    if named_so is not None and named_so.kind == SNAPSHOT and os.path.lexists(path):
        found.snapshots.append(SnapshotFile(named_so.zxid, path, None))
    elif named_so is not None or not found.export(path):
        list_files(path)  # says what it is
