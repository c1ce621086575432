"""Appends of record batches to the replicas of a broker, and the wait of acks=all."""

from __future__ import annotations

import pytest

from tests.pure.broker.log.made_batches import batch, headers_of
from tests.worlds.replica_managers import TP, fetch, in_memory, log_end_offset, over, pair, replicate
from zkgroup.broker.log.storage import MemoryStorage
from zkgroup.broker.replica_view import AppendResult
from zkgroup.broker.replicas.delayed_operations import DelayedProduce, append_records
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.replicas.min_insync import MinInsync
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import ACKS_ALL, ACKS_LEADER

OTHER = TopicPartition("orders", 1)


def leading(*tps: TopicPartition, leader_epoch: int = 0) -> ReplicaManager:
    """Broker 1, which leads these partitions alone."""
    host = in_memory(1)
    for tp in tps:
        host.become_leader(tp, 0, (1,), {1})
        if leader_epoch:
            host.become_leader(tp, leader_epoch, (1,), {1})
    return host


def test_an_append_returns_the_offsets_and_the_leader_epoch_of_its_records() -> None:
    """The stored batch has them too."""
    host = leading(TP, leader_epoch=3)
    host.append(TP, batch(b"a"))

    result = host.append(TP, batch(b"b", b"c"))

    assert result == AppendResult(ErrorCode.NONE, 1, 3, 3, -1, 0, 3)
    stored = headers_of(bytes(fetch(host, 1).records))
    assert [(header.base_offset, header.leader_epoch) for header in stored] == [(1, 3)]


