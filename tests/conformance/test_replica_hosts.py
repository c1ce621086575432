"""The contract of `ReplicaHost`, on every host that is shipped.

The rules are those of the two requests: leader epochs instead of cutting to the high watermark, the high
watermark itself, who may be in the ISR, and who may lead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.replica_hosts import (
    TP,
    DirectoryHosts,
    Hosts,
    MemoryHosts,
    append,
    changes_of,
    fetch,
    text_of,
)
from zkgroup.broker.memory_host import replicate
from zkgroup.broker.replica_host import Follower, ReplicaHost, Role
from zkgroup.broker.replication.batches import batch_of
from zkgroup.errors import IllegalTransitionError
from zkgroup.model import TopicPartition
from zkgroup.wire.error_codes import ErrorCode
from zkgroup.wire.replica_host import EpochEnd, FetchLinesRequest, FetchLinesResponse, LineBatch

OTHER = TopicPartition("orders", 1)


@pytest.fixture(params=["memory", "directory"])
def hosts(request: pytest.FixtureRequest, tmp_path: Path) -> Hosts:
    return MemoryHosts() if request.param == "memory" else DirectoryHosts(tmp_path)


@pytest.fixture
def one(hosts: Hosts) -> Iterator[ReplicaHost]:
    host = hosts.open(1)
    yield host
    host.close()


@pytest.fixture
def two(hosts: Hosts) -> Iterator[ReplicaHost]:
    host = hosts.open(2)
    yield host
    host.close()


def pair(one: ReplicaHost, two: ReplicaHost, leader_epoch: int = 0) -> None:
    """Broker 1 leads and broker 2 follows, both in the ISR."""
    assert one.become_leader(TP, leader_epoch, (1, 2), {1, 2}) is ErrorCode.NONE
    assert two.become_follower(TP, leader_epoch) is ErrorCode.NONE


def end(host: ReplicaHost) -> int | None:
    return host.log_end_offset(TP)


def watermark(host: ReplicaHost) -> int | None:
    return host.high_watermark(TP)


# --- rule 1: leader epochs ------------------------------------------------------------------------


def test_rule_1_becoming_leader_appends_the_epoch_and_the_log_end_offset(
    hosts: Hosts, one: ReplicaHost
) -> None:
    """A term without lines leaves no mark behind once the next one begins."""
    one.become_leader(TP, 0, (1,), {1})
    append(one, 0, b"a", b"b")
    one.become_leader(TP, 3, (1,), {1})
    assert hosts.epochs(1) == ((0, 0), (3, 2))

    one.become_leader(TP, 4, (1,), {1})
    append(one, 4, b"c")

    assert hosts.epochs(1) == ((0, 0), (4, 2))


def test_rule_1_followers_do_not_cut_to_the_high_watermark(one: ReplicaHost, two: ReplicaHost) -> None:
    """Lines above the high watermark stay through changes of role: the leader says what diverges."""
    pair(one, two)
    append(one, 0, b"a", b"b")
    request = two.next_fetch(TP, broker_epoch=0, max_bytes=100, max_wait_ms=0)
    assert request is not None
    two.take(request, one.fetch(request))
    assert (end(two), watermark(two)) == (2, 0)

    two.become_follower(TP, 1)
    two.stop(TP)
    two.become_follower(TP, 2)

    assert end(two) == 2


def test_rule_1_a_leader_that_lacks_the_epoch_answers_diverging(one: ReplicaHost) -> None:
    """The latest epoch that both can have, and where it ends on the leader."""
    one.become_leader(TP, 0, (1, 2), {1})
    append(one, 0, b"a", b"b")
    one.become_leader(TP, 3, (1, 2), {1})
    append(one, 3, b"c")

    response = fetch(one, 5, replica=2, leader_epoch=3, last_fetched_epoch=2)

    assert response.diverging == EpochEnd(0, 2)
    assert (response.error, response.batches) == (ErrorCode.NONE, ())
    assert one.view(TP).followers[2].log_end_offset is None  # type: ignore[union-attr]


def test_rule_1_a_leader_whose_end_of_the_epoch_is_below_answers_diverging(one: ReplicaHost) -> None:
    """At the end of the epoch the follower is right, one line further it is not."""
    one.become_leader(TP, 0, (1, 2), {1})
    append(one, 0, b"a", b"b")
    one.become_leader(TP, 3, (1, 2), {1})
    append(one, 3, b"c")

    at_the_end = fetch(one, 2, replica=2, leader_epoch=3, last_fetched_epoch=0)
    further = fetch(one, 3, replica=2, leader_epoch=3, last_fetched_epoch=0)

    assert (at_the_end.diverging, text_of(at_the_end)) == (None, b"c\n")
    assert further.diverging == EpochEnd(0, 2)


def test_rule_1_a_follower_cuts_to_the_smaller_end_and_asks_again(
    hosts: Hosts, one: ReplicaHost, two: ReplicaHost
) -> None:
    """Twice here: the leader's end of its epoch is larger than the follower's own end of that epoch."""
    one.become_leader(TP, 0, (1, 2), {1})
    append(one, 0, b"a")
    two.become_follower(TP, 0)
    assert replicate(one, two, TP)
    append(one, 0, b"b", b"c")
    two.become_leader(TP, 1, (1, 2), {2})
    append(two, 1, b"x", b"y", b"z")
    one.become_leader(TP, 2, (1, 2), {1})
    two.become_follower(TP, 2)

    request = two.next_fetch(TP, broker_epoch=0, max_bytes=100, max_wait_ms=0)
    assert request is not None
    response = one.fetch(request)
    assert (request.last_fetched_epoch, request.offset, response.diverging) == (1, 4, EpochEnd(0, 3))
    assert two.take(request, response)
    assert end(two) == 1
    assert replicate(one, two, TP)

    assert hosts.epochs(2) == ((0, 0),)
    assert end(two) == 3


def test_rule_1_a_term_that_agreed_before_cannot_diverge(one: ReplicaHost, two: ReplicaHost) -> None:
    """A leader that takes back what it gave in the same term has lost it; its follower keeps the lines."""
    pair(one, two)
    append(one, 0, b"a")
    assert replicate(one, two, TP)
    request = two.next_fetch(TP, broker_epoch=0, max_bytes=100, max_wait_ms=0)
    assert request is not None

    again = two.take(request, FetchLinesResponse(0, 0, 0, diverging=EpochEnd(-1, 0)))

    assert not again
    assert end(two) == 1
    assert "has lost lines" in two.view(TP).failure  # type: ignore[operator,union-attr]


def test_rule_1_a_leader_that_is_behind_its_own_term_gives_up(hosts: Hosts, two: ReplicaHost) -> None:
    """Its folder was lost in the first term, where nothing else can tell; it does not lead again so."""
    first = hosts.open(1)
    pair(first, two)
    append(first, 0, b"a")
    assert replicate(first, two, TP)
    first.close()
    hosts.lose(1)
    emptied = hosts.open(1)
    assert emptied.become_leader(TP, 0, (1, 2), {1, 2}) is ErrorCode.NONE

    response = fetch(emptied, 1, replica=2, leader_epoch=0, last_fetched_epoch=0)

    assert response.error == ErrorCode.NOT_LEADER_FOR_PARTITION
    assert append(emptied, 0, b"x").error == ErrorCode.NOT_LEADER_FOR_PARTITION
    assert emptied.become_leader(TP, 1, (1, 2), {1, 2}) is ErrorCode.KAFKA_STORAGE_ERROR
    emptied.close()


# --- rule 2: the high watermark -------------------------------------------------------------------


def test_rule_2_the_high_watermark_is_the_smallest_end_of_the_isr(one: ReplicaHost) -> None:
    """Of the leader too; a replica outside does not count."""
    one.become_leader(TP, 0, (1, 2, 3, 4), {1, 2, 3})
    append(one, 0, b"a")
    append(one, 0, b"b")
    append(one, 0, b"c")

    fetch(one, 2, replica=2, leader_epoch=0, last_fetched_epoch=0)
    assert watermark(one) == 0, "broker 3 has not been heard"
    fetch(one, 1, replica=3, leader_epoch=0, last_fetched_epoch=0)

    assert watermark(one) == 1


def test_rule_2_every_isr_that_is_proposed_counts(one: ReplicaHost) -> None:
    """`set_isr` is told the union; what leaves it holds nothing any more."""
    one.become_leader(TP, 0, (1, 2), {1})
    append(one, 0, b"a")
    assert watermark(one) == 1
    fetch(one, 1, replica=2, leader_epoch=0, last_fetched_epoch=0)

    one.set_isr(TP, 0, {1, 2})
    append(one, 0, b"b")
    assert watermark(one) == 1
    one.set_isr(TP, 0, {1})

    assert watermark(one) == 2


def test_rule_2_the_high_watermark_never_falls_within_a_term(one: ReplicaHost) -> None:
    """Neither for a member that is behind nor for one that has not been heard."""
    one.become_leader(TP, 0, (1, 2, 3), {1})
    append(one, 0, b"a")
    fetch(one, 0, replica=2, leader_epoch=0)

    one.set_isr(TP, 0, {1, 2, 3})

    assert watermark(one) == 1


def test_rule_2_consumers_read_below_the_high_watermark(one: ReplicaHost) -> None:
    """At and above it they get nothing, past the end an error; followers get all."""
    one.become_leader(TP, 0, (1, 2), {1, 2})
    append(one, 0, b"a", b"b")
    append(one, 0, b"c")
    fetch(one, 2, replica=2, leader_epoch=0, last_fetched_epoch=0)

    assert text_of(fetch(one, 0)) == b"a\nb\n"
    assert text_of(fetch(one, 1)) == b"a\nb\n", "a batch is given as a whole"
    assert (fetch(one, 2).error, text_of(fetch(one, 2)), text_of(fetch(one, 3))) == (0, b"", b"")
    assert fetch(one, 4).error == fetch(one, -1).error == ErrorCode.OFFSET_OUT_OF_RANGE
    assert text_of(fetch(one, 2, replica=2, leader_epoch=0, last_fetched_epoch=0)) == b"c\n"


def test_rule_2_a_follower_learns_the_high_watermark(one: ReplicaHost, two: ReplicaHost) -> None:
    """As far as its own lines go, and for the next term."""
    pair(one, two)
    append(one, 0, b"a")
    assert replicate(one, two, TP)

    assert (watermark(one), watermark(two)) == (1, 1)
    assert two.become_leader(TP, 1, (1, 2), {1, 2}) is ErrorCode.NONE
    assert watermark(two) == 1


# --- rule 3: the ISR ------------------------------------------------------------------------------


def test_rule_3_a_follower_joins_at_the_high_watermark_and_at_the_start_of_the_term(
    one: ReplicaHost,
) -> None:
    """Lines of former terms above the high watermark may have been acknowledged, so it needs them too."""
    one.become_leader(TP, 0, (1, 2, 3), {1, 2})
    append(one, 0, b"a")
    append(one, 0, b"b")
    one.become_leader(TP, 1, (1, 2, 3), {1, 2})
    assert not one.caught_up(TP, 3), "not heard in this term"

    fetch(one, 1, replica=3, leader_epoch=1, last_fetched_epoch=0)
    assert watermark(one) == 0
    assert not one.caught_up(TP, 3), "below the start of the term"
    fetch(one, 2, replica=3, leader_epoch=1, last_fetched_epoch=0)
    assert one.caught_up(TP, 3)

    fetch(one, 2, replica=2, leader_epoch=1, last_fetched_epoch=0)
    append(one, 1, b"c")
    fetch(one, 3, replica=2, leader_epoch=1, last_fetched_epoch=1)
    assert not one.caught_up(TP, 3), "below the high watermark"


def test_rule_3_an_isr_member_below_the_high_watermark_has_lost_its_lines(one: ReplicaHost) -> None:
    """It gets none before it is out of the ISR: with some of them it could be elected."""
    one.become_leader(TP, 0, (1, 2), {1, 2})
    append(one, 0, b"a")
    append(one, 0, b"b")
    fetch(one, 2, replica=2, leader_epoch=0, last_fetched_epoch=0, broker_epoch=5)

    response = fetch(one, 0, replica=2, leader_epoch=0, broker_epoch=6)
    assert (response.error, response.batches, response.high_watermark) == (ErrorCode.NONE, (), 2)
    assert one.view(TP).followers == {2: Follower(log_end_offset=0, caught_up=False, lost=True)}  # type: ignore[union-attr]
    one.set_isr(TP, 0, {1})

    assert text_of(fetch(one, 0, replica=2, leader_epoch=0, broker_epoch=6)) == b"a\nb\n"
    assert one.view(TP).followers == {2: Follower(log_end_offset=0, caught_up=False, lost=False)}  # type: ignore[union-attr]


# --- rule 4: who may lead -------------------------------------------------------------------------


def test_rule_4_leading_without_data_is_an_error_but_in_the_first_term(one: ReplicaHost) -> None:
    """56: the controller takes such a replica for offline."""
    assert one.become_leader(TP, 1, (1, 2), {1, 2}) is ErrorCode.KAFKA_STORAGE_ERROR
    assert one.become_leader(OTHER, 0, (1, 2), {1, 2}) is ErrorCode.NONE

    view = one.view(TP)
    assert view is not None
    assert (view.role, view.log_end_offset) == (Role.NONE, 0)
    assert view.failure == "cannot lead in epoch 1: there is nothing of it here"
    assert append(one, 1, b"a").error == fetch(one, 0).error == ErrorCode.NOT_LEADER_FOR_PARTITION
    assert one.partitions() == (OTHER,)


def test_rule_4_an_empty_partition_of_the_first_term_can_be_led_later(one: ReplicaHost) -> None:
    """Nothing can be missing in a replica that was there from the beginning."""
    one.become_follower(TP, 0)

    assert one.become_leader(TP, 1, (1, 2), {1, 2}) is ErrorCode.NONE


def test_rule_4_a_folder_that_was_emptied_does_not_lead_before_it_was_level(
    hosts: Hosts, one: ReplicaHost
) -> None:
    """Not with no line, not with some, and after a restart no more; then it does."""
    one.become_leader(TP, 0, (1, 2), {1})
    append(one, 0, b"a")
    append(one, 0, b"b")
    emptied = hosts.open(2)
    emptied.become_follower(TP, 1)
    assert emptied.become_leader(TP, 2, (1, 2), {2}) is ErrorCode.KAFKA_STORAGE_ERROR
    one.become_leader(TP, 3, (1, 2), {1})
    emptied.become_follower(TP, 3)
    assert replicate(one, emptied, TP, until=1)
    emptied.close()

    again = hosts.open(2)
    assert end(again) == 1
    assert again.become_leader(TP, 4, (1, 2), {2}) is ErrorCode.KAFKA_STORAGE_ERROR
    one.become_leader(TP, 5, (1, 2), {1})
    again.become_follower(TP, 5)
    assert replicate(one, again, TP)

    assert again.become_leader(TP, 6, (1, 2), {2}) is ErrorCode.NONE
    again.close()


def test_rule_4_being_level_means_with_the_term_and_not_with_its_high_watermark(
    hosts: Hosts, one: ReplicaHost
) -> None:
    """A new leader may know a lower one than the last did, so that says nothing of what was acknowledged."""
    one.become_follower(TP, 0)
    batches = tuple(batch_of([line], offset, 0) for offset, line in enumerate((b"a", b"b")))
    one.take(asked(one), FetchLinesResponse(0, 0, 2, batches=batches))
    one.become_leader(TP, 1, (1, 2), {1, 2})
    assert (end(one), watermark(one)) == (2, 0)
    emptied = hosts.open(2)
    emptied.become_follower(TP, 1)
    assert replicate(one, emptied, TP, until=1)
    assert (end(emptied), watermark(one)) == (1, 1)

    assert emptied.become_leader(TP, 2, (1, 2), {1, 2}) is ErrorCode.KAFKA_STORAGE_ERROR
    emptied.close()


# --- rule 5: what is shown ------------------------------------------------------------------------


def test_rule_5_log_end_offset_and_high_watermark_of_every_replica(
    one: ReplicaHost, two: ReplicaHost
) -> None:
    """The leader's view holds those of its followers; a partition that is not here has none."""
    one.become_leader(TP, 0, (1, 2, 3), {1, 2})
    two.become_follower(TP, 0)
    append(one, 0, b"a")
    assert replicate(one, two, TP)
    append(one, 0, b"b")

    view = one.view(TP)
    assert view is not None
    assert (view.role, view.leader_epoch, view.log_end_offset, view.high_watermark) == (Role.LEADER, 0, 2, 1)
    assert (view.term_start, view.failure) == (0, None)
    assert view.followers == {2: Follower(1, caught_up=True, lost=False), 3: Follower(None, False, False)}
    follower = two.view(TP)
    assert follower is not None
    assert (follower.role, follower.log_end_offset, follower.high_watermark) == (Role.FOLLOWER, 1, 1)
    assert one.view(OTHER) is one.log_end_offset(OTHER) is one.high_watermark(OTHER) is None
    assert not one.caught_up(OTHER, 2)


