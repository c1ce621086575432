"""Fetches of several partitions: what is read and how much, and when the answer is complete."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.batches import batches_in, records_of
from tests.worlds.replica_managers import in_memory
from zkgroup.broker.replicas import replica
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.server.fetch_requests import DelayedFetch, KnownOffsets, refused, size_of, topics_of
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import (
    NO_OFFSET,
    OBSERVER_REPLICA,
    READ_COMMITTED,
    EpochEnd,
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)

A, B, C = (TopicPartition("t", number) for number in range(3))
ONE = len(records_of([b"x"], timestamp_ms=1))
"""Bytes of a batch."""
FOLLOWER = 2


def leader_of(*partitions: TopicPartition, records: int = 2, isr: tuple[int, ...] = (1,)) -> ReplicaManager:
    """A leader with batches of one record each."""
    host = in_memory(1)
    for tp in partitions:
        host.become_leader(tp, 0, (1, FOLLOWER), set(isr))
        append(host, tp, records)
    return host


def append(host: ReplicaManager, tp: TopicPartition, records: int = 1) -> None:
    for _ in range(records):
        assert host.append(tp, records_of([b"x"], timestamp_ms=1)).error == 0


def fetch(
    *partitions: TopicPartition,
    replica_id: int = -1,
    offset: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_bytes: int = 1 << 20,
    known: dict[TopicPartition, int] | None = None,
) -> DelayedFetch:
    epoch = -1 if replica_id < 0 else 0
    last = -1 if offset == 0 or replica_id < 0 else 0
    wanted = {
        tp: FetchPartition(
            tp.partition, offset, partition_bytes, current_leader_epoch=epoch, last_fetched_epoch=last
        )
        for tp in partitions
    }
    topics = (FetchTopic("t", tuple(wanted.values())),)
    request = FetchRequest(replica_id, 0, min_bytes, topics, max_bytes=max_bytes, broker_epoch=7)
    offsets = None if known is None else {tp: KnownOffsets(one, 0) for tp, one in known.items()}
    return DelayedFetch(wanted, request, offsets)


def counts(delayed: DelayedFetch) -> list[int]:
    """Batches of each partition that was read, in order."""
    return [len(list(batches_in(one.records or b""))) for one in delayed.results.values()]


@pytest.mark.parametrize(
    ("max_bytes", "expected"),
    [
        (1, [1, 0, 0]),
        (2 * ONE, [2, 0, 0]),
        (3 * ONE, [2, 1, 0]),
        (4 * ONE - 1, [2, 1, 0]),
        (9 * ONE, [2, 2, 2]),
    ],
)
def test_the_bytes_of_all_partitions_together_are_limited(max_bytes: int, expected: list[int]) -> None:
    """The first batch comes however large it is; later partitions get what is left."""
    host = leader_of(A, B, C)
    delayed = fetch(A, B, C, max_bytes=max_bytes)
    delayed.read(host, (A, B, C), held=False)

    assert counts(delayed) == expected
    assert [one.high_watermark for one in delayed.results.values()] == [2, 2, 2]


def test_each_partition_has_its_own_limit_too() -> None:
    """A batch that is larger comes as the first of the answer only (KIP-74)."""
    host = leader_of(A, B, C)
    delayed = fetch(A, B, C, partition_bytes=ONE - 1)
    delayed.read(host, (A, B, C), held=False)

    assert counts(delayed) == [1, 0, 0]


def test_a_partition_without_records_leaves_the_first_batch_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And no answer is larger than the broker keeps in memory."""
    host = leader_of(A, B, C)
    host.become_leader(A, 1, (1, FOLLOWER), {1})
    monkeypatch.setattr(replica, "FETCH_BYTES_MAX", 1)
    delayed = fetch(A, B, C, offset=2)
    delayed.read(host, (A,), held=False)
    assert counts(delayed) == [0]

    other = fetch(A, B, C)
    other.read(host, (B, A, C), held=False)
    assert counts(other) == [1, 0, 0]


def test_a_partition_that_is_read_again_counts_once() -> None:
    """Its former records do not use up the limit."""
    host = leader_of(A, B, records=1)
    delayed = fetch(A, B, min_bytes=4 * ONE, max_bytes=4 * ONE)
    delayed.read(host, (A, B), held=False)
    assert (counts(delayed), delayed.is_complete) == ([1, 1], False)
    append(host, B, 2)
    delayed.read(host, (B,), held=True)

    assert (counts(delayed), delayed.is_complete) == ([1, 3], True)


