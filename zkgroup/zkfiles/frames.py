"""The records of a transaction log as they lie in the file, and what lies there and is no record.

Source: FileTxnLog.java, FilePadding.java and Util.readTxnBytes of ZooKeeper 3.4 to 3.9. A file grows by zeros
ahead of its records, so zeros are its end. What is neither a record nor zeros is a write that was cut off, or
damage. A write that was cut off has nothing behind it; only that it is the last thing in the file tells it
from a damaged length or end mark, so the bytes behind are looked through for a record.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple
from zlib import adler32

from zkgroup.zkfiles.operations import HEADER
from zkgroup.zkfiles.window import MAX_RECORD_BYTES, Window

FRAME: Final = struct.Struct(">qi")
"""Adler-32 of the entry, its length."""
END_MARK: Final = 0x42
"""The byte `B` behind every entry."""

_FRONT: Final = struct.Struct(">qiqiqqi")
"""FRAME and the header of the transaction."""
_ZXID: Final = struct.Struct(">q")
_ZXID_AT: Final = FRAME.size + 12
_NEXT_RECORD: Final = b"B\0\0\0\0"
"""An end mark, and the front half of a checksum of 32 bits in 64."""
_PEEK_BYTES: Final = 64 * 1024
"""How far zeros have to go to be the end; more may come, but no more of them is read."""
_SEARCH_BYTES: Final = 4 * MAX_RECORD_BYTES
"""How much is summed up for candidates that turn out to be none, in one file."""
_TYPES: Final = range(-11, 64)


class LogChunk(NamedTuple):
    """Whole records that stand in one piece of a log; checksums and end marks hold."""

    data: bytes
    base: int
    """Where `data[0]` stands in the plain file."""
    starts: list[int]
    """Where each record's checksum is in `data`; its entry starts FRAME.size further."""
    ends: list[int]
    """Where each record's entry ends in `data`."""


class LogEnd(NamedTuple):
    """Where the records of a log end."""

    offset: int
    """Behind the last whole record."""
    is_torn: bool
    """Whether a part of one more follows: being written, or cut off by a crash."""


class Damage(NamedTuple):
    """A stretch of a log that holds no records that could be trusted."""

    offset: int
    resumed_at: int | None
    """Where the next whole record is; None where there is none."""
    expected: str
    found: str


