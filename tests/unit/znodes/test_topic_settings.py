"""Values of topic settings that every broker can read."""

from __future__ import annotations

import pytest

from zkgroup.errors import ConfigError
from zkgroup.znodes.topic_settings import check_topic_settings


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
    ],
)
def test_a_value_that_no_broker_can_read_is_refused(name: str, value: str) -> None:
    """controller.md 5.3: a broker of 0.8.2.2 would not start again."""
    with pytest.raises(ConfigError, match=f"setting {name}"):
        check_topic_settings({"a": "x", name: value})


def test_what_brokers_read_and_what_is_not_known_is_taken() -> None:
    """Names of later releases, and words of ours, have values of their own."""
    check_topic_settings(
        {
            "unclean.leader.election.enable": "TRUE",
            "retention.ms": "-1",
            "segment.bytes": "1073741824",
            "compression.type": "snappy",
            "no.such": "1.5",
        }
    )
