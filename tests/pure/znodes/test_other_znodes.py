"""Owners, offsets, zkgroup's znodes of a group, brokers and topics: formats and refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.consumers import Offset, Owner, Registration
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration
from zkgroup.znodes.group_records import Reset, StoredAssignment, View

TP = TopicPartition("orders", 3)


def test_paths_are_kafkas() -> None:
    """Every path is built from its parent's and is the path that Kafka reads."""
    assert [
        Registration.path("g", "g_a"),
        Owner.path("g", TP),
        Offset.path("g", TP),
        Reset.path("g", TP),
        View.path("g", "g_a"),
        StoredAssignment.path("g"),
        BrokerRegistration.path(1),
        Topic.path("orders"),
        PartitionState.path(TP),
        ControllerRegistration.path(),
        ControllerEpoch.path(),
        TopicConfig.path("orders"),
    ] == [
        "/consumers/g/ids/g_a",
        "/consumers/g/owners/orders/3",
        "/consumers/g/offsets/orders/3",
        "/consumers/g/resets/orders-3",
        "/consumers/g/views/g_a",
        "/consumers/g/plan",
        "/brokers/ids/1",
        "/brokers/topics/orders",
        "/brokers/topics/orders/partitions/3/state",
        "/controller",
        "/controller_epoch",
        "/config/topics/orders",
    ]


def test_an_owner_is_the_bare_thread_id() -> None:
    """No newline, no JSON, nothing after it."""
    owner = Owner("g_a-1-0")

    assert owner.encode() == b"g_a-1-0"
    assert Owner.decode("/x", b"g_a-1-0") == owner
    assert (owner.member, owner.thread) == ("g_a-1", 0)
    with pytest.raises(ConfigError):
        Owner("g_a").encode()


def test_an_owner_written_by_a_foreign_client_is_shown_as_it_is() -> None:
    """Text that is no thread id is readable, but names no member; no text at all is corrupt."""
    foreign = Owner.decode("/x", b"somebody")

    assert (foreign.thread_id, foreign.member, foreign.thread) == ("somebody", None, None)
    for data in (None, b"", b"\xff"):
        with pytest.raises(CorruptZnodeError):
            Owner.decode("/x", data)


def test_an_owner_names_a_member_by_its_thread_id_or_by_its_id_alone() -> None:
    """kazoo-go and kafka-node write the id of the registration, which may look like a thread id."""
    members = ["host", "host-1", "host-10", "host:7b0cfb39-0001", "hos"]

    def named(text: str) -> list[str]:
        return [member for member in members if member in Owner(text).members]

    assert named("host-0") == ["host"]
    assert named("host-1") == ["host", "host-1"]
    assert named("host-1-0") == ["host-1"]
    assert named("host:7b0cfb39-0001") == ["host:7b0cfb39-0001"]
    assert named("host-01") == named("ho") == []


@pytest.mark.parametrize(
    ("value", "data"), [(0, b"0"), (42, b"42"), (-1, b"-1"), (2**63 - 1, b"9223372036854775807")]
)
def test_an_offset_is_exactly_its_decimal_digits(value: int, data: bytes) -> None:
    """Zero is `0`; there is no sign, no white space, no newline."""
    assert Offset(value).encode() == data
    assert Offset.decode("/x", data) == Offset(value)


@pytest.mark.parametrize(("value", "position"), [(-2, None), (-1, None), (0, 0), (1, 1)])
def test_what_is_negative_is_no_position(value: int, position: int | None) -> None:
    """The first record of a partition is at 0."""
    assert Offset(value).position == position


@pytest.mark.parametrize("value", [-(2**63) - 1, 2**63])
def test_what_is_no_offset_is_not_written(value: int) -> None:
    """Beyond 64 bits nothing is stored."""
    with pytest.raises(ConfigError):
        Offset(value).encode()


@pytest.mark.parametrize("data", [b"1" * 5000, "𝟓".encode(), b"5_0", b"--5", b"+", b"-"])
def test_numbers_that_only_python_would_read_are_corrupt(data: bytes) -> None:
    """Java's parser knows no underscores, no digits above U+FFFF, and we no numbers of 5,000 digits."""
    with pytest.raises(CorruptZnodeError):
        Offset.decode("/x", data)


OURS: list[tuple[Any, dict[str, object]]] = [
    (
        Reset(42, 1396019252998, "me@host"),
        {"version": 1, "offset": "42", "time": "1396019252998", "by": "me@host"},
    ),
    (
        StoredAssignment(
            4294967321, "ab12", {TopicPartition("t", 10): "g_a-0", TopicPartition("t", 2): "g_b-0"}
        ),
        {
            "version": 1,
            "generation": "4294967321",
            "inputs": "ab12",
            "owners": {"t": {"2": "g_b-0", "10": "g_a-0"}},
        },
    ),
    (View(7, "ab", "cd"), {"version": 1, "generation": "7", "inputs": "ab", "result": "cd"}),
]


