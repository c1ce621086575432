"""Places in a log at which reading can begin, so that a big one is read in parts.

A record's length leads to the next one, so only a pass from the front finds them; it compares checksums and
decodes nothing. A log that a server has left never changes, so what was found holds for ever; that of the
newest one is carried on from where it ended. Who replays needs none of it (`ensemble`): a server begins a log
when it takes a snapshot, so there is next to nothing before the record that a replay begins with.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from zkgroup.errors import DamagedFileError
from zkgroup.zkfiles.frames import ZXID, ZXID_AT, LogChunk
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


@dataclass(frozen=True, slots=True)
class HopIndex:
    """Every so many records of one log, the first one included.

    Whoever keeps one for the next look asks `is_of` whether the file is still what it was made of.
    """

    name: str
    first_zxid: int | None
    """None where the log had no record."""
    last_zxid: int | None
    records: int
    end_offset: int
    """Behind the last whole record."""
    hops: tuple[Hop, ...]

    def splits(self, from_zxid: int | None = None, to_zxid: int | None = None) -> tuple[Split, ...]:
        """Parts that together hold the records of `from_zxid` to `to_zxid`, both included, and few others."""
        ends = [*self.hops[1:], Hop(self.last_zxid or 0, self.end_offset)]
        return tuple(
            Split(hop.offset, end.offset)
            for hop, end in zip(self.hops, ends, strict=False)
            if (to_zxid is None or hop.zxid <= to_zxid)
            and (from_zxid is None or end.zxid > from_zxid or end is ends[-1])
        )

    def is_of(self, path: Path) -> bool:
        """Returns whether a log has this name and still has its last hop where it was.

        False for one that a server has cut back or begun anew. Raises NotZooKeeperFileError for another file.
        """
        if path.name != self.name:
            return False
        if not self.hops:
            return True
        zxid, offset = self.hops[-1]
        reader = LogReader(path, from_offset=offset, to_offset=offset + 1)
        try:
            return any(_zxid(chunk, 0) == zxid for chunk in reader.chunks())
        except DamagedFileError:
            return False


def index_log(path: Path, *, every: int = RECORDS_PER_HOP, known: HopIndex | None = None) -> HopIndex:
    """The hops of a log, one pass over it without decoding; `known` is carried on from where it ended.

    Raises as LogReader does.
    """
    hops = list(known.hops) if known else []
    records = known.records if known else 0
    first_zxid, last_zxid = (known.first_zxid, known.last_zxid) if known else (None, None)
    end_offset = known.end_offset if known else 0
    for chunk in LogReader(path, from_offset=end_offset).chunks():
        starts = chunk.starts
        for number in range(-records % every, len(starts), every):
            hops.append(Hop(_zxid(chunk, number), chunk.base + starts[number]))
        if first_zxid is None:
            first_zxid = _zxid(chunk, 0)
        last_zxid = _zxid(chunk, -1)
        records += len(starts)
        end_offset = chunk.base + chunk.ends[-1] + 1
    return HopIndex(path.name, first_zxid, last_zxid, records, end_offset, tuple(hops))


def _zxid(chunk: LogChunk, number: int) -> int:
    (zxid,) = ZXID.unpack_from(chunk.data, chunk.starts[number] + ZXID_AT)
    return int(zxid)
