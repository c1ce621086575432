"""The numbered rules of replication, for every shipped storage.

1 leader epochs instead of truncation to the high watermark, 2 the high watermark, 3 who may join the ISR, 4
who may lead, 5 what a view shows.
"""

from __future__ import annotations

import dataclasses

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
    log_end_offset,
    pair,
    replicate,
    text_of,
    view,
    watermark,
)
from zkgroup.broker.replica_view import Follower, Role
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import NO_EPOCH_END, EpochEnd

OTHER = TopicPartition("orders", 1)


def test_rule_1_becoming_leader_appends_the_epoch_and_the_log_end_offset(
    hosts: Hosts, one: ReplicaManager
) -> None:
    """The entry of a leader epoch without records is removed once the next one begins."""
    one.become_leader(TP, 0, (1,), {1})
    append(one, 0, b"a", b"b")
    one.become_leader(TP, 3, (1,), {1})
    assert hosts.epochs(1) == ((0, 0), (3, 2))

    one.become_leader(TP, 4, (1,), {1})
    append(one, 4, b"c")

    assert hosts.epochs(1) == ((0, 0), (4, 2))


def test_rule_1_followers_do_not_cut_to_the_high_watermark(one: ReplicaManager, two: ReplicaManager) -> None:
    """Records above the high watermark stay through changes of role: the leader finds the diverging ones."""
    pair(one, two)
    append(one, 0, b"a", b"b")
    two.take(TP, *answered(one, two))
    assert (end(two), watermark(two)) == (2, 0)

    two.become_follower(TP, 1)
    two.stop(TP)
    two.become_follower(TP, 2)

    assert end(two) == 2


def test_rule_1_a_leader_that_lacks_the_epoch_answers_diverging(one: ReplicaManager) -> None:
    """The latest epoch that both can have, and where it ends on the leader."""
    one.become_leader(TP, 0, (1, 2), {1})
    append(one, 0, b"a", b"b")
    one.become_leader(TP, 3, (1, 2), {1})
    append(one, 3, b"c")

    response = fetch(one, 5, replica=2, leader_epoch=3, last_fetched_epoch=2)

    assert response.diverging == EpochEnd(0, 2)
    assert (response.error, response.records) == (ErrorCode.NONE, b"")
    assert view(one).followers[2].log_end_offset is None


def test_rule_1_a_leader_whose_end_of_the_epoch_is_below_answers_diverging(one: ReplicaManager) -> None:
    """At the end of the epoch the follower is right, one record further it is not."""
    one.become_leader(TP, 0, (1, 2), {1})
    append(one, 0, b"a", b"b")
    one.become_leader(TP, 3, (1, 2), {1})
    append(one, 3, b"c")

    at_the_end = fetch(one, 2, replica=2, leader_epoch=3, last_fetched_epoch=0)
    further = fetch(one, 3, replica=2, leader_epoch=3, last_fetched_epoch=0)

    assert (at_the_end.diverging, text_of(at_the_end)) == (NO_EPOCH_END, b"c\n")
    assert further.diverging == EpochEnd(0, 2)


