"""Values of topic settings that every broker can read.

A broker of 0.8.2.2 that meets another one applies no setting of the topic, and does not start again: it reads
the configurations of all topics at its start (kafka/server/KafkaServer.scala@0.8.2.2). Kafka's tools check
what they write (kafka/log/LogConfig.scala, `validate`); so do ours. Names that are not here are left alone:
later releases have more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from zkgroup.errors import ConfigError
from zkgroup.znodes.json_object import show

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_INT: Final = range(-(2**31), 2**31)
_LONG: Final = range(-(2**63), 2**63)

_NUMBERS: Final[Mapping[str, range]] = {
    **dict.fromkeys(
        (
            "index.interval.bytes",
            "max.message.bytes",
            "min.insync.replicas",
            "segment.bytes",
            "segment.index.bytes",
        ),
        _INT,
    ),
    **dict.fromkeys(
        (
            "delete.retention.ms",
            "file.delete.delay.ms",
            "flush.messages",
            "flush.ms",
            "max.compaction.lag.ms",
            "message.timestamp.difference.max.ms",
            "min.compaction.lag.ms",
            "retention.bytes",
            "retention.ms",
            "segment.jitter.ms",
            "segment.ms",
        ),
        _LONG,
    ),
}
_BOOLEANS: Final = frozenset(
    {"message.downconversion.enable", "preallocate", "unclean.leader.election.enable"}
)


def check_topic_settings(settings: Mapping[str, str]) -> None:
    """Raises ConfigError for the first value that a broker cannot read."""
    for name, value in settings.items():
        if name in _BOOLEANS and value.lower() not in ("true", "false"):
            raise ConfigError(f"setting {name}: expected true or false, found {show(value)}")
        if (numbers := _NUMBERS.get(name)) is None:
            continue
        if not _INTEGER.fullmatch(value) or int(value) not in numbers:
            raise ConfigError(
                f"setting {name}: expected a whole number from {numbers.start} to {numbers.stop - 1}, "
                f"found {show(value)}"
            )
