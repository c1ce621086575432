"""Registrations of members: the data that is written, and the values that are refused before."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zkgroup.errors import ConfigError, CorruptZnodeError
from zkgroup.model import Blacklist, StaticSubscription, Whitelist
from zkgroup.znodes.consumers import Registration, subscription_kind

PATH = "/consumers/g/ids/g_a"
EXTENSIONS = {"zkgroup": "0.1.0", "strategy": "range", "exclude_internal": "true"}


def test_a_static_registration_has_exactly_kafkas_bytes() -> None:
    """Two threads of one topic at a fixed time give the text that Kafka 0.8.2.2 writes."""
    registration = Registration.of(StaticSubscription({"topic1": 2}), 1396019252998)

    assert registration.encode() == (
        b'{"version":1,"subscription":{"topic1":2},"pattern":"static","timestamp":"1396019252998"}'
    )


def test_our_keys_come_after_kafkas_and_are_text() -> None:
    """Keys are version, subscription, pattern, timestamp, then extensions with text values."""
    data = Registration.of(StaticSubscription({"t": 1}), 1, EXTENSIONS).encode()
    fields = json.loads(data)

    assert list(fields) == ["version", "subscription", "pattern", "timestamp", *EXTENSIONS]
    assert all(isinstance(fields[key], str) for key in EXTENSIONS)
    assert subscription_kind(data) == "zkgroup"


def test_a_wildcard_expression_is_stored_escaped_as_kafka_does() -> None:
    """The escaped text equals the one recorded from a JVM member."""
    registration = Registration.of(Whitelist('(orders|x"y\\d/zé)', 2), 1)

    assert b'{"(orders|x\\"y\\\\d\\/z\xc3\xa9)":2}' in registration.encode()
    assert Registration.decode(PATH, registration.encode()) == registration
    assert registration.wanted() == Whitelist('(orders|x"y\\d/zé)', 2)


def test_a_subscription_comes_back_as_it_was_asked_for() -> None:
    """Static, white and black lists survive the round trip through the znode."""
    for wanted in (
        StaticSubscription({"b": 2, "a": 1}),
        Whitelist("a.*", 3),
        Blacklist("x|y"),
        StaticSubscription({}),
    ):
        registration = Registration.decode(PATH, Registration.of(wanted, 5, EXTENSIONS).encode())

        assert registration.wanted() == wanted
        assert (registration.strategy, registration.exclude_internal) == ("range", True)


@pytest.mark.parametrize(
    "registration",
    [
        Registration({"t": 0}, "static", 1),
        Registration({"t": 2**31}, "static", 1),
        Registration({"t": True}, "static", 1),
        Registration({'a"b': 1}, "static", 1),
        Registration({"a\\n": 1}, "static", 1),
        Registration({"t": 1}, "regex", 1),
        Registration({"a": 1, "b": 1}, "white_list", 1),
        Registration({}, "black_list", 1),
        Registration({"(": 1}, "white_list", 1),
        Registration({"t": 1}, "static", 1, {"zkgroup": 1}),
        Registration({"t": 1}, "static", 1, {"pattern": "static"}),
        Registration({"t": 1}, "static", 1, {"x": "\ud800"}),
    ],
    ids=lambda registration: f"{registration.subscription} {registration.pattern} {registration.extensions}",
)
def test_nothing_is_encoded_that_a_jvm_member_would_read_otherwise(registration: Registration) -> None:
    """Encoded bytes are decoded with the JVM's rules before they are returned."""
    with pytest.raises(ConfigError):
        registration.encode()


def test_extension_values_may_hold_any_character() -> None:
    """Quotes, newlines and control characters are escaped so that the JVM reader gets them back."""
    extensions = {"zkgroup": '0.1"\n\x1a\\', "é": "/"}
    registration = Registration.of(StaticSubscription({"t": 1}), 1, extensions)

    assert Registration.decode(PATH, registration.encode()).extensions == extensions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}', "jvm"),
        ('{"version":1,"subscription":{"a\\\\.b":1},"pattern":"white_list","timestamp":"1"}', "jvm"),
        ('{"version":1,"subscription":{},"pattern":"static","timestamp":"1"}', "jvm"),
        ('{ "pattern":"static", "subscription":{ "t": 1 }, "version":1 }', "jvm"),
        ('{ "pattern":"static", "subscription":{ "a": 1,"b": 2 }, "timestamp":"12", "version":1 }', "jvm"),
        ('{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":1}', "unknown"),
        ('{"version":1,"subscription":{"t":1},"pattern":"static"}', "unknown"),
        ('{"version":1,"pattern":"static","subscription":{"t":1},"timestamp":"1"}', "unknown"),
        ('{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"01"}', "unknown"),
        ('{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"} ', "unknown"),
        ('{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1","x":"y"}', "unknown"),
        ('{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1","zkgroup":"9"}', "zkgroup"),
        ("t", "unknown"),
    ],
)
def test_the_kind_of_a_registration(text: str, expected: str) -> None:
    """zkgroup by its key, a JVM member by its exact text, anything else is unknown."""
    assert subscription_kind(text.encode()) == expected


def test_a_registration_without_data_is_of_unknown_kind() -> None:
    """Null data neither fails nor counts as a zkgroup or JVM member."""
    assert subscription_kind(None) == "unknown"


def test_the_error_says_path_expected_and_found() -> None:
    """What a person needs to find the culprit is in the error, cut to a bearable length."""
    with pytest.raises(CorruptZnodeError) as refused:
        Registration.decode(PATH, b'{"pattern":"static","subscription":{"t":"1"},"x":"' + b"y" * 5000 + b'"}')

    assert refused.value.path == PATH
    assert refused.value.expected == "a thread count of at least 1 for 't'"
    assert refused.value.found == "'1'"
    with pytest.raises(CorruptZnodeError) as refused:
        Registration.decode(PATH, b"x" * 5000)
    assert len(str(refused.value)) < 300


def test_a_wildcard_of_several_entries_is_read_as_far_as_the_jvms_order_is_known() -> None:
    """The first of up to four entries counts; beyond that Scala's hash order decides, so it is refused."""
    entries: dict[str, Any] = {f"t{n}": 1 for n in range(4)}
    text = {"subscription": entries, "pattern": "white_list"}

    assert Registration.decode(PATH, json.dumps(text).encode()).wanted() == Whitelist("t0", 1)
    entries["t4"] = 1
    with pytest.raises(CorruptZnodeError, match="5 of them"):
        Registration.decode(PATH, json.dumps(text).encode())
