"""Properties of the codecs: what is written is read back; any other data is read or reported as corrupt."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.java_regex import compile_java, normalise
from zkgroup.model import StaticSubscription, TopicPartition, Whitelist
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.consumers import Offset, Owner, Registration, subscription_kind
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration
from zkgroup.znodes.group_records import Reset, StoredAssignment, View
from zkgroup.znodes.ids import make_member_id, parse_member_id, split_thread_id, thread_id
from zkgroup.znodes.json_fields import JvmJsonError, parse

CODECS: list[Any] = [
    BrokerRegistration,
    ControllerRegistration,
    ControllerEpoch,
    Offset,
    Owner,
    PartitionState,
    StoredAssignment,
    Registration,
    Reset,
    Topic,
    TopicConfig,
    View,
]
NAMES = st.text("abcXYZ019._-", min_size=1, max_size=8)
THREADS = st.integers(1, 2**31 - 1)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        "version",
        "subscription",
        "pattern",
        "timestamp",
        "host",
        "port",
        "endpoints",
        "partitions",
        "isr",
        "leader",
        "leader_epoch",
        "controller_epoch",
        "brokerid",
        "config",
        "generation",
        "inputs",
        "owners",
        "offset",
        "time",
        "by",
    ]
)
DOCUMENTS = st.dictionaries(KEYS, JSON, max_size=6).map(lambda value: json.dumps(value).encode())


@given(
    st.dictionaries(NAMES, THREADS, max_size=6),
    st.integers(0, 2**53),
    st.dictionaries(NAMES, st.text(), max_size=3),
)
def test_a_static_registration_survives_the_round_trip(
    topics: dict[str, int], timestamp_ms: int, extensions: dict[str, str]
) -> None:
    """Any topics, time and extension texts come back, or are refused before they are written."""
    registration = Registration.of(StaticSubscription(topics), timestamp_ms, extensions)
    with suppress(ConfigError):  # lone surrogates
        assert Registration.decode("/x", registration.encode()) == registration


@given(st.text(max_size=12), THREADS)
def test_a_wildcard_survives_the_round_trip(expression: str, threads: int) -> None:
    """Any regular expression that Java accepts comes back unchanged; others are refused."""
    with suppress(ConfigError):
        data = Registration.of(Whitelist(expression, threads), 1).encode()
        assert Registration.decode("/x", data).wanted() == Whitelist(expression, threads)
        assert subscription_kind(data) == "jvm"


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.__name__)
@given(st.none() | st.binary(max_size=40) | DOCUMENTS)
def test_whatever_is_stored_is_read_or_reported(codec: Any, data: bytes | None) -> None:
    """A codec raises CorruptZnodeError for invalid bytes, and no other error."""
    with suppress(CorruptZnodeError):
        codec.decode("/x", data)


@given(JSON.filter(lambda value: isinstance(value, dict | list)))
def test_the_jvm_reader_agrees_with_python_where_it_accepts(value: Any) -> None:
    """Both readers give the same value for a standard document, or refuse it because of its numbers."""
    with suppress(JvmJsonError):
        assert parse(json.dumps(value).encode()) == value


@given(st.text(max_size=30))
def test_the_jvm_reader_raises_nothing_else(text: str) -> None:
    """The reader returns a document or raises JvmJsonError, for any text."""
    with suppress(JvmJsonError):
        parse(text.encode("utf-8", "surrogatepass"))


@given(st.text("ab1.-_|*+?(){}[]^$\\,:=!<>&~# \"'wdsbpQAzZiuxk", max_size=14))
def test_any_expression_is_compiled_or_refused(text: str) -> None:
    """The translator raises ConfigError only, and its output causes no warning of Python."""
    with suppress(ConfigError):
        compile_java(normalise(text))


@given(NAMES.filter(lambda name: name not in (".", "..")), NAMES, st.integers(0, 10**9 - 1))
def test_ids_are_taken_apart_as_they_were_put_together(group: str, host: str, number: int) -> None:
    """Ids are split as they were joined, whatever separators group and host contain."""
    member = make_member_id(group, None, host, 1396019241689, "0123abcd")
    parsed = parse_member_id(group, member)

    assert parsed is not None
    assert (parsed.host, parsed.started_ms) == (host, 1396019241689)
    assert split_thread_id(thread_id(member, number)) == (member, number)


@given(st.dictionaries(st.tuples(NAMES, st.integers(0, 2**31 - 1)), NAMES, max_size=8), st.integers(0, 2**62))
def test_a_plan_survives_the_round_trip(owners: dict[tuple[str, int], str], generation: int) -> None:
    """Any owners of any partitions come back."""
    plan = StoredAssignment(
        generation, "ab", {TopicPartition(*key): thread for key, thread in owners.items()}
    )

    assert StoredAssignment.decode("/x", plan.encode()) == plan
