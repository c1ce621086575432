"""The records of replicas that brokers may still have without being assigned them (K16, K20)."""

from __future__ import annotations

import json

import pytest

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.znodes.json_fields import DATA_BYTES_MAX
from zkgroup.znodes.stray_replicas import MovesBroughtOver, StrayReplicas, StrayTopic

LEFT = StrayReplicas((StrayTopic("orders", 2**40, (0, 7), 9), StrayTopic("orders", 3, (1,), 4)))


def test_what_a_broker_may_still_have_survives_the_round_trip() -> None:
    """Each topic with its czxid, as text: it does not fit 32 bits."""
    assert json.loads(LEFT.encode()) == {
        "version": 1,
        "topics": [
            {"topic": "orders", "czxid": str(2**40), "partitions": [0, 7], "epoch": 9},
            {"topic": "orders", "czxid": "3", "partitions": [1], "epoch": 4},
        ],
    }
    assert StrayReplicas.decode("/x", LEFT.encode()) == LEFT


def test_each_znode_names_its_broker() -> None:
    """And its own number, where one znode cannot hold all replicas; other names are ignored."""
    for broker, part in ((0, 0), (3, 0), (3, 1), (10, 12)):
        path = StrayReplicas.path(broker, part)
        assert StrayReplicas.place_of(path.rpartition("/")[2]) == (broker, part)
    assert (StrayReplicas.path(3), StrayReplicas.path(3, 1)) == ("/zkgroup/strays/3", "/zkgroup/strays/3-1")
    for name in ("", "x", "3-0", "3-", "-1", "3-1-1", "03", "3-01"):
        assert StrayReplicas.place_of(name) is None, name


def test_missing_and_mistyped_keys_are_corrupt() -> None:
    """Each key that must be there is missed, and none is taken in another type."""
    fields = json.loads(LEFT.encode())["topics"][0]
    for key in fields:
        without = {name: field for name, field in fields.items() if name != key}
        for broken in (without, {**fields, key: 0.5}, {**fields, key: None}, {**fields, key: [-1]}):
            with pytest.raises(CorruptZnodeError, match=key):
                StrayReplicas.decode("/x", json.dumps({"version": 1, "topics": [broken]}).encode())
    for topics in (None, {}, [3]):
        with pytest.raises(CorruptZnodeError, match="topics"):
            StrayReplicas.decode("/x", json.dumps({"version": 1, "topics": topics}).encode())


@pytest.mark.parametrize("topic", [StrayTopic("t", 1, (-1,), 1), StrayTopic("t", 1, (0,), -1)], ids=str)
def test_what_cannot_be_is_not_written(topic: StrayTopic) -> None:
    """No reader should meet it."""
    with pytest.raises(ConfigError):
        StrayReplicas((topic,)).encode()


def test_more_than_a_znode_holds_is_not_written() -> None:
    """ZooKeeper would close the connection."""
    many = tuple(StrayTopic(f"{number:0200}", 1, (0,), 1) for number in range(DATA_BYTES_MAX // 200))
    with pytest.raises(ConfigError, match="bytes"):
        StrayReplicas(many).encode()


def test_how_far_records_of_moves_were_brought_over() -> None:
    """None before the first write."""
    assert MovesBroughtOver.decode("/x", MovesBroughtOver(399).encode()) == MovesBroughtOver(399)
    assert MovesBroughtOver.decode("/x", None) == MovesBroughtOver.decode("/x", b"") == MovesBroughtOver(-1)
    assert MovesBroughtOver.path() == "/zkgroup/strays"
    with pytest.raises(CorruptZnodeError, match="moves"):
        MovesBroughtOver.decode("/x", b'{"version":1}')
