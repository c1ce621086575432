"""Places in a log at which reading can begin, so that a big one is read in parts.

A record's length leads to the next one, so only a pass from the front finds them; it compares checksums and
decodes nothing. A log that a server has left never changes, so what was found holds for ever; that of the
newest one is carried on from where it ended.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from zkgroup.errors import DamagedFileError
from zkgroup.zkfiles.logs import LogReader

RECORDS_PER_HOP: Final = 4096


class Hop(NamedTuple):
    """A record at which reading can begin."""

    zxid: int
    offset: int
    """Of the plain file."""


class Split(NamedTuple):
    """A part of a log: the records that start in `[from_offset, to_offset)`."""

    from_offset: int
    to_offset: int


class HopIndex(NamedTuple):
    """Every so many records of one log, the first one included."""

    last_zxid: int | None = None
    """None where the log has no record."""
    records: int = 0
    end_offset: int = 0
    """Behind the last whole record."""
    hops: tuple[Hop, ...] = ()

    def splits(self, from_zxid: int | None = None, to_zxid: int | None = None) -> tuple[Split, ...]:
        """Parts that together hold the records of `from_zxid` to `to_zxid`, both included, and few others."""
        ends = [*self.hops[1:], Hop(self.last_zxid or 0, self.end_offset)]
        return tuple(
            Split(hop.offset, end.offset)
            for hop, end in zip(self.hops, ends, strict=False)
            if (to_zxid is None or hop.zxid <= to_zxid)
            and (from_zxid is None or end.zxid > from_zxid or end is ends[-1])
        )


def index_log(path: Path, *, every: int = RECORDS_PER_HOP, known: HopIndex | None = None) -> HopIndex:
    """The hops of a log, one pass over it without decoding; `known` is carried on from where it ended.

    Raises as LogReader does.
    """
    last_zxid, records, end_offset, known_hops = known or HopIndex()
    hops = list(known_hops)
    for chunk in LogReader(path, from_offset=end_offset).chunks():
        numbers = range(-records % every, len(chunk.starts), every)
        hops += [Hop(chunk.zxid(number), chunk.base + chunk.starts[number]) for number in numbers]
        last_zxid = chunk.zxid(-1)
        records += len(chunk.starts)
        end_offset = chunk.base + chunk.ends[-1] + 1
    return HopIndex(last_zxid, records, end_offset, tuple(hops))


def has_hop(path: Path, hop: Hop) -> bool:
    """True if a log still has a record where it was: not if a server has cut it back or begun it anew.

    Raises NotZooKeeperFileError for another file.
    """
    reader = LogReader(path, from_offset=hop.offset, to_offset=hop.offset + 1)
    try:
        return any(chunk.zxid(0) == hop.zxid for chunk in reader.chunks())
    except DamagedFileError:
        return False
