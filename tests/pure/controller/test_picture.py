"""What is known, by topic and by broker, and what it costs."""

from __future__ import annotations

import random
import tracemalloc

from tests.worlds.controller_clusters import broker, cluster, standing, tp
from zkgroup.controller.machine.picture import BrokerChange, Picture, Standing
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import PartitionState, Topic

BYTES_MAX = 1_000
"""Of a partition: a controller with 100,000 may take 600 MB in all."""


def test_partitions_are_found_by_topic_and_by_broker() -> None:
    """By replica list and by leader, in order."""
    picture = cluster({"b": {0: (1, 2), 1: (2, 3)}, "a": {7: (3, 1)}})

    assert list(picture.partitions()) == [tp(7, "a"), tp(0, "b"), tp(1, "b")]
    assert list(picture.partitions("b")) == [tp(0, "b"), tp(1, "b")]
    assert list(picture.partitions("c")) == []
    assert list(picture.on_broker(1)) == [tp(7, "a"), tp(0, "b")]
    assert list(picture.led_by(2)) == [tp(1, "b")]
    assert (picture.replicas(tp(7, "a")), picture.replicas(tp(8, "a"))) == ((3, 1), ())


def test_a_leader_beside_the_replica_list_is_found() -> None:
    """A tool that wrote an old replica map leaves such: its death has to be noticed."""
    picture = cluster({"t": {0: (1, 2)}}, leaders={tp(0): 3})

    assert list(picture.led_by(3)) == [tp(0)]


def test_indices_follow_every_change() -> None:
    """Against a search through everything, after many changes of lists, leaders and topics."""
    rng = random.Random(7)
    picture = cluster({}, (1, 2, 3, 4))
    for version in range(400):
        name = rng.choice("xyz")
        if rng.random() < 0.1:
            picture.forget_topic(name)
            continue
        lists = {n: tuple(rng.sample(range(1, 5), 2)) for n in range(rng.randrange(1, 5))}
        picture.topic_seen(name, Topic(lists), version)
        for number in rng.sample(range(6), 2):
            picture.state_seen(
                tp(number, name), standing(rng.choice([-1, 1, 2, 3, 4]), (1,), version=version)
            )
        if rng.random() < 0.1:
            picture.state_seen(tp(0, name), None)

    everything = list(picture.partitions())
    leaders = {each: found.leader for each in everything if (found := picture.standing(each))}
    assert len(leaders) > 3
    for id_ in range(-1, 5):
        assert list(picture.on_broker(id_)) == [each for each in everything if id_ in picture.replicas(each)]
        led = [each for each in everything if leaders.get(each) == id_] if id_ >= 0 else []
        assert list(picture.led_by(id_)) == led


def test_new_partitions_of_a_topic_are_told() -> None:
    """Of a new topic all, of a known one those that it has grown by; a known topic keeps its states."""
    picture = cluster({"t": {0: (1, 2)}})

    assert picture.topic_seen("t", Topic({0: (2, 1), 1: (1,)}), 5) == (1,)
    assert picture.topic_seen("u", Topic({1: (1,), 0: (2,)}), 0) == (0, 1)

    seen = picture.topic("t")
    assert seen is not None
    assert (seen.version, picture.standing(tp(0))) == (5, standing(1, (1, 2)))


def test_what_a_topic_says_beyond_its_partitions_is_kept() -> None:
    """Its id, the keys of a move, and keys that we do not know are there for the next rewrite."""
    topic = Topic({0: (1, 2)}, 3, {0: (2,)}, {}, "A" * 22, {"later": 1})
    picture = Picture()
    picture.topic_seen("t", topic, 0)

    seen = picture.topic("t")

    assert seen is not None
    assert seen.topic == topic


def test_a_forgotten_topic_leaves_nothing() -> None:
    """Neither its states nor its moves, nor why its deletion waited."""
    picture = cluster({"t": {0: (1, 2)}})
    picture.moves.add(tp(0))
    picture.failed_to_serve(tp(0), 2)
    picture.ineligible["t"] = "broker 3 is down"

    picture.forget_topic("t")
    picture.forget_topic("t")

    assert (list(picture.on_broker(1)), list(picture.led_by(1)), list(picture.partitions())) == ([], [], [])
    assert (picture.moves, picture.unfit, picture.ineligible, list(picture.topics)) == (set(), {}, {}, [])


