"""Sequences of idempotent producers: what is appended, answered as a duplicate, or refused."""

from __future__ import annotations

import struct
from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pure.broker.log.made_batches import batch, headers_of
from zkgroup.broker.log import producer_state
from zkgroup.broker.log.producer_state import (
    ProducedBatch,
    ProducerEntry,
    ProducerStates,
    SnapshotError,
    decode_snapshot,
)
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.record_batch import BatchHeader

PRODUCER = 7
MAX = (1 << 31) - 1
NONE, INVALID = ErrorCode.NONE, ErrorCode.INVALID_RECORD
OUT_OF_ORDER, DUPLICATE = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER
OLD_EPOCH, UNKNOWN = ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNKNOWN_PRODUCER_ID


def produced(
    sequence: int,
    records: int = 1,
    *,
    epoch: int = 0,
    offset: int = 0,
    producer: int = PRODUCER,
) -> BatchHeader:
    """A header with nothing but what producers are about."""
    [header] = headers_of(batch(b"x", producer=(producer, epoch, 0)))
    return header._replace(
        base_offset=offset,
        base_sequence=sequence,
        producer_epoch=epoch,
        last_offset_delta=records - 1,
        record_count=records,
    )


def states(*batches: BatchHeader) -> ProducerStates:
    made = ProducerStates()
    for each in batches:
        made.update(each)
    return made


# Sequences 0-1, 2-4, 5, 6, 7-8, 9 at the same offsets: the first one is no longer known.
SIX = [produced(s, n, offset=s) for s, n in ((0, 2), (2, 3), (5, 1), (6, 1), (7, 2), (9, 1))]


@pytest.mark.parametrize(
    ("known", "sequence", "records", "epoch", "error", "offset"),
    [
        ([], 0, 3, 0, NONE, None),
        ([], 0, 3, 5, NONE, None),
        ([], 1, 1, 0, UNKNOWN, None),
        ([], -1, 1, 0, INVALID, None),
        (SIX, 10, 4, 0, NONE, None),
        (SIX, 9, 1, 0, NONE, 9),
        (SIX, 7, 2, 0, NONE, 7),
        (SIX, 2, 3, 0, NONE, 2),
        (SIX, 0, 2, 0, DUPLICATE, None),
        (SIX, 1, 1, 0, DUPLICATE, None),
        (SIX, 1, 2, 0, OUT_OF_ORDER, None),
        (SIX, 7, 1, 0, OUT_OF_ORDER, None),
        (SIX, 8, 1, 0, OUT_OF_ORDER, None),
        (SIX, 9, 2, 0, OUT_OF_ORDER, None),
        (SIX, 11, 1, 0, OUT_OF_ORDER, None),
        (SIX, 0, 1, 1, NONE, None),
        (SIX, 10, 1, 1, OUT_OF_ORDER, None),
        ([produced(0, epoch=3)], 1, 1, 2, OLD_EPOCH, None),
        ([produced(0, epoch=3)], 0, 1, 2, OLD_EPOCH, None),
        ([produced(0, epoch=3)], 1, 1, 3, NONE, None),
        ([produced(4, epoch=3), produced(0, epoch=4)], 5, 1, 4, OUT_OF_ORDER, None),
        ([produced(MAX - 1, 2)], 0, 1, 0, NONE, None),
        ([produced(MAX - 1, 4)], 2, 1, 0, NONE, None),
        ([produced(MAX - 1, 4, offset=50)], MAX - 1, 4, 0, NONE, 50),
        ([produced(MAX, 1), produced(0, 5)], MAX - 2, 2, 0, DUPLICATE, None),
    ],
)
def test_sequences(
    known: list[BatchHeader], sequence: int, records: int, epoch: int, error: ErrorCode, offset: int | None
) -> None:
    """A batch follows, repeats one of the last five, or is refused; `offset` is that of a duplicate."""
    check = states(*known).check(produced(sequence, records, epoch=epoch))

    assert check.error is error
    assert (check.duplicate and check.duplicate.first_offset) == offset


def test_batches_without_a_producer_id_are_not_checked() -> None:
    """Nor remembered."""
    [header] = headers_of(batch(b"x"))
    made = states(header)
    assert made.check(header).error is NONE
    assert len(made) == 0


def test_another_producer_is_another_sequence() -> None:
    """Each has its own."""
    made = states(produced(0, 5), produced(0, 2, producer=8))
    assert made.check(produced(5)).error is NONE
    assert made.check(produced(5, producer=8)).error is OUT_OF_ORDER
    assert made.check(produced(2, producer=8)).error is NONE