@pytest.mark.parametrize(("value", "fields"), OURS, ids=lambda each: type(each).__name__)
def test_our_own_znodes_survive_the_round_trip(value: Any, fields: dict[str, object]) -> None:
    """They are JSON with numbers as text, and come back equal, with unknown keys or without."""
    assert json.loads(value.encode()) == fields
    assert type(value).decode("/x", value.encode()) == value
    assert type(value).decode("/x", json.dumps({**fields, "new": [1.5]}).encode()) == value


@pytest.mark.parametrize(("value", "fields"), OURS, ids=lambda each: type(each).__name__)
def test_missing_and_mistyped_keys_are_corrupt(value: Any, fields: dict[str, object]) -> None:
    """Each key but the version is needed, in its type."""
    for key in fields:
        if key == "version":
            continue
        without = {name: field for name, field in fields.items() if name != key}
        for broken in (without, {**fields, key: 5}, {**fields, key: None}):
            with pytest.raises(CorruptZnodeError, match=key) as refused:
                type(value).decode("/the/path", json.dumps(broken).encode())
            assert refused.value.path == "/the/path"


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"[]",
        b"5",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b"{" * 100_000,
        b'{"a":NaN}',
        b'{"a":' + b"9" * 10_000 + b"}",
    ],
    ids=lambda data: repr(data)[:20],
)
def test_hostile_data_is_reported_and_ends_nothing(data: bytes | None) -> None:
    """Null, other JSON, broken text, deep nesting and huge numbers all raise CorruptZnodeError."""
    for codec in (
        Reset,
        StoredAssignment,
        View,
        BrokerRegistration,
        Topic,
        PartitionState,
    ):
        with pytest.raises(CorruptZnodeError):
            codec.decode("/x", data)


def test_a_plan_too_big_for_one_request_is_refused() -> None:
    """Below jute.maxbuffer it is written, beyond it refused with the size."""
    owners = {TopicPartition("t", n): "g_" + "x" * 1000 + "-0" for n in range(1000)}

    with pytest.raises(ConfigError, match="1000 partitions"):
        StoredAssignment(1, "x", owners).encode()


def test_the_partition_of_a_reset_marker_is_read_from_the_right() -> None:
    """Topics may hold dashes; foreign names are no partitions."""
    assert Reset.partition_of("page-views-10") == TopicPartition("page-views", 10)
    assert [Reset.partition_of(name) for name in ("", "t", "t-", "-1", "t-x", "t--")] == [None] * 6


def test_partitions_of_a_topic_are_its_keys_in_numeric_order() -> None:
    """Gaps are kept, replica lists do not matter."""
    topic = Topic.decode("/x", b'{"version":1,"partitions":{"10":[1],"0":[],"2":[3,1]}}')

    assert topic.numbers == (0, 2, 10)


@pytest.mark.parametrize(
    "text",
    [
        '{"version":1}',
        '{"partitions":[]}',
        '{"partitions":{"x":[1]}}',
        '{"partitions":{"-1":[1]}}',
        '{"partitions":{"0":1}}',
        '{"partitions":{"0":["1"]}}',
        '{"partitions":{"0":[true]}}',
        '{"version":"1","partitions":{}}',
    ],
)
def test_a_broken_topic_is_corrupt(text: str) -> None:
    """Partitions must be an object of numbers to lists of broker ids."""
    with pytest.raises(CorruptZnodeError):
        Topic.decode("/brokers/topics/t", text.encode())


def test_broker_registrations_of_versions_2_and_3_are_read() -> None:
    """The examples of Kafka's own documentation, of versions that no recording has."""
    second = BrokerRegistration.decode(
        "/x",
        b'{"version":2,"host":"localhost","port":9092,"jmx_port":9999,"timestamp":"2233345666",'
        b'"endpoints":["PLAINTEXT://host1:9092","SSL://host1:9093"]}',
    )
    third = BrokerRegistration.decode(
        "/x",
        b'{"version":3,"host":null,"port":-1,"jmx_port":9999,"timestamp":"2233345666",'
        b'"endpoints":["SASL_SSL://host1:9093"],"rack":"dc1"}',
    )

    assert (second.host, second.port, second.timestamp_ms) == ("localhost", 9092, 2233345666)
    assert second.endpoints == ("PLAINTEXT://host1:9092", "SSL://host1:9093")
    assert (third.host, third.port, third.rack) == (None, -1, "dc1")


@pytest.mark.parametrize(
    "text",
    [
        '{"version":1,"port":1}',
        '{"version":1,"host":"h"}',
        '{"version":1,"host":"h","port":"1"}',
        '{"version":1,"host":null,"port":1}',
        '{"version":5,"port":1,"endpoints":[]}',
        '{"version":5,"port":1,"host":"h"}',
    ],
)
def test_a_broker_without_host_and_port_is_corrupt(text: str) -> None:
    """A JVM member fails every rebalance because of it; zkgroup reports the path."""
    with pytest.raises(CorruptZnodeError, match="/brokers/ids/7"):
        BrokerRegistration.decode("/brokers/ids/7", text.encode())


def test_a_brokers_unread_timestamp_may_be_anything() -> None:
    """The timestamp is not used, so an invalid one does not make the broker unreadable."""
    broker = BrokerRegistration.decode("/x", b'{"host":"h","port":1,"timestamp":1396019252998}')

    assert broker.timestamp_ms is None
