"""`/controller` in all its formats, and the znodes that zkgroup controllers write beside it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.znodes.admin_requests import Move
from zkgroup.znodes.controller import (
    BARE,
    ControllerEpoch,
    ControllerRecord,
    ControllerRegistration,
    ControllerStatus,
    ResignRequest,
    StandbyController,
)
from zkgroup.znodes.reassignment_records import FinishedReassignment, StoredPlan

TP = TopicPartition("orders", 0)
RECORD = ControllerRecord(1, 2**40, "controller 2 gone", 1396019252998)
PLAN = StoredPlan(
    ((Move(TP, (1, 2)), Move(TopicPartition("orders", 1), (2,))), (Move(TP, (3,)),)),
    "running", 1, 1396019252998, "me@host", throttle=2**33,
)  # fmt: skip


def test_the_bare_id_of_old_controllers_is_read() -> None:
    """Before 0.8 it was all there is."""
    controller = ControllerRegistration.decode("/controller", b"3")

    assert controller == ControllerRegistration(3, None, BARE)
    with pytest.raises(ConfigError, match="version"):
        controller.encode()


def test_a_controller_of_3_4_and_later_is_read() -> None:
    """Version 2 shows whether a KRaft controller has taken over."""
    zookeeper = b'{"version":2,"brokerid":1,"timestamp":"5","kraftControllerEpoch":-1}'
    kraft = b'{"version":2,"brokerid":3000,"timestamp":"5","kraftControllerEpoch":1}'

    assert (
        ControllerRegistration.decode("/x", zookeeper).broker,
        ControllerRegistration.decode("/x", zookeeper).kraft_epoch,
    ) == (
        1,
        None,
    )
    assert (
        ControllerRegistration.decode("/x", kraft).broker,
        ControllerRegistration.decode("/x", kraft).kraft_epoch,
    ) == (3000, 1)
    assert ControllerRegistration.decode("/x", kraft).encode() == kraft
    assert ControllerRegistration(1, 5).kraft_epoch is None


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"true",
        b"3.5",
        b"99999999999",
        b'"3"',
        b"[3]",
        b"{}",
        b'{"brokerid":"3"}',
        b'{"brokerid":true}',
    ],
)
def test_what_names_no_controller_is_corrupt(data: bytes | None) -> None:
    """A text that is no number of 32 bits, an object without the id."""
    with pytest.raises(CorruptZnodeError, match="/controller"):
        ControllerRegistration.decode("/controller", data)


@pytest.mark.parametrize(
    "controller",
    [
        ControllerRegistration(-1, 5),
        ControllerRegistration(2**31, 5),
        ControllerRegistration(1, None),
        ControllerRegistration(1, 5, 1, {"brokerid": 2}),
    ],
    ids=str,
)
def test_a_controller_that_cannot_be_is_not_written(controller: ControllerRegistration) -> None:
    """No id, no time, or a key of Kafka's twice."""
    with pytest.raises(ConfigError):
        controller.encode()


def test_an_epoch_is_its_digits() -> None:
    """From 0, which 2.1 and later start with, to the largest Java int."""
    for epoch in (0, 1, 2**31 - 1):
        assert ControllerEpoch(epoch).encode() == str(epoch).encode()
        assert ControllerEpoch.decode("/x", str(epoch).encode()) == ControllerEpoch(epoch)
    for epoch in (-1, 2**31):
        with pytest.raises(ConfigError):
            ControllerEpoch(epoch).encode()
    for data in (b"2147483648", b"1.0", b" 1", b"x", b"", None):
        with pytest.raises(CorruptZnodeError):
            ControllerEpoch.decode("/x", data)


