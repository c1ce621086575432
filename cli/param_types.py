"""Types of parameters that several commands take. An error says what was expected and shows an example."""

from __future__ import annotations

from typing import IO, Any

import click

from zkgroup.errors import ConfigError

from .units import is_whole, parse_duration_ms, parse_size

DURATION_MAX_MS = 2**31 - 1
"""An Int, as every time in milliseconds among Kafka's settings; clocks and waits take it too."""


class Duration(click.ParamType[int]):
    """A duration with its unit, in milliseconds."""

    name = "duration"

    def __init__(self, least_ms: int = 0) -> None:
        self._least_ms = least_ms

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            found = parse_duration_ms(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if found > DURATION_MAX_MS:
            self.fail(f"{value!r} is too long: expected at most {DURATION_MAX_MS // 86_400_000}d", param, ctx)
        if found < self._least_ms:
            self.fail(
                f"{value!r} leaves no time: expected at least {self._least_ms}ms, for example 10s", param, ctx
            )
        return found


class Size(click.ParamType[int]):
    """A size with its unit, in bytes."""

    name = "size"

    def __init__(self, least: str = "1B") -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            found = parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if not parse_size(self._least) <= found < 2**63:
            self.fail(f"{value!r}: expected at least {self._least}, and fewer than 2^63 bytes", param, ctx)
        return found


class ReplicaLists(click.ParamType[list[list[int]]]):
    """`0:1,1:2`: broker ids by partition."""

    name = "b:b,b:b..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[list[int]]:
        if isinstance(value, list):
            return value
        lists = [part.split(":") for part in value.split(",")]
        if not all(is_whole(broker) for replicas in lists for broker in replicas):
            self.fail(f"{value!r}: expected broker ids such as 0:1,1:2 (two partitions)", param, ctx)
        return [[int(broker) for broker in replicas] for replicas in lists]


class NameAndCount(click.ParamType[tuple[str, int]]):
    """`NAME[:COUNT]`, as (name, count); a count is at least 1."""

    def __init__(self, what: str, count: str, default: int = 1) -> None:
        self.name = f"{what}[:{count}]"
        self._default = default

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        name, colon, count = value.partition(":")
        if not name or (colon and not (is_whole(count) and int(count) >= 1)):
            self.fail(f"{value!r}: expected {self.name}, the count at least 1", param, ctx)
        return name, int(count) if colon else self._default


class NameValue(click.ParamType[tuple[str, str]]):
    """`KEY=VALUE`, as (key, value)."""

    def __init__(self, key: str = "NAME", value: str = "VALUE") -> None:
        self.name = f"{key}={value}"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, equals, text = value.partition("=")
        if not equals or not key.strip():
            self.fail(f"{value!r}: expected {self.name}", param, ctx)
        return key.strip(), text


class PartitionValue(click.ParamType[tuple[str, int, int]]):
    """`TOPIC:PARTITION=OFFSET`, as (topic, partition, offset)."""

    name = "topic:partition=offset"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int, int]:
        if isinstance(value, tuple):
            return value
        where, equals, offset = value.partition("=")
        topic, colon, partition = where.rpartition(":")
        if not (equals and colon and topic and is_whole(partition) and is_whole(offset)):
            self.fail(f"{value!r}: expected TOPIC:PARTITION=OFFSET, for example orders:3=42", param, ctx)
        return topic, int(partition), int(offset)


class TopicAndPartitions(click.ParamType[tuple[str, tuple[int, ...]]]):
    """`TOPIC[:P,P...]`, as (topic, partitions); no partition named means all."""

    name = "topic[:p,p...]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[int, ...]]:
        if isinstance(value, tuple):
            return value
        topic, colon, numbers = value.partition(":")
        parts = numbers.split(",") if colon else []
        if not topic or not all(is_whole(part) for part in parts):
            self.fail(
                f"{value!r}: expected TOPIC or TOPIC:PARTITION,PARTITION, for example orders:0,3", param, ctx
            )
        return topic, tuple(int(part) for part in parts)


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


DURATION = Duration()
SOME_TIME = Duration(least_ms=1)
"""A duration that cannot be nothing."""
