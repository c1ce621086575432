"""The request for an unclean election and its outcome: records may be lost by it, so nothing is guessed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import (
    PARTITIONS_MAX,
    REASON_MAX,
    PartitionVerdict,
    UncleanElection,
    UncleanElectionDone,
)

ORDERS = TopicPartition("orders", 0)
CLICKS = TopicPartition("clicks", 3)
REQUEST = UncleanElection((ORDERS, CLICKS), 1396019252998, "ada@desk")
DONE = UncleanElectionDone(
    (
        PartitionVerdict(ORDERS, "unclean", 2),
        PartitionVerdict(CLICKS, "refused", None, "no replica of 1, 3 is live"),
    ),
    7,
    1396019253001,
)


def test_a_request_names_its_partitions_and_its_user() -> None:
    """Every value is a text, so a reader of 0.8 meets no number."""
    data = (
        b'{"version":"1","type":"unclean","partitions":[{"topic":"orders","partition":"0"},'
        b'{"topic":"clicks","partition":"3"}],"time":"1396019252998","by":"ada@desk"}'
    )

    assert REQUEST.encode() == data
    assert UncleanElection.decode("/x", data) == REQUEST
    assert UncleanElection.path() == "/zkgroup/controller/elect"


def test_an_outcome_says_for_each_partition_what_became_of_it() -> None:
    """It contains the czxid of the request, by which the tool finds its outcome."""
    fields = json.loads(DONE.encode())

    assert UncleanElectionDone.decode("/x", DONE.encode()) == DONE
    assert fields["partitions"][0] == {
        "topic": "orders", "partition": "0", "verdict": "unclean", "leader": "2", "reason": "",
    }  # fmt: skip
    path = UncleanElectionDone.path(2**40)
    assert path == f"/zkgroup/controller/elected/{2**40}"
    assert UncleanElectionDone.czxid_of(path.rpartition("/")[2]) == 2**40
    assert UncleanElectionDone.czxid_of("-1") is None
    assert UncleanElectionDone.czxid_of("foreign") is None


@pytest.mark.parametrize(
    ("partitions", "message"),
    [
        ((), "at least one"),
        ((ORDERS, ORDERS), "orders-0 is named twice"),
        ((TopicPartition("or/ders", 0),), "topic"),
        ((TopicPartition("orders", -1),), "partition of orders"),
        (tuple(TopicPartition("t", number) for number in range(PARTITIONS_MAX + 1)), "at most 1000"),
    ],
    ids=["none", "twice", "name", "number", "too many"],
)
def test_a_request_that_means_nothing_is_not_written(
    partitions: tuple[TopicPartition, ...], message: str
) -> None:
    """One clear error before anything is asked for."""
    with pytest.raises(ConfigError, match=message):
        UncleanElection(partitions, 1, "me").encode()


def test_what_came_of_the_largest_request_fits_a_znode() -> None:
    """Longest names, largest numbers, and reasons that are cut to their bound."""
    reason = "x" * (REASON_MAX + 50)
    verdicts = tuple(
        PartitionVerdict(TopicPartition("t" * 255, 2**31 - 1 - number), "not_needed", 2**31 - 1, reason)
        for number in range(PARTITIONS_MAX)
    )

    assert len(UncleanElectionDone(verdicts, 2**31 - 1, 2**62, reason).encode()) < 900_000
    (cut,) = UncleanElectionDone.decode(
        "/x", UncleanElectionDone((PartitionVerdict(ORDERS, "refused", None, reason),), 1, 1).encode()
    ).partitions
    assert cut.reason == "x" * REASON_MAX


@pytest.mark.parametrize(
    "change",
    [
        {"type": "preferred"},
        {"type": None},
        {"time": 5},
        {"by": None},
        {"partitions": None},
        {"partitions": ["orders"]},
        {"partitions": [{"topic": "orders", "partition": 0}]},
        {"partitions": [{"topic": "orders", "partition": "-1"}]},
        {"partitions": [{"partition": "0"}]},
    ],
    ids=str,
)
def test_a_request_that_is_not_quite_one_is_corrupt(change: dict[str, Any]) -> None:
    """The controller then elects no leader."""
    with pytest.raises(CorruptZnodeError, match="/the/path"):
        UncleanElection.decode("/the/path", json.dumps({**json.loads(REQUEST.encode()), **change}).encode())


@pytest.mark.parametrize(
    "change",
    [{"verdict": "perhaps"}, {"verdict": None}, {"leader": 2}, {"leader": "-1"}, {"reason": None}],
    ids=str,
)
def test_an_outcome_that_is_not_quite_one_is_corrupt(change: dict[str, Any]) -> None:
    """The tool then says so instead of a verdict."""
    fields = json.loads(DONE.encode())
    fields["partitions"][0].update(change)
    with pytest.raises(CorruptZnodeError, match="/the/path"):
        UncleanElectionDone.decode("/the/path", json.dumps(fields).encode())


def test_an_outcome_that_cannot_be_is_not_written() -> None:
    """No verdict of that name, no such leader, no such epoch."""
    for verdict in (
        PartitionVerdict(ORDERS, "perhaps", 1),  # type: ignore[arg-type]
        PartitionVerdict(ORDERS, "elected", -1),
    ):
        with pytest.raises(ConfigError):
            UncleanElectionDone((verdict,), 1, 1).encode()
    with pytest.raises(ConfigError):
        UncleanElectionDone((), -1, 1).encode()
