"""The log start offset, which a leader moves by retention: in its answers, and on its followers."""

from __future__ import annotations

import pytest

from tests.worlds.batches import records_of
from tests.worlds.replica_managers import (
    TP,
    Hosts,
    answered,
    append,
    asked,
    caught_up,
    end,
    fetch,
    fetched,
    pair,
    replicate,
    text_of,
    view,
    watermark,
)
from zkgroup.broker.replica_view import Follower
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import NO_EPOCH_END, NO_OFFSET, EpochEnd

OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE


def start_of(host: ReplicaManager) -> int:
    return host.offsets(TP).log_start_offset


def delete_below(host: ReplicaManager, offset: int) -> None:
    """What retention does: the log starts there."""
    assert host.delete_records(TP, offset) is ErrorCode.NONE


def of_three_records(host: ReplicaManager, *, isr: tuple[int, ...] = (1,)) -> None:
    """Broker 1 leads a log of three batches and deletes the first two."""
    assert host.become_leader(TP, 0, (1, 2), set(isr)) is ErrorCode.NONE
    for value in (b"a", b"b", b"c"):
        append(host, 0, value)
    if isr == (1,):
        delete_below(host, 2)


def test_a_consumer_below_the_start_is_out_of_range(one: ReplicaManager) -> None:
    """Also if its epoch is not known any more; the answer does not say where to go on, as in Kafka."""
    of_three_records(one)

    below = fetch(one, 1)
    assert (below.error, below.log_start_offset, below.high_watermark) == (OUT_OF_RANGE, NO_OFFSET, -1)
    assert fetch(one, 1, last_fetched_epoch=0).error == OUT_OF_RANGE
    at_start = fetch(one, 2)
    assert (at_start.error, text_of(at_start), at_start.log_start_offset) == (0, b"c\n", 2)


def test_a_follower_follows_the_leaders_log_start_offset(one: ReplicaManager, two: ReplicaManager) -> None:
    """As far as its own high watermark."""
    pair(one, two)
    for value in (b"a", b"b", b"c"):
        append(one, 0, value)
    assert replicate(one, two, TP)
    delete_below(one, 2)
    two.take(TP, *answered(one, two))
    assert (start_of(one), start_of(two)) == (2, 2)

    two.take(TP, asked(two), fetched(0, 3, 9, start=8))

    assert start_of(two) == 3


def test_a_follower_below_the_leaders_log_start_begins_there(
    hosts: Hosts, one: ReplicaManager, two: ReplicaManager
) -> None:
    """It truncates fully, in a leader epoch in which it agreed before too, and is level after that."""
    assert one.become_leader(TP, 0, (1, 2), {1}) is ErrorCode.NONE
    append(one, 0, b"a")
    two.become_follower(TP, 0)
    assert replicate(one, two, TP)
    for value in (b"b", b"c"):
        append(one, 0, value)
    delete_below(one, 2)
    assert start_of(one) == 2

    request, response = answered(one, two)
    assert (response.error, response.log_start_offset) == (OUT_OF_RANGE, 2)
    assert two.take(TP, request, response)
    assert (start_of(two), end(two), watermark(two)) == (2, 2, 2)
    assert asked(two).last_fetched_epoch == -1
    assert replicate(one, two, TP)

    assert hosts.records(2) == [b"c"]
    assert (end(two), watermark(two), caught_up(one, TP, 2)) == (3, 3, True)


def test_a_follower_below_the_log_start_is_not_compared(one: ReplicaManager) -> None:
    """Its last epoch may lie between two that the leader has, of which the records are deleted."""
    for epoch, value in ((0, b"a"), (1, b"b"), (2, b"c"), (4, b"d")):
        assert one.become_leader(TP, epoch, (1, 2), {1}) is ErrorCode.NONE
        append(one, epoch, value)
    delete_below(one, 2)

    response = fetch(one, 1, replica=2, leader_epoch=4, last_fetched_epoch=3)

    assert (response.error, response.log_start_offset) == (OUT_OF_RANGE, 2)
    assert response.diverging == NO_EPOCH_END


