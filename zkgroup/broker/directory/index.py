"""The index of a partition's lines: where each batch begins, as fixed-size entries. Pure."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from zkgroup.wire.crc32c import crc32c

ENTRY: Final = struct.Struct(">qiqiII")
"""The fields of an `IndexEntry`, and the CRC-32C of their bytes."""
_FIELDS: Final = struct.Struct(">qiqiI")


class IndexEntry(NamedTuple):
    """One batch."""

    base_offset: int
    lines: int
    """How many it has."""
    position: int
    """Of its first byte in the file of lines."""
    leader_epoch: int
    crc32c: int
    """Of its lines, each with its newline."""

    def encode(self) -> bytes:
        """With a checksum of its own: a wrong leader epoch would not show in the lines."""
        fields = _FIELDS.pack(*self)
        return fields + crc32c(fields).to_bytes(4, "big")


class Index:
    """Entries in order, kept as the bytes they are in the file: there can be millions."""

    def __init__(self, data: bytes = b"") -> None:
        """A part of an entry at the end is left out."""
        self._data = bytearray(data[: len(data) // ENTRY.size * ENTRY.size])

    def __len__(self) -> int:
        return len(self._data) // ENTRY.size

    def __getitem__(self, number: int) -> IndexEntry:
        return IndexEntry(*_FIELDS.unpack_from(self._data, number * ENTRY.size))

    def __iter__(self) -> Iterator[IndexEntry]:
        """Those from the first on whose checksums hold."""
        for number in range(len(self)):
            entry = self[number]
            if entry.encode() != self._data[number * ENTRY.size : (number + 1) * ENTRY.size]:
                return
            yield entry

    def add(self, entry: IndexEntry) -> None:
        self._data += entry.encode()

    def cut(self, entries: int) -> None:
        """Keeps so many from the first on."""
        del self._data[entries * ENTRY.size :]

    @property
    def end_offset(self) -> int:
        """The first offset behind the last batch."""
        if not self._data:
            return 0
        last = self[len(self) - 1]
        return last.base_offset + last.lines

    def find(self, offset: int) -> int:
        """Number of the batch that holds a line; the number of batches for one behind the last."""
        return bisect_right(range(len(self)), offset, key=self._end_of)

    def _end_of(self, number: int) -> int:
        entry = self[number]
        return entry.base_offset + entry.lines
