"""Names and values of `GroupSettings`."""

from __future__ import annotations

from dataclasses import fields

import pytest

from zkgroup.errors import ConfigError
from zkgroup.settings import JVM_ONLY, GroupSettings

KAFKA_0_8_2_2 = """
    group.id zookeeper.connect consumer.id
    socket.timeout.ms socket.receive.buffer.bytes fetch.message.max.bytes
    num.consumer.fetchers auto.commit.enable auto.commit.interval.ms queued.max.message.chunks
    rebalance.max.retries fetch.min.bytes fetch.wait.max.ms rebalance.backoff.ms refresh.leader.backoff.ms
    auto.offset.reset consumer.timeout.ms exclude.internal.topics partition.assignment.strategy client.id
    zookeeper.session.timeout.ms zookeeper.connection.timeout.ms zookeeper.sync.time.ms offsets.storage
    offsets.channel.backoff.ms offsets.channel.socket.timeout.ms offsets.commit.max.retries
    dual.commit.enabled mirror.topics.whitelist mirror.topics.blacklist mirror.consumer.numthreads
""".split()  # noqa: SIM905 - reads like the file it is taken from
"""Every name of ConsumerConfig.scala@0.8.2.2."""


@pytest.mark.parametrize("kafka_name", KAFKA_0_8_2_2)
def test_every_setting_of_kafka_is_taken_or_explained(kafka_name: str) -> None:
    """Each name of the 0.8.2.2 consumer is a field, or its error says what to do instead."""
    mapped = {field.metadata["kafka"] for field in fields(GroupSettings)}

    assert (kafka_name in mapped) != (kafka_name.replace(".", "_") in JVM_ONLY)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("offsets_storage", "kept in ZooKeeper"),
        ("zookeeper_session_timeout_ms", "called session_timeout_ms"),
        ("settle_milliseconds", "unknown setting settle_milliseconds"),
    ],
)
def test_a_name_that_is_none_is_a_configuration_error(name: str, told: str) -> None:
    """It names the setting and, where there is one, the way out."""
    with pytest.raises(ConfigError, match=told):
        GroupSettings(**{name: 1})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("auto_offset_reset", "newest"),
        ("ack_mode", "manual"),
        ("partition_assignment_strategy", "best"),
        ("session_timeout_ms", 0),
        ("max_unacked", 0),
        ("lease_fraction", 1.0),
        ("fetch_min_bytes", 0),
        ("consumer_id", "a/b"),
        ("auto_commit_enable", "false"),
        ("consumer_timeout_ms", "5000"),
        ("session_timeout_ms", True),
        ("max_unacked", 1.5),
        ("lease_fraction", None),
        ("client_id", 5),
        ("rebalance_max_retries", "4"),
    ],
)
def test_an_impossible_value_names_its_setting(name: str, value: object) -> None:
    """Unknown strategies are refused, and so is every other value outside its range."""
    with pytest.raises(ConfigError, match=f"setting {name}: expected"):
        GroupSettings(**{name: value})  # type: ignore[arg-type]


def test_settings_that_leave_no_lease_are_refused() -> None:
    """What the servers' tick takes off must be less than the part of the session that is the lease."""
    with pytest.raises(ConfigError, match=r"setting lease_fraction: expected more than 0\.167"):
        GroupSettings(session_timeout_ms=6000, server_tick_ms=2000, lease_fraction=0.1)

    GroupSettings(session_timeout_ms=6000, server_tick_ms=500, lease_fraction=0.1)
