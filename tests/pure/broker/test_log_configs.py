"""The settings of logs: of a topic, of this broker, of all brokers, or with which the broker was started."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.pure.broker.log.made_batches import batch
from tests.worlds.replica_managers import TP, in_memory, over
from zkgroup.broker.admin.known_configs import known_configs
from zkgroup.broker.log.log_config import LogConfig, TimestampType
from zkgroup.broker.log.storage import Flush, MemoryStorage
from zkgroup.broker.replicas.log_configs import LogConfigs, log_config
from zkgroup.broker.settings import BrokerSettings
from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.znodes.config import ConfigEntity
from zkgroup.znodes.config_settings import LOG_SETTINGS, OBEYED

TOPIC, MINE, ALL = ConfigEntity.topic("orders"), ConfigEntity.broker(1), ConfigEntity.broker(None)
OTHER = TopicPartition("other", 0)


def test_the_defaults_are_kafkas() -> None:
    """Seven days, 1 GiB, batches up to 1 MiB and 12 bytes."""
    assert log_config(BrokerSettings()) == LogConfig()


def test_every_setting_of_a_broker_reaches_its_logs() -> None:
    """Under Kafka's name with `log.` before it."""
    settings = BrokerSettings(
        log_segment_bytes=100,
        log_roll_ms=2,
        log_retention_ms=-1,
        log_retention_bytes=4,
        log_index_interval_bytes=0,
        log_message_timestamp_type="LogAppendTime",
        message_max_bytes=7,
        flush="batch",
    )
    assert log_config(settings) == LogConfig(
        segment_bytes=100,
        segment_ms=2,
        retention_ms=-1,
        retention_bytes=4,
        index_interval_bytes=0,
        message_timestamp_type=TimestampType.LOG_APPEND_TIME,
        max_message_bytes=7,
        flush=Flush.BATCH,
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"log_segment_bytes": 13},
        {"log_roll_ms": 0},
        {"log_retention_ms": -2},
        {"log_retention_bytes": -2},
        {"log_index_interval_bytes": -1},
        {"log_message_timestamp_type": "createtime"},
        {"message_max_bytes": -1},
        {"log_retention_check_interval_ms": 0},
    ],
)
def test_an_impossible_setting_is_named(wrong: dict[str, object]) -> None:
    """At the start, as any other."""
    with pytest.raises(ConfigError, match=f"setting {next(iter(wrong))}"):
        BrokerSettings(**wrong)  # type: ignore[arg-type]


def test_the_nearest_setting_precedes() -> None:
    """The topic's, this broker's, that of all brokers, the broker's own; each by itself."""
    configs = LogConfigs(1, LogConfig(retention_ms=1, retention_bytes=9))
    seen = [configs.present.of("orders").retention_ms]
    for entity, name, number in (
        (ALL, "log.retention.ms", "2"),
        (MINE, "log.retention.ms", "3"),
        (TOPIC, "retention.ms", "4"),
    ):
        configs.configured(entity, {name: number})
        seen.append(configs.present.of("orders").retention_ms)
    assert configs.present.of("other").retention_ms == 3
    for entity in (TOPIC, MINE, ALL):
        configs.configured(entity, {"min.insync.replicas": "2"})
        seen.append(configs.present.of("orders").retention_ms)

    assert seen == [1, 2, 3, 4, 3, 2, 1]
    assert configs.present.of("orders").retention_bytes == 9


def test_every_dynamic_setting_is_applied() -> None:
    """Of topics and brokers; `OBEYED`, from which tools warn, names the same ones."""
    values = {
        "segment.bytes": "100",
        "segment.ms": "5",
        "retention.bytes": "-6",
        "retention.ms": "-1",
        "index.interval.bytes": "8",
        "max.message.bytes": "9",
        "message.timestamp.type": "LogAppendTime",
        "cleanup.policy": "delete",
    }
    expected = LogConfig(
        segment_bytes=100,
        segment_ms=5,
        retention_bytes=-6,
        retention_ms=-1,
        index_interval_bytes=8,
        max_message_bytes=9,
        message_timestamp_type=TimestampType.LOG_APPEND_TIME,
    )
    for entity in (TOPIC, MINE):
        names = LOG_SETTINGS[entity.kind]
        assert names.keys() <= OBEYED[entity.kind]
        configs = LogConfigs(1, LogConfig())
        configs.configured(entity, {name: values[of_topic] for name, of_topic in names.items()})

        assert configs.present.of("orders") == expected


def test_a_broker_names_what_can_be_changed_while_it_runs() -> None:
    """For DescribeConfigs: the dynamic settings are not read-only; they have the values of the start."""
    known = known_configs(1, BrokerSettings(log_retention_ms=5)).of_broker
    writable = {name for name, config in known.items() if not config.read_only}

    assert writable == {
        *LOG_SETTINGS["brokers"],
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "min.insync.replicas",
    }
    assert known["log.retention.ms"].value == "5"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("segment.bytes", "13"),
        ("segment.bytes", "2147483648"),
        ("segment.ms", "0"),
        ("retention.ms", "-2"),
        ("retention.bytes", "much"),
        ("max.message.bytes", ""),
        ("message.timestamp.type", "now"),
        ("cleanup.policy", "none"),
        ("cleanup.policy", "delete,"),
    ],
)
def test_an_invalid_value_is_named_and_the_others_are_applied(name: str, value: str) -> None:
    """The setting that is invalid stays at the next one's value."""
    configs = LogConfigs(1, LogConfig())
    with pytest.raises(ConfigError, match=f"^/config/topics/orders: {name}: expected .*{value!r}"):
        configs.configured(TOPIC, {"index.interval.bytes": "77", name: value})

    assert configs.present.of("orders") == replace(LogConfig(), index_interval_bytes=77)


