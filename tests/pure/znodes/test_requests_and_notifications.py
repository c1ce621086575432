"""Reassignments, preferred elections, ISR changes, log directories: lists of partitions with limits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.worlds import golden_data
from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import Move, PreferredElection, Reassignment, TopicDeletion
from zkgroup.znodes.notifications import PARTITIONS_AT_ONCE, IsrChange, LogDirEvent

ORDERS = TopicPartition("orders", 0)
CLICKS = TopicPartition("clicks", 3)


def test_a_reassignment_has_exactly_the_keys_that_kafka_2_8_read() -> None:
    """Other keys are not written again; Kafka performed the recorded request."""
    recorded = {
        write.data for write in golden_data.writes("kafka-2.8.2") if write.path == Reassignment.path()
    }
    data = (
        b'{"partitions":[{"log_dirs":["any","any"],"replicas":[2,3],"partition":0,"topic":"move","x":1}],'
        b'"version":1,"more":{"a":1}}'
    )

    assert recorded == {Reassignment.decode("/x", data).encode()}
    assert json.loads(Reassignment((Move(ORDERS, (1, 2)),)).encode()) == {
        "version": 1,
        "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2]}],
    }


def test_of_two_entries_for_one_partition_the_last_counts() -> None:
    """As for Kafka, which reads them into a map; a tool can see both and refuse the file."""
    data = b'{"version":1,"partitions":[%s,%s]}' % (
        b'{"topic":"orders","partition":0,"replicas":[1]}',
        b'{"topic":"orders","partition":0,"replicas":[2]}',
    )
    request = Reassignment.decode("/x", data)

    assert [move.replicas for move in request.moves] == [(1,), (2,)]
    assert request.targets == {ORDERS: (2,)}


def test_what_a_tool_of_0_8_2_2_can_leave_is_read() -> None:
    """No entry at all, and an empty replica list: the controller decides about them."""
    assert Reassignment.decode("/x", b'{"version":1,"partitions":[]}').moves == ()
    empty = b'{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[]}]}'
    assert Reassignment.decode("/x", empty).targets == {ORDERS: ()}


@pytest.mark.parametrize(
    ("moves", "message"),
    [
        ((), "at least one"),
        ((Move(ORDERS, (1,)), Move(ORDERS, (2,))), "orders-0 is named twice"),
        ((Move(ORDERS, ()),), "expected replicas"),
        ((Move(ORDERS, (1, 2, 1)),), "each broker once"),
        ((Move(ORDERS, (-1,)),), "broker id"),
        ((Move(TopicPartition("or/ders", 0), (1,)),), "topic"),
        ((Move(TopicPartition("t" * 256, 0), (1,)),), "255"),
        ((Move(TopicPartition("orders", -1), (1,)),), "partition of orders"),
        (
            tuple(Move(TopicPartition("t" * 200, number), (1, 2, 3)) for number in range(5000)),
            "reassignment of 5000 partitions: expected at most 900000 bytes",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_request_that_no_controller_should_meet_is_not_written(
    moves: tuple[Move, ...], message: str
) -> None:
    """One clear error instead of a znode that stays, or a connection that closes."""
    with pytest.raises(ConfigError, match=message):
        Reassignment(moves).encode()


@pytest.mark.parametrize(
    "codec", [Reassignment, PreferredElection, IsrChange], ids=lambda each: each.__name__
)
@pytest.mark.parametrize(
    "partitions",
    [
        "absent",
        None,
        {},
        ["orders"],
        [{"topic": "orders"}],
        [{"partition": 0}],
        [{"topic": 1, "partition": 0, "replicas": []}],
        [{"topic": "orders", "partition": "0", "replicas": []}],
        [{"topic": "orders", "partition": -1, "replicas": []}],
        [{"topic": "orders", "partition": True, "replicas": []}],
        [{"topic": "orders", "partition": 2**31, "replicas": []}],
    ],
    ids=str,
)
def test_entries_that_name_no_partition_are_corrupt(codec: Any, partitions: object) -> None:
    """Each error names the znode."""
    fields = {"version": 1} if partitions == "absent" else {"version": 1, "partitions": partitions}
    with pytest.raises(CorruptZnodeError, match="/the/path"):
        codec.decode("/the/path", json.dumps(fields).encode())


@pytest.mark.parametrize("replicas", [None, 1, ["1"], [1.5], [2**31], [True]], ids=str)
def test_replicas_that_are_no_brokers_are_corrupt(replicas: object) -> None:
    """Never taken for a target."""
    fields = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": replicas}]}
    with pytest.raises(CorruptZnodeError, match="orders-0"):
        Reassignment.decode("/x", json.dumps(fields).encode())


def test_a_preferred_election_names_its_partitions() -> None:
    """A request without partitions, or with one twice, is refused."""
    data = b'{"version":1,"partitions":[{"topic":"orders","partition":0},{"topic":"clicks","partition":3}]}'

    assert PreferredElection((ORDERS, CLICKS)).encode() == data
    assert PreferredElection.decode("/x", data).partitions == (ORDERS, CLICKS)
    for partitions in ((), (ORDERS, ORDERS), (TopicPartition("", 0),)):
        with pytest.raises(ConfigError):
            PreferredElection(partitions).encode()


def test_isr_changes_are_split_so_that_each_fits_a_request() -> None:
    """A bounce changes thousands; names may be long, and nothing is lost or doubled."""
    partitions = [TopicPartition("t" * 255, number) for number in range(2 * PARTITIONS_AT_ONCE + 1)]
    parts = IsrChange.split([*reversed(partitions), partitions[0]])

    assert [len(part.partitions) for part in parts] == [PARTITIONS_AT_ONCE, PARTITIONS_AT_ONCE, 1]
    assert [each for part in parts for each in part.partitions] == partitions
    assert all(IsrChange.decode("/x", part.encode()) == part for part in parts)
    assert IsrChange.split([]) == ()


def test_the_largest_numbers_still_fit_a_split() -> None:
    """The constant holds for ten digits as well."""
    numbers = range(2**31 - PARTITIONS_AT_ONCE, 2**31)

    (part,) = IsrChange.split(TopicPartition("t" * 255, number) for number in numbers)
    assert len(part.encode()) < 900_000


def test_names_and_numbers_of_notifications() -> None:
    """Sequential names have ten digits; foreign ones none."""
    assert IsrChange.path(12) == f"{IsrChange.prefix()}0000000012"
    assert IsrChange.sequence_of("isr_change_0000000012") == 12
    assert IsrChange.sequence_of("log_dir_event_0000000012") is None
    assert LogDirEvent.sequence_of("log_dir_event_0000000012") == 12


def test_requests_have_the_paths_that_the_controller_reads() -> None:
    """All below `/admin`."""
    assert [Reassignment.path(), PreferredElection.path(), TopicDeletion.path("orders")] == [
        "/admin/reassign_partitions",
        "/admin/preferred_replica_election",
        "/admin/delete_topics/orders",
    ]


def test_a_log_directory_event_names_a_broker() -> None:
    """Key by key as Kafka 1.0 and later write it."""
    assert LogDirEvent(2).encode() == b'{"version":1,"broker":2,"event":1}'
    with pytest.raises(ConfigError):
        LogDirEvent(-1).encode()
    for text in (b'{"broker":"2","event":1}', b'{"broker":2}', b'{"event":1}'):
        with pytest.raises(CorruptZnodeError):
            LogDirEvent.decode("/x", text)


def test_a_request_to_delete_is_read_whatever_it_holds() -> None:
    """Null of later versions, zero bytes of 0.8.2.2."""
    for data in (None, b"", b"\xff"):
        assert TopicDeletion.decode("/x", data) == TopicDeletion()
    assert TopicDeletion().encode() == b""