def test_producers_expire_by_the_time_of_their_last_append() -> None:
    """Then they are unknown. The timestamps of records say nothing: a producer may copy old ones."""
    made = ProducerStates()
    for now_ms, producer in ((900, 8), (1_000, PRODUCER)):
        made.at(now_ms)
        made.update(produced(0, producer=producer))
    made.expire(1_500, 500)
    assert made.entry(8) is None
    assert made.check(produced(1)).error is NONE
    assert made.check(produced(1, producer=8)).error is UNKNOWN


def test_a_producer_of_unknown_time_is_as_old_as_its_first_look() -> None:
    """A follower appends without a clock: until the first retention check it has no time."""
    made = states(produced(0))
    made.expire(1_000, 500)
    assert made.check(produced(1)).error is NONE
    made.expire(1_500, 500)
    assert made.check(produced(1)).error is NONE
    made.expire(1_501, 500)
    assert made.check(produced(1)).error is UNKNOWN


def test_a_snapshot_is_laid_out_as_kafka_does() -> None:
    """Version 1: CRC-32C over all behind it, then 46 bytes for each producer."""
    made = ProducerStates()
    made.at(99)
    made.update(produced(0, 3, epoch=2, offset=40))
    data = made.encode()

    assert data[:2] == b"\x00\x01"
    assert struct.unpack(">i", data[6:10]) == (1,)
    assert struct.unpack(">qhiqiqiq", data[10:]) == (PRODUCER, 2, 2, 42, 2, 99, -1, -1)
    assert decode_snapshot(data) == [(PRODUCER, ProducerEntry(2, (ProducedBatch(2, 42, 2, 99),)))]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_damaged_snapshot_is_not_believed(count: int) -> None:
    """Whichever byte is wrong or missing."""
    data = states(*(produced(0, producer=number) for number in range(count))).encode()
    assert len(decode_snapshot(data)) == count
    for position in range(len(data)):
        wrong = bytearray(data)
        wrong[position] ^= 0x11
        with pytest.raises(SnapshotError):
            decode_snapshot(bytes(wrong))
        with pytest.raises(SnapshotError):
            decode_snapshot(data[:position])


def test_a_producer_without_a_batch_survives_a_snapshot() -> None:
    """As Kafka writes one whose records are gone; it begins at 0 again."""
    made = ProducerStates()
    made.replace([(PRODUCER, ProducerEntry(4, ()))])
    again = ProducerStates()
    again.replace(decode_snapshot(made.encode()))
    assert again.entry(PRODUCER) == ProducerEntry(4, ())
    assert again.check(produced(0, epoch=4)).error is NONE
    assert again.check(produced(3, epoch=4)).error is OUT_OF_ORDER
    assert again.check(produced(0, epoch=3)).error is OLD_EPOCH


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 7), st.booleans()), max_size=30))
def test_whatever_is_sent_again_each_batch_is_there_once(steps: list[tuple[int, int, bool]]) -> None:
    """A producer that sends batches again, up to eight back: appended in order, or found."""
    made, sent, offset = ProducerStates(), OrderedDict[int, BatchHeader](), 100
    sequence = MAX - 5
    made.update(produced(sequence - 1, offset=offset - 1))
    for records, back, again in steps:
        if again and sent:
            old = list(sent.values())[-min(back + 1, len(sent))]
            check = made.check(old)
            if back < 5:
                assert check.duplicate is not None
                assert check.duplicate.first_offset == sent[old.base_sequence].base_offset
            elif back + 1 <= len(sent):
                assert check.error is DUPLICATE
            continue
        header = produced(sequence, records, offset=offset)
        assert made.check(header) == (NONE, None)
        made.update(header)
        sent[sequence] = header
        sequence, offset = (sequence + records) % (MAX + 1), offset + records


def test_a_producer_too_many_displaces_the_one_that_appended_longest_ago(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ids without end take no memory without end, also from a snapshot of another broker."""
    monkeypatch.setattr(producer_state, "PRODUCERS_MAX", 3)
    known = states(*(produced(0, producer=number) for number in (1, 2, 3)), produced(1, producer=1))

    known.update(produced(0, producer=4))
    assert [number for number in range(1, 5) if known.entry(number) is not None] == [1, 3, 4]
    assert known.check(produced(2, producer=1)).error is NONE
    assert known.check(produced(1, producer=2)).error is UNKNOWN

    entries = decode_snapshot(states(*(produced(0, producer=number) for number in (7, 8))).encode())
    of_snapshot = ProducerStates()
    of_snapshot.replace([*decode_snapshot(known.encode()), *entries])
    assert [number for number in range(1, 9) if of_snapshot.entry(number) is not None] == [4, 7, 8]
