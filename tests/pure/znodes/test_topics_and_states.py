"""Topics of the three versions and states of partitions: kept keys, moves, limits."""

from __future__ import annotations

import json

import pytest

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import NO_LEADER, PartitionState, Topic
from zkgroup.znodes.json_fields import parse

THIRD = (
    b'{"partitions":{"0":[3,1,2],"1":[1,2]},"topic_id":"49u9B29tSf6B5zpRToHwWA",'
    b'"adding_replicas":{"0":[3]},"removing_replicas":{"0":[2]},"version":3,"new":{"a":[1,null]}}'
)


def test_a_rewritten_topic_keeps_its_id_and_what_we_do_not_know() -> None:
    """Losing the id breaks newer brokers; unknown keys stay as they are."""
    topic = Topic.decode("/x", THIRD)
    again = topic.with_replicas(1, (2, 1))

    assert (topic.moving, again.partitions[1]) == ((0,), (2, 1))
    assert again.encode() == THIRD.replace(b'"1":[1,2]', b'"1":[2,1]')


def test_a_move_is_written_into_a_topic_that_has_a_place_for_it() -> None:
    """Versions 2 and 3 have adding and removing replicas; the end of the reassignment empties both."""
    topic = Topic({0: (1, 2), 1: (2, 3)}, version=2)
    moving = topic.with_replicas(0, (4, 1, 2), adding=(4,), removing=(1, 2))

    assert json.loads(moving.encode()) == {
        "partitions": {"0": [4, 1, 2], "1": [2, 3]},
        "adding_replicas": {"0": [4]},
        "removing_replicas": {"0": [1, 2]},
        "version": 2,
    }
    assert moving.with_replicas(0, (4,)).encode() == (
        b'{"partitions":{"0":[4],"1":[2,3]},"adding_replicas":{},"removing_replicas":{},"version":2}'
    )


def test_a_move_of_a_version_1_topic_changes_its_replicas_only() -> None:
    """0.8.2.2 knows no other key there."""
    moving = Topic({0: (1, 2)}).with_replicas(0, (3, 1, 2), adding=(3,), removing=(1, 2))

    assert moving.encode() == b'{"version":1,"partitions":{"0":[3,1,2]}}'


def test_a_version_1_topic_with_later_keys_loses_none() -> None:
    """Kafka 2.8 reads the id of any version."""
    data = b'{"version":1,"partitions":{"0":[1]},"topic_id":"49u9B29tSf6B5zpRToHwWA","x":"y"}'

    assert Topic.decode("/x", data).encode() == data


def test_all_three_versions_are_readable_by_0_8_2_2() -> None:
    """Its parser accepts them and skips unknown keys."""
    for version in (1, 2, 3):
        topic = Topic({0: (1,), 10: (2, 1)}, version=version)
        assert parse(topic.encode()) == json.loads(topic.encode())
        assert Topic.decode("/x", topic.encode()) == topic


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        (Topic({-1: (1,)}), "partition"),
        (Topic({2**31: (1,)}), "partition"),
        (Topic({0: (-1,)}), "broker id"),
        (Topic({0: (2**31,)}), "broker id"),
        (Topic({0: (1, 2, 1)}), "partition 0: expected each broker once"),
        (Topic({0: (1,)}, version=0), "version"),
        (Topic({0: (1,)}, version=2, adding={0: (1, 1)}), "adding_replicas of partition 0"),
        (Topic({0: (1,)}, version=3, topic_id="short"), "22 characters"),
        (Topic({0: (1,)}, extensions={"topic_id": "x"}), "not Kafka's"),
        (Topic({0: (1,)}, extensions={"epoch": 2**31}), "32 bits"),
        (Topic({0: (1,)}, extensions={"load": [{"a": 1.0}]}), "32 bits"),
    ],
    ids=str,
)
def test_a_topic_that_no_reader_should_meet_is_not_written(topic: Topic, message: str) -> None:
    """Numbers within a Java int, each broker once."""
    with pytest.raises(ConfigError, match=message):
        topic.encode()


def test_a_topic_too_big_for_one_request_is_refused() -> None:
    """With its size, before ZooKeeper closes the connection on it."""
    topic = Topic(dict.fromkeys(range(40_000), (1001, 1002, 1003)))

    with pytest.raises(ConfigError, match="topic of 40000 partitions: expected at most 900000 bytes"):
        topic.encode()