@pytest.mark.parametrize(
    ("expected", "error"),
    [
        (-1, ErrorCode.NONE),
        (2, ErrorCode.NONE),
        (1, ErrorCode.FENCED_LEADER_EPOCH),
        (3, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_an_append_may_name_the_leader_epoch_that_it_expects(expected: int, error: ErrorCode) -> None:
    """Produce names none; with another epoch nothing is appended."""
    host = leading(TP, leader_epoch=2)

    assert host.append(TP, batch(b"a"), expected).error is error
    assert log_end_offset(host, TP) == (1 if error is ErrorCode.NONE else 0)


def test_an_append_to_another_broker_is_refused() -> None:
    """3 for a partition that is not here, 6 for one that is not led here."""
    host = in_memory(1)
    assert host.append(TP, batch(b"a")).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    host.become_follower(TP, 0)

    assert host.append(TP, batch(b"a")).error is ErrorCode.NOT_LEADER_FOR_PARTITION


def test_a_refused_batch_has_a_message_and_the_log_start_offset() -> None:
    """The client gets both; nothing is appended."""
    host = leading(TP)
    damaged = bytearray(batch(b"a"))
    damaged[-1] ^= 1

    result = host.append(TP, bytes(damaged))

    assert (result.error, result.base_offset, result.log_start_offset) == (ErrorCode.CORRUPT_RECORD, -1, 0)
    assert "crc" in result.message
    assert log_end_offset(host, TP) == 0


def test_a_batch_that_is_sent_again_has_its_first_offset_and_epoch() -> None:
    """In a later leader epoch too, so that acks=all waits for the records of the first time."""
    host = leading(TP)
    host.append(TP, batch(b"a", b"b", producer=(7, 0, 0)))
    host.append(TP, batch(b"c"))
    host.become_leader(TP, 4, (1,), {1})
    host.append(TP, batch(b"d"))

    result = host.append(TP, batch(b"a", b"b", producer=(7, 0, 0)))

    assert result == AppendResult(ErrorCode.NONE, 0, 2, 0, -1, 0, 4)
    assert host.keeps(TP, result.leader_epoch, result.end_offset)


def test_the_error_of_a_sequence_names_the_producer() -> None:
    """45 for a gap."""
    host = leading(TP)
    host.append(TP, batch(b"a", producer=(7, 0, 0)))

    result = host.append(TP, batch(b"c", producer=(7, 0, 2)))

    assert result.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert "producer 7" in result.message


class FullStorage(MemoryStorage):
    """A storage whose disk fills up."""

    full = False

    def write(self, path: str, position: int, data: bytes | bytearray) -> None:
        if self.full and path.endswith(".log"):
            raise OSError(28, "no space left")
        super().write(path, position, data)


def test_a_failed_write_is_error_6_with_the_offset_that_the_records_may_have() -> None:
    """The client asks the next leader."""
    storage = FullStorage()
    host = over(1, storage)
    host.become_leader(TP, 0, (1,), {1})
    host.append(TP, batch(b"a"))
    storage.full = True

    result = host.append(TP, batch(b"b"))

    assert (result.error, result.base_offset) == (ErrorCode.NOT_LEADER_FOR_PARTITION, 1)
    assert "no space left" in result.message


def test_each_partition_has_a_result_of_its_own() -> None:
    """An error of one does not keep the others from being appended."""
    host = leading(TP)

    results = append_records(host, {TP: batch(b"a"), OTHER: batch(b"b")}, ACKS_LEADER, None)

    assert [results[tp].error for tp in (TP, OTHER)] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def two_of(stored: set[int]) -> MinInsync:
    """Two replicas must be in sync; these are."""
    settings = MinInsync(1, default=2)
    settings.led(TP, 0, stored)
    return settings


def test_too_few_in_sync_replicas_refuse_acks_all_alone() -> None:
    """19, before anything is appended; acks=1 does not ask."""
    host = leading(TP)

    refused = append_records(host, {TP: batch(b"a")}, ACKS_ALL, two_of({1}))[TP]
    taken = append_records(host, {TP: batch(b"b")}, ACKS_LEADER, two_of({1}))[TP]

    assert refused == AppendResult(
        ErrorCode.NOT_ENOUGH_REPLICAS, message="orders-0: fewer than 2 replicas are in sync"
    )
    assert (taken.error, taken.base_offset) == (ErrorCode.NONE, 0)


def appended_pair(
    min_insync: MinInsync | None = None,
) -> tuple[ReplicaManager, ReplicaManager, DelayedProduce]:
    """A leader with a follower in the ISR that has not fetched yet, and an append with acks=all."""
    one, two = in_memory(1), in_memory(2)
    pair(one, two)
    results = append_records(one, {TP: batch(b"a", b"b")}, ACKS_ALL, min_insync)
    return one, two, DelayedProduce(results, min_insync)


def test_acks_all_waits_until_the_high_watermark_has_passed_all_records() -> None:
    """Not the first of them."""
    one, _, waiting = appended_pair()
    assert not waiting.check(one)
    assert waiting.results[TP].high_watermark == 0
    fetch(one, 1, replica=2, leader_epoch=0, last_fetched_epoch=0)
    assert one.high_watermark(TP) == 1
    assert not waiting.check(one)

    fetch(one, 2, replica=2, leader_epoch=0, last_fetched_epoch=0)

    assert waiting.check(one)
    assert waiting.results[TP] == AppendResult(ErrorCode.NONE, 0, 2, 0, -1, 0, 2)


def test_acks_all_waits_on_in_a_new_epoch_of_the_same_leader() -> None:
    """The records are still in its log: the producer is answered when the follower has them."""
    one, _, waiting = appended_pair()
    one.become_leader(TP, 1, (1, 2), {1, 2})
    assert not waiting.check(one)

    fetch(one, 2, replica=2, leader_epoch=1, last_fetched_epoch=0)

    assert waiting.check(one)
    assert waiting.results[TP].error is ErrorCode.NONE


def test_a_batch_that_is_sent_again_waits_too() -> None:
    """It is not acknowledged before its records are replicated."""
    one, two = in_memory(1), in_memory(2)
    pair(one, two)
    sent = batch(b"a", producer=(7, 0, 0))
    append_records(one, {TP: sent}, ACKS_ALL, None)
    again = DelayedProduce(append_records(one, {TP: sent}, ACKS_ALL, None))
    assert not again.check(one)

    assert replicate(one, two, TP)

    assert again.check(one)
    assert again.results[TP].base_offset == 0


def test_all_partitions_are_waited_for() -> None:
    """Those with an error are not."""
    one, two, _ = appended_pair()
    one.become_leader(OTHER, 0, (1,), {1})
    unknown = TopicPartition("orders", 2)
    records = {TP: batch(b"c"), OTHER: batch(b"d"), unknown: batch(b"e")}
    waiting = DelayedProduce(append_records(one, records, ACKS_ALL, None))

    assert waiting.waiting == {TP, OTHER}
    assert not waiting.check(one)
    assert waiting.waiting == {TP}
    replicate(one, two, TP)
    assert waiting.check(one)
    assert [int(waiting.results[tp].error) for tp in records] == [0, 0, 3]


def test_the_wait_ends_with_error_6_where_the_replica_leads_no_more() -> None:
    """The records may be truncated by the next leader; the first offset is kept for the log."""
    one, _, waiting = appended_pair()
    one.become_follower(TP, 1)

    assert waiting.check(one)
    assert (waiting.results[TP].error, waiting.results[TP].base_offset) == (
        ErrorCode.NOT_LEADER_FOR_PARTITION,
        0,
    )


def test_too_few_in_sync_replicas_at_the_end_of_the_wait_are_error_20() -> None:
    """The records are in the log."""
    settings = two_of({1, 2})
    one, _, waiting = appended_pair(settings)
    settings.isr_changed(TP, 0, {1})
    one.set_isr(TP, 0, {1})

    assert waiting.check(one)
    assert waiting.results[TP].error is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert log_end_offset(one, TP) == 2


def test_a_wait_that_times_out_is_error_7_for_what_is_not_replicated() -> None:
    """The records stay in the log, and other partitions keep their result."""
    one, _, _ = appended_pair()
    one.become_leader(OTHER, 0, (1,), {1})
    waiting = DelayedProduce(append_records(one, {TP: batch(b"c"), OTHER: batch(b"d")}, ACKS_ALL, None))
    assert not waiting.check(one)

    waiting.time_out()

    assert [int(waiting.results[tp].error) for tp in (TP, OTHER)] == [7, 0]
    assert not waiting.waiting
    assert log_end_offset(one, TP) == 3
