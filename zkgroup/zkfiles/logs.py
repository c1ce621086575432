"""Reads a transaction log, whole or from an offset on, and tells its health.

Source: FileTxnLog.java and FilePadding.java of ZooKeeper 3.4 to 3.9. A file grows by zeros ahead of its
records, so zeros are its end. Anything else is a write that was cut off, or damage. A
write that was cut off has nothing behind it; only that distinguishes it from a
damaged length or end mark, so the bytes behind are searched for a record.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import lt
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import adler32

from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles import files, jute
from zkgroup.zkfiles.jute import FRAME, HEADER, Damage, LogChunk
from zkgroup.zkfiles.records import Transaction

MAGIC: Final = b"ZKLG"
QUICK_BYTES: Final = 1 << 20
"""The bytes of a log from which on reading in columns is worth the import of numpy."""

_FRONT: Final = struct.Struct(">qiqiqqi")
"""FRAME and the header of the transaction."""
_NEXT_RECORD: Final = re.compile(
    rb"\0\0\0\0.{4}"  # a checksum of 32 bits in 64
    rb"(?!\0\0\0[\0-\x1f])[\0-\x04].{3}"  # a length that is accepted
    rb".{28}(?:\0\0\0[\0-\x3f]|\xff\xff\xff[\xf5-\xff])",  # a type behind session, cxid, zxid and time
    re.DOTALL,
)
"""The bytes that can be the front of a record."""
_PEEK_BYTES: Final = 64 * 1024
"""So many zeros are the end; no more of them are read."""
_SEARCH_BYTES: Final = 4 * files.MAX_RECORD_BYTES
"""The bytes behind damages that are searched in one file, and those that are summed."""
_TYPES: Final = range(-11, 64)
_MOST_DAMAGES: Final = 1000
"""The most damages of a file that are skipped; one with more is read no further."""


def written_bytes(path: Path) -> int:
    """The size of a file without the room that a server keeps for later; 0 where it cannot be read."""
    try:
        found = path.stat()
    except OSError:
        return 0
    return min(found.st_size, 512 * found.st_blocks)


class LogReader:
    """One log, read from the front each time; one buffer of it is in memory, and the largest record.

    `from_offset` and `to_offset` (of the plain file) select records by where they start; `from_offset` has to
    be that of one, as a `Hop` is. With `resync` damage is noted in `damages` and
    skipped. `oversized` gets the records that no server loads by default, by zxid.
    """

    def __init__(
        self,
        path: Path,
        *,
        from_offset: int | None = None,
        to_offset: int | None = None,
        resync: bool = False,
        piece_bytes: int = files.PIECE_BYTES,
        oversized: dict[int, jute.Oversized] | None = None,
    ) -> None:
        self.path = path
        self._from_offset = from_offset
        self._to_offset = to_offset
        self._resync = resync
        self._piece_bytes = piece_bytes
        self.end: jute.RecordsEnd | None = None
        """The end of the records, once they were all read."""
        self.damages: list[Damage] = []
        """The damages that were skipped so far."""
        self.oversized: dict[int, jute.Oversized] = {} if oversized is None else oversized
        self._last_zxid = 0
        self._search_left = 0

    def chunks(self) -> Generator[LogChunk]:
        """Yields the records in pieces of the file, not decoded.

        A record that is still being written is left out; `end` shows it. Raises DamagedFileError, without
        `resync`, and NotZooKeeperFileError where the file is no transaction log.
        """
        self.end, self.damages = None, []
        self._last_zxid, self._search_left = 0, _SEARCH_BYTES
        with files.Window(self.path, piece_bytes=self._piece_bytes) as window:
            try:
                if self._has_header(window):
                    if self._from_offset is not None:
                        window.jump(max(self._from_offset, files.FILE_HEADER.size))
                    for chunk in self._chunks_of(window):
                        self.oversized.update((each.zxid, each) for each in chunk.oversized())
                        yield chunk
            except DamagedFileError as error:
                if not self._resync:
                    raise
                # Behind a damage of its compression a file cannot be read.
                self.damages.append(Damage(error.offset, None, error.expected, error.found))

    def __iter__(self) -> Iterator[Transaction]:
        """Yields the transactions; raises as `chunks`, and for a record that no server writes."""
        for chunk in self.chunks():
            yield from self.transactions_of(chunk)

    def transactions_of(self, chunk: LogChunk) -> Iterator[Transaction]:
        """Yields the transactions of one chunk."""
        data, base = chunk.data, chunk.base
        for number, (start, end) in enumerate(zip(chunk.starts, chunk.ends, strict=True)):
            try:
                transaction = jute.transaction_of(data, start + FRAME.size, end, base + start)
            except jute.JuteError as error:
                self.unreadable(chunk, number, error)
            else:
                yield transaction

    def unreadable(self, chunk: LogChunk, number: int, error: jute.JuteError) -> None:
        """Notes, with `resync`, a record of a chunk that no server writes; raises otherwise."""
        if not self._resync:
            offset = chunk.base + error.offset
            raise DamagedFileError(str(self.path), offset, error.expected, error.found) from error
        start, end = chunk.base + chunk.starts[number], chunk.base + chunk.ends[number] + 1
        self.damages.append(Damage(start, end, error.expected, error.found))

    def _has_header(self, window: files.Window) -> bool:
        """False where the server was stopped before it wrote the header."""
        is_there = window.ensure(files.FILE_HEADER.size)
        front = window.data[: files.FILE_HEADER.size]
        if not front.strip(b"\0") or (not is_there and MAGIC.startswith(front[: len(MAGIC)])):
            self.end = jute.RecordsEnd(0, is_torn=bool(front))
            return False
        window.pass_header("a transaction log", MAGIC)
        return True

    def _chunks_of(self, window: files.Window) -> Iterator[LogChunk]:
        to_offset, is_new = self._to_offset, False
        while to_offset is None or window.offset < to_offset:
            starts, ends, needed = jute.find(window.data, window.at)
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
            elif not self._goes_on_behind(window):
                return

    def _goes_on_behind(self, window: files.Window) -> bool:
        """False at the end; otherwise it notes the damage, and moves the window behind it."""
        offset = window.offset
        window.ensure(_PEEK_BYTES)
        seen = window.data[window.at : window.at + _PEEK_BYTES]
        if not seen.strip(b"\0"):
            self.end = jute.RecordsEnd(offset, is_torn=False)
            return False
        problem = _problem(window)
        if problem is None:
            return True
        may_go_on = self._resync and len(self.damages) < _MOST_DAMAGES
        is_there = (may_go_on or not problem.is_certain) and self._search(window)
        if window.has_changed(offset, seen):
            return window.reload(offset)  # it was being written while it, or the bytes behind it, were read
        if not problem.is_certain and not is_there and self._search_left > 0:
            whole = _length_that_fits(seen)
            if whole is None:
                self.end = jute.RecordsEnd(offset, is_torn=True)
                return False
            problem = _Problem(f"a length of {whole}, to which checksum and end mark fit", "another", True)
        if not self._resync:
            raise window.damage(problem.expected, problem.found, offset)
        resumed_at = window.offset if is_there and may_go_on else None
        self.damages.append(Damage(offset, resumed_at, problem.expected, problem.found))
        if resumed_at is None:
            self.end = jute.RecordsEnd(offset, is_torn=False)
        return resumed_at is not None

    def _search(self, window: files.Window) -> bool:
        """Moves the window to the next whole record behind `at`; False where there is none."""
        begun_at, size = window.offset, _claimed_size(window)
        if size and self._is_record(window, size):  # only the end mark is wrong
            window.at += size
            return True
        window.at += 1
        while self._search_left > window.offset - begun_at:
            is_there = window.ensure(_PEEK_BYTES)
            found = _NEXT_RECORD.search(window.data, window.at)
            if found is not None:
                window.at = found.start()
                if self._is_record(window):
                    return True
                window.at += 1
            elif not is_there or not window.data[window.at :].strip(b"\0"):
                self._search_left -= window.offset - begun_at
                return False
            else:
                window.at = len(window.data) - _FRONT.size + 1
        self._search_left = 0
        return False

    def _is_record(self, window: files.Window, ahead: int = 0) -> bool:
        """True if a possible next record stands so far ahead: header, end mark and checksum are right."""
        if not window.ensure(ahead + _FRONT.size):
            return False
        checksum, length, _, _, zxid, _, kind = _FRONT.unpack_from(window.data, window.at + ahead)
        is_plausible = (
            0 <= checksum < 1 << 32
            and HEADER.size <= length <= files.MAX_RECORD_BYTES
            and kind in _TYPES
            and zxid > self._last_zxid
        )
        if not is_plausible:
            return False
        size = FRAME.size + length
        self._search_left -= size
        needed = ahead + size + 1
        if self._search_left <= 0 or not window.fits(window.offset + needed) or not window.ensure(needed):
            return False
        start = window.at + ahead
        data, end = window.data, start + size
        return data[end] == jute.END_MARK and bool(adler32(data[start + FRAME.size : end]) == checksum)


class Hop(NamedTuple):
    """A record at which reading can begin, so that a large log is read in parts, or only its new records."""

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


def _problem(window: files.Window) -> _Problem | None:
    """The reason why there is no record at `at`; None where there is one by now."""
    data, at = window.data, window.at
    if len(data) - at < FRAME.size:
        return _Problem("a record", f"{len(data) - at} bytes, and the end of the file", False)
    checksum, length = FRAME.unpack_from(data, at)
    if not 0 <= checksum < 1 << 32:
        return _Problem("an Adler-32", f"{checksum:#x}", True)
    if length and not HEADER.size <= length <= files.MAX_RECORD_BYTES:
        return _Problem(f"a length of {HEADER.size} to {files.MAX_RECORD_BYTES}", str(length), True)
    if not length:
        return _Problem("a record, or zeros up to the end", "zeros, and more behind them", False)
    end = at + FRAME.size + length
    if end >= len(data):
        return _Problem(f"an end mark after a length of {length}", "the end of the file", False)
    if data[end] == jute.END_MARK:
        actual = adler32(data[at + FRAME.size : end])
        if actual == checksum:
            return None
        return _Problem(f"the checksum {checksum:#010x}", f"{actual:#010x}", True)
    return _Problem("the end mark 0x42", f"{data[end]:#04x}", data[end] != 0)


def _claimed_size(window: files.Window) -> int:
    """The size of the record at `at` by its length; 0 where the length is impossible."""
    if not window.ensure(FRAME.size):
        return 0
    _, length = FRAME.unpack_from(window.data, window.at)
    size = FRAME.size + int(length) + 1
    return (
        size if HEADER.size <= length <= files.MAX_RECORD_BYTES and window.fits(window.offset + size) else 0
    )


class _Problem(NamedTuple):
    expected: str
    found: str
    is_certain: bool
    """True if a write that was cut off cannot look like it."""


def _length_that_fits(data: bytes) -> int | None:
    """The length of the entry in front of `data` with which its checksum and an end mark are right.

    A record that was cut off has no such length; a record with a damaged length has one.
    """
    if len(data) < FRAME.size:
        return None
    checksum, _ = FRAME.unpack_from(data)
    actual, summed = 1, FRAME.size
    mark = data.find(jute.END_MARK, summed)
    while mark >= 0:
        actual = adler32(data[summed:mark], actual)
        if actual == checksum and mark - FRAME.size >= HEADER.size:
            return mark - FRAME.size
        summed = mark
        mark = data.find(jute.END_MARK, mark + 1)
    return None


_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class FileHealth:
    """The findings of one pass over a file; the values of `zkgroup audit inspect`."""

    path: Path
    kind: str
    """`snapshot` or `log`."""
    first_zxid: int | None
    """The zxid of the first record of a log, or the last one applied when a snapshot began."""
    last_zxid: int | None
    """The zxid of the last record of a log, or the last one of which a snapshot can have changes, if known.

    None for a damaged snapshot, whose zxids may be wrong.
    """
    records: int
    """The transactions or znodes that could be read, with those behind a damage."""
    is_healthy: bool
    """True if no seal, checksum or length is wrong. A last write that is not whole is no damage."""
    good_until_zxid: int | None
    """The zxid up to which nothing is missing or wrong; None where there is none."""
    is_exact: bool
    """True for a log that ends with a whole record, and a snapshot known to be the tree at one zxid."""
    detail: str = ""
    """Text about the damage; empty for none."""
    oversized: tuple[jute.Oversized, ...] = ()
    """The records or znodes with which no server loads the file by default, by zxid."""


def oversized_notes(oversized: Sequence[jute.Oversized]) -> list[str]:
    """A text for each of the first ones, and one about the number of others."""
    more = [f"{len(oversized) - _NAMED} more that are too large"] if len(oversized) > _NAMED else []
    return [*(one.text for one in oversized[:_NAMED]), *more]


def inspect_log(path: Path) -> FileHealth:
    """The health of a log: every checksum is compared and every record decoded.

    Raises NotZooKeeperFileError where the file cannot be read, or neither its name nor its front is a log's.
    """
    files.FileBytes(path).close()  # raises for a file that may not be read, and for a link
    named = files.ServerFile.of(path)
    named = named if named is not None and named.kind == files.LOG else None
    reader = LogReader(path, resync=True)
    first, last, records, good_until, notes = _read(reader, is_named=named is not None)
    damages, end, oversized = reader.damages, reader.end, tuple(reader.oversized.values())
    if named is not None and first is not None and named.zxid != first:
        notes.append(f"the name says {named.zxid:#x}, the first record is {first:#x}")
    return FileHealth(
        path=path,
        kind=files.LOG,
        first_zxid=first,
        last_zxid=last,
        records=records,
        is_healthy=not damages,
        good_until_zxid=good_until,
        is_exact=not damages and end is not None and not end.is_torn,
        detail="; ".join(
            [*_damages(damages), *oversized_notes(oversized), *_end(end, records), *notes[:_NAMED]]
        ),
        oversized=oversized,
    )


def _read(reader: LogReader, *, is_named: bool) -> tuple[int | None, int | None, int, int | None, list[str]]:
    """The first and the last zxid, the number of records, the zxid up to which all is well, and notes."""
    first = last = good_until = None
    records = 0
    notes: list[str] = []
    try:
        for chunk in reader.chunks():
            zxids = _rising_zxids(chunk)
            if zxids and (last is None or zxids[0] > last):
                records += len(zxids)
                first = zxids[0] if first is None else first
                last = zxids[-1]
                good_until = good_until if reader.damages else last
                continue
            for transaction in reader.transactions_of(chunk):
                records += 1
                if last is not None and transaction.zxid <= last:
                    notes.append(f"zxid {transaction.zxid:#x} behind {last:#x} at byte {transaction.offset}")
                first = transaction.zxid if first is None else first
                last = transaction.zxid
                good_until = good_until if reader.damages else last
    except NotZooKeeperFileError as error:
        if not is_named:
            raise
        reader.damages.append(Damage(0, None, error.expected, error.found))
    return first, last, records, good_until, notes


_COLUMNS, _ZXID_OF_RECORD = 34, 30
"""The number of columns of the kernel's `fill`, and the place of the records' zxids."""


def _rising_zxids(chunk: LogChunk) -> Sequence[int]:
    """The zxids of a chunk that the kernel decodes, if they rise; else None."""
    compiled = jute.kernel()
    if compiled is None:
        return ()
    records = chunk.data, chunk.starts, chunk.ends, 0, len(chunk.starts), -(1 << 63), (1 << 63) - 1
    measured = compiled.measure(*records, 1 << 62)
    if measured is None:
        return ()
    columns: list[Any] = [None] * _COLUMNS
    found = memoryview(bytearray(jute.ZXID.size * measured[1])).cast("q")
    columns[_ZXID_OF_RECORD] = found
    filled = compiled.fill(*records, measured[1], None, None, tuple(columns))
    if filled is None or filled[1] != len(chunk.starts):
        return ()
    zxids: list[int] = found[: filled[1]].tolist()
    return zxids if all(map(lt, zxids, zxids[1:])) else ()


def _damages(damages: Sequence[Damage]) -> Iterator[str]:
    for damage in damages[:_NAMED]:
        at = damage.resumed_at
        goes_on = "nothing whole behind it" if at is None else f"whole again from byte {at}"
        yield f"byte {damage.offset}: expected {damage.expected}, found {damage.found} ({goes_on})"
    if len(damages) > _NAMED:
        yield f"{len(damages) - _NAMED} more damages"


def _end(end: jute.RecordsEnd | None, records: int) -> Iterator[str]:
    if end is not None and end.is_torn:
        yield f"the last write is not whole, from byte {end.offset}: it is being written, or was cut off"
    elif end is not None and not records:
        yield "no record"
