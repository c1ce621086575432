"""The znodes of a forced deletion, before and after it (K20)."""

from __future__ import annotations

import json

import pytest

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.stray_replicas import AbandonedReplicas

LEFT = AbandonedReplicas("orders", 3, (0, 7), 9)


def test_a_request_names_the_brokers_that_are_not_waited_for() -> None:
    """Below a key of zkgroup, as in registrations; Kafka does not read the data there."""
    data = TopicDeletion((3, 10)).encode()

    assert data == b'{"version":1,"zkgroup":{"without_brokers":[3,10]}}'
    assert TopicDeletion.decode("/x", data) == TopicDeletion((3, 10))


@pytest.mark.parametrize("data", [b"[3]", b'"orders"', b"{}", b'{"version":1,"without_brokers":[3]}', b"3"])
def test_requests_of_other_clients_name_no_broker(data: bytes) -> None:
    """Only data that a zkgroup tool wrote forces a deletion."""
    assert TopicDeletion.decode("/x", data) == TopicDeletion()


@pytest.mark.parametrize("zkgroup", [None, [3], {}, {"without_brokers": "3"}, {"without_brokers": [3.5]}])
def test_a_broken_zkgroup_request_is_corrupt(zkgroup: object) -> None:
    """It is not for the controller to guess whom an operator has given up."""
    with pytest.raises(CorruptZnodeError, match=r"without_brokers|zkgroup") as refused:
        TopicDeletion.decode("/the/path", json.dumps({"version": 1, "zkgroup": zkgroup}).encode())
    assert refused.value.path == "/the/path"


@pytest.mark.parametrize("brokers", [(-1,), (3, 3), (2**31,)])
def test_no_broker_is_named_that_cannot_be(brokers: tuple[int, ...]) -> None:
    """Nor one twice."""
    with pytest.raises(ConfigError):
        TopicDeletion(brokers).encode()


def test_what_a_broker_may_still_have_survives_the_round_trip() -> None:
    """One record for a broker and a topic, numbered by ZooKeeper."""
    assert json.loads(LEFT.encode()) == {
        "version": 1,
        "topic": "orders",
        "broker": 3,
        "partitions": [0, 7],
        "epoch": 9,
    }
    assert AbandonedReplicas.decode("/x", LEFT.encode()) == LEFT
    assert LEFT.topic_partitions == (TopicPartition("orders", 0), TopicPartition("orders", 7))
    assert AbandonedReplicas.path(4) == "/zkgroup/abandoned/replicas-0000000004"
    assert AbandonedReplicas.path(4) == f"{AbandonedReplicas.prefix()}0000000004"
    assert AbandonedReplicas.sequence_of("replicas-0000000004") == 4
    assert AbandonedReplicas.sequence_of("other") is None


def test_missing_and_mistyped_keys_are_corrupt() -> None:
    """Each key that must be there is missed, and none is taken in another type."""
    fields = json.loads(LEFT.encode())
    for key in ("topic", "broker", "partitions", "epoch"):
        without = {name: field for name, field in fields.items() if name != key}
        for broken in (without, {**fields, key: 0.5}, {**fields, key: None}, {**fields, key: [-1]}):
            with pytest.raises(CorruptZnodeError, match=key):
                AbandonedReplicas.decode("/x", json.dumps(broken).encode())


@pytest.mark.parametrize(
    "record",
    [
        AbandonedReplicas("a/b", 3, (0,), 1),
        AbandonedReplicas("t", -1, (0,), 1),
        AbandonedReplicas("t", 3, (), 1),
        AbandonedReplicas("t", 3, (-1,), 1),
        AbandonedReplicas("t", 3, (0,), -1),
    ],
    ids=str,
)
def test_what_cannot_be_is_not_written(record: AbandonedReplicas) -> None:
    """No reader should meet it."""
    with pytest.raises(ConfigError):
        record.encode()
