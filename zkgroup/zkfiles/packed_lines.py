"""Lines of JSON in a gzip file, with their places: what an export of a tree is made of."""

from __future__ import annotations

import gzip
import json
import zlib
from io import FileIO
from pathlib import Path
from typing import Any, Final

from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles.compression import open_regular

LINE_LIMIT: Final = 128 << 20
"""Bytes of a line beyond which zkgroup did not write it: a znode has at most a few MB."""


class PackedLines:
    """The lines of a file with their place; bytes that zkgroup does not write are damage."""

    def __init__(self, path: Path, packed: gzip.GzipFile) -> None:
        self.at = 0
        """Bytes of the lines so far."""
        self._path = path
        self._packed = packed

    def next(self) -> bytes:
        """The next whole line. Raises DamagedFileError where there is none."""
        line = self._read(LINE_LIMIT)
        if not line.endswith(b"\n"):
            found = f"{len(line)} bytes without an end" if line else "the end of the file: half-written"
            raise DamagedFileError(str(self._path), self.at, "a line", found)
        self.at += len(line)
        return line

    def end(self) -> None:
        """Raises DamagedFileError where anything follows."""
        if self._read(1):
            raise DamagedFileError(
                str(self._path), self.at, "the end of the file", "more behind the last line"
            )

    def _read(self, limit: int) -> bytes:
        try:
            return self._packed.readline(limit)
        except (EOFError, OSError, zlib.error) as error:
            raise DamagedFileError(str(self._path), self.at, "whole gzip data", str(error)) from error


def opened(path: Path) -> gzip.GzipFile:
    """The unpacked file. Raises NotZooKeeperFileError; a link is not followed."""
    file = FileIO(open_regular(path, "a file"), "rb")
    try:
        _require_gzip(path, file)
        packed = gzip.GzipFile(fileobj=file, mode="rb")
    except BaseException:
        file.close()
        raise
    packed.myfileobj = file  # closed with it
    return packed


def _require_gzip(path: Path, file: FileIO) -> None:
    try:
        magic = file.read(2)
        file.seek(0)
    except OSError as error:
        raise NotZooKeeperFileError(str(path), "a file to read", error.strerror or str(error)) from error
    if magic != b"\x1f\x8b":
        found = f"one that begins with {magic.hex(' ')}" if magic else "an empty one"
        raise NotZooKeeperFileError(str(path), "a gzip file, as `audit export` writes", found)


def object_of(path: Path, start: int, line: bytes) -> dict[str, Any]:
    """The line as a JSON object. Raises DamagedFileError."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(str(path), start, "a JSON object", str(error)) from error
    if not isinstance(fields, dict):
        raise DamagedFileError(str(path), start, "a JSON object", type(fields).__name__)
    return fields


def number_of(value: object) -> int:
    """A number of 64 bits. Raises ValueError."""
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise ValueError(f"expected a number of 64 bits, found {value!r}")
    return value


def path_of(value: object) -> str:
    """An absolute path. Raises ValueError."""
    text = text_of(value)
    if not text.startswith("/"):
        raise ValueError(f"expected a path, found {text!r}")
    return text


def text_of(value: object) -> str:
    """A text. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"expected a text, found {value!r}")  # noqa: TRY004 - one kind of damage
    return value