class CountedReads:
    """A replica manager whose fetches are noted: the offset and the bytes of each."""

    def __init__(self, host: ReplicaManager) -> None:
        self._host = host
        self.reads: list[tuple[int, int]] = []

    def fetch(self, tp: TopicPartition, request: FetchPartition, *args: Any, **options: Any) -> Any:
        result = self._host.fetch(tp, request, *args, **options)
        self.reads.append((request.offset, len(result.records or b"")))
        return result


def test_a_consumer_that_waits_for_many_bytes_reads_each_batch_once() -> None:
    """Else each append would cost as much as all records that it waits for."""
    host = leader_of(A, records=2)
    counted: Any = CountedReads(host)
    delayed = fetch(A, min_bytes=4 * ONE)
    delayed.read(counted, (A,), held=False)
    for _ in range(2):
        append(host, A)
        delayed.read(counted, (A,), held=True)

    assert counted.reads == [(0, 2 * ONE), (2, ONE), (3, ONE)]
    assert (counts(delayed), delayed.is_complete) == ([4], True)
    assert delayed.results[A].records == host.fetch(A, FetchPartition(0, 0, 1 << 20)).records


def test_records_that_were_read_stay_where_nothing_was_added() -> None:
    """Another high watermark is a change of the partition, too."""
    host = leader_of(A, records=2)
    delayed = fetch(A, min_bytes=3 * ONE)
    for _ in range(2):
        delayed.read(host, (A,), held=False)

    assert (counts(delayed), delayed.is_complete) == ([2], False)


def test_a_consumer_whose_records_were_deleted_meanwhile_is_told() -> None:
    """What was read is left out: the answer is that of a new read."""
    host = leader_of(A, records=2)
    delayed = fetch(A, min_bytes=4 * ONE)
    delayed.read(host, (A,), held=False)
    append(host, A)
    host.delete_records(A, 3)
    delayed.read(host, (A,), held=True)

    assert delayed.results[A].error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (delayed.results[A].records, delayed.is_complete) == (b"", True)


def test_a_consumer_waits_for_its_bytes_and_no_longer_with_an_error() -> None:
    """A high watermark alone is nothing to a consumer."""
    host = leader_of(A, records=0, isr=(1, FOLLOWER))
    delayed = fetch(A)
    delayed.read(host, (A,), held=False)
    assert not delayed.is_complete
    append(host, A)
    delayed.read(host, (A,), held=True)
    assert not delayed.is_complete, "it is not acknowledged"
    host.set_isr(A, 0, {1})
    delayed.read(host, (A,), held=True)
    assert delayed.is_complete

    wrong = fetch(A, B, min_bytes=1 << 20)
    wrong.read(host, (A, B), held=False)
    assert wrong.is_complete
    assert [one.error for one in wrong.results.values()] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_consumer_without_a_wait_for_bytes_is_answered_at_once() -> None:
    """`min_bytes` 0; so is a request for no partition."""
    host = leader_of(A, records=0)
    delayed = fetch(A, min_bytes=0)
    delayed.read(host, (A,), held=False)

    assert delayed.is_complete
    assert fetch().is_complete


def test_a_follower_without_a_session_waits_for_records_or_another_high_watermark() -> None:
    """Than in the first read: it cannot be known which one it has."""
    host = leader_of(A, B, isr=(1, FOLLOWER))
    delayed = fetch(A, B, replica_id=FOLLOWER, offset=2)
    events = delayed.read(host, (A, B), held=False)
    assert [(one.topic_partition, one.follower, one.offset, one.log_end_offset) for one in events] == [
        (A, FOLLOWER, 2, 2),
        (B, FOLLOWER, 2, 2),
    ]
    assert not delayed.is_complete
    append(host, A)
    delayed.read(host, (A,), held=True)

    assert delayed.is_complete
    assert list(delayed.news) == [A]


def test_a_follower_in_a_session_waits_for_what_it_does_not_know() -> None:
    """The high watermark moves with its own fetch, and it is answered."""
    host = leader_of(A, B, isr=(1, FOLLOWER))
    delayed = fetch(A, B, replica_id=FOLLOWER, offset=2, known={A: 0, B: 2})
    delayed.read(host, (A, B), held=False)

    assert (delayed.is_complete, list(delayed.news)) == (True, [A])
    assert delayed.news[A].high_watermark == 2


