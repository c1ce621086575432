"""Logs that were cut off, are damaged or being written: each is told from the others, nothing is believed."""

from __future__ import annotations

import gzip
import os
import struct
import tracemalloc
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from tests.worlds import zkfiles_writer as writer
from zkgroup.errors import DamagedFileError
from zkgroup.zkfiles.files import MAX_RECORD_BYTES
from zkgroup.zkfiles.jute import RecordsEnd
from zkgroup.zkfiles.logs import LogReader, inspect_log
from zkgroup.zkfiles.records import Operation, Transaction, TransactionType, TreeDigest

DATA = b"B\0\0\0\0 like a record's front " * 3
RECORDS = 6


def transactions(count: int = RECORDS, size: int = 1) -> list[Transaction]:
    """Creates whose data look like the places where records begin."""
    return [
        Transaction(
            zxid,
            7,
            zxid,
            1_600_000_000_000 + zxid,
            TransactionType.CREATE,
            (
                Operation(
                    TransactionType.CREATE, f"/a{zxid:05}", DATA * size, writer.OPEN_ACL, parent_cversion=1
                ),
            ),
            digest=TreeDigest(2, zxid),
        )
        for zxid in range(1, count + 1)
    ]


WHOLE = writer.log(transactions())
SIZE = (len(WHOLE) - len(writer.LOG_HEADER)) // RECORDS
LAST = len(WHOLE) - SIZE


@pytest.mark.parametrize("padding", [0, 1, 5000, 400_000], ids=["cut", "one zero", "page", "preallocated"])
def test_torn_at_every_byte_of_the_last_record(padding: int, tmp_path: Path) -> None:
    """Neither damage nor a record: not there yet. Without a byte of it the end is clean."""
    path = tmp_path / "log.1"
    step = 1 if padding < 5000 else 7
    for cut in range(LAST, len(WHOLE), step):
        path.write_bytes(WHOLE[:cut] + bytes(padding))
        reader = LogReader(path)
        assert [each.zxid for each in reader] == list(range(1, RECORDS)), cut
        # The checksum's front half is zeros in any case.
        seen = cut > LAST + 4 or (padding == 0 and WHOLE[LAST:cut].strip(b"\0") != b"")
        assert reader.end == RecordsEnd(LAST, is_torn=seen), cut
        assert not reader.damages
    health = inspect_log(path)
    assert (health.is_healthy, health.is_exact, health.good_until_zxid) == (True, False, RECORDS - 1)
    assert f"from byte {LAST}" in health.detail


@pytest.mark.parametrize("padding", [0, 4096])
@pytest.mark.parametrize("number", [1, 3, RECORDS], ids=["first", "middle", "last"])
def test_a_flipped_bit_in_each_field_of_a_record_is_damage(number: int, padding: int, tmp_path: Path) -> None:
    """Of any record, the last one included; the others are read when that is asked for."""
    path = tmp_path / "log.1"
    start = len(writer.LOG_HEADER) + (number - 1) * SIZE
    fields = (0, 3, 4, 7, 8, 10, 11, 12, 20, 24, 31, 32, 40, 43, 44, 60, SIZE - 13, SIZE - 2, SIZE - 1)
    for at in (start + field for field in fields):
        for bit in range(8):
            raw = bytearray(WHOLE + bytes(padding))
            raw[at] ^= 1 << bit
            path.write_bytes(raw)
            found: list[int] = []
            with pytest.raises(DamagedFileError) as caught:
                found.extend(each.zxid for each in LogReader(path))
            assert caught.value.offset == start, (at - start, bit)
            assert caught.value.path == str(path)
            assert caught.value.expected in str(caught.value)
            assert caught.value.found in str(caught.value)
            assert found == list(range(1, number)), (at - start, bit)
            others = [zxid for zxid in range(1, RECORDS + 1) if zxid != number]
            assert [each.zxid for each in LogReader(path, resync=True)] == others, (at - start, bit)


