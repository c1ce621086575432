"""Files with passwords and keys: who may read and write them, and what they are once they have changed."""

from __future__ import annotations

import logging
import os
import shlex
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from zkgroup.errors import ConfigError
from zkgroup.security.secret import OTHERS_WRITE, refuse_writable

T = TypeVar("T")

_log = logging.getLogger("zkgroup.security")

_warned: set[str] = set()
"""Warnings that this process has logged: a file is read again at each connection."""


def check_secret_file(path: str | Path) -> None:
    """Logs once that others may read the file. Raises ConfigError where they may write it."""
    warning = refuse_writable(path)
    if warning is not None:
        _warn_once(warning)


def check_trusted_file(path: str | Path) -> None:
    """Logs once that others may write the file: its certificates or keys decide who is trusted.

    It stays usable, because a volume may give each file of a container to a group. One that does not exist
    passes: reading says what is wrong with it.
    """
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return
    if os.name == "posix" and stat.S_ISREG(mode) and mode & OTHERS_WRITE:
        _warn_once(
            f"{path}: others on this machine may write it (mode {stat.S_IMODE(mode):04o}), and so decide "
            f"who is trusted; `chmod go-w {shlex.quote(str(path))}` mends it"
        )


def _warn_once(warning: str) -> None:
    if warning not in _warned:
        _warned.add(warning)
        _log.warning("%s", warning)


def refuse_irregular(path: str | Path) -> None:
    """Raises ConfigError for what is no regular file, such as a pipe: to read it again may wait for ever.

    One that does not exist passes: reading says what is wrong with it.
    """
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        raise ConfigError(
            f"{path}: expected a regular file, which can be read again, found mode {stat.filemode(mode)}"
        )


def file_stamp(path: str | Path | None) -> tuple[int, ...]:
    """Numbers that change with a file, its mode and its owner; also where a link to it changes, as those of
    mounted secrets. Empty without a path, the number of the error for a file that cannot be looked at."""
    if path is None:
        return ()
    try:
        found = Path(path).stat()
    except OSError as error:
        return (error.errno or -1,)
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


class Followed(Generic[T]):
    """What is made of some files, and made again when one of them has changed."""

    def __init__(
        self, *files: str | Path | None, make: Callable[[], T], on_fault: Callable[[str], object]
    ) -> None:
        """Makes it. Raises what `make` raises.

        Args:
            files: their paths; None for none.
            make: reads them. Raises ConfigError where they cannot be used.
            on_fault: is called with the reason, once for a change that cannot be used.
        """
        self._files, self._make, self._on_fault = files, make, on_fault
        self._lock = threading.Lock()
        self._stamps = tuple(map(file_stamp, files))
        self._made = make()

    def current(self) -> T:
        """That of the files as they are; the former one while they cannot be used. Any thread may call it."""
        with self._lock:
            stamps = tuple(map(file_stamp, self._files))
            if stamps != self._stamps:
                self._stamps = stamps
                try:
                    self._made = self._make()
                except ConfigError as error:
                    self._on_fault(str(error))
            return self._made
