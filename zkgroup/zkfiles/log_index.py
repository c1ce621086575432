"""Places in a log at which reading can begin, so that a large one is read in parts, or only its new records.

Only the length of a record leads to the next one, so a pass from the front finds them, compares checksums and
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
    """The offset in the plain file."""


def splits_of(
    path: Path, records: int, from_zxid: int | None = None, to_zxid: int | None = None
) -> list[tuple[int, int]]:
    """The parts, of so many records each, with those of `from_zxid` to `to_zxid`, and few others.

    Each is the offsets between which its records start, the first one included.
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
    """The last whole record, searched from a known one on if the log still has that; None for none."""
    last = known if known is not None and has_hop(path, known) else None
    for chunk in LogReader(path, from_offset=None if last is None else last.offset).chunks():
        last = Hop(chunk.zxid(-1), chunk.base + chunk.starts[-1])
    return last


def has_hop(path: Path, hop: Hop) -> bool:
    """True if a log still has a record at its place; False after a server cut it back or began it anew."""
    reader = LogReader(path, from_offset=hop.offset, to_offset=hop.offset + 1)
    try:
        return any(chunk.zxid(0) == hop.zxid for chunk in reader.chunks())
    except DamagedFileError:
        return False