def test_rule_1_a_follower_cuts_to_the_smaller_end_and_asks_again(
    hosts: Hosts, one: ReplicaManager, two: ReplicaManager
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

    request, response = answered(one, two)
    assert (request.last_fetched_epoch, request.offset, response.diverging) == (1, 4, EpochEnd(0, 3))
    assert two.take(TP, request, response)
    assert end(two) == 1
    assert replicate(one, two, TP)

    assert hosts.epochs(2) == ((0, 0),)
    assert end(two) == 3


def test_rule_1_a_term_without_records_does_not_keep_older_records_away(
    hosts: Hosts, one: ReplicaManager, two: ReplicaManager
) -> None:
    """A leader that appended no record takes records of the epoch before from the next leader."""
    pair(one, two)
    append(one, 0, b"a")
    assert replicate(one, two, TP)
    append(one, 0, b"b")
    two.become_leader(TP, 1, (1, 2), {2})
    one.become_leader(TP, 2, (1, 2), {1})
    two.become_follower(TP, 2)

    assert replicate(one, two, TP)

    assert hosts.records(2) == [b"a", b"b"]
    assert hosts.epochs(2) == ((0, 0),)


def test_rule_1_a_term_that_agreed_before_cannot_diverge(one: ReplicaManager, two: ReplicaManager) -> None:
    """A leader without records that it sent in the same epoch has lost them; its follower keeps them."""
    pair(one, two)
    append(one, 0, b"a")
    assert replicate(one, two, TP)
    request = asked(two)

    again = two.take(TP, request, fetched(0, 0, 0, diverging=EpochEnd(-1, 0)))

    assert not again
    assert end(two) == 1
    assert "has lost records" in (view(two).failure or "")


def test_rule_1_a_leader_that_is_behind_its_own_term_gives_up(hosts: Hosts, two: ReplicaManager) -> None:
    """Its directory was lost in leader epoch 0, which only a follower can show; it does not lead again so."""
    first = hosts.open(1)
    pair(first, two)
    append(first, 0, b"a")
    assert replicate(first, two, TP)
    first.close()
    hosts.lose(1)
    emptied = hosts.open(1)
    failures: list[str] = []
    emptied.listen_to_failures(lambda _, why: failures.append(why))
    assert emptied.become_leader(TP, 0, (1, 2), {1, 2}) is ErrorCode.NONE

    response = fetch(emptied, 1, replica=2, leader_epoch=0, last_fetched_epoch=0)

    assert failures == [
        "records are lost: broker 2 has 1 of them from this leader in epoch 0, and 0 are left"
    ]
    assert response.error == ErrorCode.NOT_LEADER_FOR_PARTITION
    assert append(emptied, 0, b"x").error == ErrorCode.NOT_LEADER_FOR_PARTITION
    assert emptied.become_leader(TP, 1, (1, 2), {1, 2}) is ErrorCode.KAFKA_STORAGE_ERROR
    emptied.close()


def test_rule_1_a_replica_that_was_never_waited_for_ends_no_leader(one: ReplicaManager) -> None:
    """Its records can be of a deleted topic of that name; this leader has acknowledged none of them."""
    assert one.become_leader(TP, 0, (1, 2, 3), {1, 3}) is ErrorCode.NONE
    append(one, 0, b"a")

    ahead = fetch(one, 5, replica=2, leader_epoch=0, last_fetched_epoch=0)
    assert ahead.error == ErrorCode.STALE_BROKER_EPOCH
    assert append(one, 0, b"b").error == ErrorCode.NONE
    assert fetch(one, 2, replica=3, leader_epoch=0, last_fetched_epoch=0).high_watermark == 2


def test_rule_2_the_high_watermark_is_the_smallest_end_of_the_isr(one: ReplicaManager) -> None:
    """Of the leader too; a replica outside does not count."""
    one.become_leader(TP, 0, (1, 2, 3, 4), {1, 2, 3})
    append(one, 0, b"a")
    append(one, 0, b"b")
    append(one, 0, b"c")

    fetch(one, 2, replica=2, leader_epoch=0, last_fetched_epoch=0)
    assert watermark(one) == 0, "broker 3 has not been heard"
    fetch(one, 1, replica=3, leader_epoch=0, last_fetched_epoch=0)

    assert watermark(one) == 1


def test_rule_2_every_isr_that_is_proposed_counts(one: ReplicaManager) -> None:
    """`set_isr` gets the union; the high watermark does not wait for a broker that has left it."""
    one.become_leader(TP, 0, (1, 2), {1})
    append(one, 0, b"a")
    assert watermark(one) == 1
    fetch(one, 1, replica=2, leader_epoch=0, last_fetched_epoch=0)

    one.set_isr(TP, 0, {1, 2})
    append(one, 0, b"b")
    assert watermark(one) == 1
    one.set_isr(TP, 0, {1})

    assert watermark(one) == 2


def test_rule_2_the_high_watermark_never_falls_within_a_term(one: ReplicaManager) -> None:
    """Neither for a member that lags nor for one that has not fetched."""
    one.become_leader(TP, 0, (1, 2, 3), {1})
    append(one, 0, b"a")
    fetch(one, 0, replica=2, leader_epoch=0)

    one.set_isr(TP, 0, {1, 2, 3})

    assert watermark(one) == 1


def test_rule_2_consumers_read_below_the_high_watermark(one: ReplicaManager) -> None:
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


def test_rule_2_a_follower_learns_the_high_watermark(one: ReplicaManager, two: ReplicaManager) -> None:
    """Up to the end of its own log, and for the next leader epoch."""
    pair(one, two)
    append(one, 0, b"a")
    assert replicate(one, two, TP)

    assert (watermark(one), watermark(two)) == (1, 1)
    assert two.become_leader(TP, 1, (1, 2), {1, 2}) is ErrorCode.NONE
    assert watermark(two) == 1


def test_rule_2_what_a_follower_has_learnt_does_not_fall(one: ReplicaManager, two: ReplicaManager) -> None:
    """A newly elected leader may not know yet which records its predecessor acknowledged."""
    pair(one, two)
    append(one, 0, b"a")
    append(one, 0, b"b")
    assert replicate(one, two, TP)
    assert watermark(two) == 2
    request, response = answered(one, two)
    two.take(TP, request, dataclasses.replace(response, high_watermark=1))

    assert watermark(two) == 2


def test_rule_3_a_follower_joins_at_the_high_watermark_and_at_the_start_of_the_term(
    one: ReplicaManager,
) -> None:
    """Records of earlier epochs above the high watermark may have been acknowledged, so it needs them too."""
    one.become_leader(TP, 0, (1, 2, 3), {1, 2})
    append(one, 0, b"a")
    append(one, 0, b"b")
    one.become_leader(TP, 1, (1, 2, 3), {1, 2})
    assert not caught_up(one, TP, 3), "not heard in this term"

    fetch(one, 1, replica=3, leader_epoch=1, last_fetched_epoch=0)
    assert watermark(one) == 0
    fetch(one, 1, replica=3, leader_epoch=1, last_fetched_epoch=0)
    assert not caught_up(one, TP, 3), "below the start of the term"
    fetch(one, 2, replica=3, leader_epoch=1, last_fetched_epoch=0)
    assert caught_up(one, TP, 3)

    fetch(one, 2, replica=2, leader_epoch=1, last_fetched_epoch=0)
    append(one, 1, b"c")
    fetch(one, 3, replica=2, leader_epoch=1, last_fetched_epoch=1)
    assert not caught_up(one, TP, 3), "below the high watermark"


def test_rule_3_a_follower_joins_after_an_answer(one: ReplicaManager) -> None:
    """It must know that it is level: an emptied replica would join the ISR and refuse to lead."""
    one.become_leader(TP, 0, (1, 2), {1})
    append(one, 0, b"a")

    fetch(one, 1, replica=2, leader_epoch=0, last_fetched_epoch=0)
    assert not caught_up(one, TP, 2), "it has not been told where the log ends"
    fetch(one, 1, replica=2, leader_epoch=0, last_fetched_epoch=0, held=True)
    assert not caught_up(one, TP, 2), "the answer has been held back, so it still does not know"
    append(one, 0, b"b")
    one.set_isr(TP, 0, {1})
    fetch(one, 1, replica=2, leader_epoch=0, last_fetched_epoch=0)
    assert not caught_up(one, TP, 2), "below the high watermark"
    fetch(one, 2, replica=2, leader_epoch=0, last_fetched_epoch=0)

    assert caught_up(one, TP, 2)


def test_rule_3_one_late_fetch_of_a_former_incarnation_adds_no_broker_to_the_isr(one: ReplicaManager) -> None:
    """ADR 0024: it may arrive when its broker is back and empty, and has not fetched from this leader yet.

    Its records were of another topic, with the same offsets and leader epoch as this one. It is one
    fetch: it was not sent the log end offset before. The new incarnation begins at 0, and joins by its own
    fetches alone.
    """
    one.become_leader(TP, 0, (1, 2), {1})
    append(one, 0, b"a")
    append(one, 0, b"b")

    fetch(one, 2, replica=2, leader_epoch=0, last_fetched_epoch=0, broker_epoch=5)
    assert not caught_up(one, TP, 2)
    assert watermark(one) == 2
    fetch(one, 0, replica=2, leader_epoch=0, broker_epoch=9)
    assert not caught_up(one, TP, 2)
    late = fetch(one, 2, replica=2, leader_epoch=0, last_fetched_epoch=0, broker_epoch=5)
    assert late.error == ErrorCode.STALE_BROKER_EPOCH
    assert not caught_up(one, TP, 2)
    fetch(one, 2, replica=2, leader_epoch=0, last_fetched_epoch=0, broker_epoch=9)
    assert caught_up(one, TP, 2)


def test_rule_3_an_isr_member_below_the_high_watermark_has_lost_its_records(one: ReplicaManager) -> None:
    """It gets none before it is out of the ISR: with some of them it could be elected."""
    one.become_leader(TP, 0, (1, 2), {1, 2})
    append(one, 0, b"a")
    append(one, 0, b"b")
    fetch(one, 2, replica=2, leader_epoch=0, last_fetched_epoch=0, broker_epoch=5)

    response = fetch(one, 0, replica=2, leader_epoch=0, broker_epoch=6)
    assert (response.error, response.records, response.high_watermark) == (ErrorCode.NONE, b"", 2)
    assert view(one).followers == {2: Follower(log_end_offset=0, caught_up=False, lost=True)}
    one.set_isr(TP, 0, {1})

    assert text_of(fetch(one, 0, replica=2, leader_epoch=0, broker_epoch=6)) == b"a\nb\n"
    assert view(one).followers == {2: Follower(log_end_offset=0, caught_up=False, lost=False)}


def test_rule_4_leading_without_data_is_an_error_but_in_the_first_term(one: ReplicaManager) -> None:
    """56: the controller takes such a replica for offline."""
    assert one.become_leader(TP, 1, (1, 2), {1, 2}) is ErrorCode.KAFKA_STORAGE_ERROR
    assert one.become_leader(OTHER, 0, (1, 2), {1, 2}) is ErrorCode.NONE

    assert (view(one).role, view(one).log_end_offset) == (Role.NONE, 0)
    assert view(one).failure == "cannot lead in epoch 1: there is nothing of it here"
    assert append(one, 1, b"a").error == fetch(one, 0).error == ErrorCode.NOT_LEADER_FOR_PARTITION
    assert one.partitions() == (OTHER,)


def test_rule_4_an_empty_partition_of_the_first_term_can_be_led_later(one: ReplicaManager) -> None:
    """Nothing can be missing in a replica that was there from the beginning."""
    one.become_follower(TP, 0)

    assert one.become_leader(TP, 1, (1, 2), {1, 2}) is ErrorCode.NONE


def test_rule_4_a_folder_that_was_emptied_does_not_lead_before_it_was_level(
    hosts: Hosts, one: ReplicaManager
) -> None:
    """Not with no record, not with some, and after a restart no more; then it does."""
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
    hosts: Hosts, one: ReplicaManager
) -> None:
    """A new leader may have a lower high watermark than the last: it does not bound acknowledged records."""
    one.become_follower(TP, 0)
    records = b"".join(
        records_of([value], timestamp_ms=1, base_offset=offset, leader_epoch=0)
        for offset, value in enumerate((b"a", b"b"))
    )
    one.take(TP, asked(one), fetched(0, 0, 2, records=records))
    one.become_leader(TP, 1, (1, 2), {1, 2})
    assert (end(one), watermark(one)) == (2, 0)
    emptied = hosts.open(2)
    emptied.become_follower(TP, 1)
    assert replicate(one, emptied, TP, until=1)
    assert (end(emptied), watermark(one)) == (1, 1)

    assert emptied.become_leader(TP, 2, (1, 2), {1, 2}) is ErrorCode.KAFKA_STORAGE_ERROR
    emptied.close()


