"""Finds what an audit reads among files and folders: tree snapshots, and the folders of servers with logs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from zkgroup.audit.inputs.source import SkippedFile
from zkgroup.errors import DamagedFileError, MissingFileError, NotZooKeeperFileError
from zkgroup.model.text import named
from zkgroup.zkfiles.exports import ExportHeader, ExportReader, begins_as_export
from zkgroup.zkfiles.files import LOG, ServerFile, ServerFiles, list_files
from zkgroup.zkfiles.records import hole_between

_EXPECTED: Final = "the folder of a server, a snapshot, an export or a folder of exports"
_OF_SERVERS: Final = frozenset(
    ("acceptedEpoch", "currentEpoch", "initialize", "myid", "zookeeper_server.pid")
)
"""Files that servers keep beside their snapshots."""
_OF_EXPORTS: Final = (".zkexport", ".gz")


class SnapshotFile(NamedTuple):
    """A tree snapshot, as its name or its header says."""

    zxid: int
    path: Path
    header: ExportHeader | None
    """That of an export; None for a server's snapshot."""


@dataclass(slots=True)
class FoundFiles:
    """What some paths hold for an audit."""

    folders: list[Path] = field(default_factory=list)
    """Those of servers, where any has logs."""
    snapshots: list[SnapshotFile] = field(default_factory=list)
    """Exports, and servers' snapshots that no log leads on from, by zxid."""
    covered: list[SnapshotFile] = field(default_factory=list)
    """The other snapshots of the folders."""
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
    first_logged = min((each.logs[0].zxid for each in servers if each.logs), default=None)
    for each in (file for server in servers for file in server.snapshots):
        is_led_on = first_logged is not None and hole_between(each.zxid, first_logged) is None
        (found.covered if is_led_on else found.snapshots).append(SnapshotFile(each.zxid, each.path, None))
    if first_logged is not None:
        found.folders = [server.folder for server in servers]
    by_path = {each.path.resolve(): each for each in found.snapshots}
    found.snapshots = sorted(by_path.values(), key=lambda each: (each.zxid, each.header is None, each.path))
    return found


def exports_in(folder: Path) -> tuple[FoundFiles, list[str]]:
    """The exports in a folder, and the names in it that are neither exports nor a server's files."""
    found, others = FoundFiles(), []
    for path in sorted(folder.iterdir()):
        # `audit export` is just writing a file whose name begins with a dot, or was killed then.
        is_passed = ServerFile.of(path) is not None or path.name in _OF_SERVERS or path.name.startswith(".")
        if not is_passed and not path.is_dir() and not found.export(path):
            others.append(path.name)
    return found, others


def _add_folder(found: FoundFiles, path: Path) -> list[ServerFiles]:
    """Takes the exports in a folder, and returns the files of a server there."""
    listed, refused = [], None
    try:
        listed.append(list_files(path))
    except NotZooKeeperFileError as error:
        if path.is_symlink() or not os.access(path, os.R_OK | os.X_OK):
            raise
        refused = error
    inside, others = exports_in(path)
    if refused is not None and not (inside.snapshots or inside.skipped):
        raise refused
    if listed and listed[0].logs and not inside.snapshots:  # a server's folder, which may hold anything
        return listed
    found.snapshots += inside.snapshots
    found.skipped += inside.skipped
    if others:
        found.notes.append(f"{path}: neither snapshots nor exports, so ignored: {named(others)}")
    return listed


def _add_file(found: FoundFiles, path: Path) -> None:
    named = ServerFile.of(path)
    if named is not None and named.kind == LOG:
        raise NotZooKeeperFileError(str(path), _EXPECTED, "a log: name its folder")
    if named is not None:
        found.snapshots.append(SnapshotFile(named.zxid, path, None))
    elif not os.path.lexists(path):
        raise MissingFileError(str(path), _EXPECTED, "nothing")
    elif not found.export(path):
        raise NotZooKeeperFileError(str(path), _EXPECTED, "another file")
