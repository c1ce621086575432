"""The contract of `ReplicaManager`, for every shipped storage; its numbered rules have their own file."""

from __future__ import annotations

import pytest

from tests.worlds.batches import batches_in, records_of
from tests.worlds.replica_managers import (
    TP,
    Hosts,
    append,
    asked,
    changes_of,
    end,
    fetch,
    fetched,
    replicate,
    text_of,
    view,
    watermark,
)
from zkgroup.broker.replica_view import Role
from zkgroup.broker.replicas import replica
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.errors import IllegalTransitionError
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import NO_EPOCH_END, EpochEnd, FetchPartition
from zkgroup.wire.schema import Buffer

OTHER = TopicPartition("orders", 1)


def test_append_says_where_the_records_are(one: ReplicaManager) -> None:
    """Base offset and high watermark; any bytes but newlines are records, empty ones too."""
    one.become_leader(TP, 0, (1,), {1})

    first = append(one, 0, b"", b"\xff\x00\r")
    second = append(one, 0, b"c")

    assert (first.error, first.base_offset, first.high_watermark) == (0, 0, 2)
    assert (second.error, second.base_offset, second.high_watermark) == (0, 2, 3)
    assert text_of(fetch(one, 0)) == b"\n\xff\x00\r\nc\n"


def test_a_leader_keeps_records_by_their_epoch(one: ReplicaManager, two: ReplicaManager) -> None:
    """Through its own later leader epochs; not as a follower, and not if other records have their offsets."""
    one.become_leader(TP, 0, (1, 2), {1, 2})
    two.become_follower(TP, 0)
    append(one, 0, b"a")
    assert one.keeps(TP, 0, 1)
    assert not one.keeps(TP, 0, 2)
    assert not two.keeps(TP, 0, 1)
    assert not one.keeps(OTHER, 0, 1)
    one.become_leader(TP, 1, (1, 2), {1})
    assert one.keeps(TP, 0, 1)

    two.become_leader(TP, 2, (1, 2), {2})
    append(two, 2, b"other")
    one.become_follower(TP, 2)
    assert not one.keeps(TP, 0, 1)
    replicate(two, one, TP)
    one.become_leader(TP, 3, (1, 2), {1, 2})
    assert one.keeps(TP, 2, 1)
    assert not one.keeps(TP, 0, 1)


def test_requests_of_other_terms_and_to_others_are_refused(one: ReplicaManager, two: ReplicaManager) -> None:
    """3 unknown, 6 not the leader, 74 an earlier leader epoch, 75 a later one; a client may send none."""
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
        assert append(one, leader_epoch, b"a").error == (error if leader_epoch >= 0 else ErrorCode.NONE)
        assert fetch(one, 0, replica=2, leader_epoch=leader_epoch).error == error
    assert fetch(one, 0, leader_epoch=3).error == ErrorCode.FENCED_LEADER_EPOCH
    assert fetch(one, 0, leader_epoch=-1).error == ErrorCode.NONE
    assert fetch(one, 0, replica=3, leader_epoch=4).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    one.stop(TP)
    assert append(one, 4, b"a").error == fetch(one, 0).error == ErrorCode.NOT_LEADER_FOR_PARTITION


def test_a_former_incarnation_of_a_follower_is_refused(one: ReplicaManager) -> None:
    """77, also where the newer one was seen in another partition."""
    one.become_leader(TP, 0, (1, 2), {1})
    append(one, 0, b"a")
    assert fetch(one, 0, replica=2, leader_epoch=0, broker_epoch=7).error == ErrorCode.NONE

    stale = fetch(one, 1, replica=2, leader_epoch=0, last_fetched_epoch=0, broker_epoch=6)

    assert stale.error == ErrorCode.STALE_BROKER_EPOCH
    assert view(one).followers[2].log_end_offset == 0


def test_fetch_gives_whole_batches_up_to_max_bytes_and_at_least_one(one: ReplicaManager) -> None:
    """As they were appended, with their checksums; each counts with its header."""
    one.become_leader(TP, 0, (1,), {1})
    append(one, 0, b"a" * 9)
    append(one, 0, b"b" * 9)
    append(one, 0, b"c" * 9)

    second = records_of([b"b" * 9], timestamp_ms=1, base_offset=1, leader_epoch=0)
    two, three = (number * len(second) for number in (2, 3))
    sizes = (0, 1, two - 1, two, three - 1, three)
    assert [len(fetch(one, 0, max_bytes=size).records or b"") // len(second) for size in sizes] == [
        1,
        1,
        1,
        2,
        2,
        3,
    ]
    assert fetch(one, 1, max_bytes=1).records == second


