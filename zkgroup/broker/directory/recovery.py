"""What can be believed of the files of a partition after a crash. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from zkgroup.broker.directory.index import IndexEntry
from zkgroup.broker.replication.crc32c import crc32c
from zkgroup.broker.replication.epochs import Epochs, EpochStart, of_lines

HIGH_WATERMARK_DIGITS: Final = 19


class GoodPart(NamedTuple):
    """How far the files of a partition are what was written."""

    batches: int
    end_offset: int
    end_position: int
    """In the file of lines."""


def good_part(entries: Iterable[IndexEntry], lines: Iterator[bytes]) -> GoodPart:
    """The batches from the first on that are all there, follow each other and have their checksums.

    `lines` are those of the file, from its beginning, each with its newline.
    """
    good = GoodPart(0, 0, 0)
    leader_epoch = 0
    for entry in entries:
        follows = entry.base_offset == good.end_offset and entry.position == good.end_position
        if not follows or entry.lines <= 0 or entry.leader_epoch < leader_epoch:
            break
        text = b"".join(islice(lines, entry.lines))
        if text.count(b"\n") != entry.lines or crc32c(text) != entry.crc32c:
            break
        leader_epoch = entry.leader_epoch
        good = GoodPart(good.batches + 1, good.end_offset + entry.lines, good.end_position + len(text))
    return good


def good_epochs(stored: bytes | None, entries: Iterable[IndexEntry], end_offset: int) -> Epochs:
    """The marks of those batches, and of a term that has no line yet where the file knows one."""
    of_batches = of_lines((entry.leader_epoch, entry.base_offset) for entry in entries)
    epochs = Epochs() if stored is None else decode_epochs(stored)
    within = Epochs(start for start in epochs if start.start_offset <= end_offset)
    return within if within.cut(end_offset) == of_batches else of_batches


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
