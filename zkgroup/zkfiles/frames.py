"""The records of a log as they stand in the file. Source: Util.readTxnBytes of ZooKeeper 3.4 to 3.9."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple
from zlib import adler32

from zkgroup.zkfiles.files import MAX_LOADED_BYTES, MAX_RECORD_BYTES
from zkgroup.zkfiles.jute import HEADER

FRAME: Final = struct.Struct(">qi")
"""The Adler-32 of the entry, and its length."""
END_MARK: Final = 0x42
"""The byte `B` behind every entry."""

_KERNEL_VERSION: Final = 3
_SMALLEST: Final = FRAME.size + HEADER.size + 1
ZXID: Final = struct.Struct(">q")
ZXID_AND_TIME: Final = struct.Struct(">qq")
ZXID_AT: Final = FRAME.size + 12
"""The place of the zxid from the start of a record."""


class Oversized(NamedTuple):
    """A record of a log, or a znode of a snapshot, above MAX_LOADED_BYTES."""

    zxid: int
    """The zxid of the record, or the last one that set the znode's data."""
    time_ms: int
    size: int
    """The bytes of the record, or of the znode's data or path."""

    @property
    def text(self) -> str:
        """The text about its size and the servers that load it."""
        return (
            f"{self.zxid:#x} has {self.size:,} bytes: a server loads it only if `jute.maxbuffer` and"
            f" `zookeeper.jute.maxbuffer.extrasize` together are as large (default {MAX_LOADED_BYTES:,})"
        )


class LogChunk(NamedTuple):
    """Whole records that stand in one piece of a log; checksums and end marks hold."""

    data: bytes
    base: int
    """The place of `data[0]` in the plain file."""
    starts: Sequence[int]
    """The places of the records' checksums in `data`; an entry starts FRAME.size further."""
    ends: Sequence[int]
    """The places in `data` where the records' entries end."""

    def zxid(self, number: int) -> int:
        (zxid,) = ZXID.unpack_from(self.data, self.starts[number] + ZXID_AT)
        return int(zxid)

    def oversized(self) -> Iterator[Oversized]:
        """The records that are too large; few chunks are as large as one."""
        if len(self.data) <= MAX_LOADED_BYTES:
            return
        for start, end in zip(self.starts, self.ends, strict=True):
            size = end - start - FRAME.size
            if size > MAX_LOADED_BYTES:
                zxid, time_ms = ZXID_AND_TIME.unpack_from(self.data, start + ZXID_AT)
                yield Oversized(zxid, time_ms, size)


def kernel() -> Any:
    """The compiled kernel; None where it was not built, is from other sources, or is switched off."""
    if os.environ.get("ZKGROUP_KERNEL") == "off":
        return None
    try:
        from zkgroup.zkfiles import kernel as compiled
    except ImportError:
        return None
    return compiled if getattr(compiled, "VERSION", 1) == _KERNEL_VERSION else None


def find(data: bytes, at: int) -> tuple[Sequence[int], Sequence[int], int]:
    """The whole records from a place of a buffer on: their starts, and the ends of their entries.

    The last number is that of bytes from the next one on that would show if there is another; 0 for none.
    """
    compiled = kernel()
    if compiled is None:
        return whole_records(data, at)
    most = max(len(data) - at, 0) // _SMALLEST + 1
    starts, ends = (memoryview(bytearray(ZXID.size * most)).cast("q") for _ in range(2))
    count, needed = compiled.find(data, at, starts, ends)
    return starts[:count], ends[:count], needed


def whole_records(data: bytes, at: int) -> tuple[list[int], list[int], int]:
    """`find` in plain Python, length by length."""
    size = len(data)
    starts: list[int] = []
    ends: list[int] = []
    while size - at >= FRAME.size:
        checksum, length = FRAME.unpack_from(data, at)
        if not HEADER.size <= length <= MAX_RECORD_BYTES:
            return starts, ends, 0
        end = at + FRAME.size + length
        if end >= size:
            return starts, ends, FRAME.size + length + 1
        if data[end] != END_MARK or adler32(data[at + FRAME.size : end]) != checksum:
            return starts, ends, 0
        starts.append(at)
        ends.append(end)
        at = end + 1
    return starts, ends, FRAME.size


class RecordsEnd(NamedTuple):
    """The end of the records of a log."""

    offset: int
    """The place behind the last whole record."""
    is_torn: bool
    """True if a part of one more record follows: it is being written, or a crash cut it off."""


class Damage(NamedTuple):
    """A piece of a log without reliable records."""

    offset: int
    resumed_at: int | None
    """The place of the next whole record; None where there is none."""
    expected: str
    found: str
