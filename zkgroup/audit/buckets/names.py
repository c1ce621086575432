"""In which bucket a row is: all rows of a group are in one, and all rows of no group in another.

So every key of a rule has its rows in one bucket, but for those of `spanning.SPANNING`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from zlib import crc32

import numpy as np

from zkgroup.audit.columns.rows import Numbers

CLUSTER: Final = "cluster"
"""The bucket of what belongs to no group: brokers, topics, controllers, sessions, refused requests."""
_FEWEST: Final = 4
_MOST: Final = 256
_BYTES: Final = 64 << 20
"""Of logs, in one bucket."""


@lru_cache(maxsize=1 << 18)
def bucket_of(path: str, count: int) -> str:
    """The bucket of a path as clients see it, of `count` for groups. Results are cached."""
    names = path.split("/", 3)
    return bucket_of_group(names[2], count) if len(names) > 2 and names[1] == "consumers" else CLUSTER


def bucket_of_group(group: str, count: int) -> str:
    """The bucket of a group, of this many."""
    return str(crc32(group.encode("utf-8", "surrogatepass")) % count)


def names_of(count: int) -> list[str]:
    """All buckets, of this many for groups."""
    return [CLUSTER, *map(str, range(count))]


def numbers_of(paths: Iterable[str], count: int, chroot: str = "") -> Numbers:
    """For each path that servers have the number of its bucket, as `names_of` has them."""
    numbers = {name: number for number, name in enumerate(names_of(count))}
    below, start = f"{chroot}/", len(chroot)
    return np.array(
        [numbers[bucket_of(path[start:], count) if path.startswith(below) else CLUSTER] for path in paths],
        np.int64,
    )


def count_for(size: int) -> int:
    """How many buckets groups get where the logs have so many bytes at first."""
    return max(_FEWEST, min(_MOST, -(-size // _BYTES)))
