"""What can be believed of the files of a partition after a crash. Pure."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from zkgroup.broker.log.leader_epochs import EpochStart, LeaderEpochs
from zkgroup.wire.crc32c import crc32c

HIGH_WATERMARK_DIGITS: Final = 19


class GoodPart(NamedTuple):
    """How far the files of a partition are what was written."""

    batches: int
    end_offset: int
    end_position: int
    """In the file of lines."""
    epochs: LeaderEpochs
    """The leader epochs of those batches."""


def good_part(entries: Iterable[IndexEntry], lines: Iterator[bytes]) -> GoodPart:
    """The batches from the first on that are all there, follow each other and have their checksums.

    `lines` are those of the file, from its beginning, each with its newline.
    """
    good = GoodPart(0, 0, 0, LeaderEpochs())
    for entry in entries:
        follows = entry.base_offset == good.end_offset and entry.position == good.end_position
        if not follows or entry.lines <= 0 or entry.leader_epoch < good.epochs.last:
            break
        text = b"".join(islice(lines, entry.lines))
        if text.count(b"\n") != entry.lines or crc32c(text) != entry.crc32c:
            break
        good = GoodPart(
            good.batches + 1,
            good.end_offset + entry.lines,
            good.end_position + len(text),
            good.epochs.begin(entry.leader_epoch, entry.base_offset),
        )
    return good


def good_epochs(stored: bytes | None, good: GoodPart) -> LeaderEpochs:
    """The marks of those batches, and of a term that has no line yet where the file knows one."""
    epochs = LeaderEpochs() if stored is None else decode_epochs(stored)
    within = LeaderEpochs(start for start in epochs if start.start_offset <= good.end_offset)
    return within if within.cut(good.end_offset) == good.epochs else good.epochs


def encode_epochs(epochs: LeaderEpochs) -> bytes:
    """One line for each epoch."""
    return "".join(f"{start.leader_epoch} {start.start_offset}\n" for start in epochs).encode("ascii")


def decode_epochs(data: bytes) -> LeaderEpochs:
    """None at all where the text is not what `encode_epochs` makes."""
    epochs = LeaderEpochs()
    for line in data.splitlines(keepends=True):
        numbers = line.split()
        if len(numbers) != 2 or not line.endswith(b"\n") or not all(map(bytes.isdigit, numbers)):
            return LeaderEpochs()
        start = EpochStart(*map(int, numbers))
        if epochs and not all(before < after for before, after in zip(epochs[-1], start, strict=True)):
            return LeaderEpochs()
        epochs = LeaderEpochs((*epochs, start))
    return epochs


def encode_high_watermark(offset: int | None) -> bytes:
    """Always as long, so that one write replaces it."""
    return b"%0*d\n" % (HIGH_WATERMARK_DIGITS, -1 if offset is None else offset)


def decode_high_watermark(data: bytes) -> int | None:
    """None also where the text is not what `encode_high_watermark` makes."""
    text = data.decode("ascii", "replace").removesuffix("\n")
    if len(data) != HIGH_WATERMARK_DIGITS + 1 or not text.isdecimal() or not text.isascii():
        return None
    return int(text)


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
