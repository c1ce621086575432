"""Finds the files of a folder that are ZooKeeper's, by their names.

Source: Util.getZxidFromName and SnapStream.java of ZooKeeper 3.9. A snapshot's name has the last zxid that
was applied when its dump began, a log's that of its first record; hex, so they are sorted as numbers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Final

from zkgroup.errors import MissingFileError, NotZooKeeperFileError

SNAPSHOT: Final = "snapshot"
LOG: Final = "log"
DATA_FOLDER: Final = "version-2"
"""A server keeps both kinds there, below its dataDir and dataLogDir."""

_NAME: Final = re.compile(r"(snapshot|log)\.([0-9a-fA-F]{1,16})(?:\.(gz|snappy))?", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class ServerFile:
    """One file, as its name says; nothing was read of it."""

    zxid: int
    """Snapshot: the last one applied when the dump began. Log: that of the first record."""
    path: Path
    kind: str
    """`snapshot` or `log`."""
    compression: str | None = None
    """None, `gz` or `snappy`; logs are gzipped by those who archive them."""

    @classmethod
    def of(cls, path: Path) -> ServerFile | None:
        """None where the name is none that a server reads (`acceptedEpoch`, `log.1.fixed`, `*.tmp`)."""
        match = _NAME.fullmatch(path.name)
        return match and cls(int(match[2], 16), path, match[1], match[3])


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """The files of one server, each kind by rising zxid."""

    folder: Path
    snapshots: tuple[ServerFile, ...]
    logs: tuple[ServerFile, ...]
    skipped: tuple[Path, ...] = ()
    """Names like a server's that are no regular files: links are not followed."""

    def logs_within(self, from_zxid: int, to_zxid: int | None = None) -> tuple[ServerFile, ...]:
        """The logs that can hold a record of `from_zxid` to `to_zxid`, both included, by their names."""
        return tuple(
            log
            for log, following in with_following(self.logs)
            if (following is None or following.zxid > from_zxid) and (to_zxid is None or log.zxid <= to_zxid)
        )


def with_following(files: Sequence[ServerFile]) -> Iterator[tuple[ServerFile, ServerFile | None]]:
    """Each file and the one behind it, None behind the last."""
    return zip_longest(files, files[1:])


def list_files(folder: Path) -> ServerFiles:
    """The snapshots and logs in a `version-2` folder, or in the one below a dataDir; nothing is opened.

    A file that is there both plain and compressed counts once, the plain one. Raises NotZooKeeperFileError
    where there is no such folder, it may not be read, or has neither.
    """
    found, skipped = _listed(folder)
    below = folder / DATA_FOLDER
    if not found and below.is_dir() and not below.is_symlink():
        folder = below
        found, skipped = _listed(folder)
    if not found:
        raise NotZooKeeperFileError(
            str(folder), "snapshot.ZXID or log.ZXID, as in a version-2 folder", f"none{_but(skipped)}"
        )
    best: dict[tuple[str, int], ServerFile] = {}
    for file in sorted(found, key=lambda each: (each.compression or "", each.path.name)):
        best.setdefault((file.kind, file.zxid), file)
    ordered = sorted(best.values())
    return ServerFiles(
        folder,
        tuple(file for file in ordered if file.kind == SNAPSHOT),
        tuple(file for file in ordered if file.kind == LOG),
        tuple(sorted(skipped)),
    )


def _listed(folder: Path) -> tuple[list[ServerFile], list[Path]]:
    """The files that have a name like a server's, and what has one and is no regular file."""
    found, skipped = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                file = ServerFile.of(folder / entry.name)
                if file is not None and entry.is_file(follow_symlinks=False):
                    found.append(file)
                elif file is not None:
                    skipped.append(file.path)
    except OSError as error:
        raise _not_listed(folder, error) from error
    return found, skipped


def _but(skipped: Sequence[Path]) -> str:
    """The names that were left out, in words; empty for none."""
    if not skipped:
        return ""
    first = min(skipped).name
    if len(skipped) == 1:
        return f" but {first}, which is no regular file"
    return f" but {first} and {len(skipped) - 1} more, which are no regular files"


def _not_listed(folder: Path, error: OSError) -> NotZooKeeperFileError:
    """The reason why a folder cannot be listed, in words."""
    path, expected = str(folder), "a folder"
    if folder.is_symlink() and not folder.is_dir():
        return NotZooKeeperFileError(path, expected, "a link, which is not followed")
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        if not os.path.lexists(folder):
            return MissingFileError(path, expected, "nothing")
        return NotZooKeeperFileError(path, expected, "a file" if folder.is_file() else "no folder")
    return NotZooKeeperFileError(path, f"{expected} to read", error.strerror or str(error))