def test_a_flipped_bit_differs_from_a_write_that_was_cut_off(tmp_path: Path) -> None:
    """A longer length is the hard one: the bytes that would follow are not there in either case."""
    path = tmp_path / "log.1"
    for raw_length, expected in ((SIZE - 13 + 64, "to which checksum"), (SIZE - 13 + (1 << 20), "to which")):
        raw = bytearray(WHOLE)
        raw[LAST + 8 : LAST + 12] = struct.pack(">i", raw_length)
        path.write_bytes(raw)
        with pytest.raises(DamagedFileError, match=expected):
            list(LogReader(path))


def test_inspection_names_what_is_good_and_where_it_continues(tmp_path: Path) -> None:
    """The first damage bounds what is good; what is whole behind it is counted."""
    path = tmp_path / "log.1"
    raw = bytearray(WHOLE + bytes(100))
    for number in (2, 3, 5):
        raw[len(writer.LOG_HEADER) + number * SIZE - 20] ^= 1
    path.write_bytes(raw)
    health = inspect_log(path)
    second = len(writer.LOG_HEADER) + SIZE
    assert (health.is_healthy, health.is_exact) == (False, False)
    assert (health.first_zxid, health.good_until_zxid, health.last_zxid, health.records) == (1, 1, 6, 3)
    assert f"byte {second}: expected the checksum" in health.detail
    assert f"whole again from byte {second + 2 * SIZE}" in health.detail


@pytest.mark.parametrize("length", [-1, -(2**31), 1, 31, 2**31 - 1, MAX_RECORD_BYTES + 1, MAX_RECORD_BYTES])
@pytest.mark.parametrize("is_last", [False, True])
def test_hostile_lengths_are_refused_without_the_memory(length: int, is_last: bool, tmp_path: Path) -> None:
    """Negative, too short, too long, or beyond the end of the file, plain and packed."""
    path = tmp_path / "log.1"
    raw = bytearray(WHOLE + bytes(1000))
    at = LAST if is_last else len(writer.LOG_HEADER) + SIZE
    raw[at + 8 : at + 12] = struct.pack(">i", length)
    for name, content in (("log.1", bytes(raw)), ("log.1.gz", gzip.compress(raw))):
        path = tmp_path / name
        path.write_bytes(content)
        tracemalloc.start()
        try:
            with pytest.raises(DamagedFileError, match="length"):
                list(LogReader(path))
            assert tracemalloc.get_traced_memory()[1] < 4 << 20
        finally:
            tracemalloc.stop()


