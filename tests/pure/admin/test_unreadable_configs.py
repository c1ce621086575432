"""Unreadable znodes below `/config`."""

from __future__ import annotations

import pytest

from tests.worlds.memory_groups import MemoryGroups
from tests.worlds.stores import RecordedStore
from zkgroup.admin.configs import unreadable_configs

GOOD = b'{"version":1,"config":{"a":"b"}}'
ODD = {
    "/config/topics/odd": b"{",
    "/config/topics/a b": GOOD,
    "/config/brokers/1": b'{"version":2,"config":{}}',
    "/config/brokers/one": GOOD,
    "/config/clients/c": b'{"version":1,"config":{"a":1}}',
    "/config/users/u": b"[]",
    "/config/users/v/clients/w": b"x",
    "/config/ips/1.2.3.4": b'{"version":1}',
    "/config/changes/config_change_0000000003": b"{",
    "/config/changes/config_change_0000000004": b'{"version":2,"entity_path":"moons/m"}',
}


def test_every_kind_of_configuration_is_read(world: MemoryGroups) -> None:
    """Names that no entity of the kind can have, odd contents, odd notifications; nothing else is named."""
    fine = {
        "/config/topics/orders": GOOD,
        "/config/topics/bare": b"",
        "/config/brokers/<default>": GOOD,
        "/config/users/v": b"",
        "/config/users/v/clients/x": GOOD,
        "/config/changes/config_change_0000000001": b'"orders"',
        "/config/changes/foreign": b"{",
    }
    for path, data in {**fine, **ODD}.items():
        world.server.put(path, data)

    found = unreadable_configs(world.ensemble)

    assert set(found) == set(ODD)
    assert found["/config/brokers/one"] == "expected a broker id, found 'brokers/one'"
    assert not any(detail.startswith("/") for detail in found.values())


@pytest.mark.parametrize(
    "recorded",
    [
        "kafka-0.8.2.2/05a-config-altered.jsonl",
        "kafka-2.8.2/10-reassign-running.jsonl",
        "kafka-3.9.1/10-reassign-running.jsonl",
    ],
)
def test_what_real_kafka_wrote_is_readable(world: MemoryGroups, recorded: str) -> None:
    """No false report on a recorded tree."""
    assert unreadable_configs(world.operator(RecordedStore(recorded))) == {}


def test_an_empty_ensemble_has_none(world: MemoryGroups) -> None:
    """Not even `/config`."""
    assert unreadable_configs(world.ensemble) == {}
