"""Kafka's algorithms: vectors of the specification, of Kafka's own tests, and of Kafka brokers."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from tests.worlds.golden_data import lines, trees
from zkgroup.errors import PlacementError
from zkgroup.model import TopicPartition
from zkgroup.placement import Broker, Start, generate, grow, grow_by_hand, rack_alternated, spread

Lists = list[tuple[int, ...]]


def plain(*ids: int) -> list[Broker]:
    return [Broker(one) for one in ids]


def racked(racks: dict[int, str]) -> list[Broker]:
    return [Broker(one, rack) for one, rack in racks.items()]


def dealt(*args: Any, **options: Any) -> Lists:
    return list(spread(*args, **options).replicas.values())


FIVE = plain(*range(5))
SIX = racked({0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"})


@pytest.mark.parametrize(
    ("brokers", "partitions", "factor", "start", "expected"),
    [
        pytest.param(
            FIVE,
            10,
            3,
            Start(),
            [
                *[(0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1)],
                *[(0, 2, 3), (1, 3, 4), (2, 4, 0), (3, 0, 1), (4, 1, 2)],
            ],
            id="A, testReplicaAssignment of AdminTest",
        ),
        pytest.param(plain(1, 2, 3), 4, 2, Start(), [(1, 2), (2, 3), (3, 1), (1, 3)], id="B"),
        pytest.param(
            plain(1, 2, 3),
            7,
            3,
            Start.fixed(1),
            [(2, 1, 3), (3, 2, 1), (1, 3, 2), (2, 3, 1), (3, 1, 2), (1, 2, 3), (2, 1, 3)],
            id="C",
        ),
        pytest.param(
            FIVE, 6, 2, Start(2, 0), [(2, 3), (3, 4), (4, 0), (0, 1), (1, 2), (2, 4)], id="D, shift by itself"
        ),
        pytest.param(plain(7), 2, 1, Start(), [(7,), (7,)], id="one broker"),
    ],
)
def test_without_racks(
    brokers: list[Broker], partitions: int, factor: int, start: Start, expected: Lists
) -> None:
    """Examples of controller.md 6.1, whatever order the brokers come in."""
    assert dealt(brokers, partitions, factor, start=start) == expected
    assert dealt(brokers[::-1], partitions, factor, start=start) == expected


def test_brokers_alternate_between_racks() -> None:
    """The two lists of AdminRackAwareTest; exhausted racks are passed over."""
    racks = {broker.id: broker.rack or "" for broker in SIX}

    assert rack_alternated(racks) == [0, 3, 1, 5, 4, 2]
    assert rack_alternated({one: rack for one, rack in racks.items() if one != 5}) == [0, 3, 1, 4, 2]
    assert spread(SIX, 1, 1).order == (0, 3, 1, 5, 4, 2)


def test_racks_of_unequal_size_overload_the_small_one_and_say_so() -> None:
    """The skewed example of controller.md 6.3."""
    found = spread(racked({0: "a", 1: "a", 2: "a", 3: "b"}), 4, 2)

    assert list(found.replicas.values()) == [(0, 3), (3, 1), (1, 3), (2, 3)]
    assert found.notes == ("racks of unequal size (a 3, b 1): brokers of small racks get more replicas",)


def test_more_replicas_than_racks_are_noted() -> None:
    """Some racks have two then."""
    assert spread(SIX, 1, 4).notes == ("4 replicas in 3 racks: every rack has one, some have more",)


def test_some_brokers_without_a_rack() -> None:
    """An error, unless racks are ignored always or in that case; ignored racks are noted."""
    brokers = [Broker(0, "a"), Broker(1), Broker(2, "b")]

    with pytest.raises(PlacementError, match="broker 1 has no rack"):
        spread(brokers, 3, 2)
    for mode in ("disabled", "safe"):
        found = spread(brokers, 3, 2, rack_mode=mode)  # type: ignore[arg-type]
        assert list(found.replicas.values()) == [(0, 1), (1, 2), (2, 0)]
        assert found.notes == ("racks were ignored",)
        assert not found.rack_aware
    assert spread(SIX, 1, 1, rack_mode="safe").rack_aware


@pytest.mark.parametrize(
    ("brokers", "partitions", "factor", "message"),
    [
        (FIVE, 0, 1, "at least one partition, found 0"),
        (FIVE, 10, 0, "at least 1, found 0"),
        (FIVE, 10, 6, "a replication factor of 6 needs as many brokers, there are 5"),
        ([], 1, 1, "there are 0"),
        (plain(1, 2, 1), 1, 1, "broker 1 is named twice"),
    ],
)
def test_what_cannot_be_dealt_is_an_error(
    brokers: list[Broker], partitions: int, factor: int, message: str
) -> None:
    """Factors 0 and 6 on five brokers are those of testReplicaAssignment."""
    with pytest.raises(PlacementError, match=message):
        spread(brokers, partitions, factor)


@pytest.mark.parametrize("release", ["0.8.2.2", "0.10.2.2"])
def test_what_kafkas_own_function_answers(release: str) -> None:
    """Random cases for Kafka's `AdminUtils`, with a start index beyond the brokers as in 0.8.2.2."""
    cases = lines(f"replica-assignment/kafka-{release}.jsonl")

    assert len(cases) >= 80
    for case in cases:
        found = dealt(
            [Broker(number, rack) for number, rack in case["brokers"]],
            len(case["replicas"]),
            case["replication_factor"],
            start=Start.fixed(case["start"]),
            first_partition=case["first_partition"],
        )
        assert [list(one) for one in found] == case["replicas"], case