def test_an_older_answer_does_not_overwrite_a_newer_one() -> None:
    """Reads and writes are under way together."""
    picture = cluster({"t": {0: (1, 2)}})
    newer = standing(2, (2,), leader_epoch=3, version=8)

    picture.state_seen(tp(0), newer)
    picture.state_seen(tp(0), standing(1, (1, 2), version=7))
    picture.state_seen(tp(9), newer)

    assert (picture.standing(tp(0)), picture.standing(tp(9))) == (newer, None)


def test_a_state_without_leader_and_isr_is_known() -> None:
    """Controller item 36: it is as good a state as any; it is led by nobody."""
    picture = cluster({"t": {0: (1, 2)}})

    picture.state_seen(tp(0), Standing.of(PartitionState(-1, 4, (), 1), 9))

    assert (picture.standing(tp(0)), list(picture.led_by(-1))) == (standing(-1, (), 4, 9), [])


def test_a_bounced_broker_is_seen_by_its_epoch() -> None:
    """The same id with another czxid: what its former incarnation said and got is forgotten (K7)."""
    picture = cluster({"t": {0: (1, 2, 3)}})
    picture.shutting_down = {1, 2, 3}
    picture.greeted = {1: 1, 2: 1, 3: 1}
    for id_ in (1, 2, 3):
        picture.failed_to_serve(tp(0), id_)

    change = picture.set_brokers({1: broker(1), 2: broker(2, epoch=9), 4: broker(4)})

    assert change == BrokerChange(frozenset({4}), frozenset({3}), frozenset({2}))
    assert (picture.shutting_down, picture.greeted, picture.unfit) == ({1}, {1: 1}, {tp(0): {1}})


def test_only_brokers_that_host_partitions_are_told_and_elected() -> None:
    """Not a controller that hosts nothing (recipes 14), nor ids below 0; those that stop are told only."""
    picture = Picture()
    picture.set_brokers({1: broker(1), 2: broker(2), 3: broker(3, role="controller"), -1: broker(-1)})
    picture.shutting_down = {2}

    assert (picture.reachable, picture.live) == ({1, 2}, {1})


def test_a_replica_that_cannot_serve_is_no_candidate() -> None:
    """Of this partition, until its broker is another incarnation or it is in sync again."""
    picture = cluster({"t": {0: (1, 2), 1: (1, 2)}})
    picture.failed_to_serve(tp(0), 1)

    assert picture.candidates(tp(0), picture.live) == {2, 3}
    assert picture.candidates(tp(1), picture.live) == {1, 2, 3}
    picture.fit_again(tp(0), 1)
    assert picture.candidates(tp(0), picture.live) == {1, 2, 3}


def test_the_parts_of_a_deletion_are_told_apart() -> None:
    """Every partition of a topic that is queued."""
    picture = cluster({"t": {0: (1, 2)}, "u": {0: (1, 2)}})
    picture.deletions.add("t")

    assert [picture.is_going(each) for each in picture.partitions()] == [True, False]


def test_a_partition_costs_little() -> None:
    """Read from the bytes of znodes, as at a failover; a few large topics, and many small ones."""
    for topics, partitions in ((3, 1_000), (60, 50)):
        tracemalloc.start()
        try:
            picture = picture_of(topics, partitions, brokers=50)
            size, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert sum(1 for _ in picture.partitions()) == 3_000
        assert size / 3_000 < BYTES_MAX


def picture_of(topics: int, partitions: int, brokers: int) -> Picture:
    """Three replicas each, decoded from bytes as they come from ZooKeeper."""
    picture = Picture()
    picture.set_brokers({id_: broker(id_) for id_ in range(brokers)})
    for number in range(topics):
        name = f"topic-{number:05}"
        lists = {p: tuple((p + number + j) % brokers for j in range(3)) for p in range(partitions)}
        picture.topic_seen(name, Topic.decode("", Topic(lists).encode()), 0)
        for partition, replicas in lists.items():
            data = PartitionState(replicas[0], 5, replicas, 3).encode()
            state = PartitionState.decode("", data)
            picture.state_seen(TopicPartition(name, partition), Standing.of(state, 5))
    return picture