def test_an_empty_replica_list_does_not_keep_a_topic_from_being_written() -> None:
    """A controller of 0.8.2.2 can leave one; the other partitions must stay writable."""
    assert Topic.decode("/x", b'{"version":1,"partitions":{"0":[]}}').encode() == (
        b'{"version":1,"partitions":{"0":[]}}'
    )


def test_extensions_too_deep_are_refused_and_end_nothing() -> None:
    """Data nested beyond the limit is an error, not a crash."""
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(ConfigError, match="less nesting"):
        Topic({0: (1,)}, extensions={"deep": deep}).encode()
    while deep:  # taken apart from outside: its own end would recurse
        deep = deep[0]  # type: ignore[assignment]


def test_a_topic_of_version_0_is_corrupt() -> None:
    """There is none."""
    with pytest.raises(CorruptZnodeError, match="version 1"):
        Topic.decode("/brokers/topics/t", b'{"version":0,"partitions":{}}')


def test_a_partition_without_leader_and_isr_is_read_and_written() -> None:
    """Kafka 0.8.2.2 writes leader -1 and an empty ISR."""
    data = b'{"controller_epoch":1,"leader":-1,"version":1,"leader_epoch":1,"isr":[]}'
    state = PartitionState.decode("/x", data)

    assert (state.leader, state.isr) == (NO_LEADER, ())
    assert state.encode() == data


def test_a_state_keeps_what_later_versions_add() -> None:
    """`leader_recovery_state` of 3.2 survives a change of the ISR."""
    data = b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":3,"isr":[2,1],'
    data += b'"leader_recovery_state":1}'

    assert PartitionState.decode("/x", data).encode() == data


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (PartitionState(-2, 0, (), 1), "leader"),
        (PartitionState(1, -1, (1,), 1), "leader epoch"),
        (PartitionState(1, 2**31, (1,), 1), "leader epoch"),
        (PartitionState(1, 0, (1,), -1), "controller epoch"),
        (PartitionState(1, 0, (1, 1), 1), "isr"),
        (PartitionState(1, 0, (-1,), 1), "isr"),
        (PartitionState(1, 0, (1,), 1, {"isr": [2]}), "not Kafka's"),
    ],
    ids=str,
)
def test_a_state_that_cannot_be_is_not_written(state: PartitionState, message: str) -> None:
    """An epoch beyond a Java int, a broker twice."""
    with pytest.raises(ConfigError, match=message):
        state.encode()


def test_paths_below_a_topic() -> None:
    """The preferred election tool of 0.8.2.2 lists the parents of a state."""
    assert Topic.partition_path(TopicPartition("t", 3)) == "/brokers/topics/t/partitions/3"
    assert PartitionState.path(TopicPartition("t", 3)) == "/brokers/topics/t/partitions/3/state"


def test_paths_of_many_are_those_of_each() -> None:
    """In their order, also where topics take turns."""
    every = [TopicPartition("t", 3), TopicPartition("u", 0), TopicPartition("t", 3), TopicPartition("t", 10)]

    assert PartitionState.paths(every) == [PartitionState.path(each) for each in every]


@pytest.mark.parametrize(
    "odd",
    [
        '"":[1]', '"x":[1]', '"-1":[1]', '"1_0":[1]', '" 1":[1]', '"+1":[1]', '"\u0663":[1]', '"\u00b2":[1]',
        '"2147483648":[1]', '"3":1', '"3":null', '"3":{"1":2}', '"3":"12"', '"3":[true]', '"3":[1.0]',
        '"3":["1"]', '"3":[null]', '"3":[[1]]', '"3":[2147483648]', '"3":[-2147483649]',
    ],
)  # fmt: skip
def test_one_odd_list_among_many_is_found(odd: str) -> None:
    """All lists are parsed together; an invalid one does not pass because the others are valid."""
    data = f'{{"version":1,"partitions":{{"0":[1,2],"1":[],{odd},"2":[3]}}}}'

    with pytest.raises(CorruptZnodeError, match="'partitions'"):
        Topic.decode("/x", data.encode())


@pytest.mark.parametrize(
    ("number", "read"), [("07", 7), ("0000000000007", 7), ("-0", 0), ("2147483647", 2**31 - 1)]
)
def test_numbers_that_are_written_unusually_are_read(number: str, read: int) -> None:
    """They are parsed one by one, which is not needed for most lists."""
    data = f'{{"version":1,"partitions":{{"{number}":[-2147483648,2147483647],"1":[]}}}}'

    assert Topic.decode("/x", data.encode()).partitions == {read: (-(2**31), 2**31 - 1), 1: ()}
