"""What is known, by topic and by broker, and what it costs."""

from __future__ import annotations

import random
import tracemalloc

from tests.worlds.controller_clusters import broker, cluster, leadership, tp
from zkgroup.controller.machine.context import BrokerChange, ControllerContext, LeaderIsrAndControllerEpoch
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import PartitionState, Topic

BYTES_MAX = 1_000
"""Of a partition: a controller with 100,000 may take 600 MB in all."""


def test_partitions_are_found_by_topic_and_by_broker() -> None:
    """By replica list and by leader, in order."""
    context = cluster({"b": {0: (1, 2), 1: (2, 3)}, "a": {7: (3, 1)}})

    assert list(context.partitions()) == [tp(7, "a"), tp(0, "b"), tp(1, "b")]
    assert list(context.partitions("b")) == [tp(0, "b"), tp(1, "b")]
    assert list(context.partitions("c")) == []
    assert list(context.on_broker(1)) == [tp(7, "a"), tp(0, "b")]
    assert list(context.led_by(2)) == [tp(1, "b")]
    assert (context.replicas(tp(7, "a")), context.replicas(tp(8, "a"))) == ((3, 1), ())


def test_a_leader_beside_the_replica_list_is_found() -> None:
    """A tool that wrote an old replica map leaves such: its death has to be noticed."""
    context = cluster({"t": {0: (1, 2)}}, leaders={tp(0): 3})

    assert list(context.led_by(3)) == [tp(0)]


def test_indices_follow_every_change() -> None:
    """Against a search through everything, after many changes of lists, leaders and topics."""
    rng = random.Random(7)
    context = cluster({}, (1, 2, 3, 4))
    for version in range(400):
        name = rng.choice("xyz")
        if rng.random() < 0.1:
            context.forget_topic(name)
            continue
        lists = {n: tuple(rng.sample(range(1, 5), 2)) for n in range(rng.randrange(1, 5))}
        context.topic_seen(name, Topic(lists), version)
        for number in rng.sample(range(6), 2):
            context.state_seen(
                tp(number, name), leadership(rng.choice([-1, 1, 2, 3, 4]), (1,), version=version)
            )
        if rng.random() < 0.1:
            context.state_seen(tp(0, name), None)

    everything = list(context.partitions())
    leaders = {each: found.leader for each in everything if (found := context.leadership(each))}
    assert len(leaders) > 3
    for id_ in range(-1, 5):
        assert list(context.on_broker(id_)) == [each for each in everything if id_ in context.replicas(each)]
        led = [each for each in everything if leaders.get(each) == id_] if id_ >= 0 else []
        assert list(context.led_by(id_)) == led


def test_new_partitions_of_a_topic_are_sent() -> None:
    """Of a new topic all, of a known one those that it has grown by; a known topic keeps its states."""
    context = cluster({"t": {0: (1, 2)}})

    assert context.topic_seen("t", Topic({0: (2, 1), 1: (1,)}), 5) == (1,)
    assert context.topic_seen("u", Topic({1: (1,), 0: (2,)}), 0) == (0, 1)

    seen = context.topic("t")
    assert seen is not None
    assert (seen.version, context.leadership(tp(0))) == (5, leadership(1, (1, 2)))


def test_what_a_topic_says_beyond_its_partitions_is_kept() -> None:
    """Its id, the keys of a move, and unknown keys are there for the next rewrite."""
    topic = Topic({0: (1, 2)}, 3, {0: (2,)}, {}, "A" * 22, {"later": 1})
    context = ControllerContext()
    context.topic_seen("t", topic, 0)

    seen = context.topic("t")

    assert seen is not None
    assert seen.topic == topic


def test_a_forgotten_topic_leaves_nothing() -> None:
    """Neither its states nor its moves, nor why its deletion waited."""
    context = cluster({"t": {0: (1, 2)}})
    context.moves.add(tp(0))
    context.replica_offline(tp(0), 2)
    context.ineligible["t"] = "broker 3 is down"

    context.forget_topic("t")
    context.forget_topic("t")

    assert (list(context.on_broker(1)), list(context.led_by(1)), list(context.partitions())) == ([], [], [])
    assert (context.moves, context.offline_replicas, context.ineligible, list(context.topics)) == (
        set(),
        {},
        {},
        [],
    )


