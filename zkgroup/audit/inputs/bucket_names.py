"""In which bucket a row is: all rows of a group are in one, and all rows of no group in another.

So every key of a rule has its rows in one bucket, but for those of `finding.SPANNING`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zkgroup.audit.inputs.rows import Numbers
from zkgroup.znodes.consumers import consumers_path

CLUSTER: Final = "cluster"
"""The bucket of what belongs to no group: brokers, topics, controllers, sessions, refused requests."""
_FEWEST: Final = 4
_MOST: Final = 256
_BYTES: Final = 64 << 20
"""Of logs, in one bucket."""


def bucket_of_group(group: str, count: int) -> str:
    """The bucket of a group, of this many."""
    return str(crc32(group.encode("utf-8", "surrogatepass")) % count)


def names_of(count: int) -> list[str]:
    """All buckets, of this many for groups."""
    return [CLUSTER, *map(str, range(count))]


def numbers_of(paths: Any, count: int, chroot: str = "") -> Numbers:
    """For each path that servers have, of a pyarrow array, the number of its bucket in `names_of`.

    A path is of a group where it is at or below `/consumers/<group>` as clients see it.
    """
    below = f"{chroot}{consumers_path()}/"
    is_of_group = pc.starts_with(paths, below)
    behind = pc.utf8_slice_codeunits(paths.filter(is_of_group), len(below))
    groups = pc.list_element(pc.split_pattern(behind, "/", max_splits=1), 0).dictionary_encode()
    of_groups = [int(bucket_of_group(group, count)) + 1 for group in groups.dictionary.to_pylist()]
    numbers: Numbers = np.zeros(len(paths), np.int64)
    numbers[is_of_group.to_numpy(zero_copy_only=False)] = np.array(of_groups, np.int64)[
        groups.indices.to_numpy()
    ]
    return numbers


def count_for(size: int) -> int:
    """Returns how many buckets groups get where the logs have so many bytes at first."""
    return max(_FEWEST, min(_MOST, -(-size // _BYTES)))


def stable_order(codes: Numbers) -> Numbers:
    """The numbers of rows by code, rows of one code in their order; few codes are sorted by their digits."""
    few = codes.astype(np.uint16) if len(codes) and codes.min() >= 0 and codes.max() < 1 << 16 else codes
    return np.argsort(few, kind="stable")


def by_code(table: Any, codes: Numbers) -> Iterator[tuple[int, Any]]:
    """The rows of each code as a pyarrow.Table, in their order."""
    order = stable_order(codes)
    ordered, codes = table.take(pa.array(order)), codes[order]
    starts = np.flatnonzero(np.append([True], codes[1:] != codes[:-1])[: len(codes)]).tolist()
    for start, end in pairwise([*starts, len(codes)]):
        yield int(codes[start]), ordered.slice(start, end - start)