def test_an_empty_log_above_0_does_not_diverge(one: ReplicaManager, two: ReplicaManager) -> None:
    """No record is before its end, so it has no leader epoch: in the leader's log as in the follower's."""
    of_three_records(one)
    delete_below(one, 3)
    two.become_follower(TP, 0)
    two.take(TP, *answered(one, two))
    assert (start_of(two), end(two)) == (3, 3)

    request, response = answered(one, two)

    assert (request.last_fetched_epoch, request.offset) == (-1, 3)
    assert (response.error, response.diverging, response.log_end_offset) == (0, NO_EPOCH_END, 3)
    assert two.take(TP, request, response)


def test_a_follower_that_ends_at_the_leaders_log_start_keeps_its_records(
    one: ReplicaManager, two: ReplicaManager
) -> None:
    """The leader does not know the epoch of the record before its first one any more."""
    pair(one, two)
    append(one, 0, b"a")
    assert replicate(one, two, TP)
    one.become_leader(TP, 3, (1, 2), {1})
    append(one, 3, b"b")
    delete_below(one, 1)
    two.become_follower(TP, 3)

    request, response = answered(one, two)

    assert (request.last_fetched_epoch, response.diverging) == (0, NO_EPOCH_END)
    assert two.take(TP, request, response)
    assert end(two) == 2


def test_an_emptied_replica_that_starts_at_the_leaders_log_start_does_not_lead_before_it_was_level(
    hosts: Hosts, one: ReplicaManager
) -> None:
    """Rule 4: that its log is empty again does not make it complete."""
    of_three_records(one)
    emptied = hosts.open(2)
    emptied.become_follower(TP, 1)
    one.become_leader(TP, 1, (1, 2), {1})
    append(one, 1, b"d")
    emptied.take(TP, *answered(one, emptied))
    assert (start_of(emptied), end(emptied)) == (2, 2)
    assert emptied.become_leader(TP, 2, (1, 2), {1, 2}) is ErrorCode.KAFKA_STORAGE_ERROR

    one.become_leader(TP, 3, (1, 2), {1})
    emptied.become_follower(TP, 3)
    assert replicate(one, emptied, TP)
    assert emptied.become_leader(TP, 4, (1, 2), {1, 2}) is ErrorCode.NONE
    emptied.close()


def test_an_isr_member_below_the_log_start_gets_nothing_before_it_is_out(one: ReplicaManager) -> None:
    """Rule 3: it has lost its records, and must not begin anew while it can be elected."""
    of_three_records(one, isr=(1, 2))
    fetch(one, 3, replica=2, leader_epoch=0, last_fetched_epoch=0)
    delete_below(one, 2)

    member = fetch(one, 0, replica=2, leader_epoch=0)
    assert (member.error, member.records) == (0, b"")
    assert view(one).followers == {2: Follower(0, caught_up=False, lost=True)}
    one.set_isr(TP, 0, {1})

    outside = fetch(one, 0, replica=2, leader_epoch=0)
    assert (outside.error, outside.log_start_offset) == (OUT_OF_RANGE, 2)


def test_a_follower_is_not_made_to_begin_anew_where_it_has_records(two: ReplicaManager) -> None:
    """Error 1 with an offset that is not beyond its end, or without one, truncates nothing."""
    records = records_of([b"a"], timestamp_ms=1, base_offset=0, leader_epoch=3)
    two.become_follower(TP, 3)
    two.take(TP, asked(two), fetched(0, 1, 1, records=records))

    for start in (NO_OFFSET, 0, 1):
        assert not two.take(TP, asked(two), fetched(OUT_OF_RANGE, start=start))
    assert end(two) == 1


def test_a_log_without_records_goes_back_to_a_leader_that_ends_before_it(
    one: ReplicaManager, two: ReplicaManager
) -> None:
    """After an unclean election; not within a leader epoch in which the two agreed."""
    two.become_follower(TP, 0)
    two.take(TP, asked(two), fetched(OUT_OF_RANGE, start=7))
    assert (start_of(two), end(two)) == (7, 7)
    one.become_leader(TP, 0, (1, 2), {1})
    one.become_leader(TP, 1, (1, 2), {1})
    append(one, 1, b"a")
    two.become_follower(TP, 1)

    assert replicate(one, two, TP)

    assert (start_of(two), end(two)) == (0, 1)
    two.become_follower(TP, 2)
    two.take(TP, asked(two), fetched(OUT_OF_RANGE, start=9))
    two.take(TP, asked(two), fetched(0, 9, 9, start=9))
    assert not two.take(TP, asked(two), fetched(OUT_OF_RANGE, start=4))
    assert end(two) == 9


