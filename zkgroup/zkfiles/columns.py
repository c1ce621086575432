"""Logs as columns, batch by batch: the table `schemas.LOG`, for analysis. Snapshots have `znode_columns`.

The compiled kernel makes the columns where it is installed (`compiled`); else, and for what it leaves over,
plain Python does (`log_lists`). The values are the same. `arrow.record_batch` makes Arrow of a batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from zkgroup.zkfiles import log_lists
from zkgroup.zkfiles.batches import Batch
from zkgroup.zkfiles.compression import PIECE_BYTES
from zkgroup.zkfiles.frames import Find, LogChunk, Oversized, whole_records
from zkgroup.zkfiles.jute import JuteError
from zkgroup.zkfiles.log_lists import LeftOutWrites, Taken, Wanted
from zkgroup.zkfiles.logs import LogReader
from zkgroup.zkfiles.schemas import LOG, select

ROWS_PER_BATCH: Final = 16_384
_FIRST_ZXID, _LAST_ZXID = -(1 << 63), (1 << 63) - 1

Take = Callable[[LogChunk, int, Wanted], Taken | None]


class LogWay(NamedTuple):
    """Says how records of logs are found and made columns, and how many bytes of them at a time."""

    find: Find
    take: Take
    """As `log_lists.take`; None where that has to do it."""
    piece_bytes: int


def fastest_way() -> LogWay:
    """The kernel where it is here, else plain Python."""
    try:
        from zkgroup.zkfiles import compiled
    except ImportError:
        return LogWay(whole_records, log_lists.take, PIECE_BYTES)
    return LogWay(compiled.find, compiled.take, compiled.PIECE_BYTES)


def log_columns(
    path: Path,
    *,
    columns: Iterable[str] | None = None,
    data: bool = True,
    from_zxid: int | None = None,
    to_zxid: int | None = None,
    path_prefix: str | None = None,
    left_out: LeftOutWrites | None = None,
    start_offset: int | None = None,
    end_offset: int | None = None,
    rows_per_batch: int = ROWS_PER_BATCH,
    resync: bool = False,
    oversized: dict[int, Oversized] | None = None,
) -> Iterator[Batch]:
    """The operations of a transaction log, in the order of the file.

    `columns` are names of schemas.LOG, by default all; `data=False` leaves the znodes' bytes out. Rows are
    those of transactions `from_zxid` to `to_zxid`, both included, whose path begins with `path_prefix`, taken
    as text: what lies below /a begins with /a/; without those that `left_out` says, not beside `path_prefix`.
    Reading ends at the first transaction behind `to_zxid`.
    `start_offset` and `end_offset` select records by where they start, as `log_index.Split` tells.
    `oversized` gets the records that are too large for a server by default, by zxid.

    A batch has at least one row and never a part of a transaction: it ends with the one that reaches
    `rows_per_batch`, or with what was read of the file at a time. One such piece is in memory, and one batch.

    Every checksum is compared. Damage is told as `logs.LogReader` does, after the rows before it: raises
    DamagedFileError, without `resync`, and NotZooKeeperFileError; ValueError for columns that there are not.
    """
    wanted = Wanted(
        select(LOG, columns, data=data),
        os.fspath(path),
        _FIRST_ZXID if from_zxid is None else from_zxid,
        _LAST_ZXID if to_zxid is None else to_zxid,
        path_prefix,
        max(rows_per_batch, 1),
        left_out,
    )
    way = fastest_way()
    reader = LogReader(
        path,
        from_offset=start_offset,
        to_offset=end_offset,
        resync=resync,
        find=way.find,
        piece_bytes=way.piece_bytes,
        oversized=oversized,
    )
    return _batches(reader, wanted, way.take)


def _batches(reader: LogReader, wanted: Wanted, take: Take) -> Iterator[Batch]:
    with closing(reader.chunks()) as chunks:
        for chunk in chunks:

            def note(number: int, error: JuteError, at: LogChunk = chunk) -> None:
                reader.unreadable(at.base, at.starts[number], at.ends[number], error)

            if (yield from batches_of(chunk, wanted, take, note)):
                return


def batches_of(
    chunk: LogChunk, wanted: Wanted, take: Take, unreadable: Callable[[int, JuteError], None]
) -> Generator[Batch, None, bool]:
    """The records of a chunk as batches; returns whether one lies behind the zxids that are wanted.

    `unreadable` gets the number of each record that holds what no server writes, and is passed over.
    """
    first = 0
    while first < len(chunk.starts):
        taken = take(chunk, first, wanted)
        if taken is None:
            take = log_lists.take
            chunk = chunk._replace(starts=_plain(chunk.starts), ends=_plain(chunk.ends))
            continue
        if taken.batch is not None:
            yield taken.batch
        if taken.is_past:
            return True
        first = taken.until
        if taken.error is not None:
            unreadable(first, taken.error)
            first += 1
    return False


def _plain(places: Sequence[int]) -> list[int]:
    """Python's own numbers: what stands in lists comes of them."""
    return [int(place) for place in places]
