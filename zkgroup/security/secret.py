"""Texts that are never printed."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path
from typing import Any, Final

from zkgroup.errors import ConfigError

OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_READ: Final = stat.S_IRGRP | stat.S_IROTH


def refuse_writable(path: str | Path) -> str | None:
    """Raises ConfigError for a file that others may write: they could log this process in as somebody else.

    Returns a warning for one that others may read; it stays usable, as secrets that a container mounts are.
    A pipe and a file that does not exist pass: reading says what is wrong with it.
    """
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return None
    if os.name != "posix" or not stat.S_ISREG(mode):
        return None
    found, mend = f"{stat.S_IMODE(mode):04o}", f"`chmod 600 {shlex.quote(str(path))}` mends it"
    if mode & OTHERS_WRITE:
        raise ConfigError(
            f"secret file {path}: expected a file that only its owner may write, found mode {found}; {mend}"
        )
    if mode & _READ:
        return f"secret file {path}: others on this machine may read it (mode {found}); {mend}"
    return None


class Secret:
    """A text that prints as `***`; only `reveal()` returns it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        """Keeps the text in memory only.

        Args:
            text: the secret.
        """
        self._text = text

    def reveal(self) -> str:
        """The text itself. Never log it."""
        return self._text

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> str | tuple[Any, ...]:
        raise TypeError("a secret is not pickled")

    @classmethod
    def from_file(cls, path: str | Path) -> Secret:
        """The first line of a file, without its line end.

        Raises `ConfigError` when the file cannot be read or is empty, or others may write it.
        """
        refuse_writable(path)
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"secret file {path} cannot be read: {error}") from error
        if not lines or not lines[0]:
            raise ConfigError(f"secret file {path}: expected a secret in the first line, found nothing")
        return cls(lines[0])