def test_growth_of_a_later_kafka_starts_at_the_position_of_the_first_replica() -> None:
    """Example E of controller.md 6.2: from 0.10 on the position, in 0.8.2.2 the broker id."""
    existing = dict(enumerate([(103, 104), (104, 105), (105, 101), (101, 102)]))
    brokers = plain(101, 102, 103, 104, 105)

    assert grow(existing, brokers, 7).replicas == {4: (102, 105), 5: (103, 102), 6: (104, 103)}
    assert grow(existing, brokers, 7, compat="0.8").replicas == {4: (103, 102), 5: (104, 105), 6: (105, 101)}


def test_growth_is_the_same_where_ids_are_positions() -> None:
    """Example F of controller.md 6.2."""
    existing = dict(enumerate([(3, 4), (4, 0), (0, 1), (1, 2)]))
    for compat in ("0.8", "0.10"):
        found = grow(existing, FIVE, 7, compat=compat)  # type: ignore[arg-type]
        assert found.replicas == {4: (2, 1), 5: (3, 4), 6: (4, 0)}


@pytest.mark.parametrize(
    ("first", "partitions", "leaders", "sets"),
    [
        pytest.param(
            *((2, 3, 0, 1), 7, [3, 0, 1, 2, 3, 0], [{0, 1, 2, 3}] * 6), id="testReplicaPlacementAllServers"
        ),
        pytest.param(*((1, 2), 3, [2, 3], [{0, 2}, {1, 3}]), id="testReplicaPlacementPartialServers"),
        pytest.param(*((0, 1), 3, [1, 2], None), id="testIncrementPartitions"),
    ],
)
def test_cases_of_kafkas_add_partitions_test(
    first: tuple[int, ...], partitions: int, leaders: list[int], sets: list[set[int]] | None
) -> None:
    """Leaders and replica sets as AddPartitionsTest expects them of four brokers."""
    added = grow({0: first}, plain(0, 1, 2, 3), partitions).replicas

    assert [one[0] for one in added.values()] == leaders
    assert [len(one) for one in added.values()] == [len(first)] * len(added)
    if sets is not None:
        assert [set(one) for one in added.values()] == sets


def test_growth_where_the_first_replica_is_beyond_all_brokers_starts_at_the_first() -> None:
    """Its broker is gone; 0.8.2.2 uses the id as a position nevertheless."""
    assert grow({0: (9, 1)}, plain(0, 1, 2), 2).start == Start(0, 0)
    assert grow({0: (9, 1)}, plain(0, 1, 2), 2, compat="0.8").start == Start(9, 9)


def test_growth_keeps_to_the_racks() -> None:
    """The start is a position in the list by id, used in the list that alternates, as Kafka does."""
    found = grow({0: (1, 4, 0)}, SIX, 3)

    assert (found.start, found.rack_aware) == (Start(1, 1), True)
    assert found.replicas == dict(list(spread(SIX, 3, 3, start=Start(1, 1)).replicas.items())[1:])
    assert not grow({0: (1, 4, 0)}, SIX, 3, compat="0.8").rack_aware


@pytest.mark.parametrize(
    ("existing", "partitions", "message"),
    [
        ({0: (1, 2)}, 1, "there are 1, 1 were asked for"),
        ({1: (1, 2)}, 3, r"gaps: expected 0 to n-1, found \[1\]"),
        ({}, 3, "without partitions"),
        ({0: ()}, 3, "has no replicas"),
        ({0: (1, 2, 3, 4)}, 2, "a replication factor of 4"),
    ],
)
def test_growth_that_is_an_error(existing: dict[int, tuple[int, ...]], partitions: int, message: str) -> None:
    """testMissingPartition0 of AddPartitionsTest among them."""
    with pytest.raises(PlacementError, match=message):
        grow(existing, plain(1, 2, 3), partitions)


