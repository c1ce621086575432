"""`BrokerSettings`: every number has bounds, and an error names the setting, what is expected and found."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest

from zkgroup.broker.security_settings import security_of
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import ConfigError
from zkgroup.security.listeners import is_wildcard

NUMBERS = {item.name: item.metadata["bounds"] for item in fields(BrokerSettings) if "int" in str(item.type)}


def _with(name: str, value: int) -> BrokerSettings:
    """The settings with one value; those of sessions have to fit each other, and a rack a registration."""
    values: dict[str, Any] = {name: value}
    if name == "group_max_session_timeout_ms":
        values["group_min_session_timeout_ms"] = 1
    if name == "group_min_session_timeout_ms":
        values["group_max_session_timeout_ms"] = NUMBERS["group_max_session_timeout_ms"][-1]
    return BrokerSettings(**values)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_has_bounds(name: str) -> None:
    """Those are taken, and the next ones are not."""
    bounds = NUMBERS[name]
    assert isinstance(bounds, range)

    for value in (bounds.start, bounds.stop - 1):
        assert getattr(_with(name, value), name) == value
    for value in (bounds.start - 1, bounds.stop):
        expected = f"setting {name}: expected {bounds.start} to {bounds.stop - 1}, found {value}"
        with pytest.raises(ConfigError, match=re.escape(expected)):
            _with(name, value)


def test_the_bounds_are_those_of_what_a_number_is_for() -> None:
    """A port, a percentage, what a request has room for, and Kafka's types."""
    assert NUMBERS["advertised_port"] == range(1, 65_536)
    assert NUMBERS["leader_imbalance_per_broker_percentage"] == range(101)
    assert NUMBERS["default_replication_factor"] == range(1, 2**15)
    assert NUMBERS["session_timeout_ms"] == range(1, 2**31)
    assert NUMBERS["log_retention_ms"] == range(-1, 2**63)
    assert NUMBERS["min_insync_replicas"] == range(1, 2**31)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "", "*", "0", "0x0", "::0", "0:0:0:0:0:0:0:0", "::ffff:0.0.0.0"]
)
def test_a_wildcard_is_registered_for_no_client(host: str) -> None:
    """A broker may listen on it, but needs another name for its registration."""
    with pytest.raises(ConfigError, match=r"--set advertised.host.name=NAME"):
        security_of(None, host, 0, BrokerSettings())
    with pytest.raises(ConfigError, match="setting advertised_host_name"):
        BrokerSettings(advertised_host_name=host)
    security_of(None, host, 0, BrokerSettings(advertised_host_name="outside"))


@pytest.mark.parametrize(
    "host",
    [
        "http://h",
        "h:9092",
        "[::1]",
        "h,i",
        "h/c",
        "h i",
        "h\0",
        "\uff10.\uff10.0.0",
        "0\u30020.0.0",
        "h" * 300,
    ],
)
def test_a_host_is_a_name_or_an_address_alone(host: str) -> None:
    """The port has a setting of its own, and clients would look the whole text up. A wildcard in digits that
    the resolver takes for ASCII is none to listen on."""
    with pytest.raises(ConfigError, match="no scheme, no port"):
        BrokerSettings(advertised_host_name=host)
    with pytest.raises(ConfigError, match=r"host: expected .* no port\), found"):
        security_of(None, host, 0, BrokerSettings())
    for right in ("h", "h-1.example.org", "127.0.0.1", "::1", "fe80::1%eth0"):
        security_of(None, right, 0, BrokerSettings(advertised_host_name=right))


def test_other_hosts_are_no_wildcards() -> None:
    """Names are not looked up."""
    assert not any(map(is_wildcard, ("127.0.0.1", "::1", "localhost", "no.such.name", "é", "0.0.0.0.x")))
