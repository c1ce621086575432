"""The archive of the classes that a server loads (AppCDS): a start with it costs half the CPU time.

The first server that ends in order writes it, from its own classes, into its own folder; then it is moved to
`$XDG_CACHE_HOME/zkgroup` (`~/.cache/zkgroup`). Its name has a digest of this Java and these jars, and its own
checksum, as Java crashes on a damaged one. Where none can be kept, servers start without it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

_WRITE = "-XX:ArchiveClassesAtExit="
_QUIET = "-Xlog:cds*=off"
"""An archive that cannot be used, and classes that cannot be archived, are no news."""
_KEPT = 12
"""Most archives that are kept, of other Javas and other installations, 8 MB each."""


def archive_options(
    java: str, jars: Iterable[Path], options: Sequence[str], folder: Path | None
) -> list[str]:
    """Options of a server that uses the archive of this Java and these jars.

    Where there is none the server writes one into `folder`, if that is given. It does neither with further
    options that may change which classes it loads.
    """
    if not all(option.startswith("-D") for option in options):
        return []
    try:
        name, kept = _name(Path(java).resolve(), jars), _private_folder()
    except OSError:
        return []
    for path in sorted(kept.glob(f"{name}-*.jsa")):
        if _is_mine(path) and path.stem == f"{name}-{_checksum(path)}":
            return [_QUIET, f"-XX:SharedArchiveFile={path}"]
        with suppress(OSError):
            path.unlink()
    return [] if folder is None else [_QUIET, f"{_WRITE}{folder / name}"]


def archive_to_write(command: Iterable[str]) -> Path | None:
    """The file that a server with this command line writes when it ends in order."""
    found = (word.removeprefix(_WRITE) for word in command if word.startswith(_WRITE))
    return next(map(Path, found), None)


def keep_archive(made: Path, *, is_complete: bool) -> None:
    """Moves a complete archive to the others in one step, and deletes the oldest ones. Raises no OSError."""
    with suppress(OSError):
        if is_complete and made.is_file():
            _move(made, _private_folder())
    with suppress(OSError):
        made.unlink(missing_ok=True)


def _move(made: Path, folder: Path) -> None:
    number, name = tempfile.mkstemp(prefix=".zookeeper-", dir=folder)
    os.close(number)
    try:
        shutil.copyfile(made, name)
        Path(name).replace(folder / f"{made.name}-{_checksum(made)}.jsa")
    finally:
        Path(name).unlink(missing_ok=True)
    archives = sorted(folder.glob("zookeeper-*.jsa"), key=lambda one: one.stat().st_mtime)
    for old in archives[:-_KEPT]:
        old.unlink(missing_ok=True)


def _name(java: Path, jars: Iterable[Path]) -> str:
    """The name of the archive, without its checksum. Raises OSError."""
    parts = []
    for path in (java, java.parent.parent / "release", *jars):
        found = path.stat()
        parts.append((str(path), found.st_size, found.st_mtime_ns))
    return f"zookeeper-{hashlib.sha256(repr(parts).encode()).hexdigest()[:24]}"


def _checksum(path: Path) -> str:
    """The CRC-32 of a file; empty where it cannot be read."""
    try:
        return f"{zlib.crc32(path.read_bytes()):08x}"
    except OSError:
        return ""


def _private_folder() -> Path:
    """The folder for archives, which no other user can write. Raises OSError."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser(), "zkgroup")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not folder.is_absolute() or not _is_mine(folder):
        raise PermissionError(f"{folder} is not private")
    return folder


def _is_mine(path: Path) -> bool:
    """Returns whether it is there, and only this user can write it."""
    try:
        found = path.stat()
    except OSError:
        return False
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
