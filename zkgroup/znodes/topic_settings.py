"""Settings that a topic can have, and values of them that every broker can read.

A broker of 0.8.2.2 that meets another value applies no setting of the topic, and does not start again: it
reads the configurations of all topics at its start (kafka/server/KafkaServer.scala@0.8.2.2). A name that it
does not know a broker passes over without a word, so that a mistyped one looks as if it were set. Kafka's
tools check what they write, each the names of its own release (kafka/log/LogConfig.scala, `validate`;
org/apache/kafka/storage/internals/log/LogConfig.java@3.9.1); ours take those of all releases up to 3.9.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from zkgroup.errors import ConfigError
from zkgroup.znodes.json_object import show
from zkgroup.znodes.throttles import FOLLOWER_REPLICAS, LEADER_REPLICAS

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


class Since(NamedTuple):
    """The first release that has a setting."""

    registration: int
    """Version of the registrations of its brokers: those with a lower one do not know the setting."""
    release: str


SETTINGS: Final[Mapping[str, Since]] = {
    **dict.fromkeys(
        (
            "cleanup.policy",
            "delete.retention.ms",
            "file.delete.delay.ms",
            "flush.messages",
            "flush.ms",
            "index.interval.bytes",
            "max.message.bytes",
            "min.cleanable.dirty.ratio",
            "min.insync.replicas",
            "retention.bytes",
            "retention.ms",
            "segment.bytes",
            "segment.index.bytes",
            "segment.jitter.ms",
            "segment.ms",
            "unclean.leader.election.enable",
        ),
        Since(1, "0.8.2"),
    ),
    **dict.fromkeys(("compression.type", "preallocate"), Since(2, "0.9")),
    **dict.fromkeys(
        ("message.format.version", "message.timestamp.difference.max.ms", "message.timestamp.type"),
        Since(3, "0.10.0"),
    ),
    **dict.fromkeys(("min.compaction.lag.ms", LEADER_REPLICAS, FOLLOWER_REPLICAS), Since(3, "0.10.1")),
    "message.downconversion.enable": Since(4, "2.0"),
    "max.compaction.lag.ms": Since(4, "2.3"),
    **dict.fromkeys(
        (
            "compression.gzip.level",
            "compression.lz4.level",
            "compression.zstd.level",
            "local.retention.bytes",
            "local.retention.ms",
            "message.timestamp.after.max.ms",
            "message.timestamp.before.max.ms",
            "remote.log.copy.disable",
            "remote.log.delete.on.disable",
            "remote.storage.enable",
        ),
        Since(5, "3"),
    ),
}
"""Every setting of a topic in Kafka 0.8.2.2 to 3.9.1."""


def unknown_to(settings: Iterable[str], oldest: int | None) -> Iterator[tuple[str, str]]:
    """Those that the brokers with the oldest registration cannot know, with the release that brought each.

    `oldest` is that registration's version; None where no real broker is registered.
    """
    for name in settings:
        since = SETTINGS.get(name)
        if oldest is not None and since is not None and oldest < since.registration:
            yield name, since.release


def check_topic_settings(settings: Mapping[str, str]) -> None:
    """Raises ConfigError for the first name that no release knows, or value that a broker cannot read."""
    for name, value in settings.items():
        if name not in SETTINGS:
            guess = difflib.get_close_matches(name, SETTINGS, n=1, cutoff=0.6)
            more = f"; did you mean {guess[0]!r}?" if guess else ""
            raise ConfigError(f"setting {show(name)}: expected a setting that topics have in Kafka{more}")
        if name in _BOOLEANS and value.lower() not in ("true", "false"):
            raise ConfigError(f"setting {name}: expected true or false, found {show(value)}")
        if (numbers := _NUMBERS.get(name)) is None:
            continue
        if not _INTEGER.fullmatch(value) or int(value) not in numbers:
            raise ConfigError(
                f"setting {name}: expected a whole number from {numbers.start} to {numbers.stop - 1}, "
                f"found {show(value)}"
            )
