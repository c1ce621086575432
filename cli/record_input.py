"""Records out of a stream of lines: raw values, or JSON objects as `consume` prints them."""

from __future__ import annotations

import base64
import json
import os
import select
import stat
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, Final

from zkgroup.clients.producer import RECORD_BYTES_MAX, NewRecord
from zkgroup.errors import ConfigError

from .units import is_whole, parse_time_ms

CHUNK_BYTES: Final = 64 * 1024
WAIT_S: Final = 0.5
"""Between two calls of `idle` while the input is silent."""
LINE_BYTES_MAX: Final = 2 * RECORD_BYTES_MAX
"""Of one line; base64 and escapes make a record longer than its bytes."""
NUMBER_MAX: Final = 2**63 - 1

ParseLine = Callable[[bytes], NewRecord | None]
"""The record of a line; None for a line without one. Raises ConfigError."""


class LineSplitter:
    """Splits a stream of bytes into lines without their newlines, and counts them from 1."""

    def __init__(self, name: str) -> None:
        """`name` of the stream, for errors."""
        self._name = name
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self.number = 0
        """Of the last line returned."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The lines that end in these bytes. Raises ConfigError for a line longer than `LINE_BYTES_MAX`."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._keep(end)
            yield self._line()
        self._keep(rest)

    def finish(self) -> Iterator[bytes]:
        """The bytes after the last newline, unless there are none: the stream has ended."""
        if self._rest_bytes:
            yield self._line()

    def at(self, error: Exception) -> ConfigError:
        """The error with the place of the last line."""
        return ConfigError(f"{self._name}:{self.number}: {error}")

    @property
    def place(self) -> str:
        """Of the line that is not whole yet."""
        return f"{self._name}:{self.number + 1}"

    def _keep(self, part: bytes) -> None:
        self._rest.append(part)
        self._rest_bytes += len(part)
        if self._rest_bytes > LINE_BYTES_MAX:
            raise ConfigError(f"{self.place}: expected at most {LINE_BYTES_MAX} bytes, found more")

    def _line(self) -> bytes:
        line = b"".join(self._rest)
        self._rest.clear()
        self._rest_bytes = 0
        self.number += 1
        return line


def chunks_of(stream: BinaryIO, idle: Callable[[], None]) -> Iterator[bytes]:
    """The bytes of a stream as they come; `idle` is called while a pipe or a terminal is silent."""
    file = _slow_file(stream)
    if file is None:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk
        return
    while True:
        while not select.select([file], [], [], WAIT_S)[0]:
            idle()
        chunk = os.read(file, CHUNK_BYTES)
        if not chunk:
            return
        yield chunk


def _slow_file(stream: BinaryIO) -> int | None:
    """The descriptor of a pipe, a socket or a terminal; None for files, which never wait."""
    try:
        file = stream.fileno()
    except (OSError, AttributeError):
        return None
    mode = os.fstat(file).st_mode
    waits = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(file)
    return file if waits else None


def raw_record(partition: int | None, key_field: str | None) -> ParseLine:
    """A line is a value; with `key_field` it is a JSON object, whose field is the key."""

    def record(line: bytes) -> NewRecord:
        key = None if key_field is None else _key_of(line, key_field)
        return NewRecord(line, key, partition=partition)

    return record


def json_record(partition: int | None, key_field: str | None) -> ParseLine:
    """A line is a JSON object of a record, in the names of `consume`'s event `record`; others are ignored.

    Args:
        partition: instead of the object's.
        key_field: the value is a JSON object, whose field is the key instead of the object's.
    """

    def record(line: bytes) -> NewRecord | None:
        if not line.strip():
            return None
        found = _object(line)
        if found.get("event", "record") != "record":
            return None
        value = _bytes(found, "value")
        key = _bytes(found, "key") if key_field is None else _key_of(value or b"", key_field)
        number = _number(found, "partition") if partition is None else partition
        return NewRecord(value, key, _headers(found), _timestamp(found), number)

    return record


def _object(line: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"expected a JSON object, found no JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"expected a JSON object, found {_excerpt(line)}")
    return found


def _key_of(line: bytes, field: str) -> bytes:
    """The key of a line that is a JSON object: a field's text, or its JSON where it is another value.

    Raises ConfigError where the line is no such object, or its field is missing or null.
    """
    try:
        value = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"expected a JSON object with {field!r}, found no JSON: {error}") from error
    if not isinstance(value, dict) or value.get(field) is None:
        raise ConfigError(f"expected a JSON object with {field!r}, found {_excerpt(line)}")
    key = value[field]
    text = key if isinstance(key, str) else json.dumps(key, sort_keys=True, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def _bytes(found: Mapping[str, Any], name: str) -> bytes | None:
    """The bytes of `name`, as text, or of `<name>_base64`; None for null and for neither."""
    if found.get(f"{name}_base64") is not None:
        try:
            return base64.b64decode(found[f"{name}_base64"], validate=True)
        except (ValueError, TypeError) as error:
            raise ConfigError(f"{name}_base64: expected base64, found {error}") from error
    text = found.get(name)
    if text is None:
        return None
    if not isinstance(text, str):
        raise ConfigError(f"{name}: expected text or null, found {json.dumps(text)[:60]}")
    return text.encode("utf-8", "surrogatepass")


def _headers(found: Mapping[str, Any]) -> tuple[tuple[str, bytes], ...]:
    """A list of objects with `key` and `value`, or one object of names and values."""
    headers = found.get("headers") or []
    if isinstance(headers, dict):
        headers = [{"key": name, "value": value} for name, value in headers.items()]
    if not isinstance(headers, list) or not all(isinstance(one, dict) for one in headers):
        raise ConfigError("headers: expected a list of objects with `key` and `value`")
    made = []
    for one in headers:
        name, value = one.get("key"), _bytes(one, "value")
        if not isinstance(name, str):
            raise ConfigError(f"headers: expected text as `key`, found {json.dumps(one)[:60]}")
        if value is None:
            raise ConfigError(f"headers: {name!r} has no value, and kafka-python sends none without one")
        made.append((name, value))
    return tuple(made)


def _number(found: Mapping[str, Any], name: str) -> int | None:
    number = found.get(name)
    if number is None:
        return None
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= NUMBER_MAX:
        raise ConfigError(f"{name}: expected a number from 0 up, found {json.dumps(number)[:60]}")
    return number


def _timestamp(found: Mapping[str, Any]) -> int | None:
    """Epoch milliseconds, from such a number or an ISO-8601 time."""
    time = found.get("timestamp")
    if not isinstance(time, str) or is_whole(time):
        return _number(found, "timestamp")
    try:
        return parse_time_ms(time)
    except ValueError as error:
        raise ConfigError(f"timestamp: {error}") from error


def _excerpt(line: bytes) -> str:
    text = line[:60].decode("utf-8", "backslashreplace")
    return text + ("..." if len(line) > 60 else "")
