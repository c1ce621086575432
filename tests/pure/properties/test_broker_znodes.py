"""Properties of the znodes of brokers and controllers: nothing is lost, and 0.8.2.2 can read them."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.znodes.admin_requests import PreferredElection, Reassignment, TopicDeletion
from zkgroup.znodes.brokers import BrokerRegistration, Endpoint, PartitionState, Topic
from zkgroup.znodes.cluster import BrokerSequence, ClusterId, FinalizedFeatures, ProducerIdBlock
from zkgroup.znodes.config import ConfigEntity, EntityConfig, TopicConfig
from zkgroup.znodes.config_settings import parse_throttled_replicas, throttled_replicas
from zkgroup.znodes.controller import (
    ControllerEpoch,
    ControllerRecord,
    ControllerRegistration,
    ControllerStatus,
    ResignRequest,
    StandbyController,
)
from zkgroup.znodes.json_fields import parse
from zkgroup.znodes.notifications import ConfigChange, IsrChange, LogDirEvent
from zkgroup.znodes.reassignment_records import FinishedReassignment, StoredPlan

MOVE = {"topic": "orders", "partition": 0, "replicas": [1, 2]}
EXAMPLES: dict[Any, dict[str, object]] = {
    BrokerRegistration: {
        "version": 5,
        "host": "h",
        "port": 9092,
        "jmx_port": -1,
        "timestamp": "1396019252998",
        "endpoints": ["PLAINTEXT://h:9092", "C://h:9093"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT", "C": "SSL"},
        "rack": "r",
        "features": {"f": {"min_version": 1, "max_version": 2}},
    },
    Topic: {
        "version": 3,
        "partitions": {"0": [1, 2], "1": [2]},
        "adding_replicas": {"0": [2]},
        "removing_replicas": {},
        "topic_id": "49u9B29tSf6B5zpRToHwWA",
    },
    PartitionState: {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1, 2]},
    ControllerRegistration: {"version": 2, "brokerid": 1, "timestamp": "5", "kraftControllerEpoch": -1},
    TopicConfig: {"version": 1, "config": {"retention.ms": "1"}},
    EntityConfig: {"version": 1, "config": {"a": "b"}},
    ConfigChange: {"version": 2, "entity_path": "users/a/clients/b"},
    Reassignment: {"version": 1, "partitions": [MOVE]},
    PreferredElection: {"version": 1, "partitions": [MOVE]},
    IsrChange: {"version": 1, "partitions": [MOVE]},
    LogDirEvent: {"version": 1, "broker": 1, "event": 1},
    ClusterId: {"version": "1", "id": "fdIdZRi2SYi36v4VmTmbuQ"},
    FinalizedFeatures: {"features": {"f": {"max_version_level": 1}}, "version": 2, "status": 1},
    ProducerIdBlock: {"version": 1, "broker": 1, "block_start": "0", "block_end": "999"},
    ControllerRecord: {
        "version": 1,
        "broker": 1,
        "session": "5",
        "reason": "r",
        "from": "5",
        "until": "6",
        "load_ms": "1",
        "ended": "e",
    },
    ControllerStatus: {"version": 1, "broker": 1, "epoch": 1, "zxid": "5", "time": "5"},
    StandbyController: {"version": 1, "host": "h", "port": 1, "time": "5"},
    FinishedReassignment: {
        "version": "1",
        "topic": "t",
        "partition": "0",
        "from": "1",
        "to": "2,3",
        "outcome": "done",
        "reason": "",
        "epoch": "1",
    },
    StoredPlan: {
        "version": 1,
        "state": "running",
        "next": 0,
        "phases": [[MOVE]],
        "time": "5",
        "by": "me",
        "reason": "",
        "throttle": "5",
    },
}
FEW = 15
"""Examples for each of the many codecs."""

READ_ONLY = (FinalizedFeatures, ProducerIdBlock)
CODECS = [*EXAMPLES, BrokerSequence, ControllerEpoch, ResignRequest, TopicDeletion]
KEEPING = (
    BrokerRegistration,
    Topic,
    PartitionState,
    ControllerRegistration,
    TopicConfig,
    ControllerRecord,
    StoredPlan,
)

NAMES = st.text("abcXYZ019._-", min_size=1, max_size=8)
BROKERS = st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=4).map(tuple)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.integers(-3, 9),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=3,
)
INT32_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31 - 1) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=3,
)


@st.composite
def documents(draw: st.DrawFn, codec: Any) -> bytes:
    """A valid document with some keys changed, some removed and some added."""
    fields = dict(EXAMPLES[codec])
    keys = sorted(fields)
    fields.update(draw(st.dictionaries(st.sampled_from(keys), JSON, max_size=2)))
    for key in draw(st.lists(st.sampled_from(keys), max_size=1)):
        fields.pop(key, None)
    fields.update(
        draw(st.dictionaries(st.text(max_size=6).filter(lambda key: key not in keys), JSON, max_size=2))
    )
    return json.dumps(fields).encode()


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.__name__)
@settings(max_examples=FEW)
@given(st.data())
def test_whatever_is_stored_is_read_or_reported(codec: Any, data: st.DataObject) -> None:
    """A codec raises CorruptZnodeError for invalid bytes, and no other error."""
    near = documents(codec) if codec in EXAMPLES else JSON.map(lambda value: json.dumps(value).encode())
    with suppress(CorruptZnodeError):
        codec.decode("/x", data.draw(st.none() | st.binary(max_size=30) | near))


@pytest.mark.parametrize(
    "codec", [each for each in EXAMPLES if each not in READ_ONLY], ids=lambda each: each.__name__
)
@settings(max_examples=FEW)
@given(st.data())
def test_what_was_read_is_written_whole_or_refused(codec: Any, data: st.DataObject) -> None:
    """It comes back equal and 0.8.2.2's parser reads it; others are a ConfigError."""
    with suppress(CorruptZnodeError, ConfigError):
        value = codec.decode("/x", data.draw(documents(codec)))
        written = value.encode()
        assert codec.decode("/x", written) == value
        assert parse(written) == json.loads(written)


