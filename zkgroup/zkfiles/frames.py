"""The records of a transaction log as they lie in the file, and what lies there and is no record.

Source: FileTxnLog.java, FilePadding.java and Util.readTxnBytes of ZooKeeper 3.4 to 3.9. A file grows by zeros
ahead of its records, so zeros are its end. What is neither a record nor zeros is a write that was cut off, or
damage. A write that was cut off has nothing behind it; only that it is the last thing in the file tells it
from a damaged length or end mark, so the bytes behind are looked through for a record.
"""

from __future__ import annotations

import os
import re
import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple
from zlib import adler32

from zkgroup.zkfiles.compression import MAX_LOADED_BYTES, MAX_RECORD_BYTES, Window
from zkgroup.zkfiles.operations import HEADER

FRAME: Final = struct.Struct(">qi")
"""Adler-32 of the entry, its length."""
END_MARK: Final = 0x42
"""The byte `B` behind every entry."""

_KERNEL_VERSION: Final = 2
_SMALLEST: Final = FRAME.size + HEADER.size + 1
_FRONT: Final = struct.Struct(">qiqiqqi")
"""FRAME and the header of the transaction."""
ZXID: Final = struct.Struct(">q")
ZXID_AND_TIME: Final = struct.Struct(">qq")
ZXID_AT: Final = FRAME.size + 12
"""Of a record's zxid, from where the record starts."""
_NEXT_RECORD: Final = re.compile(
    rb"\0\0\0\0.{4}"  # a checksum of 32 bits in 64
    rb"(?!\0\0\0[\0-\x1f])[\0-\x04].{3}"  # a length that is believed
    rb".{28}(?:\0\0\0[\0-\x3f]|\xff\xff\xff[\xf5-\xff])",  # a type behind session, cxid, zxid and time
    re.DOTALL,
)
"""Bytes that can be the front of a record."""
_PEEK_BYTES: Final = 64 * 1024
"""Zeros that go so far are the end; more may come, but no more of them is read."""
_SEARCH_BYTES: Final = 4 * MAX_RECORD_BYTES
"""So much is looked through and summed up behind damages, in one file."""
_TYPES: Final = range(-11, 64)
_MOST_DAMAGES: Final = 1000
"""So many pieces of a file are skipped; one with more is read no further."""


class Oversized(NamedTuple):
    """A record of a log, or a znode of a snapshot, above MAX_LOADED_BYTES."""

    zxid: int
    """Of a znode, the last one that set its data."""
    time_ms: int
    size: int
    """Bytes of the record, or of the znode's data or path."""

    @property
    def text(self) -> str:
        """What it is, and which servers load it, in words."""
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
        """The zxid of a record."""
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
    """The compiled kernel; None where it was not built, of other sources than these, or is switched off."""
    if os.environ.get("ZKGROUP_KERNEL") == "off":
        return None
    try:
        from zkgroup.zkfiles import kernel as compiled
    except ImportError:
        return None
    return compiled if getattr(compiled, "VERSION", 1) == _KERNEL_VERSION else None


def find(data: bytes, at: int) -> tuple[Sequence[int], Sequence[int], int]:
    """The whole records from a place of a buffer on: where they start, and where their entries end.

    The last number is how many bytes from the next one on would show if there is another; 0 where there is
    none.
    """
    compiled = kernel()
    if compiled is None:
        return whole_records(data, at)
    most = max(len(data) - at, 0) // _SMALLEST + 1
    starts, ends = (memoryview(bytearray(ZXID.size * most)).cast("q") for _ in range(2))
    count, needed = compiled.find(data, at, starts, ends)
    return starts[:count], ends[:count], needed


def whole_records(data: bytes, at: int) -> tuple[list[int], list[int], int]:
    """The same in plain Python: length by length."""
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
    """Behind the last whole record."""
    is_torn: bool
    """True if a part of one more follows: being written, or cut off by a crash."""


class Damage(NamedTuple):
    """A piece of a log that holds no records that could be trusted."""

    offset: int
    resumed_at: int | None
    """The place of the next whole record; None where there is none."""
    expected: str
    found: str