def test_rule_5_log_end_offset_and_high_watermark_of_every_replica(
    one: ReplicaManager, two: ReplicaManager
) -> None:
    """The leader's view holds those of its followers; a partition that is not here has none."""
    one.become_leader(TP, 0, (1, 2, 3), {1, 2})
    two.become_follower(TP, 0)
    append(one, 0, b"a")
    assert replicate(one, two, TP)
    append(one, 0, b"b")

    leader, follower = view(one), view(two)
    assert (leader.role, leader.leader_epoch, leader.leader_epoch_start) == (Role.LEADER, 0, 0)
    assert (leader.log_end_offset, leader.high_watermark, leader.failure) == (2, 1, None)
    assert leader.followers == {2: Follower(1, caught_up=True, lost=False), 3: Follower(None, False, False)}
    assert (follower.role, follower.log_end_offset, follower.high_watermark) == (Role.FOLLOWER, 1, 1)
    assert one.view(OTHER) is log_end_offset(one, OTHER) is one.high_watermark(OTHER) is None
    assert not caught_up(one, OTHER, 2)


def test_rule_5_an_observer_gets_the_log_end_of_any_replica(one: ReplicaManager, two: ReplicaManager) -> None:
    """Leader, follower or stopped; an observer gets no records and does not count as a replica."""
    pair(one, two)
    append(one, 0, b"a", b"b")
    two.take(TP, *answered(one, two))
    append(one, 0, b"c")
    before = view(one).followers

    told = [host.offsets(TP) for host in (one, two)]
    two.stop(TP)
    stopped = two.offsets(TP)

    ends = [(each.error, each.log_end_offset, each.high_watermark) for each in (*told, stopped)]
    assert ends == [(0, 3, 0), (0, 2, 0), (0, 2, 0)]
    assert all(not each.records for each in (*told, stopped))
    assert view(one).followers == before
