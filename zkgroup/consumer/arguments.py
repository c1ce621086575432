"""Checks of what the application hands in, on its own thread: a member's thread must not stumble over it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from zkgroup.consumer.records import Record
from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition

OFFSET_MAX = 2**63 - 1
"""JVM members read offsets as a long."""
TIMEOUT_MAX_S = 1e8
"""Three years: what the waits of Python's threads can count; a longer one, infinity too, means this."""


def check_kind(name: str, value: object, kind: type, expected: str | None = None) -> None:
    """Raises `ConfigError` where the argument is given and no instance of the class."""
    if value is not None and not isinstance(value, kind):
        raise ConfigError(
            f"{name}: expected {expected or f'an instance of {kind.__name__}'}, found {value!r}"
        )


def check_port(name: str, value: object, methods: Iterable[str], expected: str) -> None:
    """Raises `ConfigError` where the argument is given and lacks a method, or is a class."""
    fits = all(callable(getattr(value, method, None)) for method in methods)
    if value is not None and (isinstance(value, type) or not fits):
        raise ConfigError(f"{name}: expected {expected}, found {value!r}")


def checked_timeout(timeout_s: object) -> float:
    """Seconds to wait; none where the time is over already. Raises `ConfigError` for what is no number."""
    if not isinstance(timeout_s, int | float) or isinstance(timeout_s, bool) or math.isnan(timeout_s):
        raise ConfigError(f"timeout_s: expected a number of seconds, found {timeout_s!r}")
    return max(0.0, min(timeout_s, TIMEOUT_MAX_S))


def check_count(max_records: object) -> None:
    """Raises `ConfigError` for a number of records that cannot be delivered."""
    if not isinstance(max_records, int) or isinstance(max_records, bool) or max_records < 1:
        raise ConfigError(f"max_records: expected a whole number above 0, found {max_records!r}")


def check_record(record: object) -> None:
    """Raises `ConfigError` for what was never delivered."""
    if not isinstance(record, Record):
        raise ConfigError(f"record: expected a Record as it was delivered, found {record!r}")


def check_offset(topic_partition: object, offset: object) -> None:
    """Raises `ConfigError` for what cannot be an offset, or of no partition."""
    checked_partitions((topic_partition,))
    if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset <= OFFSET_MAX:
        raise ConfigError(f"{topic_partition}: expected an offset of 0 or more, found {offset!r}")


def checked_partition(topic_partition: object) -> TopicPartition:
    """Raises `ConfigError` for what is no `TopicPartition`."""
    return checked_partitions((topic_partition,))[0]


def checked_partitions(partitions: object) -> tuple[TopicPartition, ...]:
    """The partitions, read once. Raises `ConfigError` for what is no `TopicPartition`."""
    if isinstance(partitions, TopicPartition) or not isinstance(partitions, Iterable):
        raise ConfigError(f"partitions: expected a list of TopicPartition, found {partitions!r}")
    found: list[TopicPartition] = []
    for item in partitions:
        if not isinstance(item, TopicPartition):
            raise ConfigError(f"partitions: expected each as a TopicPartition, found {item!r}")
        found.append(item)
    return tuple(found)


def checked_offsets(offsets: object) -> dict[TopicPartition, int]:
    """A copy that the application cannot change. Raises `ConfigError` for what cannot be committed."""
    if not isinstance(offsets, Mapping):
        raise ConfigError(f"offsets: expected a mapping of TopicPartition to offset, found {offsets!r}")
    found = dict(offsets)
    for topic_partition, offset in found.items():
        check_offset(topic_partition, offset)
    return found
