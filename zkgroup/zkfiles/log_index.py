"""Places in a log at which reading can begin, so that a big one is read in parts, or on from where it ended.

A record's length leads to the next one, so only a pass from the front finds them; it compares checksums and
decodes nothing. All functions raise as LogReader does.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from zkgroup.errors import DamagedFileError
from zkgroup.zkfiles.logs import LogReader


class Hop(NamedTuple):
    """A record at which reading can begin."""

    zxid: int
    offset: int
    """Of the plain file."""


def splits_of(
    path: Path, records: int, from_zxid: int | None = None, to_zxid: int | None = None
) -> list[tuple[int, int]]:
    """Parts of so many records that together hold those of `from_zxid` to `to_zxid`, and few others.

    Of each the offsets between which its records start, the first one included.
    """
    hops: list[Hop] = []
    count, end = 0, Hop(0, 0)
    for chunk in LogReader(path).chunks():
        numbers = range(-count % records, len(chunk.starts), records)
        hops += [Hop(chunk.zxid(number), chunk.base + chunk.starts[number]) for number in numbers]
        count += len(chunk.starts)
        end = Hop(chunk.zxid(-1) + 1, chunk.base + chunk.ends[-1] + 1)
    return [
        (hop.offset, following.offset)
        for hop, following in pairwise([*hops, end])
        if (to_zxid is None or hop.zxid <= to_zxid) and (from_zxid is None or following.zxid > from_zxid)
    ]


def last_record(path: Path, known: Hop | None = None) -> Hop | None:
    """The last whole record, found from one known on where that is still there; None where there is none."""
    last = known if known is not None and has_hop(path, known) else None
    for chunk in LogReader(path, from_offset=None if last is None else last.offset).chunks():
        last = Hop(chunk.zxid(-1), chunk.base + chunk.starts[-1])
    return last


def has_hop(path: Path, hop: Hop) -> bool:
    """True if a log still has a record where it was: not if a server has cut it back or begun it anew."""
    reader = LogReader(path, from_offset=hop.offset, to_offset=hop.offset + 1)
    try:
        return any(chunk.zxid(0) == hop.zxid for chunk in reader.chunks())
    except DamagedFileError:
        return False
