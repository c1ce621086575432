"""What can be believed of the files of a partition after a crash. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from zkgroup.broker.directory.index import IndexEntry
from zkgroup.broker.replication.epochs import Epochs, EpochStart
from zkgroup.wire.crc32c import crc32c

HIGH_WATERMARK_DIGITS: Final = 19


class GoodPart(NamedTuple):
    """How far the files of a partition are what was written."""

    batches: int
    end_offset: int
    end_position: int
    """In the file of lines."""
    epochs: Epochs
    """As those batches tell them."""


def good_part(entries: Iterable[IndexEntry], lines: Iterator[bytes]) -> GoodPart:
    """The batches from the first on that are all there, follow each other and have their checksums.

    `lines` are those of the file, from its beginning, each with its newline.
    """
    good = GoodPart(0, 0, 0, Epochs())
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


def good_epochs(stored: bytes | None, good: GoodPart) -> Epochs:
    """The marks of those batches, and of a term that has no line yet where the file knows one."""
    epochs = Epochs() if stored is None else decode_epochs(stored)
    within = Epochs(start for start in epochs if start.start_offset <= good.end_offset)
    return within if within.cut(good.end_offset) == good.epochs else good.epochs


def encode_epochs(epochs: Epochs) -> bytes:
    """One line for each epoch."""
    return "".join(f"{start.leader_epoch} {start.start_offset}\n" for start in epochs).encode("ascii")


def decode_epochs(data: bytes) -> Epochs:
    """None at all where the text is not what `encode_epochs` makes."""
    epochs = Epochs()
    for line in data.splitlines(keepends=True):
        numbers = line.split()
        if len(numbers) != 2 or not line.endswith(b"\n") or not all(map(bytes.isdigit, numbers)):
            return Epochs()
        start = EpochStart(*map(int, numbers))
        if epochs and not all(before < after for before, after in zip(epochs[-1], start, strict=True)):
            return Epochs()
        epochs = Epochs((*epochs, start))
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
