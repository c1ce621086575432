"""Counts the bytes that readers of ZooKeeper's files read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from zkgroup.zkfiles.compression import FileBytes


@contextmanager
def counted_reads() -> Iterator[Counter[str]]:
    """Bytes read of each file, by its name; plain ones of a packed file."""
    counted: Counter[str] = Counter()
    read = FileBytes.read

    def noted(file: FileBytes, most: int) -> bytes:
        piece = read(file, most)
        counted[file.path.name] += len(piece)
        return piece

    with mock.patch.object(FileBytes, "read", noted):
        yield counted
