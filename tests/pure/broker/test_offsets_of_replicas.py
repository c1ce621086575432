"""ListOffsets and OffsetForLeaderEpoch of the replicas of a broker."""

from __future__ import annotations

import pytest

from tests.pure.broker.log.made_batches import GZIP, batch
from tests.worlds.replica_managers import TP, in_memory, pair, replicate
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import (
    EARLIEST,
    LATEST,
    EpochEndResult,
    EpochPartition,
    ListedPartition,
    ListOffsetsPartition,
)

CONSUMER, OBSERVER = -1, -2


def listed(
    host: ReplicaManager, time_ms: int, *, replica: int = CONSUMER, epoch: int = -1
) -> ListedPartition:
    asked = ListOffsetsPartition(TP.partition, time_ms, current_leader_epoch=epoch)
    return host.list_offset(TP, asked, replica)


def found(offset: int, leader_epoch: int, time_ms: int = -1) -> ListedPartition:
    return ListedPartition(TP.partition, ErrorCode.NONE, (), time_ms, offset, leader_epoch)


NOTHING = found(-1, -1)


def refused(error: ErrorCode) -> ListedPartition:
    return ListedPartition(TP.partition, error)


def replicated() -> tuple[ReplicaManager, ReplicaManager]:
    """Leader and follower of five records in leader epochs 0 and 3; the last two are not replicated."""
    one, two = in_memory(1), in_memory(2)
    pair(one, two)
    one.append(TP, batch(b"a", b"b", timestamp=[100, 200]))
    one.become_leader(TP, 3, (1, 2), {1, 2})
    two.become_follower(TP, 3)
    one.append(TP, batch(b"c", timestamp=300))
    assert replicate(one, two, TP)
    one.append(TP, batch(b"d", b"e", timestamp=[400, 500], compression=GZIP))
    return one, two


def test_a_consumer_gets_the_log_start_and_the_high_watermark() -> None:
    """With the leader epoch of the first record, and the present one; without a timestamp."""
    one, _ = replicated()

    assert listed(one, EARLIEST) == found(0, 0)
    assert listed(one, LATEST) == found(3, 3)


def test_a_replica_gets_the_log_end() -> None:
    """A follower, and an observer of any replica."""
    one, two = replicated()

    assert listed(one, LATEST, replica=2) == found(5, 3)
    assert listed(two, LATEST, replica=OBSERVER) == found(3, 3)
    assert listed(two, LATEST) == refused(ErrorCode.NOT_LEADER_FOR_PARTITION)


@pytest.mark.parametrize(
    ("time_ms", "expected"),
    [
        (0, found(0, 0, 100)),
        (101, found(1, 0, 200)),
        (200, found(1, 0, 200)),
        (300, found(2, 3, 300)),
        (301, NOTHING),
        (501, NOTHING),
    ],
)
def test_a_time_gives_the_first_record_that_is_not_older(time_ms: int, expected: ListedPartition) -> None:
    """With its own timestamp and leader epoch; -1 where none below the high watermark is."""
    one, _ = replicated()

    assert listed(one, time_ms) == expected


def test_records_above_the_high_watermark_are_found_by_replicas_alone() -> None:
    """Within a gzip batch too."""
    one, _ = replicated()

    assert listed(one, 401, replica=2) == found(4, 3, 500)
    assert listed(one, 401) == NOTHING


def test_the_log_start_is_where_retention_has_left_it() -> None:
    """With the leader epoch of the record that is first now."""
    one, _ = replicated()
    replica = one._replicas[TP]
    replica._log.advance_start(2)

    assert listed(one, EARLIEST) == found(2, 3)
    assert listed(one, 0) == found(2, 3, 300)


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(2, ErrorCode.FENCED_LEADER_EPOCH), (3, ErrorCode.NONE), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_another_leader_epoch_is_refused(epoch: int, error: ErrorCode) -> None:
    """74 below the leader's, 75 above; both requests."""
    one, _ = replicated()

    assert listed(one, LATEST, epoch=epoch).error == error
    assert one.epoch_end(TP, EpochPartition(TP.partition, epoch, 3)).error == error


def test_a_partition_that_is_not_here_is_unknown() -> None:
    """Error 3; the handler knows whether it exists on another broker."""
    host = in_memory(1)

    assert listed(host, LATEST) == refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert host.epoch_end(TP, EpochPartition(0, -1, 0)) == EpochEndResult(3, 0)


def test_a_new_leader_answers_when_its_high_watermark_is_not_too_low_any_more() -> None:
    """Until the watermark has reached the start of the epoch: 78 for the end and for later times.

    What is found below the watermark is found.
    """
    one, two = replicated()
    replicate(one, two, TP, until=5)
    one.become_follower(TP, 4)
    two.become_leader(TP, 4, (1, 2), {1, 2})

    assert listed(two, LATEST) == refused(ErrorCode.OFFSET_NOT_AVAILABLE)
    assert listed(two, 400) == refused(ErrorCode.OFFSET_NOT_AVAILABLE)
    assert listed(two, 150) == found(1, 0, 200)
    assert listed(two, EARLIEST) == found(0, 0)
    assert listed(two, LATEST, replica=1) == found(5, 4)

    assert replicate(two, one, TP)
    assert listed(two, LATEST) == found(5, 4)


@pytest.mark.parametrize(
    ("asked", "epoch", "end"), [(0, 0, 2), (1, 0, 2), (2, 0, 2), (3, 3, 5), (4, -1, -1), (-1, -1, -1)]
)
def test_where_a_leader_epoch_ends(asked: int, epoch: int, end: int) -> None:
    """The latest one up to it; the last one at the log end; -1 behind the last one, and without one."""
    one, _ = replicated()

    assert one.epoch_end(TP, EpochPartition(TP.partition, -1, asked)) == EpochEndResult(0, 0, epoch, end)


def test_an_epoch_before_the_first_one_ends_where_that_begins() -> None:
    """As in Kafka: a consumer that was there starts at the first record."""
    one, _ = replicated()
    one._replicas[TP]._log.advance_start(3)

    assert one.epoch_end(TP, EpochPartition(TP.partition, -1, 1)) == EpochEndResult(0, 0, 1, 3)


def test_a_follower_does_not_say_where_an_epoch_ends() -> None:
    """Error 6."""
    _, two = replicated()

    assert two.epoch_end(TP, EpochPartition(TP.partition, -1, 0)) == EpochEndResult(6, 0)
