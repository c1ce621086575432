"""Texts that are never printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from zkgroup.errors import ConfigError


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

        Raises `ConfigError` when the file cannot be read or is empty.
        """
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"secret file {path} cannot be read: {error}") from error
        if not lines or not lines[0]:
            raise ConfigError(f"secret file {path}: expected a secret in the first line, found nothing")
        return cls(lines[0])
