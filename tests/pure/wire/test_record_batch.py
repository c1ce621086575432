"""Record batches: read, checked, stamped and built as kafka-python's builder and reader do."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from tests.worlds.batches import build_batch
from zkgroup.errors import CorruptRecordError
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.record_batch import (
    CHECKED_AT,
    CONTROL,
    GZIP,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Record,
    can_be_read,
    check_batch,
    check_records,
    has_crc,
    read_header,
    records_of,
    stamp,
    stamp_append_time,
)

FEW = (
    Record(100, 1_000, b"k", b"v", (("h", b"1"), ("n", None), ("", b""))),
    Record(101, 900, None, None),
    Record(103, 1_700, b"", b"x" * 300),
)
TIMES = st.integers(0, 2**41)
RAW = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)
SEVERAL = st.lists(st.tuples(TIMES, RAW, RAW, HEADERS), min_size=1, max_size=6).map(
    lambda rows: tuple(Record(50 + index, *row) for index, row in enumerate(rows))
)


def by_kafka_python(records: tuple[Record, ...], compression: int) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=False,
        producer_id=9,
        producer_epoch=3,
        base_sequence=7,
        batch_size=1 << 20,
    )
    for index, record in enumerate(records):
        headers = list(record.headers)
        added = builder.append(index, record.timestamp_ms, record.key, record.value, headers)
        assert added is not None
    return bytes(builder.build())


def seen_by_kafka_python(batch: bytes) -> list[Record]:
    theirs: Any = DefaultRecordBatch(batch)
    assert theirs.validate_crc()
    return [
        Record(one.offset, one.timestamp, one.key, one.value, tuple(map(tuple, one.headers)))
        for one in theirs
    ]


def corrupt(batch: bytes) -> CorruptRecordError:
    with pytest.raises(CorruptRecordError) as raised:
        check_batch(batch)
    return raised.value


@settings(max_examples=15)
@given(SEVERAL, st.sampled_from([0, GZIP]))
def test_batches_of_kafka_python_are_read(records: tuple[Record, ...], compression: int) -> None:
    """Header and records; the builder counts offsets from 0, and compresses where that saves bytes."""
    batch = by_kafka_python(records, compression)
    found = check_batch(batch)

    assert (found.size, found.base_offset, found.last_offset) == (len(batch), 0, len(records) - 1)
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (9, 3, 7)
    assert (found.compression in (0, compression), found.record_count) == (True, len(records))
    assert found.max_timestamp == max(record.timestamp_ms for record in records)
    stamped = bytearray(batch)
    stamp(stamped, 0, 50, 4)
    assert tuple(records_of(bytes(stamped))) == records
    assert check_batch(stamped) == found._replace(base_offset=50, leader_epoch=4)


@settings(max_examples=15)
@given(SEVERAL, st.booleans())
def test_batches_built_here_are_read_by_kafka_python(records: tuple[Record, ...], gzip: bool) -> None:
    """Byte for byte the same without compression."""
    batch = build_batch(records, gzip=gzip, producer_id=9, producer_epoch=3, base_sequence=7)

    assert seen_by_kafka_python(batch) == list(records)
    assert tuple(records_of(memoryview(batch))) == records
    rebased = bytearray(batch)
    stamp(rebased, 0, 0, read_header(by_kafka_python(records, 0)).leader_epoch)
    assert gzip or bytes(rebased) == by_kafka_python(records, 0)


def test_the_fields_of_a_header() -> None:
    """Gaps in offsets, as compaction leaves them, and every attribute."""
    batch = build_batch(FEW, leader_epoch=6, attributes=TRANSACTIONAL | CONTROL)
    found = check_batch(batch)

    assert (found.base_offset, found.last_offset, found.record_count) == (100, 103, 3)
    assert (found.leader_epoch, found.first_timestamp, found.max_timestamp) == (6, 1_000, 1_700)
    assert (found.is_transactional, found.is_control, found.has_append_time) == (True, True, False)
    assert tuple(records_of(batch)) == FEW


def test_a_stamp_leaves_the_checksum() -> None:
    """Base offset and leader epoch lie outside of it; each batch of a set is stamped by itself."""
    one, two = build_batch(FEW), build_batch(FEW[:1], gzip=True)
    data = bytearray(one + two)

    stamp(data, 0, 7, 2)
    stamp(data, len(one), 11, 2)

    assert [(found.base_offset, found.leader_epoch) for found in check_records(data)] == [(7, 2), (11, 2)]
    assert data[CHECKED_AT : len(one)] == one[CHECKED_AT:]


@pytest.mark.parametrize("gzip", [False, True])
def test_log_append_time_is_that_of_all_records(gzip: bool) -> None:
    """The checksum is made anew; kafka-python reads the same times."""
    data = bytearray(build_batch(FEW, gzip=gzip) * 2)
    second = len(data) // 2

    stamp_append_time(data, second, 5_000)

    first, other = check_records(data)
    assert (first.has_append_time, other.has_append_time, other.max_timestamp) == (False, True, 5_000)
    assert other.attributes == LOG_APPEND_TIME | (GZIP if gzip else 0)
    batch = bytes(data[second:])
    expected = [record._replace(timestamp_ms=5_000) for record in FEW]
    assert list(records_of(batch)) == seen_by_kafka_python(batch) == expected


@pytest.mark.parametrize("gzip", [False, True])
def test_each_bit_flipped_is_noticed(gzip: bool) -> None:
    """In every byte but base offset and leader epoch, which are stamped and not checked."""
    batch = build_batch(FEW, gzip=gzip)
    for at in (*range(8, 12), *range(16, len(batch))):
        for bit in range(8):
            damaged = bytearray(batch)
            damaged[at] ^= 1 << bit
            with pytest.raises(CorruptRecordError) as raised:
                check_batch(damaged)
            assert 0 <= raised.value.offset <= len(batch)
    assert not has_crc(read_header(batch)._replace(crc=0), batch)


def test_a_batch_cut_short_is_noticed() -> None:
    """At every byte."""
    whole, cut = build_batch(FEW), build_batch(FEW[:1])
    for end in range(len(cut)):
        assert corrupt(cut[:end]).offset in (0, 8, 16)
        if end:
            with pytest.raises(CorruptRecordError):
                check_records(whole + cut[:end])
    assert check_records(b"") == []


@pytest.mark.parametrize(
    ("change", "field", "expected", "found"),
    [
        ((8, ">i", -1), "length", "49 to 90 bytes", "-1"),
        ((8, ">i", 48), "length", "49 to 90 bytes", "48"),
        ((8, ">i", 2**31 - 1), "length", "49 to 90 bytes", "2147483647"),
        ((16, ">b", 1), "magic", "2", "1, a message set of Kafka before 0.11"),
        ((16, ">b", 3), "magic", "2", "3"),
        ((21, ">h", 5), "attributes", "a compression below 5", "5"),
        ((23, ">i", -1), "record count", "0 to 0 by its last offset delta", "2"),
        ((57, ">i", -1), "record count", "0 to 2 by its last offset delta", "-1"),
        ((57, ">i", 3), "record count", "0 to 2 by its last offset delta", "3"),
    ],
)
def test_what_is_wrong_is_named(change: tuple[int, str, int], field: str, expected: str, found: str) -> None:
    """Field, place, expected and found, with a checksum that holds."""
    batch = bytearray(build_batch([Record(0, 1, b"key", b"value"), Record(1, 1, None, b"x" * 19)]))
    struct.pack_into(change[1], batch, change[0], change[2])
    if change[0] >= CHECKED_AT:
        from zkgroup.wire.crc32c import crc32c

        batch[17:21] = crc32c(batch[CHECKED_AT:]).to_bytes(4, "big")

    error = corrupt(bytes(batch))

    assert (error.field, error.expected, error.found) == (field, expected, found)
    assert str(error).startswith(f"{field}, byte ")
    assert ErrorCode.CORRUPT_RECORD == 2


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_of_old_clients_are_named(magic: int) -> None:
    """As kafka-python's builder makes them for Kafka before 0.11."""
    builder: Any = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=1 << 10)
    builder.append(0, timestamp=1, key=None, value=b"v")

    assert corrupt(bytes(builder.build())).found == f"{magic}, a message set of Kafka before 0.11"