class Frames:
    """The records from where a window stands. With `resync` damage is noted and skipped, else raised."""

    def __init__(self, window: Window, *, resync: bool = False) -> None:
        self._window = window
        self._resync = resync
        self._last_zxid: int | None = None
        self._search_left = _SEARCH_BYTES
        self.end: LogEnd | None = None
        """Known once all records were given."""
        self.damages: list[Damage] = []

    def chunks(self, to_offset: int | None = None) -> Iterator[LogChunk]:
        """All records, or those that start before an offset of the file. Raises DamagedFileError."""
        window = self._window
        while to_offset is None or window.offset < to_offset:
            starts, ends, needed = self._whole_records()
            if starts:
                chunk = LogChunk(window.data, window.base, starts, ends)
                if to_offset is not None and window.base + starts[-1] >= to_offset:
                    until = bisect_left(starts, to_offset - window.base)
                    yield chunk._replace(starts=starts[:until], ends=ends[:until])
                    return
                (self._last_zxid,) = _ZXID.unpack_from(window.data, starts[-1] + _ZXID_AT)
                yield chunk
            if needed and window.fits(window.offset + needed) and window.ensure(needed):
                continue
            if not self._goes_on_behind():
                return

    def _whole_records(self) -> tuple[list[int], list[int], int]:
        """Those in the buffer, and how many bytes would show if there is another; 0 where there is none."""
        window = self._window
        data, at, size = window.data, window.at, len(window.data)
        starts: list[int] = []
        ends: list[int] = []
        needed = FRAME.size
        unpack, front = FRAME.unpack_from, FRAME.size
        while size - at >= front:
            checksum, length = unpack(data, at)
            if length < HEADER.size or length > MAX_RECORD_BYTES:
                needed = 0
                break
            end = at + front + length
            if end >= size:
                needed = front + length + 1
                break
            if data[end] != END_MARK or adler32(data[at + front : end]) != checksum:
                needed = 0
                break
            starts.append(at)
            ends.append(end)
            at = end + 1
        window.at = at
        return starts, ends, needed

    def _goes_on_behind(self) -> bool:
        """Where no record is: False at the end, else damage is told and the window stands behind it."""
        window = self._window
        offset = window.offset
        window.ensure(_PEEK_BYTES)
        if not window.data[window.at :].strip(b"\0"):
            self.end = LogEnd(offset, is_torn=False)
            return False
        expected, found, is_certain = self._problem()
        if is_certain and not self._resync:
            raise window.damage(expected, found)
        is_there = self._search()
        if not is_certain and not is_there and self._search_left > 0:
            self.end = LogEnd(offset, is_torn=True)
            return False
        if not self._resync:
            raise window.damage(expected, found, offset)
        self.damages.append(Damage(offset, window.offset if is_there else None, expected, found))
        if not is_there:
            self.end = LogEnd(offset, is_torn=False)
        return is_there

    def _problem(self) -> tuple[str, str, bool]:
        """What was expected at `at`, what is there, and whether no write that was cut off looks like it."""
        window = self._window
        data, at = window.data, window.at
        if len(data) - at < FRAME.size:
            return "a record", f"{len(data) - at} bytes, and the end of the file", False
        checksum, length = FRAME.unpack_from(data, at)
        if not 0 <= checksum < 1 << 32:
            return "an Adler-32", f"{checksum:#x}", True
        if length and not HEADER.size <= length <= MAX_RECORD_BYTES:
            return f"a length of {HEADER.size} to {MAX_RECORD_BYTES}", str(length), True
        if (whole := self._length_that_fits(checksum)) is not None and whole != length:
            return f"a length of {whole}, to which checksum and end mark fit", str(length), True
        if not length:
            return "a record, or zeros up to the end", "zeros, and more behind them", False
        end = at + FRAME.size + length
        if end >= len(data):
            return f"{length} bytes and an end mark", "the end of the file", False
        if data[end] not in (0, END_MARK):
            return "the end mark 0x42", f"{data[end]:#04x}", True
        actual = adler32(data[at + FRAME.size : end])
        if data[end] == END_MARK:
            return f"the checksum {checksum:#010x}", f"{actual:#010x}", True
        return "the end mark 0x42", "0x00", False

    def _length_that_fits(self, checksum: int) -> int | None:
        """How long the entry at `at` is if its checksum and an end mark agree on it, within what was read."""
        window = self._window
        data, start = window.data, window.at + FRAME.size
        actual, summed = 1, start
        mark = data.find(END_MARK, start)
        while mark >= 0:
            actual = adler32(data[summed:mark], actual)
            if actual == checksum and mark - start >= HEADER.size:
                return mark - start
            summed = mark
            mark = data.find(END_MARK, mark + 1)
        return None

    def _search(self) -> bool:
        """Puts the window on the next whole record behind `at`; False where none was found."""
        window = self._window
        _, length = FRAME.unpack_from(window.data, window.at) if window.ensure(FRAME.size) else (0, 0)
        followed_by = window.offset + FRAME.size + length + 1
        window.at += 1
        # Where the end mark itself is wrong, the length leads on.
        if length > 0 and window.fits(followed_by):
            back, there = window.at, followed_by - window.base
            if there < len(window.data):
                window.at = there
                if self._is_record():
                    return True
                window.at += back - there
        while self._search_left > 0:
            is_there = window.ensure(_PEEK_BYTES)
            found = window.data.find(_NEXT_RECORD, window.at)
            if found >= 0:
                window.at = found + 1
                if self._is_record():
                    return True
            elif not is_there or not window.data[window.at :].strip(b"\0"):
                return False
            else:
                window.at = len(window.data) - len(_NEXT_RECORD) + 1
        return False

    def _is_record(self) -> bool:
        """Whether a record that could follow stands at `at`: header, end mark and checksum."""
        window = self._window
        if not window.ensure(_FRONT.size):
            return False
        checksum, length, _, _, zxid, _, kind = _FRONT.unpack_from(window.data, window.at)
        size = FRAME.size + length
        if (
            not HEADER.size <= length <= MAX_RECORD_BYTES
            or kind not in _TYPES
            or zxid <= (self._last_zxid or 0)
            or not window.fits(window.offset + size + 1)
        ):
            return False
        self._search_left -= length
        if self._search_left <= 0 or not window.ensure(size + 1):
            return False
        start, end = window.at + FRAME.size, window.at + size
        return window.data[end] == END_MARK and adler32(window.data[start:end]) == checksum