def test_an_older_answer_does_not_overwrite_a_newer_one() -> None:
    """Reads and writes are under way together."""
    context = cluster({"t": {0: (1, 2)}})
    newer = leadership(2, (2,), leader_epoch=3, version=8)

    context.state_seen(tp(0), newer)
    context.state_seen(tp(0), leadership(1, (1, 2), version=7))
    context.state_seen(tp(9), newer)

    assert (context.leadership(tp(0)), context.leadership(tp(9))) == (newer, None)


def test_a_state_without_leader_and_isr_is_known() -> None:
    """It is as good a state as any; it has no leader."""
    context = cluster({"t": {0: (1, 2)}})

    context.state_seen(tp(0), LeaderIsrAndControllerEpoch(PartitionState(-1, 4, (), 1), 9))

    assert (context.leadership(tp(0)), list(context.led_by(-1))) == (leadership(-1, (), 4, 9), [])


def test_a_bounced_broker_is_seen_by_its_epoch() -> None:
    """The same id with another czxid: what its former incarnation said and got is forgotten (K7)."""
    context = cluster({"t": {0: (1, 2, 3)}})
    context.shutting_down = {1, 2, 3}
    context.first_request_sent = {1: 1, 2: 1, 3: 1}
    for id_ in (1, 2, 3):
        context.replica_offline(tp(0), id_)

    change = context.set_brokers({1: broker(1), 2: broker(2, epoch=9), 4: broker(4)})

    assert change == BrokerChange(frozenset({4}), frozenset({3}))
    assert (context.shutting_down, context.first_request_sent, context.offline_replicas) == (
        {1},
        {1: 1},
        {tp(0): {1}},
    )


def test_only_brokers_that_host_partitions_get_requests_and_are_elected() -> None:
    """Not a controller that hosts nothing (recipes 14), nor ids below 0; those that stop only get
    requests."""
    context = ControllerContext()
    context.set_brokers({1: broker(1), 2: broker(2), 3: broker(3, role="controller"), -1: broker(-1)})
    context.shutting_down = {2}

    assert (context.live_or_shutting_down, context.live) == ({1, 2}, {1})


def test_a_replica_that_cannot_serve_is_not_elected() -> None:
    """Of this partition, until its broker is another incarnation or it is in sync again."""
    context = cluster({"t": {0: (1, 2), 1: (1, 2)}})
    context.replica_offline(tp(0), 1)

    assert context.with_online_replica(tp(0), context.live) == {2, 3}
    assert context.with_online_replica(tp(1), context.live) == {1, 2, 3}
    context.replica_online(tp(0), 1)
    assert context.with_online_replica(tp(0), context.live) == {1, 2, 3}


def test_the_parts_of_a_deletion_are_distinguished() -> None:
    """Every partition of a topic that is queued."""
    context = cluster({"t": {0: (1, 2)}, "u": {0: (1, 2)}})
    context.deletions.add("t")

    assert [context.is_going(each) for each in context.partitions()] == [True, False]


def test_a_partition_costs_little() -> None:
    """Read from the bytes of znodes, as at a failover; a few large topics, and many small ones."""
    for topics, partitions in ((3, 1_000), (60, 50)):
        tracemalloc.start()
        try:
            context = context_of(topics, partitions, brokers=50)
            size, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert sum(1 for _ in context.partitions()) == 3_000
        assert size / 3_000 < BYTES_MAX


def context_of(topics: int, partitions: int, brokers: int) -> ControllerContext:
    """Three replicas each, decoded from bytes as they come from ZooKeeper."""
    context = ControllerContext()
    context.set_brokers({id_: broker(id_) for id_ in range(brokers)})
    for number in range(topics):
        name = f"topic-{number:05}"
        lists = {p: tuple((p + number + j) % brokers for j in range(3)) for p in range(partitions)}
        context.topic_seen(name, Topic.decode("", Topic(lists).encode()), 0)
        for partition, replicas in lists.items():
            data = PartitionState(replicas[0], 5, replicas, 3).encode()
            state = PartitionState.decode("", data)
            context.state_seen(TopicPartition(name, partition), LeaderIsrAndControllerEpoch(state, 5))
    return context