def test_growth_by_hand_takes_the_new_lists_as_they_are() -> None:
    """testManualAssignmentOfReplicas: lists for partitions that exist are left out."""
    found = grow_by_hand({0: (1, 2)}, plain(0, 1, 2, 3), [(9, 9), (0, 1), (2, 3)])

    assert found.replicas == {1: (0, 1), 2: (2, 3)}


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([(0, 1), (0, 1, 2)], "partition 1: expected 2 different brokers"),
        ([(0, 1), ()], "expected 2 different brokers"),
        ([(0, 1), (1, 1)], "expected 2 different brokers"),
        ([(0, 1), (1, 7)], "partition 1: broker 7 is not registered"),
        ([(0, 1), (8, 7)], "partition 1: brokers 8, 7 are not registered"),
        ([(0, 1)], "can only grow"),
    ],
)
def test_growth_by_hand_that_is_an_error(lists: Lists, message: str) -> None:
    """testWrongReplicaCount of AddPartitionsTest among them."""
    with pytest.raises(PlacementError, match=message):
        grow_by_hand({0: (0, 1)}, plain(0, 1, 2, 3), lists)


def recorded(topic: str, file: str) -> dict[int, tuple[int, ...]]:
    """A topic's replica lists as a cluster of Kafka 0.8.2.2 brokers 1, 2, 3 had them."""
    (found,) = (
        znode
        for znode in trees("kafka-0.8.2.2")
        if znode.path == f"/brokers/topics/{topic}" and znode.file.endswith(file)
    )
    partitions = json.loads(found.data or b"")["partitions"]
    return {int(number): tuple(lists) for number, lists in partitions.items()}


@pytest.mark.parametrize(
    ("topic", "factor", "start"), [("orders", 2, Start(2, 0)), ("events", 3, Start(1, 0)), ("solo", 1, None)]
)
def test_what_a_real_broker_dealt_is_dealt_again(topic: str, factor: int, start: Start | None) -> None:
    """Kafka 0.8.2.2's random start is not recorded; with the right one every list is equal."""
    lists = recorded(topic, "03-topics-created.jsonl")
    starts = [
        one
        for one in itertools.starmap(Start, itertools.product(range(3), range(3)))
        if spread(plain(1, 2, 3), len(lists), factor, start=one).replicas == lists
    ]

    assert starts if start is None else start in starts


def test_what_a_real_broker_added_is_added_again() -> None:
    """`--alter --partitions 6` of Kafka 0.8.2.2 takes broker id 3 for a position; the later rule does not."""
    before = recorded("orders", "03-topics-created.jsonl")
    after = recorded("orders", "04-partitions-added.jsonl")

    added = grow(before, plain(1, 2, 3), 6, compat="0.8").replicas

    assert added == {4: (2, 1), 5: (3, 2)}
    assert {**before, **added} == after
    assert grow(before, plain(1, 2, 3), 6).replicas != added


def test_generate_deals_every_topic_anew() -> None:
    """Each with its own number of partitions and its own factor; a topic begins where the last one ended."""
    lists, notes = generate(
        {"b": dict.fromkeys(range(3), (9,)), "a": dict.fromkeys(range(2), (9, 8))}, plain(2, 1, 3)
    )

    assert lists == {
        TopicPartition("a", 0): (1, 2),
        TopicPartition("a", 1): (2, 3),
        TopicPartition("b", 0): (3,),
        TopicPartition("b", 1): (1,),
        TopicPartition("b", 2): (2,),
    }
    assert notes == ()


def test_generate_as_0_8_keeps_the_order_given_and_knows_no_racks() -> None:
    """Later releases sort the brokers and use their racks."""
    topics = {"a": dict.fromkeys(range(2), (9, 8))}
    brokers = [Broker(3, "x"), Broker(1, "x"), Broker(2, "y")]

    assert list(generate(topics, brokers, compat="0.8")[0].values()) == [(3, 1), (1, 2)]
    assert list(generate(topics, brokers)[0].values()) == [(1, 2), (2, 3)]


def test_generate_begins_at_the_given_start() -> None:
    """A start for each topic, as Kafka draws one for each."""
    lists, _ = generate({"t": dict.fromkeys(range(2), (1, 2))}, FIVE, starts={"t": Start(2, 0)})

    assert list(lists.values()) == [(2, 3), (3, 4)]


def test_generate_names_the_topic_that_it_cannot_deal() -> None:
    """Too few brokers, or a topic without partitions."""
    with pytest.raises(PlacementError, match="topic t: a replication factor of 3"):
        generate({"t": {0: (1, 2, 3)}}, plain(1, 2))
    with pytest.raises(PlacementError, match="topic t: expected at least one partition"):
        generate({"t": {}}, plain(1, 2))
