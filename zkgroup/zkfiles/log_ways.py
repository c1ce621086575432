"""How records of logs are found and made columns here: by the kernel, by numpy, or in plain Python.

All give the same; what the faster ones do not know they leave to plain Python (`log_lists`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from zkgroup.zkfiles import log_lists
from zkgroup.zkfiles.compression import PIECE_BYTES
from zkgroup.zkfiles.frames import Find, LogChunk, whole_records
from zkgroup.zkfiles.log_lists import Taken, Wanted

Take = Callable[[LogChunk, int, Wanted], Taken | None]


class Way(NamedTuple):
    """How records are found and made columns, and how many bytes of them at a time."""

    find: Find
    take: Take
    piece_bytes: int


def fastest() -> Way:
    """Of those that are here."""
    try:
        from zkgroup.zkfiles import compiled
    except ImportError:
        pass
    else:
        return Way(compiled.find, compiled.take, compiled.PIECE_BYTES)
    try:
        from zkgroup.zkfiles import record_arrays, vectorised
    except ImportError:
        return Way(whole_records, log_lists.take, PIECE_BYTES)
    return Way(record_arrays.find, vectorised.take, vectorised.PIECE_BYTES)