# --- the two requests -----------------------------------------------------------------------------


def test_append_says_where_the_lines_are(one: ReplicaHost) -> None:
    """Base offset and high watermark; any bytes but newlines are lines, empty ones too."""
    one.become_leader(TP, 0, (1,), {1})

    first = append(one, 0, b"", b"\xff\x00\r")
    second = append(one, 0, b"c")

    assert (first.error, first.base_offset, first.high_watermark) == (0, 0, 2)
    assert (second.error, second.base_offset, second.high_watermark) == (0, 2, 3)
    assert text_of(fetch(one, 0)) == b"\n\xff\x00\r\nc\n"


@pytest.mark.parametrize("lines", [(), (b"a", b"b\nc"), (b"\n",)])
def test_append_takes_all_lines_or_none(one: ReplicaHost, lines: tuple[bytes, ...]) -> None:
    """No lines, and lines that would be two, are refused."""
    one.become_leader(TP, 0, (1,), {1})

    assert append(one, 0, *lines).error == ErrorCode.INVALID_RECORD
    assert end(one) == 0


def test_requests_of_other_terms_and_to_others_are_refused(one: ReplicaHost, two: ReplicaHost) -> None:
    """3 unknown, 6 not the leader, 74 an older term, 75 a newer one; a consumer may know no term."""
    assert append(one, 0, b"a").error == fetch(one, 0).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    one.become_leader(TP, 0, (1, 2), {1})
    one.become_leader(TP, 4, (1, 2), {1})
    two.become_follower(TP, 4)

    assert append(two, 4, b"a").error == fetch(two, 0).error == ErrorCode.NOT_LEADER_FOR_PARTITION
    for leader_epoch, error in (
        (3, ErrorCode.FENCED_LEADER_EPOCH),
        (-1, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (4, ErrorCode.NONE),
    ):
        assert append(one, leader_epoch, b"a").error == error
        assert fetch(one, 0, replica=2, leader_epoch=leader_epoch).error == error
    assert fetch(one, 0, leader_epoch=3).error == ErrorCode.FENCED_LEADER_EPOCH
    assert fetch(one, 0, leader_epoch=-1).error == ErrorCode.NONE
    assert fetch(one, 0, replica=3, leader_epoch=4).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    one.stop(TP)
    assert append(one, 4, b"a").error == fetch(one, 0).error == ErrorCode.NOT_LEADER_FOR_PARTITION


def test_a_former_incarnation_of_a_follower_is_refused(one: ReplicaHost) -> None:
    """77, also where the newer one was seen in another partition."""
    one.become_leader(TP, 0, (1, 2), {1})
    append(one, 0, b"a")
    assert fetch(one, 0, replica=2, leader_epoch=0, broker_epoch=7).error == ErrorCode.NONE

    stale = fetch(one, 1, replica=2, leader_epoch=0, last_fetched_epoch=0, broker_epoch=6)

    assert stale.error == ErrorCode.STALE_BROKER_EPOCH
    assert one.view(TP).followers[2].log_end_offset == 0  # type: ignore[union-attr]


def test_fetch_gives_whole_batches_up_to_max_bytes_and_at_least_one(one: ReplicaHost) -> None:
    """As they were appended, with their checksums."""
    one.become_leader(TP, 0, (1,), {1})
    append(one, 0, b"a" * 9)
    append(one, 0, b"b" * 9)
    append(one, 0, b"c" * 9)

    assert [len(fetch(one, 0, max_bytes=size).batches) for size in (0, 1, 19, 20, 29, 30)] == [
        *(1, 1, 1, 2, 2, 3)
    ]
    assert fetch(one, 1).batches[0] == batch_of([b"b" * 9], base_offset=1, leader_epoch=0)


def test_a_consumer_that_names_its_epoch_is_told_what_diverges(one: ReplicaHost) -> None:
    """It read lines that an unclean election has taken back."""
    one.become_leader(TP, 0, (1,), {1})
    append(one, 0, b"a")
    one.become_leader(TP, 2, (1,), {1})

    assert fetch(one, 3, last_fetched_epoch=1).diverging == EpochEnd(0, 1)
    assert fetch(one, 1, last_fetched_epoch=0).diverging is None


# --- a follower takes in --------------------------------------------------------------------------


def asked(host: ReplicaHost) -> FetchLinesRequest:
    request = host.next_fetch(TP, broker_epoch=1, max_bytes=100, max_wait_ms=7)
    assert request is not None
    return request


def test_a_follower_says_where_it_is(two: ReplicaHost) -> None:
    """Who leads or has no role asks for nothing."""
    two.become_follower(TP, 3)
    assert asked(two) == FetchLinesRequest(2, 1, TP.topic, TP.partition, 3, -1, 0, 100, 7)

    two.stop(TP)

    assert two.next_fetch(TP, broker_epoch=1, max_bytes=100, max_wait_ms=7) is None
    assert two.next_fetch(OTHER, broker_epoch=1, max_bytes=100, max_wait_ms=7) is None


GOOD = batch_of([b"a"], base_offset=0, leader_epoch=0)


@pytest.mark.parametrize(
    "batch",
    [
        replace(GOOD, crc32c=GOOD.crc32c ^ 1),
        replace(GOOD, base_offset=1),
        replace(GOOD, leader_epoch=4),
        replace(GOOD, count=2),
        LineBatch(0, 0, 0, 0, b""),
    ],
    ids=["checksum", "gap", "later term", "count", "nothing"],
)
def test_a_follower_takes_no_damaged_batch(two: ReplicaHost, batch: LineBatch) -> None:
    """Nor one that does not follow; it asks again later, and says why."""
    two.become_follower(TP, 3)

    assert not two.take(asked(two), FetchLinesResponse(0, 0, 1, batches=(batch,)))
    assert end(two) == 0
    assert "is damaged or does not follow" in two.view(TP).failure  # type: ignore[operator,union-attr]


def test_a_follower_keeps_what_was_sound_before_a_damaged_batch(two: ReplicaHost) -> None:
    """And forgets the trouble with the next good answer."""
    bad = replace(GOOD, base_offset=1, crc32c=7)
    two.become_follower(TP, 3)

    assert not two.take(asked(two), FetchLinesResponse(0, 0, 2, batches=(GOOD, bad)))
    assert end(two) == 1
    assert two.take(asked(two), FetchLinesResponse(0, 0, 1))
    assert two.view(TP).failure is None  # type: ignore[union-attr]


def test_an_answer_to_another_question_changes_nothing(two: ReplicaHost) -> None:
    """Of a former term, of a former position, or after the role has ended."""
    good = FetchLinesResponse(0, 1, 1, batches=(GOOD,))
    two.become_follower(TP, 3)
    old_term = asked(two)
    two.become_follower(TP, 4)
    assert two.take(old_term, good)
    assert end(two) == 0

    request = asked(two)
    assert two.take(request, good)
    assert two.take(request, good)
    assert end(two) == 1
    two.stop(TP)
    assert two.take(request, good)
    assert end(two) == 1


def test_a_follower_waits_after_an_error(two: ReplicaHost) -> None:
    """And after an answer without the lines that the leader has."""
    two.become_follower(TP, 3)

    assert not two.take(asked(two), FetchLinesResponse(ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1))
    assert not two.take(asked(two), FetchLinesResponse(0, 2, 2))


# --- roles ----------------------------------------------------------------------------------------


def test_the_same_term_again_takes_replicas_and_isr_over(one: ReplicaHost) -> None:
    """What followers have reached is kept then, and forgotten in a new term."""
    one.become_leader(TP, 0, (1, 2), {1, 2})
    append(one, 0, b"a")
    fetch(one, 1, replica=2, leader_epoch=0, last_fetched_epoch=0)

    one.become_leader(TP, 0, (1, 2, 3), {1})
    assert {b: f.log_end_offset for b, f in one.view(TP).followers.items()} == {2: 1, 3: None}  # type: ignore[union-attr]
    one.become_leader(TP, 1, (1, 2, 3), {1})
    assert {b: f.log_end_offset for b, f in one.view(TP).followers.items()} == {2: None, 3: None}  # type: ignore[union-attr]


def test_set_isr_of_another_term_has_no_effect(one: ReplicaHost) -> None:
    """It is late, or early; and for who does not lead it means nothing."""
    one.become_leader(TP, 0, (1, 2), {1, 2})
    append(one, 0, b"a")

    one.set_isr(TP, 1, {1})
    one.set_isr(OTHER, 0, {1})

    assert watermark(one) == 0


def test_an_older_term_or_two_roles_in_one_are_the_callers_mistake(one: ReplicaHost) -> None:
    """The receiver refuses them before."""
    one.become_follower(TP, 3)

    with pytest.raises(
        IllegalTransitionError, match="orders-0: follower in epoch 2, after follower in epoch 3"
    ):
        one.become_follower(TP, 2)
    with pytest.raises(IllegalTransitionError, match="leader in epoch 3"):
        one.become_leader(TP, 3, (1,), {1})


def test_lines_of_a_later_term_make_a_replica_useless(hosts: Hosts) -> None:
    """They are from another life of a topic of that name, and no answer would cut them away."""
    former = hosts.open(1)
    former.become_leader(TP, 0, (1,), {1})
    former.become_leader(TP, 7, (1,), {1})
    append(former, 7, b"a")
    former.close()
    host = hosts.open(1)

    assert host.become_leader(TP, 0, (1,), {1}) is ErrorCode.KAFKA_STORAGE_ERROR
    assert host.become_follower(TP, 1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert host.view(TP).failure == "cannot follow in epoch 1: its lines are from epoch 7"  # type: ignore[union-attr]
    host.close()


def test_a_stopped_replica_keeps_its_lines_and_a_deleted_one_does_not(hosts: Hosts, one: ReplicaHost) -> None:
    """Deleting works for what nobody has opened, and for what is not there."""
    one.become_leader(TP, 0, (1,), {1})
    append(one, 0, b"a")
    one.stop(TP)
    one.stop(OTHER)
    assert (end(one), one.partitions()) == (1, (TP,))
    one.become_leader(OTHER, 0, (1,), {1})
    assert one.partitions() == (TP, OTHER)

    assert one.delete(TP) is ErrorCode.NONE
    assert (one.view(TP), one.partitions()) == (None, (OTHER,))
    one.close()
    again = hosts.open(1)
    assert again.delete(OTHER) is ErrorCode.NONE
    assert again.delete(OTHER) is ErrorCode.NONE
    assert again.partitions() == ()
    again.become_leader(TP, 0, (1,), {1})
    assert end(again) == 0
    again.close()


def test_a_restarted_host_has_its_lines_and_no_roles(hosts: Hosts) -> None:
    """And its incarnation; a lost one has another."""
    host = hosts.open(1)
    host.become_leader(TP, 0, (1, 2), {1})
    append(host, 0, b"a")
    incarnation = host.incarnation
    host.close()
    host.close()

    again = hosts.open(1)
    view = again.view(TP)
    assert view is not None
    assert (view.role, view.leader_epoch, view.log_end_offset, view.high_watermark) == (Role.NONE, -1, 1, 1)
    assert again.incarnation == incarnation
    again.close()
    hosts.lose(1)
    lost = hosts.open(1)
    assert lost.incarnation != incarnation
    assert lost.view(TP) is None
    lost.close()


@pytest.mark.parametrize("topic", ["..", "a/b", ""])
def test_a_topic_that_can_be_no_folder_is_refused(one: ReplicaHost, topic: str) -> None:
    """Whatever a peer names, nothing outside the folder is touched."""
    named = TopicPartition(topic, 0)

    assert one.become_leader(named, 0, (1,), {1}) is ErrorCode.KAFKA_STORAGE_ERROR
    assert one.become_follower(named, 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert one.delete(named) is ErrorCode.KAFKA_STORAGE_ERROR


def test_listeners_are_told_of_changes_only(one: ReplicaHost, two: ReplicaHost) -> None:
    """Of role, log end offset and high watermark."""
    changes, others = changes_of(one), changes_of(two)
    one.become_leader(TP, 0, (1, 2), {1, 2})
    assert changes() == 1
    append(one, 0, b"a")
    assert changes() == 2
    fetch(one, 0, replica=2, leader_epoch=0)
    fetch(one, 0)
    append(one, 3, b"a")
    one.view(TP)
    assert changes() == 2
    two.become_follower(TP, 0)
    assert replicate(one, two, TP)
    assert (changes(), others()) == (3, 3), "the high watermark; a role, a line, the high watermark"
    one.stop(TP)
    assert changes() == 4
