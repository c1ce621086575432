"""What a client knows of leaders, question by question."""

from __future__ import annotations

import itertools

from zkgroup.lines.leaders import BACKOFF_MAX_MS, BACKOFF_MS, Address, Leader, Leaders, addresses_of
from zkgroup.model import TopicPartition
from zkgroup.wire.control import BrokerEndPoint
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse, PartitionMetadata, TopicMetadata
from zkgroup.znodes.brokers import BrokerRegistration

TP = TopicPartition("orders", 0)
ONE, TWO = Address("h", 1), Address("h", 2)
BROKERS = (BrokerEndPoint(1, "h", 1), BrokerEndPoint(2, "h", 2))


def told(leader: int, error: int = 0) -> MetadataResponse:
    partitions = () if error else (PartitionMetadata(0, 0, leader, (1, 2), (1, 2)),)
    return MetadataResponse(BROKERS, (TopicMetadata(error, "orders", partitions),))


def asked(leaders: Leaders, now_ms: int) -> Address:
    question = leaders.question(now_ms)
    assert question is not None
    assert question[1] == MetadataRequest.of("orders")
    return question[0]


def knowing() -> Leaders:
    leaders = Leaders()
    leaders.register({1: ONE, 2: TWO})
    leaders.want(["orders"], 0)
    return leaders


def test_only_brokers_of_ours_host_lines() -> None:
    """Kafka's own, and those without a plain listener, cannot be asked."""
    ours = {"zkgroup": {"role": "data"}}
    registered = {
        1: BrokerRegistration("h", 1, 4, extensions=ours),
        2: BrokerRegistration("h", 2),
        3: BrokerRegistration(None, -1, 4, extensions=ours),
    }

    assert addresses_of(registered) == {1: ONE}


def test_a_leader_is_known_with_its_epoch_once_it_told_it() -> None:
    """One question at a time; the same answer again changes nothing."""
    leaders = knowing()
    asked(leaders, 0)
    assert (leaders.question(0), leaders.due_ms(), leaders.leader(TP)) == (None, None, None)
    leaders.answered(told(2), 1)
    assert leaders.leader(TP) == Leader(2, TWO, None)
    assert leaders.told_epoch(TP, 5, 2)
    leaders.doubt(TopicPartition("orders", 1), "other", 2)
    asked(leaders, 2 + BACKOFF_MS)
    leaders.answered(told(2), 3 + BACKOFF_MS)

    assert leaders.leader(TP) == Leader(2, TWO, 5)
    assert leaders.due_ms() is None


def test_brokers_take_turns_with_a_growing_pause() -> None:
    """One that is gone or behind does not decide; those that answers named are asked too."""
    leaders, now_ms, order, pauses = knowing(), 0, [], []
    for _ in range(14):
        order.append(asked(leaders, now_ms))
        leaders.unanswered("gone", now_ms)
        due_ms = leaders.due_ms()
        assert due_ms is not None
        pauses.append(due_ms - now_ms)
        now_ms = due_ms

    assert {*order} == {ONE, TWO}
    assert all(a != b for a, b in itertools.pairwise(order))
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (BACKOFF_MS, BACKOFF_MAX_MS)
    assert (leaders.lacks_brokers, leaders.trouble) == (True, "gone")


def test_a_doubted_leader_is_looked_for_again() -> None:
    """After a pause; until then nothing is known."""
    leaders = knowing()
    asked(leaders, 0)
    leaders.answered(told(1), 0)
    leaders.told_epoch(TP, 5, 0)
    leaders.doubt(TP, "it went", 10)

    assert (leaders.leader(TP), leaders.question(10)) == (None, None)
    asked(leaders, 10 + BACKOFF_MS)
    leaders.answered(told(1), 200)
    assert leaders.leader(TP) == Leader(1, ONE, None)


def test_a_leader_of_former_times_is_doubted() -> None:
    """Its epoch is below one that was seen; a topic that was made again starts anew."""
    leaders = knowing()
    asked(leaders, 0)
    leaders.answered(told(1), 0)
    assert leaders.told_epoch(TP, 5, 0)

    assert not leaders.told_epoch(TP, 4, 0)
    assert leaders.leader(TP) is None
    assert "of epoch 4, before epoch 5" in leaders.trouble

    asked(leaders, 1000)
    leaders.answered(told(-1, error=3), 1000)
    assert leaders.trouble == "topic orders: brokers do not know it"
    asked(leaders, 3000)
    leaders.answered(told(2), 3000)
    assert leaders.told_epoch(TP, 0, 3000)
    assert leaders.leader(TP) == Leader(2, TWO, 0)


def test_what_has_no_leader_is_asked_again() -> None:
    """With its reason; also where no broker can be asked."""
    leaders = knowing()
    asked(leaders, 0)
    leaders.answered(told(-1), 0)
    assert (leaders.leader(TP), leaders.trouble) == (None, "orders-0: it has no leader")
    assert leaders.due_ms() == BACKOFF_MS

    alone = Leaders()
    alone.want(["orders"], 0)
    assert (alone.question(0), alone.lacks_brokers) == (None, True)
    assert alone.trouble == "no zkgroup broker is registered in /brokers/ids"
    assert alone.due_ms() is not None


def test_an_answer_tells_whoever_asked_before_its_question() -> None:
    """Not who comes while it is under way: a topic can be made before the next question."""
    leaders = knowing()
    before = leaders.asked
    asked(leaders, 0)
    meanwhile = leaders.asked
    leaders.answered(told(0, error=3), 0)

    assert leaders.is_unknown(TP, before)
    assert not leaders.is_unknown(TP, meanwhile)
    leaders.look_again(0)
    asked(leaders, 0)
    leaders.answered(told(0, error=3), 0)
    assert leaders.is_unknown(TP, meanwhile)