def test_other_entities_are_not_its_own() -> None:
    """Another broker's, and those of clients."""
    configs = LogConfigs(1, LogConfig())
    configs.configured(ConfigEntity.broker(2), {"log.retention.ms": "1"})
    configs.configured(ConfigEntity.of_client("c"), {"retention.ms": "1"})

    assert configs.present.of("orders") == LogConfig()


@pytest.mark.parametrize("policy", ["compact", " compact ", "", " "])
def test_nothing_is_deleted_where_the_policy_is_not_to_delete(policy: str) -> None:
    """Retention would lose the last record of a key. With an empty policy nothing is deleted, as in Kafka."""
    configs = LogConfigs(1, LogConfig(retention_bytes=5))
    configs.configured(TOPIC, {"cleanup.policy": policy, "retention.ms": "1", "segment.ms": "7"})

    config = configs.present.of("orders")
    assert (config.retention_ms, config.retention_bytes, config.segment_ms) == (-1, -1, 7)
    assert (config.keeps_all, config.needs_keys) == (True, "compact" in policy)
    configs.configured(TOPIC, {"retention.ms": "1"})
    assert configs.present.of("orders").retention_ms == 1


def test_with_both_policies_retention_applies() -> None:
    """As in Kafka, which deletes from such a topic by time as well."""
    configs = LogConfigs(1, LogConfig())
    configs.configured(TOPIC, {"cleanup.policy": "compact,delete", "retention.ms": "1"})

    config = configs.present.of("orders")
    assert (config.retention_ms, config.keeps_all, config.needs_keys) == (1, False, True)


def test_a_topic_may_delete_where_brokers_compact() -> None:
    """The policy of the topic precedes that of the broker."""
    configs = LogConfigs(1, LogConfig())
    configs.configured(MINE, {"log.cleanup.policy": "compact"})
    configs.configured(TOPIC, {"cleanup.policy": "delete"})

    assert configs.present.of("other").retention_ms == -1
    assert configs.present.of("orders") == LogConfig()


def test_settings_hold_for_logs_that_are_open_and_for_those_that_are_opened_later() -> None:
    """At once: the next batch is refused."""
    host = in_memory(1)
    host.become_leader(TP, 0, (1,), {1})
    assert host.append(TP, batch(b"a" * 100)).error is ErrorCode.NONE
    configs = LogConfigs(1, LogConfig())
    configs.configured(TOPIC, {"max.message.bytes": "100"})
    host.configure_logs(configs.present.of)
    host.become_leader(TopicPartition("orders", 1), 0, (1,), {1})
    host.become_leader(OTHER, 0, (1,), {1})

    errors = [host.append(tp, batch(b"a" * 100)).error for tp in (TP, TopicPartition("orders", 1), OTHER)]
    assert errors == [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NONE]


def test_append_time_is_the_leaders_clock() -> None:
    """For all records of the batch; a batch that is sent again has the time of the first append."""
    now = [5_000]
    host = over(1, MemoryStorage(), lambda: now[0])
    host.configure_logs(lambda topic: LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
    host.become_leader(TP, 0, (1,), {1})

    sent = batch(b"a", timestamp=17, producer=(7, 0, 0))
    assert host.append(TP, sent).log_append_time == 5_000
    now[0] = 6_000
    assert host.append(TP, sent).log_append_time == 5_000
    host.configure_logs(lambda topic: LogConfig())
    assert host.append(TP, sent).log_append_time == -1


def test_retention_moves_the_log_start_offset_of_replicas_with_a_role() -> None:
    """By the broker's clock, below the high watermark; a replica without a role is left alone."""
    now = [10_000]
    host = over(1, MemoryStorage(), lambda: now[0])
    config = LogConfig(retention_ms=1_000, segment_bytes=100)
    host.configure_logs(lambda topic: config if topic == "orders" else LogConfig())
    for tp in (TP, OTHER):
        host.become_leader(tp, 0, (1,), {1})
        for time in (9_000, 9_500, 10_000):
            host.append(tp, batch(b"x" * 50, timestamp=time))
    assert not any(host.apply_retention(tp) for tp in (TP, OTHER))

    now[0] = 10_001
    assert [host.apply_retention(tp) for tp in (TP, OTHER)] == [1, None]
    assert host.append(TP, batch(b"y", timestamp=10_001)).log_start_offset == 1
    host.stop(TP)
    now[0] = 20_000
    assert not host.apply_retention(TP)


def test_retention_waits_for_the_high_watermark() -> None:
    """Records that are not replicated are kept, however old they are."""
    host = over(1, MemoryStorage(), lambda: 10_000)
    host.configure_logs(lambda topic: LogConfig(retention_ms=1, segment_bytes=100))
    host.become_leader(TP, 0, (1, 2), {1, 2})
    for _ in range(3):
        host.append(TP, batch(b"x" * 50, timestamp=1))

    assert not host.apply_retention(TP)
    host.set_isr(TP, 0, {1})
    assert host.apply_retention(TP)
    assert host.open_partitions() == (TP,)
