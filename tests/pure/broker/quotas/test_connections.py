"""How many connections an address may have, and open a second."""

from __future__ import annotations

import pytest

from zkgroup.broker.quotas.connections import ConnectionQuotas
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import ConfigError
from zkgroup.znodes.config import ConfigEntity

MINE, ALL = ConfigEntity.broker(1), ConfigEntity.broker(None)


def places(quotas: ConnectionQuotas, address: str) -> int:
    """How many more connections an address may open."""
    count = 0
    while quotas.has_place(address) and count < 100:
        quotas.opened(address)
        count += 1
    for _ in range(count):
        quotas.closed(address)
    return count


def test_an_address_has_its_own_number_or_that_of_all() -> None:
    """However it is spelled; a connection that is closed gives its place back."""
    quotas = ConnectionQuotas(1, 2, "10.0.0.1:5, ::1:3,[fe80::1]:0")

    assert [places(quotas, each) for each in ("10.0.0.1", "0:0:0:0:0:0:0:1", "fe80::1", "10.0.0.2")] == [
        5,
        3,
        0,
        2,
    ]


def test_the_number_follows_the_configuration_of_brokers() -> None:
    """That of this broker precedes that of all, and both the setting of the start."""
    quotas = ConnectionQuotas(1, 2, "")
    seen = [places(quotas, "10.0.0.1")]
    for entity, number in ((ALL, "3"), (MINE, "4"), (ConfigEntity.broker(2), "9")):
        quotas.configured(entity, {"max.connections.per.ip": number})
        seen.append(places(quotas, "10.0.0.1"))
    quotas.configured(MINE, {"max.connections.per.ip.overrides": "10.0.0.1:7"})
    seen += [places(quotas, "10.0.0.1"), places(quotas, "10.0.0.2")]
    for entity in (MINE, ALL):
        quotas.configured(entity, {})
    assert [*seen, places(quotas, "10.0.0.1")] == [2, 3, 4, 4, 7, 3, 2]

    with pytest.raises(ConfigError, match=r"/config/brokers/1: max.connections.per.ip: expected a number"):
        quotas.configured(MINE, {"max.connections.per.ip": "many"})


@pytest.mark.parametrize("text", ["10.0.0.1", "10.0.0.1:x", ":5"])
def test_overrides_that_cannot_be_read_are_named_at_the_start(text: str) -> None:
    """And not when the first client comes."""
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip\.overrides: expected"):
        BrokerSettings(max_connections_per_ip_overrides=text)


def test_new_connections_beyond_the_rate_are_closed_after_a_while() -> None:
    """Within a second, and not counted, so that others are taken at the rate; one address is not another."""
    quotas = ConnectionQuotas(1, 100, "")
    assert [quotas.throttle_ms("10.0.0.1", 0) for _ in range(50)] == [0] * 50
    quotas.configured(ConfigEntity.ip(None), {"connection_creation_rate": "5"})

    waits = [quotas.throttle_ms("10.0.0.1", 0) for _ in range(60)]
    assert waits[:50] == [0] * 50
    assert all(0 < wait <= 1_000 for wait in waits[50:])
    assert quotas.throttle_ms("10.0.0.2", 0) == 0
    taken = 50 + sum(quotas.throttle_ms("10.0.0.1", ms) == 0 for ms in range(0, 33_000, 10))
    assert 0.9 <= taken / (33 * 5) <= 1.1

    quotas.configured(ConfigEntity.ip("10.0.0.1"), {"connection_creation_rate": "1000"})
    assert quotas.throttle_ms("10.0.0.1", 33_000) == 0
    quotas.configured(ConfigEntity.ip("10.0.0.1"), {"connection_creation_rate": "0"})
    assert [quotas.throttle_ms("10.0.0.1", ms) for ms in (60_000, 90_000)] == [1_000, 1_000]