@pytest.mark.parametrize(("compression", "name"), [(2, "snappy"), (3, "lz4"), (4, "zstd")])
def test_other_compressions_are_passed_on_and_not_read(compression: int, name: str) -> None:
    """The batch is whole; its records stay closed."""
    batch = build_batch(FEW, attributes=compression)

    assert not can_be_read(check_batch(batch))
    with pytest.raises(CorruptRecordError, match=name):
        next(records_of(batch))


def test_gzip_is_unpacked_up_to_a_bound() -> None:
    """A small batch that unpacks to much is refused, and so is what is no gzip."""
    batch = build_batch([Record(0, 1, None, bytes(1_000_000))], gzip=True)

    assert len(batch) < 2_000
    with pytest.raises(CorruptRecordError, match="within 10000 bytes, found 10000 bytes and no end"):
        list(records_of(batch, 10_000))
    with pytest.raises(CorruptRecordError, match="expected gzip"):
        list(records_of(build_batch(FEW, attributes=GZIP)))


@settings(max_examples=30)
@given(st.binary(max_size=60), st.integers(0, 3), st.booleans())
def test_any_records_are_read_or_refused(body: bytes, count: int, gzip: bool) -> None:
    """A batch whose checksum holds may hold anything: CorruptRecordError is all that is raised."""
    packed = zlib.compress(body, wbits=31) if gzip else body
    header = struct.pack(">hiqqqhii", GZIP if gzip else 0, max(count - 1, 0), 1, 1, -1, -1, -1, count)
    batch = struct.pack(">qiibI", 0, HEADER_BYTES - 12 + len(packed), 0, 2, 0) + header + packed
    try:
        found = list(records_of(batch))
    except CorruptRecordError:
        return
    assert len(found) == count


@settings(max_examples=25)
@given(st.binary(max_size=120))
def test_any_bytes_are_batches_or_refused(data: bytes) -> None:
    """As they come from a peer or from a file."""
    offset = total = 0
    try:
        total = sum(header.size for header in check_records(data))
    except CorruptRecordError as error:
        offset = error.offset
    assert 0 <= offset <= len(data) >= total