class Frames:
    """The records from where a window stands. With `resync` damage is noted and skipped, else raised."""

    def __init__(self, window: Window, *, resync: bool = False) -> None:
        self._window = window
        self._resync = resync
        self._last_zxid: int | None = None
        self._search_left = _SEARCH_BYTES
        self.end: RecordsEnd | None = None
        """Known once all records were given."""
        self.damages: list[Damage] = []

    def chunks(self, to_offset: int | None = None) -> Iterator[LogChunk]:
        """All records, or those that start before an offset of the file. Raises DamagedFileError."""
        window = self._window
        is_new = False
        while to_offset is None or window.offset < to_offset:
            starts, ends, needed = find(window.data, window.at)
            if len(starts):
                is_new = False
                window.at = ends[-1] + 1
                chunk = LogChunk(window.data, window.base, starts, ends)
                if to_offset is not None and window.base + starts[-1] >= to_offset:
                    until = bisect_left(starts, to_offset - window.base)
                    yield chunk._replace(starts=starts[:until], ends=ends[:until])
                    return
                self._last_zxid = chunk.zxid(-1)
                yield chunk
            if needed and window.fits(window.offset + needed) and window.ensure(needed):
                continue
            if not is_new and window.reload(window.offset):
                is_new = True  # a server may have gone on since that piece was read
            elif not self._goes_on_behind():
                return

    def _goes_on_behind(self) -> bool:
        """False at the end; else damage is noted, and the window stands behind it."""
        window = self._window
        offset = window.offset
        window.ensure(_PEEK_BYTES)
        seen = window.data[window.at : window.at + _PEEK_BYTES]
        if not seen.strip(b"\0"):
            self.end = RecordsEnd(offset, is_torn=False)
            return False
        problem = self._problem()
        if problem is None:
            return True
        may_go_on = self._resync and len(self.damages) < _MOST_DAMAGES
        is_there = (may_go_on or not problem.is_certain) and self._search()
        if window.has_changed(offset, seen):
            return window.reload(offset)  # it was written while it, or the bytes behind it, were read
        if not problem.is_certain and not is_there and self._search_left > 0:
            whole = _length_that_fits(seen)
            if whole is None:
                self.end = RecordsEnd(offset, is_torn=True)
                return False
            problem = _Problem(f"a length of {whole}, to which checksum and end mark fit", "another", True)
        if not self._resync:
            raise window.damage(problem.expected, problem.found, offset)
        resumed_at = window.offset if is_there and may_go_on else None
        self.damages.append(Damage(offset, resumed_at, problem.expected, problem.found))
        if resumed_at is None:
            self.end = RecordsEnd(offset, is_torn=False)
        return resumed_at is not None

    def _problem(self) -> _Problem | None:
        """The reason why no record stands at `at`; None where one does by now."""
        window = self._window
        data, at = window.data, window.at
        if len(data) - at < FRAME.size:
            return _Problem("a record", f"{len(data) - at} bytes, and the end of the file", False)
        checksum, length = FRAME.unpack_from(data, at)
        if not 0 <= checksum < 1 << 32:
            return _Problem("an Adler-32", f"{checksum:#x}", True)
        if length and not HEADER.size <= length <= MAX_RECORD_BYTES:
            return _Problem(f"a length of {HEADER.size} to {MAX_RECORD_BYTES}", str(length), True)
        if not length:
            return _Problem("a record, or zeros up to the end", "zeros, and more behind them", False)
        end = at + FRAME.size + length
        if end >= len(data):
            return _Problem(f"an end mark after a length of {length}", "the end of the file", False)
        if data[end] == END_MARK:
            actual = adler32(data[at + FRAME.size : end])
            if actual == checksum:
                return None
            return _Problem(f"the checksum {checksum:#010x}", f"{actual:#010x}", True)
        return _Problem("the end mark 0x42", f"{data[end]:#04x}", data[end] != 0)

    def _search(self) -> bool:
        """Puts the window on the next whole record behind `at`; False where none was found."""
        window = self._window
        behind = self._behind_length()
        if behind is not None:
            window.at = behind
            return True
        begun_at = window.offset
        window.at += 1
        while self._search_left > window.offset - begun_at:
            is_there = window.ensure(_PEEK_BYTES)
            found = _NEXT_RECORD.search(window.data, window.at)
            if found is not None:
                window.at = found.start()
                if self._is_record():
                    return True
                window.at += 1
            elif not is_there or not window.data[window.at :].strip(b"\0"):
                self._search_left -= window.offset - begun_at
                return False
            else:
                window.at = len(window.data) - _FRONT.size + 1
        self._search_left = 0
        return False

    def _behind_length(self) -> int | None:
        """The place in `data` of a record behind the one at `at`, by its length, if its end mark is wrong."""
        window = self._window
        if not window.ensure(FRAME.size):
            return None
        _, length = FRAME.unpack_from(window.data, window.at)
        size = FRAME.size + length + 1
        if not HEADER.size <= length <= MAX_RECORD_BYTES or not window.fits(window.offset + size):
            return None
        window.ensure(size + _PEEK_BYTES)
        at = window.at + size
        return at if (end := self._end_at(at)) is not None and self._holds(at, end) else None

    def _is_record(self) -> bool:
        """True if a record that could follow stands at `at`: header, end mark and checksum."""
        window = self._window
        window.ensure(_FRONT.size)
        end = self._end_at(window.at)
        if end is None:
            return False
        size = end - window.at
        self._search_left -= size
        if self._search_left <= 0 or not window.fits(window.offset + size + 1) or not window.ensure(size + 1):
            return False
        return self._holds(window.at, window.at + size)

    def _end_at(self, at: int) -> int | None:
        """The place in `data` where an entry would end, if what stands at `at` can be a record's front."""
        data = self._window.data
        if len(data) - at < _FRONT.size:
            return None
        checksum, length, _, _, zxid, _, kind = _FRONT.unpack_from(data, at)
        is_plausible = (
            0 <= checksum < 1 << 32
            and HEADER.size <= length <= MAX_RECORD_BYTES
            and kind in _TYPES
            and zxid > (self._last_zxid or 0)
        )
        return at + FRAME.size + length if is_plausible else None

    def _holds(self, at: int, end: int) -> bool:
        data = self._window.data
        if end >= len(data) or data[end] != END_MARK:
            return False
        checksum, _ = FRAME.unpack_from(data, at)
        return bool(adler32(data[at + FRAME.size : end]) == checksum)


class _Problem(NamedTuple):
    expected: str
    found: str
    is_certain: bool
    """True if no write that was cut off looks like it."""


def _length_that_fits(data: bytes) -> int | None:
    """The length of the entry in front of `data` with which its checksum and an end mark agree.

    A record that was cut off has no such length; one whose length is damaged has.
    """
    if len(data) < FRAME.size:
        return None
    checksum, _ = FRAME.unpack_from(data)
    actual, summed = 1, FRAME.size
    mark = data.find(END_MARK, summed)
    while mark >= 0:
        actual = adler32(data[summed:mark], actual)
        if actual == checksum and mark - FRAME.size >= HEADER.size:
            return mark - FRAME.size
        summed = mark
        mark = data.find(END_MARK, mark + 1)
    return None
