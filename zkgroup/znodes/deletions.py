"""Cuts the deletion of many znodes into transactions that ZooKeeper accepts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

DELETES_BYTES_MAX: Final = 512 * 1024
"""Most bytes of the deletions of one transaction; half of ZooKeeper's limit of 1 MiB (`jute.maxbuffer`)."""
DELETES_MAX: Final = 1000
"""Most deletions of one transaction: a server executes nothing else meanwhile."""
DELETE_BYTES: Final = 32
"""Bytes of a deletion beside its path."""


def in_transactions(
    paths: Sequence[str], bytes_max: int = DELETES_BYTES_MAX, count_max: int = DELETES_MAX
) -> Iterator[Sequence[str]]:
    """Consecutive parts of the paths, each for one transaction. A longer path is a part of its own."""
    start = size = 0
    for at, path in enumerate(paths):
        added = DELETE_BYTES + len(path.encode())
        if at > start and (size + added > bytes_max or at - start >= count_max):
            yield paths[start:at]
            start, size = at, 0
        size += added
    if start < len(paths):
        yield paths[start:]