OURS: list[tuple[Any, dict[str, object]]] = [
    (
        RECORD,
        {
            "version": 1,
            "broker": 1,
            "session": str(2**40),
            "reason": "controller 2 gone",
            "from": "1396019252998",
        },
    ),
    (
        RECORD.loaded(120).over(1396019253998, "asked to"),
        {
            "version": 1,
            "broker": 1,
            "session": str(2**40),
            "reason": "controller 2 gone",
            "from": "1396019252998",
            "until": "1396019253998",
            "load_ms": "120",
            "ended": "asked to",
        },
    ),
    (
        ControllerStatus(1, 7, 2**40, 1396019252998),
        {"version": 1, "broker": 1, "epoch": 7, "zxid": str(2**40), "time": "1396019252998"},
    ),
    (
        StandbyController("h", 9092, 1396019252998),
        {"version": 1, "host": "h", "port": 9092, "time": "1396019252998"},
    ),
    (
        FinishedReassignment(TP, (1, 2), (3, 10), "done", "", 7),
        {
            "version": "1",
            "topic": "orders",
            "partition": "0",
            "from": "1,2",
            "to": "3,10",
            "outcome": "done",
            "reason": "",
            "epoch": "7",
        },
    ),
    (
        PLAN,
        {
            "version": 1,
            "state": "running",
            "next": 1,
            "phases": [
                [
                    {"topic": "orders", "partition": 0, "replicas": [1, 2]},
                    {"topic": "orders", "partition": 1, "replicas": [2]},
                ],
                [{"topic": "orders", "partition": 0, "replicas": [3]}],
            ],
            "time": "1396019252998",
            "by": "me@host",
            "reason": "",
            "throttle": str(2**33),
        },
    ),
]
OPTIONAL = ("version", "until", "load_ms", "ended", "throttle")


@pytest.mark.parametrize(("value", "fields"), OURS, ids=lambda each: type(each).__name__)
def test_our_own_znodes_survive_the_round_trip(value: Any, fields: dict[str, object]) -> None:
    """Numbers that may exceed 32 bits are text; decoding returns an equal value."""
    assert json.loads(value.encode()) == fields
    assert type(value).decode("/x", value.encode()) == value


@pytest.mark.parametrize(("value", "fields"), OURS, ids=lambda each: type(each).__name__)
def test_missing_and_mistyped_keys_are_corrupt(value: Any, fields: dict[str, object]) -> None:
    """Each key that must be there is missed, and none is taken in another type."""
    for key in fields:
        if key == "version":
            continue
        without = {name: field for name, field in fields.items() if name != key}
        for broken in ([] if key in OPTIONAL else [without]) + [{**fields, key: 0.5}, {**fields, key: None}]:
            with pytest.raises(CorruptZnodeError, match=key) as refused:
                type(value).decode("/the/path", json.dumps(broken).encode())
            assert refused.value.path == "/the/path"


def test_keys_of_later_zkgroup_versions_are_kept() -> None:
    """By the records that are written more than once."""
    for value in (RECORD, PLAN):
        data = value.encode()[:-1] + b',"new":{"a":[1]}}'
        assert type(value).decode("/x", data).encode() == data


@pytest.mark.parametrize(
    "value",
    [
        ControllerRecord(-1, 1, "", 0),
        ControllerRecord(1, 1, "\udcff", 0),
        ControllerRecord(1, 1, "", 0, ended="\udcff"),
        ControllerStatus(1, -1, 0, 0),
        ControllerStatus(-1, 1, 0, 0),
        ResignRequest(0),
        ResignRequest(2**63),
        StandbyController("h", 0, 0),
        StandbyController("\udcff", 1, 0),
        FinishedReassignment(TP, (), (), "gone", "", 1),  # type: ignore[arg-type]
        FinishedReassignment(TP, (), (), "done", "", -1),
        StoredPlan(((),), "running", 0, 0, ""),
        StoredPlan(((Move(TP, (1,)), Move(TP, (2,))),), "running", 0, 0, ""),
        StoredPlan(((Move(TP, (1, 1)),),), "running", 0, 0, ""),
        StoredPlan(((Move(TP, (1,)),),), "running", 2, 0, ""),
        StoredPlan(((Move(TP, (1,)),),), "waiting", 0, 0, ""),  # type: ignore[arg-type]
        StoredPlan(((Move(TP, (1,)),),), "running", 0, 0, "", throttle=0),
        StoredPlan(((Move(TP, (1,)),),) * 20_000, "running", 0, 0, ""),
    ],
    ids=lambda value: repr(value)[:70],
)
def test_what_cannot_be_is_not_written(value: Any) -> None:
    """Neither ids nor states nor phases that no reader should meet."""
    with pytest.raises(ConfigError):
        value.encode()