@pytest.mark.parametrize("codec", KEEPING, ids=lambda each: each.__name__)
@given(st.dictionaries(st.text(max_size=6), INT32_JSON, max_size=3))
def test_keys_that_we_do_not_know_are_kept(codec: Any, unknown: dict[str, object]) -> None:
    """Unknown keys are kept with any value that 0.8.2.2 can read."""
    fields = {**unknown, **EXAMPLES[codec]}

    assert json.loads(codec.decode("/x", json.dumps(fields).encode()).encode()) == fields


@given(st.dictionaries(st.integers(0, 2**31 - 1), BROKERS, max_size=6), st.integers(1, 3))
def test_a_topic_survives_the_round_trip(partitions: dict[int, tuple[int, ...]], version: int) -> None:
    """Any partitions of any brokers come back in the same order."""
    again = Topic.decode("/x", Topic(partitions, version).encode())

    assert again == Topic(partitions, version)
    assert list(again.partitions) == list(partitions)


@given(st.dictionaries(st.integers(0, 5), BROKERS), st.integers(0, 5), BROKERS, BROKERS, BROKERS)
def test_another_replica_list_changes_one_partition(
    partitions: dict[int, tuple[int, ...]],
    number: int,
    replicas: tuple[int, ...],
    adding: tuple[int, ...],
    removing: tuple[int, ...],
) -> None:
    """Other partitions keep their replica lists, their reassignments and their order."""
    before = Topic(partitions, 2, {9: (1,)}, {9: (2,)}, extensions={"x": 1})
    after = before.with_replicas(number, replicas, adding, removing)

    assert {**before.partitions, number: replicas} == after.partitions
    assert after.adding == ({9: (1,), number: adding} if adding else {9: (1,)})
    assert after.removing == ({9: (2,), number: removing} if removing else {9: (2,)})
    assert after.extensions == before.extensions


LISTENERS = st.lists(
    st.builds(
        Endpoint,
        st.text("ABC019._-", min_size=1, max_size=5),
        st.text("abc019.-_:", min_size=1, max_size=9),
        st.integers(1, 65535),
        st.sampled_from(["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda each: each.listener,
)


@given(LISTENERS, st.integers(1, 5), st.integers(0, 2**53), st.none() | st.text(max_size=5))
def test_a_registration_survives_the_round_trip(
    listeners: list[Endpoint], version: int, timestamp_ms: int, rack: str | None
) -> None:
    """In every format that can express it; 0.8.2.2 finds host and port of the first plaintext listener."""
    with suppress(ConfigError):
        broker = BrokerRegistration.of(listeners, timestamp_ms, version, rack=rack)
        written = broker.encode()
        assert BrokerRegistration.decode("/x", written) == broker
        assert parse(written) == json.loads(written)
        plain = next((each for each in listeners if each.protocol == "PLAINTEXT"), None)
        assert (broker.host, broker.port) == ((plain.host, plain.port) if plain else (None, -1))
        if version >= 4:
            assert broker.listeners == tuple(listeners)


@given(st.text(min_size=1, max_size=12), st.none() | st.text(min_size=1, max_size=12))
def test_names_of_users_and_clients_are_encoded_and_decoded(user: str, client: str | None) -> None:
    """Any two names have different paths of four parts, from which the names are read back."""
    with suppress(ConfigError):  # "." and ".."
        entity = ConfigEntity.user_client(user, client)
        assert ConfigEntity.parse("/x", entity.entity_path) == entity
        assert (entity.plain_name, entity.plain_client) == (user, client)
        assert entity.entity_path.isascii()
        assert len(entity.entity_path.split("/")) == 4
        assert ConfigChange.decode("/x", ConfigChange(entity, "v2").encode()).entity == entity


@given(st.dictionaries(st.text(min_size=1), st.text(), max_size=4), st.text(min_size=1), st.text())
def test_a_configuration_survives_the_round_trip(overrides: dict[str, str], name: str, value: str) -> None:
    """Any names and texts; 0.8.2.2 reads the same."""
    config = TopicConfig(overrides).changed({name: value})
    written = config.encode()

    assert TopicConfig.decode("/x", written) == config
    assert parse(written) == {"version": 1, "config": {**overrides, name: value}}


@given(st.sets(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)), max_size=5))
def test_throttled_replicas_survive_the_round_trip(replicas: set[tuple[int, int]]) -> None:
    """Each replica once, in any order."""
    assert parse_throttled_replicas(throttled_replicas(replicas)) == replicas


@given(NAMES)
def test_a_bare_notification_is_the_topic_between_quotes(topic: str) -> None:
    """The topic's name in quotes, which is the only form that 0.8.2.2 understands."""
    with suppress(ConfigError):  # "." and ".."
        assert ConfigChange(ConfigEntity.topic(topic), "bare").encode() == f'"{topic}"'.encode()
