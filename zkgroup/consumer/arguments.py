"""Checks of what the application hands in, on its own thread: a member's thread must not stumble over it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition

OFFSET_MAX = 2**63 - 1
"""JVM members read offsets as a long."""


def check_count(max_records: int) -> None:
    """Raises `ConfigError` for a number of records that cannot be delivered."""
    if max_records < 1:
        raise ConfigError(f"max_records: expected at least 1, found {max_records}")


def check_offset(topic_partition: TopicPartition, offset: object) -> None:
    """Raises `ConfigError` for what cannot be an offset."""
    if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset <= OFFSET_MAX:
        raise ConfigError(f"{topic_partition}: expected an offset of 0 or more, found {offset!r}")


def checked_partitions(partitions: Iterable[object]) -> tuple[TopicPartition, ...]:
    """The partitions, read once. Raises `ConfigError` for what is no `TopicPartition`."""
    found: list[TopicPartition] = []
    for item in partitions:
        if not isinstance(item, TopicPartition):
            raise ConfigError(f"partitions: expected each as a TopicPartition, found {item!r}")
        found.append(item)
    return tuple(found)


def checked_offsets(offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """A copy that the application cannot change. Raises `ConfigError` for what cannot be committed."""
    found = dict(offsets)
    checked_partitions(found)
    for topic_partition, offset in found.items():
        check_offset(topic_partition, offset)
    return found
