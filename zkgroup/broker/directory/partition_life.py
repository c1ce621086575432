"""How the files of a partition are made, found again after a crash, and deleted."""

from __future__ import annotations

import os

from zkgroup.broker.directory.index import ENTRY, Index
from zkgroup.broker.directory.open_files import OpenFiles
from zkgroup.broker.directory.partition_files import (
    Flush,
    PartitionFiles,
    Paths,
    fresh,
    replace,
    sync_folder,
    trouble_at,
)
from zkgroup.broker.directory.recovery import (
    decode_high_watermark,
    encode_epochs,
    encode_high_watermark,
    good_epochs,
    good_part,
)
from zkgroup.errors import ReplicaStorageError


def make_files(paths: Paths, high_watermark: int | None, flush: Flush) -> None:
    """The files of a new partition, the lines last: with them it is there."""
    with trouble_at(paths.lines):
        paths.lines.parent.mkdir(exist_ok=True)
        if paths.other_lines.exists():
            raise ReplicaStorageError(f"{paths.other_lines}: expected no other file of lines")
        replace(paths.index, b"", flush)
        replace(paths.epochs, b"", flush)
        replace(paths.high_watermark, encode_high_watermark(high_watermark), flush)
        with paths.lines.open("xb"):
            pass
        if flush is Flush.BATCH:
            sync_folder(paths.lines.parent)
            sync_folder(paths.lines.parent.parent)


def open_log(paths: Paths, flush: Flush, open_files: OpenFiles) -> PartitionFiles | None:
    """The log of a partition, cut back to the last batch up to which all is good; None where there is none.

    Raises ReplicaStorageError for lines without an index: they are somebody else's, and are not touched.
    """
    with trouble_at(paths.lines):
        if paths.deleted.exists():
            remove_files(paths, flush)
        if not _is_there(paths):
            return None
        index = Index(paths.index.read_bytes())
        paths.lines.touch()
        with paths.lines.open("rb") as lines:
            good = good_part(index, lines)
        index.cut(good.batches)
        os.truncate(paths.index, good.batches * ENTRY.size)
        os.truncate(paths.lines, good.end_position)
        stored = paths.epochs.read_bytes() if paths.epochs.exists() else None
        epochs = good_epochs(stored, good)
        if stored != encode_epochs(epochs):
            replace(paths.epochs, encode_epochs(epochs), flush)
        high_watermark = _read_high_watermark(paths)
        if high_watermark is None:
            replace(paths.high_watermark, encode_high_watermark(None), flush)
    return PartitionFiles(paths, index, epochs, high_watermark, good.end_position, flush, open_files)


def _is_there(paths: Paths) -> bool:
    """Whether there is a partition, and not only what the beginning of one has left behind."""
    if not paths.index.exists():
        if paths.lines.exists():
            raise ReplicaStorageError(
                f"{paths.lines} has no index beside it: no broker wrote it; move it away"
            )
        return False
    return paths.lines.exists() or paths.index.stat().st_size > 0 or bool(_read_high_watermark(paths))


def _read_high_watermark(paths: Paths) -> int | None:
    if not paths.high_watermark.exists():
        return None
    return decode_high_watermark(paths.high_watermark.read_bytes())


def remove_files(paths: Paths, flush: Flush) -> None:
    """Deletes a partition: it is gone with the first rename, and `open_log` finishes what is left to do."""
    with trouble_at(paths.lines):
        for path in (paths.lines, paths.index):
            if path.exists():
                path.rename(paths.deleted)
        if flush is Flush.BATCH and paths.deleted.exists():
            sync_folder(paths.deleted.parent)
        for path in (paths.index, paths.epochs, paths.high_watermark):
            path.unlink(missing_ok=True)
            fresh(path).unlink(missing_ok=True)
        paths.deleted.unlink(missing_ok=True)