def test_an_answer_has_a_bound_whatever_is_asked_for(
    one: ReplicaManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that asks for everything gets a part of it, and a batch that is larger than that alone."""
    monkeypatch.setattr(replica, "FETCH_BYTES_MAX", 2 * len(records_of([b"a" * 9], timestamp_ms=1)))
    one.become_leader(TP, 0, (1, 2), {1})
    for value in (b"a" * 9, b"b" * 9, b"c" * 500):
        append(one, 0, value)

    def count(records: Buffer | None) -> int:
        return len(list(batches_in(records or b"")))

    assert [count(fetch(one, offset).records) for offset in (0, 2)] == [2, 1]
    assert count(fetch(one, 0, replica=2, leader_epoch=0).records) == 2


def test_a_consumer_that_names_its_epoch_is_answered_with_what_diverges(one: ReplicaManager) -> None:
    """It read records that an unclean election has taken back."""
    one.become_leader(TP, 0, (1,), {1})
    append(one, 0, b"a")
    one.become_leader(TP, 2, (1,), {1})

    assert fetch(one, 3, last_fetched_epoch=1).diverging == EpochEnd(0, 1)
    assert fetch(one, 1, last_fetched_epoch=0).diverging == NO_EPOCH_END
    for offset in (0, 1):
        later = fetch(one, offset, last_fetched_epoch=7)
        assert (later.error, later.diverging) == (ErrorCode.OFFSET_OUT_OF_RANGE, NO_EPOCH_END)


def test_a_follower_says_where_it_is(two: ReplicaManager) -> None:
    """Who leads or has no role asks for nothing."""
    two.become_follower(TP, 3)
    expected = FetchPartition(TP.partition, 0, 100, current_leader_epoch=3, log_start_offset=0)
    assert asked(two) == expected

    two.stop(TP)

    assert two.next_fetch(TP, 100) is None
    assert two.next_fetch(OTHER, 100) is None


GOOD = records_of([b"a"], timestamp_ms=1, base_offset=0, leader_epoch=0)
DAMAGED = GOOD[:-1] + bytes([GOOD[-1] ^ 1])


@pytest.mark.parametrize(
    "records",
    [
        DAMAGED,
        records_of([b"a"], timestamp_ms=1, base_offset=1, leader_epoch=0),
        records_of([b"a"], timestamp_ms=1, base_offset=0, leader_epoch=4),
        GOOD[:-1],
    ],
    ids=["checksum", "gap", "later term", "cut short"],
)
def test_a_follower_takes_no_damaged_batch(two: ReplicaManager, records: bytes) -> None:
    """Nor one with a gap; it fetches again later, with the reason as its failure."""
    two.become_follower(TP, 3)

    assert not two.take(TP, asked(two), fetched(0, 0, 1, records=records))
    assert end(two) == 0
    assert "the leader's batch" in (view(two).failure or "")


def test_a_follower_keeps_what_was_sound_before_a_damaged_batch(two: ReplicaManager) -> None:
    """And forgets the trouble with the next good answer."""
    bad = DAMAGED[:7] + b"\1" + DAMAGED[8:]
    two.become_follower(TP, 3)

    assert not two.take(TP, asked(two), fetched(0, 0, 2, records=GOOD + bad))
    assert end(two) == 1
    assert two.take(TP, asked(two), fetched(0, 0, 1))
    assert view(two).failure is None


def test_an_answer_to_another_question_changes_nothing(two: ReplicaManager) -> None:
    """Of an earlier leader epoch, of an earlier offset, or after the role has ended."""
    good = fetched(0, 1, 1, records=GOOD)
    two.become_follower(TP, 3)
    old_term = asked(two)
    two.become_follower(TP, 4)
    assert two.take(TP, old_term, good)
    assert end(two) == 0

    request = asked(two)
    assert two.take(TP, request, good)
    assert two.take(TP, request, good)
    assert end(two) == 1
    two.stop(TP)
    assert two.take(TP, request, good)
    assert end(two) == 1


def test_a_follower_waits_after_an_error(two: ReplicaManager) -> None:
    """Not after an answer without records that the leader has: they did not fit, or the leader holds the next
    fetch."""
    two.become_follower(TP, 3)

    assert not two.take(TP, asked(two), fetched(ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1))
    assert two.take(TP, asked(two), fetched(0, 2, 2))


def test_an_answer_for_a_former_replica_of_that_name_changes_nothing(two: ReplicaManager) -> None:
    """The topic was deleted and created again; leader epoch and offset are equal."""
    two.become_follower(TP, 0)
    request = asked(two)
    two.delete(TP)
    two.become_follower(TP, 0)

    assert two.take(TP, request, fetched(0, 1, 1, records=GOOD))
    assert end(two) == 0
    assert two.take(TP, asked(two), fetched(0, 1, 1, records=GOOD))
    assert end(two) == 1


def test_the_same_term_again_takes_replicas_and_isr_over(one: ReplicaManager) -> None:
    """The followers' progress is kept then, and reset in a new leader epoch."""
    one.become_leader(TP, 0, (1, 2), {1, 2})
    append(one, 0, b"a")
    fetch(one, 1, replica=2, leader_epoch=0, last_fetched_epoch=0)

    one.become_leader(TP, 0, (1, 2, 3), {1})
    assert {b: f.log_end_offset for b, f in view(one).followers.items()} == {2: 1, 3: None}
    one.become_leader(TP, 1, (1, 2, 3), {1})
    assert {b: f.log_end_offset for b, f in view(one).followers.items()} == {2: None, 3: None}


def test_set_isr_of_another_term_has_no_effect(one: ReplicaManager) -> None:
    """It is late, or early; and for who does not lead it means nothing."""
    one.become_leader(TP, 0, (1, 2), {1, 2})
    append(one, 0, b"a")

    one.set_isr(TP, 1, {1})
    one.set_isr(OTHER, 0, {1})

    assert watermark(one) == 0


def test_other_replicas_change_nothing_of_those_that_stay_and_are_counted(one: ReplicaManager) -> None:
    """In one leader epoch: 2 is known, 3 is new, and the high watermark waits for the same replicas."""
    one.become_leader(TP, 0, (1, 2), {1, 2})
    append(one, 0, b"a")
    fetch(one, 0, replica=2, leader_epoch=0)

    one.set_replicas(TP, 1, (1,))
    one.set_replicas(OTHER, 0, (1,))
    one.set_replicas(TP, 0, (1, 2, 3))

    assert {b: f.log_end_offset for b, f in view(one).followers.items()} == {2: 0, 3: None}
    assert watermark(one) == 0
    fetch(one, 1, replica=2, leader_epoch=0, last_fetched_epoch=0)
    assert watermark(one) == 1


def test_an_older_term_or_two_roles_in_one_are_the_callers_mistake(one: ReplicaManager) -> None:
    """The receiver refuses them before."""
    one.become_follower(TP, 3)

    with pytest.raises(
        IllegalTransitionError, match="orders-0: follower in epoch 2, after follower in epoch 3"
    ):
        one.become_follower(TP, 2)
    with pytest.raises(IllegalTransitionError, match="leader in epoch 3"):
        one.become_leader(TP, 3, (1,), {1})


def test_records_of_a_later_term_make_a_replica_useless(hosts: Hosts) -> None:
    """They are from another life of a topic of that name, and no answer would cut them away."""
    former = hosts.open(1)
    former.become_leader(TP, 0, (1,), {1})
    former.become_leader(TP, 7, (1,), {1})
    append(former, 7, b"a")
    former.close()
    host = hosts.open(1)

    assert host.become_leader(TP, 0, (1,), {1}) is ErrorCode.KAFKA_STORAGE_ERROR
    assert host.become_follower(TP, 1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert view(host).failure == "cannot follow in epoch 1: its records are from epoch 7"
    host.close()


def test_a_stopped_replica_keeps_its_records_and_a_deleted_one_does_not(
    hosts: Hosts, one: ReplicaManager
) -> None:
    """A deletion works for an unopened partition, and for an unknown one."""
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


def test_a_restarted_host_has_its_records_and_no_roles(hosts: Hosts) -> None:
    """Records that are lost are missing."""
    host = hosts.open(1)
    host.become_leader(TP, 0, (1, 2), {1})
    append(host, 0, b"a")
    host.close()
    host.close()

    again = hosts.open(1)
    seen = view(again)
    assert (seen.role, seen.leader_epoch, seen.log_end_offset, seen.high_watermark) == (Role.NONE, -1, 1, 1)
    again.close()
    hosts.lose(1)
    lost = hosts.open(1)
    assert lost.view(TP) is None
    lost.close()


@pytest.mark.parametrize("topic", ["..", "a/b", ""])
def test_a_topic_that_can_be_no_folder_is_refused(one: ReplicaManager, topic: str) -> None:
    """Whatever a peer names, nothing outside the folder is touched."""
    named = TopicPartition(topic, 0)

    assert one.become_leader(named, 0, (1,), {1}) is ErrorCode.KAFKA_STORAGE_ERROR
    assert one.become_follower(named, 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert one.delete(named) is ErrorCode.KAFKA_STORAGE_ERROR


def test_listeners_are_called_for_changes_only(one: ReplicaManager, two: ReplicaManager) -> None:
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