def test_a_diverging_log_is_answered_at_once_and_is_no_progress() -> None:
    """The machine gets no event for it."""
    host = leader_of(A, B)
    delayed = fetch(A, B, replica_id=FOLLOWER, offset=2, known={A: 2, B: 2})
    delayed._wanted[A] = FetchPartition(0, 5, 10, current_leader_epoch=0, last_fetched_epoch=-1)  # type: ignore[index]
    host.become_leader(A, 3, (1, FOLLOWER), {1})
    delayed._wanted[A] = FetchPartition(0, 5, 10, current_leader_epoch=3, last_fetched_epoch=1)  # type: ignore[index]
    events = delayed.read(host, (A, B), held=False)

    assert delayed.is_complete
    assert delayed.news[A].diverging == EpochEnd(0, 2)
    assert [one.topic_partition for one in events] == [B]


def test_partitions_that_are_not_wanted_any_more_are_not_read() -> None:
    """They have left the session while it waited."""
    host = leader_of(A)
    delayed = fetch(A)
    assert delayed.read(host, (B, A), held=False) == []
    assert list(delayed.results) == [A]


def test_a_throttled_partition_is_left_out_unless_the_follower_is_in_sync() -> None:
    """KIP-73; its progress is noted, and it is unfinished."""
    host = leader_of(A, B, isr=(1,))
    delayed = fetch(A, B, replica_id=FOLLOWER, known={A: 2, B: 2})
    events = delayed.read(host, (A, B), held=False, throttled={A})
    assert (counts(delayed), delayed.withheld, delayed.unfinished) == ([0, 2], {A}, [A])
    assert [one.offset for one in events] == [0, 0]
    assert list(delayed.sizes()) == [(B, 2 * ONE)]
    delayed.read(host, (A,), held=True)
    assert (counts(delayed), delayed.withheld, delayed.unfinished) == ([2, 2], set(), [])

    append(host, A)
    host.become_leader(A, 1, (1, FOLLOWER), {1, FOLLOWER})
    level = fetch(A, replica_id=FOLLOWER, offset=3, known={})
    level._wanted[A] = FetchPartition(0, 3, 1 << 20, current_leader_epoch=1, last_fetched_epoch=0)  # type: ignore[index]
    level.read(host, (A,), held=False, throttled={A})
    assert level.withheld == set()
    assert host.append(A, records_of([b"x"], timestamp_ms=1)).error == 0
    level.read(host, (A,), held=True, throttled={A})
    assert counts(level) == [1]
    assert list(level.sizes()) == [], "it was in sync"


def test_an_observer_gets_the_offsets_of_any_replica_at_once() -> None:
    """Also of a follower, and no records."""
    host = leader_of(A)
    host.become_follower(B, 3)
    delayed = fetch(A, B, C, replica_id=OBSERVER_REPLICA)
    assert delayed.read(host, (A, B, C), held=False) == []

    assert delayed.is_complete
    found = [(one.error, one.log_end_offset, one.high_watermark) for one in delayed.results.values()]
    assert found == [(0, 2, 2), (0, 0, 0), (3, -1, -1)]
    assert counts(delayed) == [0, 0, 0]


def test_an_answer_is_by_topic_and_has_kafkas_fields() -> None:
    """Consumers get no field of zkgroup's own; isolation level 1 gets a list of transactions."""
    host = leader_of(A)
    delayed = fetch(A)
    delayed.read(host, (A,), held=False)
    (topic,) = topics_of(delayed.results)
    (one,) = topic.partitions
    assert (topic.topic, one.last_stable_offset, one.log_start_offset) == ("t", 2, 0)
    assert (one.log_end_offset, one.aborted_transactions, one.preferred_read_replica) == (NO_OFFSET, None, -1)
    ((committed,),) = (each.partitions for each in topics_of(delayed.results, READ_COMMITTED))
    assert committed.aborted_transactions == ()

    request = FetchRequest(-1, 0, 1, (FetchTopic("u", (FetchPartition(4, 0, 1),)), FetchTopic("t", ())))
    answer = refused(request, ErrorCode.STALE_BROKER_EPOCH)
    assert [(each.topic, [(p.partition, p.error) for p in each.partitions]) for each in answer.topics] == [
        ("u", [(4, 77)])
    ]


@pytest.mark.parametrize(("version", "sizes"), [(4, (12, 54)), (11, (18, 72)), (12, (16, 62))])
def test_the_size_of_an_answer_is_what_kafka_counts(version: int, sizes: tuple[int, int]) -> None:
    """Numbers of `FetchResponse.sizeOf` of 2.8.2: without a partition, and with one that has no records."""
    one = FetchedPartition(0, 0, 0, b"", last_stable_offset=0, log_start_offset=0, aborted_transactions=())
    answers = (FetchResponse(()), FetchResponse((FetchedTopic("orders", (one,)),)))

    assert tuple(size_of(each, version) for each in answers) == sizes
