"""The log of a replica: appending, reading, cutting, rolling, retention, offsets by time."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tests.pure.broker.log.made_batches import (
    FOLDER,
    append,
    batch,
    contents,
    headers_of,
    new_log,
    opened,
)
from tests.worlds.batches import build_batch
from zkgroup.broker.log.client_batches import stamped
from zkgroup.broker.log.log_config import LogConfig, TimestampType
from zkgroup.broker.log.partition_log import PartitionLog
from zkgroup.broker.log.storage import MemoryStorage, Storage
from zkgroup.wire.crc32c import crc32c
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.record_batch import Record, has_crc
from zkgroup.wire.records import RecordError

SMALL = LogConfig(segment_bytes=1_000, index_interval_bytes=100)


def entries(index: Any) -> list[Any]:
    return [index[number] for number in range(len(index))]


def offsets(records: bytes) -> list[tuple[int, int]]:
    """First and last offset of each batch."""
    return [(header.base_offset, header.last_offset) for header in headers_of(records)]


def test_a_leader_stamps_offsets_and_its_epoch(storage: Storage) -> None:
    """They lie outside the CRC; all else stays as the client sent it."""
    log = new_log(storage)
    sent = [batch(b"a", b"b"), batch(b"c")]
    append(log, b"first", epoch=3)
    appended = log.append_as_leader(b"".join(sent), 4, 5_000)

    assert (appended.error, appended.base_offset, appended.end_offset) == (ErrorCode.NONE, 1, 4)
    assert appended.log_append_time == -1
    stored = log.read(1, 4, 1 << 20)
    assert offsets(stored) == [(1, 2), (3, 3)]
    assert [header.leader_epoch for header in headers_of(stored)] == [4, 4]
    first = len(sent[0])
    assert stored[16:first] == sent[0][16:]
    assert stored[first + 16 :] == sent[1][16:]
    assert log.epochs == ((3, 0), (4, 1))
    assert storage.read_all(f"{FOLDER}/leader-epoch-checkpoint") == b"0\n2\n3 0\n4 1\n"


def test_log_append_time(storage: Storage) -> None:
    """The leader's time is that of all records, and the CRC is right again."""
    log = new_log(storage, LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
    appended = log.append_as_leader(batch(b"a", b"b", timestamp=17), 0, 5_000)

    assert appended.log_append_time == 5_000
    [header] = headers_of(stored := log.read(0, 2, 1 << 20))
    assert (header.max_timestamp, header.attributes) == (5_000, 8)
    assert has_crc(header, stored)
    assert log.offset_for_time(5_000, 2) == (0, 5_000)
    assert log.offset_for_time(5_001, 2) is None


def wrong(position: int, value: int = 0x11) -> bytes:
    made = bytearray(batch(b"value"))
    made[position] ^= value
    return bytes(made)


def edited(position: int, layout: str, value: int) -> bytes:
    """A batch with another value of a field and the checksum of that."""
    made = bytearray(batch(b"value"))
    struct.pack_into(layout, made, position, value)
    struct.pack_into(">I", made, 17, crc32c(bytes(made[21:])))
    return bytes(made)


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (batch(b"a")[:-1], ErrorCode.CORRUPT_RECORD),
        (batch(b"a") + b"x", ErrorCode.INVALID_RECORD),
        (batch(b"a") + batch(b"b")[:-1], ErrorCode.CORRUPT_RECORD),
        (wrong(-1), ErrorCode.CORRUPT_RECORD),
        (wrong(16), ErrorCode.CORRUPT_RECORD),
        (wrong(11), ErrorCode.CORRUPT_RECORD),
        (wrong(8, 0x80), ErrorCode.CORRUPT_RECORD),
        (edited(0, ">q", 5), ErrorCode.INVALID_RECORD),
        (edited(57, ">i", 0), ErrorCode.INVALID_RECORD),
        (edited(57, ">i", 2), ErrorCode.INVALID_RECORD),
        (edited(57, ">i", -1), ErrorCode.INVALID_RECORD),
        (edited(23, ">i", 5), ErrorCode.INVALID_RECORD),
        (edited(23, ">i", -1), ErrorCode.INVALID_RECORD),
        (edited(21, ">h", 0x20), ErrorCode.INVALID_RECORD),
        (edited(21, ">h", 5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (batch(b"x" * 3_000), ErrorCode.MESSAGE_TOO_LARGE),
        (bytes(stamped(batch(b"a"), headers_of(batch(b"a")), 0, 0, 5)[0]), ErrorCode.INVALID_TIMESTAMP),
    ],
)
def test_what_a_client_sends_wrong_is_an_error_and_appends_nothing(records: bytes, error: ErrorCode) -> None:
    """Damaged, cut short, too large, or with the time of a leader; the codes of Kafka 2.8.2, except for a
    compression that it does not know (-1)."""
    log = new_log(config=LogConfig(max_message_bytes=2_000))
    append(log, b"before")
    appended = log.append_as_leader(records, 0, 1_000)

    assert (appended.error, appended.base_offset) == (error, -1)
    assert appended.message
    assert log.end_offset == 1


def keyed(*keys: bytes | None, gzip: bool = False) -> bytes:
    """A batch with a record for each key."""
    return build_batch([Record(number, 1, key, b"v") for number, key in enumerate(keys)], gzip=gzip)


@pytest.mark.parametrize("gzip", [False, True])
def test_a_compacted_topic_takes_no_record_without_a_key(gzip: bool) -> None:
    """The whole append fails, and each such record is named, as by Kafka 2.8.2; an empty key is one."""
    log = new_log(config=LogConfig(needs_keys=True))
    appended = log.append_as_leader(keyed(b"k") + keyed(b"k", None, b"", None, gzip=gzip), 0, 1_000)

    reason = "Compacted topic cannot accept message without key in topic partition orders-0."
    assert appended.error is ErrorCode.INVALID_RECORD
    assert appended.record_errors == (RecordError(1, reason), RecordError(3, reason))
    assert log.end_offset == 0
    assert log.append_as_leader(keyed(b"k", b"", gzip=gzip), 0, 1_000).error is ErrorCode.NONE


def test_the_records_of_a_compacted_topic_are_opened_where_they_can_be() -> None:
    """Damage behind the checksum is refused; batches with snappy, lz4 and zstd are appended as they are."""
    log = new_log(config=LogConfig(needs_keys=True))
    damaged = edited(61, ">b", 0x7F)

    appended = log.append_as_leader(damaged, 0, 1_000)
    assert (appended.error, appended.record_errors) == (ErrorCode.INVALID_RECORD, ())
    for compression in (2, 3, 4):
        assert log.append_as_leader(edited(21, ">h", compression), 0, 1_000).error is ErrorCode.NONE
    assert new_log().append_as_leader(damaged, 0, 1_000).error is ErrorCode.NONE  # elsewhere none is opened


def test_an_idempotent_producer_is_answered_with_the_first_offset(storage: Storage) -> None:
    """Also after a restart, as the snapshot and the batches behind it say."""
    log = new_log(storage)
    append(log, b"0")
    first, second = batch(b"a", b"b", producer=(7, 0, 0)), batch(b"c", producer=(7, 0, 2))
    log.append_as_leader(first, 0, 1_000)
    log.append_as_leader(second, 0, 1_000)
    log.roll()
    third = batch(b"d", producer=(7, 0, 3))
    log.append_as_leader(third, 0, 1_000)

    for again in (log, opened(storage), opened(storage, clean=True, recovery_point=5)):
        assert again.append_as_leader(third, 0, 1_000)[:3] == (ErrorCode.NONE, 4, 5)
        assert again.append_as_leader(second, 0, 1_000).error in (
            (ErrorCode.NONE,) if again is log else (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
        )
        gap = again.append_as_leader(batch(b"e", producer=(7, 0, 5)), 0, 1_000)
        assert gap.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert "producer 7" in gap.message
        assert again.end_offset == 5


def test_reads_are_whole_batches(storage: Storage) -> None:
    """From the batch that holds the offset; below the end; as many as fit, but one at least."""
    log = new_log(storage, SMALL)
    for _ in range(3):
        append(log, b"a" * 40, b"b" * 40)
    size = len(log.read(0, 6, 1 << 20)) // 3

    assert offsets(log.read(0, 6, 1 << 20)) == [(0, 1), (2, 3), (4, 5)]
    assert offsets(log.read(3, 6, 1 << 20)) == [(2, 3), (4, 5)]
    assert offsets(log.read(0, 5, 1 << 20)) == [(0, 1), (2, 3)]
    assert offsets(log.read(0, 4, 1 << 20)) == [(0, 1), (2, 3)]
    assert offsets(log.read(2, 6, 1)) == [(2, 3)]
    assert offsets(log.read(0, 6, 2 * size)) == [(0, 1), (2, 3)]
    assert offsets(log.read(0, 6, 2 * size - 1)) == [(0, 1)]
    assert log.read(0, 1, 1 << 20) == b""
    assert log.read(0, 0, 1 << 20) == b""
    assert log.read(6, 6, 1 << 20) == b""
    for offset in (-1, 7):
        with pytest.raises(ValueError, match="is not from 0 to 6"):
            log.read(offset, 6, 1)


def test_every_bound_of_a_long_log_is_read_right(storage: Storage) -> None:
    """By index and walk, for each offset, end and size, in segments and across their borders."""
    log = new_log(storage, SMALL)
    for number in range(60):
        append(log, *[b"x" * (number % 7)] * (number % 3 + 1))
    batches = offsets(contents(log))
    assert len(log.segments) > 4
    for offset in range(log.end_offset):
        for end in (offset + 1, offset + 7, log.end_offset):
            for most in (1, 200, 1 << 20):
                read = log.read(offset, end, most)
                number = next(n for n, (_, last) in enumerate(batches) if last >= offset)
                found = offsets(read)
                assert found == batches[number : number + len(found)]
                assert bool(found) == (batches[number][1] < end)
                assert not found or found[-1][1] < end
                assert len(read) <= most or len(found) == 1


def test_a_follower_keeps_what_its_leader_stamped(storage: Storage) -> None:
    """Byte for byte, with the epochs."""
    leader, log = new_log(), new_log(storage)
    append(leader, b"a", b"b", epoch=0)
    append(leader, b"c", epoch=2)
    append(leader, b"d", epoch=2)
    records = contents(leader)

    assert log.append_as_follower(records[:-10], 3) is None
    assert log.end_offset == 3
    assert log.append_as_follower(leader.read(3, 4, 1 << 20), 3) is None
    assert contents(log) == records
    assert log.epochs == leader.epochs == ((0, 0), (2, 2))


def test_a_follower_refuses_what_does_not_follow(storage: Storage) -> None:
    """Another offset, a damaged batch, an epoch that goes back or ahead; what came before is kept."""
    leader, log = new_log(), new_log(storage)
    for number in range(3):
        append(leader, b"%d" % number, epoch=number + 1)
    records = contents(leader)
    first, second = leader.read(0, 1, 1), leader.read(1, 2, 1)
    damaged = bytearray(records)
    damaged[-1] ^= 1

    assert "does not follow record 0" in str(log.append_as_follower(second, 3))
    assert "epoch 2" in str(log.append_as_follower(records, 1))
    assert log.end_offset == 1
    assert "does not follow record 1" in str(log.append_as_follower(first, 3))
    assert "damaged" in str(log.append_as_follower(bytes(damaged)[len(first) :], 3))
    assert log.end_offset == 2
    assert log.append_as_follower(leader.read(2, 3, 1), 3) is None
    assert contents(log) == records


def test_an_epoch_without_records_gives_way_to_the_leaders(storage: Storage) -> None:
    """This replica led in epoch 5 and appended nothing; the leader of epoch 6 sends records of epoch 4."""
    log = new_log(storage)
    append(log, b"a", epoch=3)
    log.begin_epoch(5)
    leader = new_log()
    append(leader, b"a", epoch=3)
    append(leader, b"b", epoch=4)

    assert log.append_as_follower(leader.read(1, 2, 1), 6) is None
    assert log.epochs == ((3, 0), (4, 1))


def test_a_log_rolls_by_size_and_by_the_time_of_its_records(storage: Storage) -> None:
    """A batch that is larger than a segment has one of its own."""
    log = new_log(storage, LogConfig(segment_bytes=300, segment_ms=1_000))
    append(log, b"x" * 400)
    append(log, b"a")
    append(log, b"b")
    append(log, b"x" * 150)
    append(log, b"c", timestamp=2_000)
    append(log, b"d", timestamp=2_001)

    assert [segment.base_offset for segment in log.segments] == [0, 1, 3, 5]
    log.roll()
    log.roll()
    assert [segment.base_offset for segment in log.segments] == [0, 1, 3, 5, 6]
    again = opened(storage, LogConfig(segment_bytes=300, segment_ms=1_000))
    append(again, b"e", timestamp=5_000)
    append(again, b"f", timestamp=6_001)
    assert [segment.base_offset for segment in again.segments][-2:] == [6, 7]


@pytest.mark.parametrize("offset", range(13))
def test_a_cut_removes_all_from_an_offset_on(storage: Storage, offset: int) -> None:
    """And the records before it in the same batch; then appending goes on there."""
    log = new_log(storage, SMALL)
    for number in range(6):
        append(log, b"x" * 300, b"y" * 300, epoch=number // 2)
    before = contents(log)
    kept = offset // 2 * 2
    log.truncate_to(offset)

    assert log.end_offset == kept
    assert before.startswith(contents(log))
    assert [start for _, start in log.epochs] == list(range(0, kept, 4))
    append(log, b"z", epoch=7)
    assert opened(storage, SMALL).end_offset == log.end_offset == kept + 1
    assert contents(opened(storage, SMALL)) == contents(log)


def test_a_cut_takes_the_producers_back(storage: Storage) -> None:
    """What is cut may be sent again; what is left is still known."""
    log = new_log(storage, SMALL)
    sent = [batch(b"x" * 300, producer=(7, 0, number)) for number in range(8)]
    for each in sent:
        log.append_as_leader(each, 0, 1_000)
    log.truncate_to(4)

    assert log.append_as_leader(sent[3], 0, 1_000).base_offset == 3
    assert log.append_as_leader(sent[5], 0, 1_000).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append_as_leader(sent[4], 0, 1_000).base_offset == 4
    assert log.end_offset == 5
    log.truncate_to(0)
    assert log.append_as_leader(sent[0], 0, 1_000).base_offset == 0


def test_a_follower_below_its_leaders_log_starts_anew(storage: Storage) -> None:
    """Nothing is left: no record, no epoch, no producer; the next record gets the given offset."""
    log = new_log(storage, SMALL)
    for number in range(8):
        log.append_as_leader(batch(b"x" * 300, producer=(7, 0, number)), 0, 1_000)
    log.truncate_fully_and_start_at(500)

    assert (log.start_offset, log.end_offset, log.epochs) == (500, 500, ())
    unknown = log.append_as_leader(batch(b"x", producer=(7, 0, 8)), 3, 1_000)
    assert unknown.error is ErrorCode.UNKNOWN_PRODUCER_ID
    assert append(log, b"a", epoch=3) == 500
    again = opened(storage, SMALL)
    assert (again.start_offset, again.end_offset, again.epochs) == (500, 501, ((3, 500),))
    assert sorted(name for name in storage.names(FOLDER) if name.endswith(".log")) == [f"{500:020d}.log"]


def test_retention_by_size_stops_at_the_high_watermark(storage: Storage) -> None:
    """The log start offset moves to the first record that is left."""
    config = LogConfig(segment_bytes=300, retention_bytes=700, retention_ms=-1)
    log = new_log(storage, config)
    for number in range(10):
        append(log, b"x" * 200, epoch=number)
    assert len(log.segments) == 10
    assert not log.apply_retention(10_000)
    log.keep_high_watermark(3)
    assert log.apply_retention(10_000)
    assert (log.start_offset, log.end_offset) == (3, 10)
    assert log.epochs[0] == (3, 3)
    log.keep_high_watermark(10)
    assert log.apply_retention(10_000)
    assert not log.apply_retention(10_000)
    assert (log.start_offset, log.end_offset) == (7, 10)
    assert {name.partition(".")[0] for name in storage.names(FOLDER) if name[0] == "0"} == {
        f"{offset:020d}" for offset in (7, 8, 9)
    }
    assert opened(storage, config).start_offset == 7


def test_a_producer_of_old_records_goes_on(storage: Storage) -> None:
    """Past bug: by the timestamps of its records it was forgotten at each retention check and each start, and
    its next batch got 59."""
    week_ms, config = LogConfig().producer_id_expiration_ms, LogConfig(retention_ms=-1)
    now_ms = 10 * week_ms
    log = new_log(storage, config)

    def next_error(log: PartitionLog, sequence: int, at_ms: int) -> ErrorCode:
        records = batch(b"x", producer=(7, 0, sequence), timestamp=1_000)
        return ErrorCode(log.append_as_leader(records, 0, at_ms).error)

    assert next_error(log, 0, now_ms) is ErrorCode.NONE
    log.apply_retention(now_ms)
    assert next_error(log, 1, now_ms) is ErrorCode.NONE
    log.close()
    again = opened(storage, config, clean=True, recovery_point=2, now_ms=now_ms + week_ms)
    assert next_error(again, 2, now_ms + week_ms) is ErrorCode.NONE
    again.apply_retention(now_ms + 2 * week_ms + 1)
    assert next_error(again, 3, now_ms + 2 * week_ms + 1) is ErrorCode.UNKNOWN_PRODUCER_ID


def test_retention_by_time_checks_the_largest_timestamp(storage: Storage) -> None:
    """Of a segment; the active one is rolled and deleted too."""
    config = LogConfig(segment_bytes=300, retention_ms=1_000)
    log = new_log(storage, config)
    for timestamp in (5_000, 1_000, 6_000):
        append(log, b"x" * 200, timestamp=timestamp)
    log.keep_high_watermark(3)

    assert not log.apply_retention(6_000)
    assert log.apply_retention(6_001)
    assert log.start_offset == 2
    again = opened(storage, config)
    assert again.apply_retention(7_001)
    assert (again.start_offset, again.end_offset) == (3, 3)
    assert not again.apply_retention(99_000)
    assert append(again, b"next") == 3


def test_the_log_start_offset_moves_within_a_segment(storage: Storage) -> None:
    """As a follower's does, after its leader's; the segments below it are deleted."""
    log = new_log(storage, LogConfig(segment_bytes=500))
    for _ in range(9):
        append(log, b"x" * 100, b"y" * 50)
    assert [segment.base_offset for segment in log.segments] == [0, 4, 8, 12, 16]
    log.advance_start(10)

    assert (log.start_offset, log.segments[0].base_offset) == (10, 8)
    log.advance_start(5)
    assert log.start_offset == 10
    with pytest.raises(ValueError, match="is not from 10"):
        log.read(9, 18, 1)
    assert offsets(log.read(11, 18, 1)) == [(10, 11)]
    with pytest.raises(ValueError, match="ends at 18"):
        log.advance_start(19)
    assert opened(storage, start_offset=10).start_offset == 10


@pytest.mark.parametrize("config", [SMALL, LogConfig(index_interval_bytes=0), LogConfig()])
def test_offsets_by_time(storage: Storage, config: LogConfig) -> None:
    """The first batch with a record of that time or later, although times go up and down."""
    log = new_log(storage, config)
    times = [(number * 37 % 101) * 10 for number in range(80)]
    for time in times:
        append(log, b"x" * 20, timestamp=time)
    for each in (log, opened(storage, config), opened(storage, config, clean=True, recovery_point=80)):
        for wanted in range(-5, 1_020, 15):
            first = next((offset for offset, time in enumerate(times) if time >= wanted), None)
            expected = None if first is None else (first, times[first])
            assert each.offset_for_time(wanted, 80) == expected
            below = None if first is None or first >= 50 else expected
            assert each.offset_for_time(wanted, 50) == below
    log.truncate_to(60)
    log.advance_start(30)
    for wanted in range(-5, 1_020, 15):
        first = next((offset for offset in range(30, 60) if times[offset] >= wanted), None)
        assert log.offset_for_time(wanted, 60) == (None if first is None else (first, times[first]))


def test_the_high_watermark_is_kept_at_each_move(storage: Storage) -> None:
    """In a file of its own; a log made without one has none until then."""
    log = new_log(storage, high_watermark=None)
    append(log, b"a")
    assert log.kept_high_watermark is None
    assert opened(storage).kept_high_watermark is None
    for offset in (0, 1):
        log.keep_high_watermark(offset)
        assert opened(storage).kept_high_watermark == log.kept_high_watermark == offset


def test_indexes_made_again_are_those_that_were_written() -> None:
    """They follow from the batches alone, whatever was cut meanwhile."""
    storage = MemoryStorage()
    log = new_log(storage, SMALL)
    for number in range(50):
        append(log, b"x" * (number % 40), timestamp=1_000 + number * 7 % 30)
        if number % 11 == 10:
            log.truncate_to(log.end_offset - 3)
    log.roll()
    segments = opened(storage, SMALL).segments
    written = [(entries(segment.index), entries(segment.times)) for segment in segments]
    for segment, (offsets, times) in zip(segments, written, strict=True):
        segment.rebuild()
        assert entries(segment.index) == offsets
        # A segment that was full once has an entry more, for its end then.
        assert set(entries(segment.times)) <= set(times)
        assert segment.times.last == (times[-1] if times else None)
    assert sum(len(offsets) for offsets, _ in written) > 10


def log_size(log: PartitionLog) -> int:
    return sum(segment.size for segment in log.segments)


def test_its_size_is_that_of_its_segments(storage: Storage) -> None:
    """Which is known without reading them."""
    log = new_log(storage, SMALL)
    for _ in range(20):
        append(log, b"x" * 90)
    assert log.size == log_size(log) == len(contents(log)) == opened(storage, SMALL).size