def test_words_that_there_are_not_are_corrupt() -> None:
    """An outcome and a state come from a list; a phase beyond the end does not exist."""
    for value, key, wrong in (
        (OURS[4][0], "outcome", "gone"),
        (OURS[4][0], "from", "1,x"),
        (OURS[4][0], "partition", "-1"),
        (PLAN, "state", "waiting"),
        (PLAN, "next", 3),
        (PLAN, "phases", {}),
    ):
        fields = {**json.loads(value.encode()), key: wrong}
        with pytest.raises(CorruptZnodeError, match=key):
            type(value).decode("/x", json.dumps(fields).encode())


def test_the_record_of_a_dropped_move_shows_the_request_as_it_was() -> None:
    """An empty list, a broker twice, a name that no topic has: that is why it was dropped."""
    record = FinishedReassignment(TopicPartition("a/b", 0), (), (1, 1), "dropped", "no such topic", 3)

    assert FinishedReassignment.decode("/x", record.encode()) == record


def test_the_record_of_a_move_names_others_that_may_have_a_replica() -> None:
    """Where there are none, as mostly, it has no such key."""
    record = FinishedReassignment(TP, (1, 2), (1, 2), "cancelled", "", 7, (3, 10))

    assert json.loads(record.encode())["left"] == "3,10"
    assert FinishedReassignment.decode("/x", record.encode()) == record
    with pytest.raises(CorruptZnodeError, match="left"):
        FinishedReassignment.decode("/x", record.encode().replace(b"3,10", b"3;10"))


def test_a_request_to_resign_is_the_czxid_in_digits() -> None:
    """The czxid of the `/controller` that should resign; other data is of no controller."""
    assert ResignRequest(2**40).encode() == str(2**40).encode()
    assert ResignRequest.decode("/x", str(2**40).encode()) == ResignRequest(2**40)
    for data in (None, b"", b"x", b"9" * 30):
        with pytest.raises(CorruptZnodeError):
            ResignRequest.decode("/x", data)


def test_the_next_phase_of_a_plan() -> None:
    """The next phase, a state, a reason; the moves stay."""
    further = PLAN.at(2, "done")

    assert (further.next_phase, further.state, further.phases) == (2, "done", PLAN.phases)
    assert StoredPlan.decode("/x", further.encode()) == further


def test_names_of_our_znodes() -> None:
    """Their paths, and the meaning of their children's names."""
    assert ControllerRecord.path(7) == "/zkgroup/controller/history/7"
    assert [ControllerRecord.epoch_of(name) for name in ("7", "-1", "x", "2147483648")] == [
        7,
        None,
        None,
        None,
    ]
    assert ControllerStatus.path() == "/zkgroup/controller/status"
    assert ResignRequest.path() == "/zkgroup/controller/resign"
    assert StandbyController.path(3) == "/zkgroup/controllers/3"
    assert FinishedReassignment.path(4) == "/zkgroup/reassignments/done-0000000004"
    assert FinishedReassignment.sequence_of("done-0000000004") == 4
    assert StoredPlan.path(StoredPlan.validate_id("move-1")) == "/zkgroup/plans/move-1"
    for plan in ("", "..", "a/b"):
        with pytest.raises(ConfigError, match="plan"):
            StoredPlan.validate_id(plan)
