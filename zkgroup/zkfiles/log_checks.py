"""Checks by the kernel that all records of a log are whole and in order: how `log_health` reads most
logs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from zkgroup.zkfiles import compiled
from zkgroup.zkfiles.byte_arrays import Bytes
from zkgroup.zkfiles.frames import ZXID_AT, LogChunk
from zkgroup.zkfiles.health import SeenRecords
from zkgroup.zkfiles.log_lists import Taken, Wanted
from zkgroup.zkfiles.logs import LogReader
from zkgroup.zkfiles.schemas import LOG, select

_ALL_ROWS: Final = 1 << 62


def checked(path: Path) -> SeenRecords | None:
    """Reads a log to its end; None where a record has to be looked at one by one.

    Raises DamagedFileError and NotZooKeeperFileError.
    """
    reader = LogReader(path, find=compiled.find, piece_bytes=compiled.PIECE_BYTES)
    wanted = Wanted(select(LOG, ("zxid",)), str(path), -(1 << 63), (1 << 63) - 1, None, _ALL_ROWS)
    first = last = None
    records = 0
    for chunk in reader.chunks():
        places = np.asarray(chunk.starts, np.int64)
        if not len(places):
            continue
        zxids = Bytes(chunk.data).view(">i8")[places + ZXID_AT].astype(np.int64)
        if (zxids[1:] <= zxids[:-1]).any() or (last is not None and zxids[0] <= last):
            return None
        if not _is_decoded(compiled.take(chunk, 0, wanted), chunk):
            return None
        records += len(places)
        first = int(zxids[0]) if first is None else first
        last = int(zxids[-1])
    return SeenRecords(first, last, records, last, [], [], reader.end, tuple(reader.oversized.values()))


def _is_decoded(taken: Taken | None, chunk: LogChunk) -> bool:
    """Returns whether each record holds what servers write."""
    return taken is not None and taken.error is None and taken.until == len(chunk.starts)
