"""Values of quotas and throttles that every broker can read."""

from __future__ import annotations

import pytest

from zkgroup.errors import ConfigError
from zkgroup.znodes.config import EntityKind
from zkgroup.znodes.config_settings import check_entity_settings


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("brokers", {"leader.replication.throttled.rate": "50000", "min.insync.replicas": "2", "own": "x"}),
        ("clients", {"producer_byte_rate": "9223372036854775807", "request_percentage": "12.5"}),
        (
            "users",
            {"consumer_byte_rate": "1", "controller_mutation_rate": "2.0E7", "request_percentage": ".5"},
        ),
        ("ips", {"connection_creation_rate": "2147483647"}),
    ],
)
def test_numbers_that_fit_are_taken(kind: EntityKind, settings: dict[str, str]) -> None:
    """Each kind its own, also as Kafka writes it; a broker may have any other setting too."""
    check_entity_settings(kind, settings)


@pytest.mark.parametrize(
    ("kind", "name", "value", "told"),
    [
        ("brokers", "leader.replication.throttled.rate", "abc", "expected a whole number from 0"),
        ("brokers", "follower.replication.throttled.rate", "50MB", "expected a whole number from 0"),
        ("brokers", "follower.replication.throttled.rate", "-1", "expected a whole number from 0"),
        ("brokers", "min.insync.replicas", "x", "expected a whole number from 1 to 2147483647, found 'x'"),
        ("brokers", "min.insync.replicas", "0", "expected a whole number from 1"),
        ("clients", "producer_byte_rate", "9223372036854775808", "expected a whole number from 0"),
        ("clients", "producer_byte_rate", "1.5", "expected a whole number from 0"),
        ("users", "request_percentage", "a tenth", "expected a number, found 'a tenth'"),
        ("users", "request_percentage", "1e", "expected a number, found '1e'"),
        ("ips", "connection_creation_rate", "2147483648", "from 0 to 2147483647, found"),
        ("ips", "producer_byte_rate", "1", "ips have connection_creation_rate"),
        ("clients", "producer_byterate", "1", "clients have producer_byte_rate, consumer_byte_rate"),
    ],
)
def test_others_are_refused_by_name(kind: EntityKind, name: str, value: str, told: str) -> None:
    """A broker that cannot parse one may never hear of another change."""
    with pytest.raises(ConfigError, match=told) as refused:
        check_entity_settings(kind, {name: value})

    assert name in str(refused.value)
