"""Java's properties files, as Kafka's programs read them.

Source: `java.util.Properties.load`. The bytes are ISO-8859-1, as Kafka loads them; any other character is
written as `\\uXXXX`. Of a name that is given twice the last value counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from zkgroup.errors import ConfigError
from zkgroup.security.secret_files import check_secret_file

_SECRETS: Final = (".password", "sasl.jaas.config")
"""The ends of names whose values are secrets."""
_BLANKS: Final = " \t\f"
_ENDS_NAME: Final = f"=:{_BLANKS}"
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_LETTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: Path) -> dict[str, str]:
    """The names and values of a file.

    Raises ConfigError with the path, and the line of what is wrong; also where it has passwords, and others
    may write it.
    """
    try:
        text = path.read_bytes().decode("latin-1")
    except OSError as error:
        raise ConfigError(f"properties file {path}: {error.strerror or error}") from error
    found = parse_properties(text, str(path))
    if any(name.endswith(_SECRETS) for name in found):
        check_secret_file(path)
    return found


def parse_properties(text: str, source: str) -> dict[str, str]:
    """The names and values of a text. Raises ConfigError with its `source` and the line."""
    found: dict[str, str] = {}
    for number, line in _logical_lines(text):
        try:
            name, value = _split(line)
            found[_unescaped(name)] = _unescaped(value)
        except ValueError as error:
            raise ConfigError(f"{source}, line {number}: {error}") from None
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with what continues them, without comments and empty ones, by the number of the first."""
    lines = iter(enumerate(re.split(r"\r\n|\n|\r", text), 1))
    for number, natural in lines:
        line = natural.lstrip(_BLANKS)
        if not line or line[0] in "#!":
            continue
        while _is_continued(line):
            line = line[:-1] + next(lines, (0, ""))[1].lstrip(_BLANKS)
        yield number, line


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Name and value: the name ends at the first `=`, `:` or blank that is not escaped."""
    at = 0
    while at < len(line) and line[at] not in _ENDS_NAME:
        at += 2 if line[at] == "\\" else 1
    name, rest = line[:at], line[at:].lstrip(_BLANKS)
    return name, rest[1:].lstrip(_BLANKS) if rest[:1] in ("=", ":") else rest


def _unescaped(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        escape = match[1]
        if escape[:1] != "u":
            return _LETTERS.get(escape, escape)
        if len(escape) == 1:
            raise ValueError("expected four hexadecimal digits after \\u")
        return chr(int(escape[1:], 16))

    return _ESCAPE.sub(character, text)
