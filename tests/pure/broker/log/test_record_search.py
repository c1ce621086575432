"""Records by their time: exact where the batch can be read, else its first record."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pure.broker.log.made_batches import GZIP, append, batch, headers_of, new_log
from zkgroup.broker.log import record_search
from zkgroup.broker.log.record_search import first_record_from
from zkgroup.wire.record_batch import HEADER_BYTES, BatchHeader

ZSTD = 4


def search(
    records: bytes, timestamp: int, start: int = 0, base_offset: int = 0, **changes: int
) -> tuple[int, int] | None:
    [header] = headers_of(records)
    return first_record_from(header._replace(base_offset=base_offset, **changes), records, timestamp, start)


@given(
    st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 400)), min_size=1, max_size=12),
    st.integers(0, 14),
    st.sampled_from([0, GZIP]),
    st.data(),
)
def test_it_is_the_first_record_of_that_time_or_later(
    records: list[tuple[int, int]], start: int, compression: int, data: st.DataObject
) -> None:
    """At an offset or behind it, with times in any order and values of any size."""
    times = [time for time, _ in records]
    made = batch(*[b"v" * size for _, size in records], timestamp=times, compression=compression)
    timestamp = data.draw(st.sampled_from([*times, max(times)])) - data.draw(st.integers(0, 1))
    expected = next(
        ((100 + n, time) for n, time in enumerate(times) if time >= timestamp and 100 + n >= 100 + start),
        None,
    )
    assert search(made, timestamp, 100 + start, 100) == expected


def test_a_batch_that_cannot_be_decompressed_gives_its_first_record() -> None:
    """Which is exact where the first record fits."""
    made = batch(b"a", b"b", timestamp=[10, 20])
    assert search(made, 15, attributes=ZSTD) == (0, 20)
    assert search(made, 10, attributes=ZSTD) == (0, 10)
    assert search(made, 10, start=1, attributes=ZSTD) == (1, 20)


def test_a_batch_of_the_leaders_time_has_one_time() -> None:
    """Of all its records."""
    made = batch(b"a", b"b", timestamp=[10, 20])
    assert search(made, 20, attributes=8, max_timestamp=20) == (0, 20)
    assert search(made, 20, start=1, attributes=8, max_timestamp=20) == (1, 20)


@pytest.mark.parametrize("compression", [0, GZIP])
def test_records_that_make_no_sense_are_no_error(compression: int) -> None:
    """A client can send them with a checksum that holds."""
    good = batch(b"a" * 80, b"b" * 80, timestamp=[10, 20], compression=compression)
    [header] = headers_of(batch(b"a" * 80, b"b" * 80, timestamp=[10, 20]))
    for position in range(HEADER_BYTES, HEADER_BYTES + 30):
        made = bytearray(good)
        made[position] ^= 0xFF
        found = search(bytes(made), 15, max_timestamp=20)
        assert found is None or found[1] >= 15, position
        cut = bytes(made[:position])
        assert first_record_from(header, cut, 15, 0) in ((0, 20), (1, 20)), position


def test_a_batch_that_would_fill_the_memory_does_not() -> None:
    """Twenty kilobytes that are twenty megabytes, as one record."""
    size = 20_000_000
    record = bytes([size << 1 & 0x7F | 0x80, size >> 6 & 0x7F | 0x80, size >> 13 & 0x7F | 0x80, size >> 20])
    packed = gzip.compress(record + bytes(size), 6)
    [header] = headers_of(batch(b"a", timestamp=[10]))
    header = header._replace(attributes=GZIP, record_count=2, max_timestamp=99)
    assert len(packed) < 30_000
    tracemalloc.start()
    found = first_record_from(header, bytes(HEADER_BYTES) + packed, 50, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == (0, 99)
    assert peak < 1_000_000


def _made_of(records: bytes, count: int) -> tuple[BatchHeader, bytes]:
    """A gzip batch of these bytes, whose header promises a timestamp of 99."""
    [header] = headers_of(batch(b"a", timestamp=[10]))
    header = header._replace(attributes=GZIP, record_count=count, max_timestamp=99)
    return header, bytes(HEADER_BYTES) + gzip.compress(records)


def test_a_batch_of_too_many_records_gives_its_first_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of gzip can hold 250,000,000 of four bytes, all before the timestamp. Here the last fits."""
    records = batch(b"a", b"b", b"c", timestamp=[10, 20, 60])[HEADER_BYTES:]
    header, made = _made_of(records, 3)
    assert first_record_from(header, made, 50, 0) == (2, 60)
    monkeypatch.setattr(record_search, "RECORDS_MAX", 2)
    assert first_record_from(header, made, 50, 0) == (0, 99)


def test_a_batch_that_unpacks_to_too_much_gives_its_first_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rest is not decompressed: the last record, which would fit, is not found."""
    late = batch(b"x" * 9, b"y" * 200_000, b"z", timestamp=[10, 20, 60])[HEADER_BYTES:]
    header, made = _made_of(late, 3)
    assert first_record_from(header, made, 50, 0) == (2, 60)
    monkeypatch.setattr(record_search, "INFLATED_BYTES_MAX", 100_000)
    assert first_record_from(header, made, 50, 0) == (0, 99)


def test_a_batch_without_the_time_that_it_promises_gives_its_first_record() -> None:
    """Else a search would go through all batches of a client that sets the largest timestamp too high."""
    header, made = _made_of(batch(b"a", timestamp=[10])[HEADER_BYTES:], 1)
    assert first_record_from(header, made, 50, 0) == (0, 99)


def test_through_a_log() -> None:
    """A search in a batch whose first records are below the log start offset."""
    log = new_log()
    append(log, b"before", timestamp=5)
    log.append_as_leader(batch(b"a", b"b", b"c", timestamp=[30, 10, 20], compression=GZIP), 0, 0)
    append(log, b"after", timestamp=20)
    assert log.offset_for_time(20, 5) == (1, 30)
    log.advance_start(2)
    assert log.offset_for_time(20, 5) == (3, 20)
    assert log.offset_for_time(25, 5) is None
    log.advance_start(4)
    assert log.offset_for_time(20, 5) == (4, 20)
