"""Types of parameters that several commands take. An error says what was expected and shows an example."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Any, TypeVar, cast

import click

from zkgroup.errors import ConfigError

from .units import is_whole, parse_duration_ms, parse_size

T = TypeVar("T")

DURATION_MAX_MS = 2**31 - 1
"""An Int, as every time in milliseconds among Kafka's settings; clocks and waits take it too."""


class Parsed(click.ParamType[T]):
    """A parameter whose text `parse` turns into its value, or refuses by a ValueError that says why."""

    def __init__(self, name: str, parse: Callable[[str], T]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        if not isinstance(value, str):
            return cast("T", value)
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def duration(least_ms: int = 0, most_ms: int = DURATION_MAX_MS) -> Parsed[int]:
    """A duration with its unit, in milliseconds."""

    def parse(text: str) -> int:
        found = parse_duration_ms(text)
        if found > most_ms:
            raise ValueError(f"{text!r} is too long: expected at most {most_ms // 86_400_000}d")
        if found < least_ms:
            raise ValueError(f"{text!r} leaves no time: expected at least {least_ms}ms, for example 10s")
        return found

    return Parsed("duration", parse)


def size(least: str = "1B") -> Parsed[int]:
    """A size with its unit, in bytes."""

    def parse(text: str) -> int:
        found = parse_size(text)
        if not parse_size(least) <= found < 2**63:
            raise ValueError(f"{text!r}: expected at least {least}, and fewer than 2^63 bytes")
        return found

    return Parsed("size", parse)


def _replica_lists(text: str) -> list[list[int]]:
    lists = [part.split(":") for part in text.split(",")]
    if not all(is_whole(broker) for replicas in lists for broker in replicas):
        raise ValueError(f"{text!r}: expected broker ids such as 0:1,1:2 (two partitions)")
    return [[int(broker) for broker in replicas] for replicas in lists]


def _name_and_count(text: str) -> tuple[str, int]:
    """`TOPIC[:THREADS]`, as (topic, threads); by default one."""
    name, colon, count = text.partition(":")
    if not name or (colon and not (is_whole(count) and int(count) >= 1)):
        raise ValueError(f"{text!r}: expected TOPIC[:THREADS], the count at least 1")
    return name, int(count) if colon else 1


def name_value(key: str = "NAME", value: str = "VALUE") -> Parsed[tuple[str, str]]:
    """`KEY=VALUE`, as (key, value)."""

    def parse(text: str) -> tuple[str, str]:
        found, equals, rest = text.partition("=")
        if not equals or not found.strip():
            raise ValueError(f"{text!r}: expected {key}={value}")
        return found.strip(), rest

    return Parsed(f"{key}={value}", parse)


def _partition_offset(text: str) -> tuple[str, int, int]:
    where, equals, offset = text.partition("=")
    topic, colon, partition = where.rpartition(":")
    if not (equals and colon and topic and is_whole(partition) and is_whole(offset)):
        raise ValueError(f"{text!r}: expected TOPIC:PARTITION=OFFSET, for example orders:3=42")
    return topic, int(partition), int(offset)


def topic_and_partitions(text: str) -> tuple[str, tuple[int, ...]]:
    """`TOPIC[:P,P...]`, as (topic, partitions); no partition named means all. Raises ValueError."""
    topic, colon, numbers = text.partition(":")
    parts = numbers.split(",") if colon else []
    if not topic or not all(map(is_whole, parts)):
        raise ValueError(f"{text!r}: expected TOPIC or TOPIC:PARTITION,PARTITION, for example orders:0,3")
    return topic, tuple(map(int, parts))


DURATION = duration()
SOME_TIME = duration(least_ms=1)
"""A duration that cannot be nothing."""
AGE = duration(least_ms=1, most_ms=36_500 * 86_400_000)
"""The age of something in the ensemble: up to a hundred years."""
SIZE = size()
REPLICA_LISTS = Parsed("b:b,b:b...", _replica_lists)
"""`0:1,1:2`: broker ids by partition."""
TOPIC_AND_COUNT = Parsed("TOPIC[:THREADS]", _name_and_count)
PARTITION_OFFSET = Parsed("topic:partition=offset", _partition_offset)
"""`TOPIC:PARTITION=OFFSET`, as (topic, partition, offset)."""
TOPIC_AND_PARTITIONS = Parsed("topic[:p,p...]", topic_and_partitions)

TEXT_FILE = click.File("r", encoding="utf-8-sig", lazy=True)
"""A file of text, with or without a byte order mark; `-` is standard input."""


def named_text(file: IO[str]) -> tuple[str, str]:
    """Name and content of a `TEXT_FILE`. Raises ConfigError where it cannot be read, or is no UTF-8."""
    try:
        return file.name, file.read()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file.name}: expected text in UTF-8, found {error.reason}") from error
    except OSError as error:
        raise ConfigError(f"{file.name}: cannot be read: {error.strerror}") from error


def nearest(word: str, known: list[str]) -> str | None:
    """The known name that the word most likely meant, if any is near."""
    import difflib

    found = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return found[0] if found else None