@pytest.mark.parametrize("error", [ErrorCode.NONE, OUT_OF_RANGE])
def test_a_leader_that_does_not_say_where_its_log_ends_is_not_followed(
    two: ReplicaManager, error: ErrorCode
) -> None:
    """It is no zkgroup broker: when the follower is level could not be known (ADR 0018)."""
    two.become_follower(TP, 3)

    assert not two.take(TP, asked(two), fetched(error, 0, NO_OFFSET, start=NO_OFFSET))
    assert end(two) == 0


def test_a_diverging_log_is_cut_to_where_it_starts(one: ReplicaManager, two: ReplicaManager) -> None:
    """The leader has an epoch that ends below the follower's log start; the follower then begins there."""
    two.become_follower(TP, 0)
    two.take(TP, asked(two), fetched(OUT_OF_RANGE, start=5))
    records = records_of([b"x"], timestamp_ms=1, base_offset=5, leader_epoch=0)
    two.take(TP, asked(two), fetched(0, 0, 6, records=records))
    one.become_leader(TP, 0, (1, 2), {1})
    append(one, 0, b"a")
    one.become_leader(TP, 2, (1, 2), {1})
    append(one, 2, b"b")
    two.become_follower(TP, 2)

    request, response = answered(one, two)
    assert response.diverging == EpochEnd(0, 1)
    assert two.take(TP, request, response)

    assert replicate(one, two, TP)
    assert (start_of(two), end(two)) == (1, 2)


def test_a_follower_begins_with_the_batch_in_which_the_leaders_log_starts(
    hosts: Hosts, one: ReplicaManager, two: ReplicaManager
) -> None:
    """Batches are whole; the records of it that are deleted on the leader are deleted here too."""
    assert one.become_leader(TP, 0, (1, 2), {1}) is ErrorCode.NONE
    append(one, 0, b"a", b"b", b"c")
    append(one, 0, b"d")
    delete_below(one, 2)
    two.become_follower(TP, 0)

    assert replicate(one, two, TP)

    assert hosts.records(2) == [b"a", b"b", b"c", b"d"]
    assert (start_of(two), end(two), watermark(two)) == (2, 4, 4)


def test_a_leader_deletes_records_below_its_high_watermark_only(
    one: ReplicaManager, two: ReplicaManager
) -> None:
    """Its followers have all others; who does not lead deletes none."""
    pair(one, two)
    append(one, 0, b"a")
    append(one, 0, b"b")
    fetch(one, 1, replica=2, leader_epoch=0, last_fetched_epoch=0)

    for offset, error in ((2, OUT_OF_RANGE), (-2, OUT_OF_RANGE), (1, 0), (0, 0)):
        assert one.delete_records(TP, offset) == error
    assert start_of(one) == 1
    assert two.delete_records(TP, 0) == ErrorCode.NOT_LEADER_FOR_PARTITION
    assert two.delete_records(TP._replace(partition=9), 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_follower_that_was_not_level_deletes_nothing(two: ReplicaManager) -> None:
    """It does not know yet which of its records are acknowledged."""
    two.become_follower(TP, 3)
    three = records_of([b"a", b"b", b"c"], timestamp_ms=1, base_offset=0, leader_epoch=3)
    two.take(TP, asked(two), fetched(0, 3, 5, start=2, records=three))
    assert (end(two), watermark(two), start_of(two)) == (3, 0, 0)

    more = records_of([b"d", b"e"], timestamp_ms=1, base_offset=3, leader_epoch=3)
    two.take(TP, asked(two), fetched(0, 5, 5, start=2, records=more))
    assert (watermark(two), start_of(two)) == (5, 2)