def test_a_page_of_zeros_in_the_middle_is_no_end(tmp_path: Path) -> None:
    """Lost pages look like the end until one looks behind them."""
    path = tmp_path / "log.1"
    raw = writer.log(transactions(300))
    at = len(writer.LOG_HEADER) + 10 * SIZE
    path.write_bytes(raw[:at] + bytes(4096) + raw[at + 4096 :] + bytes(1000))
    with pytest.raises(DamagedFileError, match="zeros, and more behind") as caught:
        list(LogReader(path))
    assert caught.value.offset == at
    lost = -(-4096 // SIZE)
    found = [each.zxid for each in LogReader(path, resync=True)]
    assert found == [*range(1, 11), *range(11 + lost, 301)]


def test_pages_that_came_to_the_disk_in_another_order_are_a_torn_end(tmp_path: Path) -> None:
    """Zeros, then the back of one last write, with no whole record in it."""
    path = tmp_path / "log.1"
    path.write_bytes(WHOLE[:LAST] + bytes(40) + WHOLE[LAST + 40 :] + bytes(5000))
    reader = LogReader(path)
    assert len(list(reader)) == RECORDS - 1
    assert reader.end == RecordsEnd(LAST, is_torn=True)


def test_a_packed_log_that_was_cut_off_is_good_up_to_there(tmp_path: Path) -> None:
    """A copy that is not whole, as gzip tells; a plain one cannot know."""
    path = tmp_path / "log.1.gz"
    path.write_bytes(gzip.compress(WHOLE, 0)[: -SIZE - 20])
    found = []
    with pytest.raises(DamagedFileError, match="cut off"):
        found.extend(each.zxid for each in LogReader(path))
    expected = list(range(1, RECORDS - 1)) if len(found) == RECORDS - 2 else list(range(1, RECORDS))
    assert found == expected
    assert [each.zxid for each in LogReader(path, resync=True)] == found
    health = inspect_log(path)
    assert (health.is_healthy, health.good_until_zxid) == (False, found[-1])
    assert "cut off" in health.detail


def test_a_log_with_too_many_damages_is_left_at_one(tmp_path: Path) -> None:
    """What is noted of a file has a bound too."""
    path = tmp_path / "log.1"
    records = [writer.record(writer.entry(each)) for each in transactions(3000)]
    path.write_bytes(writer.LOG_HEADER + b"".join(record + b"\xff" * 20 for record in records))
    assert [each.zxid for each in islice(LogReader(path, resync=True), 20)] == list(range(1, 21))
    reader = LogReader(path, resync=True)
    assert len(list(reader)) == len(reader.damages) == 1001
    assert reader.damages[-1].resumed_at is None
    assert "more damages" in inspect_log(path).detail


def test_damage_in_a_large_record(tmp_path: Path) -> None:
    """The next one is further away than one piece of the file."""
    path = tmp_path / "log.1"
    raw = bytearray(writer.log(transactions(4, size=8000)))
    size = (len(raw) - len(writer.LOG_HEADER)) // 4
    assert size > 2 * 256 * 1024
    raw[len(writer.LOG_HEADER) + size + 1000] ^= 4
    path.write_bytes(raw)
    assert [each.zxid for each in LogReader(path, resync=True)] == [1, 3, 4]


def test_a_resync_takes_no_record_of_the_past(tmp_path: Path) -> None:
    """Data can hold what looks like a record, checksum and all; its zxid is behind, then."""
    decoy = b"B" + writer.record(writer.entry(transactions()[0]))
    holder = Transaction(
        *(5, 7, 1, 1, TransactionType.SET_DATA),
        (Operation(TransactionType.SET_DATA, "/a", decoy, version=1),),
    )
    path = tmp_path / "log.1"
    raw = bytearray(writer.log([*transactions(4), holder, *transactions(6)[5:]]))
    at = raw.index(decoy) - 20
    raw[at] ^= 1
    path.write_bytes(raw)
    assert [each.zxid for each in LogReader(path, resync=True)] == [1, 2, 3, 4, 6]


def test_a_file_of_candidates_is_left_in_time(tmp_path: Path) -> None:
    """Each looks like the front of a record of megabytes: what is summed up for them is bounded."""
    candidate = b"B" + struct.pack(">qiqiqqi", 1, 8 << 20, 1, 1, 2**60, 1, 1)
    path = tmp_path / "log.1"
    path.write_bytes(WHOLE[:LAST] + b"\xff" * 30 + candidate * 400_000)
    summed = 0

    def counting(data: bytes, value: int = 1) -> int:
        nonlocal summed
        summed += len(data)
        return zlib.adler32(data, value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zkgroup.zkfiles.jute.adler32", counting)
        health = inspect_log(path)
    assert not health.is_healthy
    assert health.good_until_zxid == RECORDS - 1
    assert summed < 5 * MAX_RECORD_BYTES


def test_a_preallocated_log_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 64 MiB a few pieces are read."""
    path = tmp_path / "log.1"
    path.write_bytes(WHOLE)
    os.truncate(path, 64 << 20)
    read = 0
    pread = os.pread

    def counting(descriptor: int, count: int, offset: int) -> bytes:
        nonlocal read
        piece = pread(descriptor, count, offset)
        read += len(piece)
        return piece

    monkeypatch.setattr("zkgroup.zkfiles.files.os.pread", counting)
    assert len(list(LogReader(path))) == RECORDS
    assert inspect_log(path).is_exact
    assert read < 2 << 20


def test_a_packed_log_of_zeros_is_not_inflated_whole(tmp_path: Path) -> None:
    """Of 50 MB behind the records a piece is."""
    path = tmp_path / "log.1.gz"
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    packed = packer.compress(WHOLE) + b"".join(packer.compress(bytes(1 << 20)) for _ in range(50))
    path.write_bytes(packed + packer.flush())
    tracemalloc.start()
    try:
        assert len(list(LogReader(path))) == RECORDS
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """One buffer of it is in memory, and a record."""
    path = tmp_path / "log.1"
    path.write_bytes(writer.log(transactions(1500, size=60)))
    assert path.stat().st_size > 6 << 19
    tracemalloc.start()
    try:
        assert sum(1 for _ in LogReader(path)) == 1500
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("is_preallocated", [False, True])
def test_a_log_that_grows_while_it_is_read(is_preallocated: bool, tmp_path: Path) -> None:
    """A reader slower than the server: what it has in its buffer is old, and that is no damage."""
    path = tmp_path / "log.1"
    raw = writer.log(transactions(8000))
    path.write_bytes(WHOLE[: LAST + 50])
    if is_preallocated:
        os.truncate(path, len(raw) + 100_000)

    def grow() -> None:
        with path.open("r+b") as file:
            file.write(raw)

    reader = LogReader(path)
    found = []
    for transaction in reader:
        if not found:
            grow()
        found.append(transaction.zxid)
    assert found == list(range(1, 8001))
    assert reader.end == RecordsEnd(len(raw), is_torn=False)


def test_a_record_that_is_written_while_the_bytes_behind_it_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server writes on between two reads of the same look: half a record, then records behind it."""
    raw = writer.log(transactions(8000))
    cut = len(writer.LOG_HEADER) + 5000 * SIZE + 50
    path = tmp_path / "log.1"
    path.write_bytes(raw[:cut] + bytes(len(raw) - cut + 100_000))
    pread = os.pread
    reads = 0

    def slow(descriptor: int, count: int, offset: int) -> bytes:
        nonlocal reads
        piece = pread(descriptor, count, offset)
        if offset <= cut - 50 < offset + count:
            reads += 1
            if reads == 2:  # the fresh look at what seemed torn
                with path.open("r+b") as file:
                    file.write(raw)
        return piece

    monkeypatch.setattr("zkgroup.zkfiles.files.os.pread", slow)
    reader = LogReader(path)
    found = [transaction.zxid for transaction in reader]
    assert reads >= 2
    assert found in (list(range(1, 5001)), list(range(1, 8001)))
    assert not reader.damages


def test_a_log_that_is_cut_back_while_it_is_read(tmp_path: Path) -> None:
    """A server that follows a new leader takes back what that one never had."""
    path = tmp_path / "log.1"
    path.write_bytes(writer.log(transactions(8000)))
    found = []
    for transaction in LogReader(path):
        found.append(transaction.zxid)
        if len(found) == 1:
            os.truncate(path, len(writer.LOG_HEADER) + 20 * SIZE)
    assert found == list(range(1, len(found) + 1))
    assert len(found) < 8000


def test_nothing_is_written_locked_or_created(tmp_path: Path) -> None:
    """Even where that would be impossible, the file is read, and stays as it was."""
    path = tmp_path / "log.1"
    path.write_bytes(WHOLE[:-5])
    path.chmod(0o400)
    tmp_path.chmod(0o500)
    before = path.stat()
    try:
        inspect_log(path)
        after = path.stat()
    finally:
        tmp_path.chmod(0o700)
    assert (before.st_mtime_ns, before.st_size, before.st_ino) == (
        *(after.st_mtime_ns, after.st_size),
        after.st_ino,
    )
    assert [each.name for each in tmp_path.iterdir()] == ["log.1"]


def test_a_reader_that_is_left_closes_its_file(tmp_path: Path) -> None:
    """Whoever stops in the middle need not close anything."""
    path = tmp_path / "log.1"
    path.write_bytes(WHOLE)

    def descriptors() -> list[str]:
        folder = Path("/proc/self/fd")
        return [str(each.readlink()) for each in folder.iterdir() if each.is_symlink() and each.exists()]

    records: Iterator[Transaction] = iter(LogReader(path))
    next(records)
    assert str(path) in descriptors()
    del records
    assert str(path) not in descriptors()
