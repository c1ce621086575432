"""Settings that topics can have, and values of them that every broker can read."""

from __future__ import annotations

import pytest

from zkgroup.errors import ConfigError
from zkgroup.znodes.config_settings import check_topic_settings, unknown_to


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("unclean.leader.election.enable", "maybe"),
        ("preallocate", ""),
        ("retention.ms", "1d"),
        ("retention.ms", str(2**63)),
        ("segment.bytes", str(2**31)),
        ("min.insync.replicas", "1.5"),
        ("max.message.bytes", ""),
        ("flush.ms", "٣"),
        ("segment.bytes", "13"),
        ("segment.ms", "0"),
        ("min.insync.replicas", "0"),
        ("retention.ms", "-2"),
        ("max.message.bytes", "-1"),
        ("message.timestamp.type", "Foo"),
        ("cleanup.policy", "delete,foo"),
        ("cleanup.policy", "delete,"),
        ("compression.type", "gzip,lz4"),
    ],
)
def test_a_value_that_no_broker_can_read_is_refused(name: str, value: str) -> None:
    """controller.md 5.3: a broker of 0.8.2.2 would not start again."""
    with pytest.raises(ConfigError, match=f"setting {name}"):
        check_topic_settings({"segment.jitter.ms": "1", name: value})


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("retention.msec", "; did you mean 'retention.ms'?"),
        ("min.insync.replica", "; did you mean 'min.insync.replicas'?"),
        ("Retention.ms", "; did you mean 'retention.ms'?"),
        ("zookeeper.connect", ""),
        ("", ""),
    ],
)
def test_a_name_that_no_topic_has_is_refused_with_the_nearest(name: str, told: str) -> None:
    """As Kafka's tools do (LogConfig.validateNames): brokers would pass it over without a word."""
    with pytest.raises(ConfigError) as error:
        check_topic_settings({name: "1"})
    assert str(error.value) == f"setting {name!r}: expected a setting that topics have in Kafka{told}"


def test_settings_unknown_to_older_brokers_are_reported() -> None:
    """By the registration of the oldest Kafka broker; without one nothing is reported."""
    names = ["retention.ms", "compression.type", "max.compaction.lag.ms"]

    assert list(unknown_to(names, 1)) == [("compression.type", "0.9"), ("max.compaction.lag.ms", "2.3")]
    assert list(unknown_to(names, 2)) == [("max.compaction.lag.ms", "2.3")]
    assert list(unknown_to(names, 4)) == list(unknown_to(names, None)) == []


def test_what_brokers_read_is_taken() -> None:
    """Words have values of their own."""
    check_topic_settings(
        {
            "unclean.leader.election.enable": "TRUE",
            "retention.ms": "-1",
            "retention.bytes": "-9223372036854775808",
            "segment.bytes": "1073741824",
            "compression.type": "snappy",
            "cleanup.policy": "compact, delete",
            "message.timestamp.type": "LogAppendTime",
            "min.insync.replicas": "1",
            "min.cleanable.dirty.ratio": "0.5",
        }
    )
    check_topic_settings({"cleanup.policy": ""})
