"""Fields of JSON znodes of any Kafka version, read by type, and limits of what may be written.

Unknown keys pass; missing and mistyped ones raise `CorruptZnodeError`. The checks before a write raise
`ConfigError` with the name, the bound and the value found.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from zkgroup.errors import ConfigError, CorruptZnodeError

INT16: Final = range(-(2**15), 2**15)
INT32: Final = range(-(2**31), 2**31)
INT64: Final = range(-(2**63), 2**63)
_FOUND_MAX: Final = 80


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


# Made once: json.loads and json.dumps make one for each call that has options.
# Kafka 0.8 lets raw control characters pass inside strings, hence strict=False.
_DECODER: Final = json.JSONDecoder(strict=False, parse_constant=_no_constant)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def show(value: object) -> str:
    """A value for an error message, cut to a bearable length."""
    text = "no data" if value is None else repr(value)
    return text if len(text) <= _FOUND_MAX else f"{text[:_FOUND_MAX]}... ({len(text)} characters)"


def read_text(path: str, data: bytes | None, expected: str) -> str:
    """The data as text. Raises CorruptZnodeError where there is none or it is not UTF-8."""
    if not data:
        raise CorruptZnodeError(path, expected, "no data" if data is None else "empty data")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptZnodeError(path, expected, f"bytes that are not UTF-8: {show(data)}") from error


def read_json(path: str, data: bytes | None, expected: str) -> object:
    """The data as one JSON value. Raises CorruptZnodeError where it is none.

    Size is bounded by ZooKeeper's `jute.maxbuffer`, depth by Python's recursion limit and the length of
    a number by its integer conversion limit; beyond either the znode is reported, not the process ended.
    """
    text = read_text(path, data, expected)
    try:
        found: object = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise CorruptZnodeError(path, expected, f"{show(text)}: {error}") from error
    return found


def read_object(path: str, data: bytes | None, expected: str) -> dict[str, object]:
    """The data as one JSON object. Raises CorruptZnodeError for anything else."""
    found = read_json(path, data, expected)
    if not isinstance(found, dict):
        raise CorruptZnodeError(path, expected, show(found))
    return found


def write_object(fields: Mapping[str, object]) -> bytes:
    """One JSON object without white space, UTF-8, keys in the order given.

    Raises ConfigError for a number that Kafka 0.8 cannot read: its parser takes 32-bit integers only and
    fails on the whole znode otherwise. Kept keys of others are no exception.
    """
    try:
        for key, value in fields.items():
            _check_numbers(key, value)
        text = _ENCODER.encode(fields)
    except RecursionError as error:
        raise ConfigError(f"JSON keys {list(fields)}: expected less nesting") from error
    # Names from the operating system can hold lone surrogates, which UTF-8 cannot.
    return text.encode("utf-8", "replace")


def text_of(path: str, fields: Mapping[str, object], key: str) -> str:
    """The text under a key. Raises CorruptZnodeError where there is none."""
    value = _present(path, fields, key, "text")
    if not isinstance(value, str):
        raise CorruptZnodeError(path, f"text in {key!r}", show(value))
    return value


def integer_of(path: str, fields: Mapping[str, object], key: str, allowed: range = INT32) -> int:
    """The whole number under a key. Raises CorruptZnodeError where there is none, or one out of range."""
    value = _present(path, fields, key, "a whole number")
    if not is_integer(value, allowed):
        raise CorruptZnodeError(path, f"a whole number of {_bits(allowed)} in {key!r}", show(value))
    assert isinstance(value, int)
    return value


def integer_text_of(path: str, fields: Mapping[str, object], key: str, allowed: range = INT64) -> int:
    """A whole number stored as text, as Kafka stores times: JVM parsers of 0.8 know 32 bits only."""
    text = text_of(path, fields, key)
    number = decimal(text, allowed)
    if number is None:
        raise CorruptZnodeError(path, f"a whole number as text in {key!r}", show(text))
    return number


def object_of(path: str, fields: Mapping[str, object], key: str) -> dict[str, object]:
    """The object under a key. Raises CorruptZnodeError where there is none."""
    value = _present(path, fields, key, "an object")
    if not isinstance(value, dict):
        raise CorruptZnodeError(path, f"an object in {key!r}", show(value))
    return value


def integers_of(path: str, value: object, what: str) -> tuple[int, ...]:
    """A JSON array of 32-bit integers (broker ids)."""
    if not isinstance(value, list) or not all(is_integer(item, INT32) for item in value):
        raise CorruptZnodeError(path, f"a list of broker ids in {what}", show(value))
    return tuple(value)


def is_integer(value: object, allowed: range = INT32) -> bool:
    """Whether a JSON value is an integer in the range; JSON's true is none, although Python's is."""
    return type(value) is int and value in allowed


def decimal(text: str, allowed: range) -> int | None:
    """The value of plain ASCII digits with an optional minus, or None."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 20):
        return None
    number = int(text)
    return number if number in allowed else None


def others(fields: Mapping[str, object], *known: str) -> dict[str, object]:
    """The keys that a codec does not know: kept, so that a rewrite loses nothing of later versions."""
    return {key: value for key, value in fields.items() if key not in known}


def _check_numbers(key: str, value: object) -> None:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            _check_numbers(key, inner)
    elif isinstance(value, float) or (isinstance(value, int) and value not in INT32):
        raise ConfigError(f"JSON key {key!r}: expected whole numbers of 32 bits, found {show(value)}")


def _present(path: str, fields: Mapping[str, object], key: str, kind: str) -> object:
    if key not in fields:
        raise CorruptZnodeError(path, f"{kind} in {key!r}", "no such key")
    return fields[key]


def _bits(allowed: range) -> str:
    return (
        "64 bits" if allowed == INT64 else "32 bits" if allowed == INT32 else f"{allowed[0]}..{allowed[-1]}"
    )


DATA_BYTES_MAX: Final = 900_000
"""Leaves room for the rest of the request below ZooKeeper's default `jute.maxbuffer` of 1,048,575 bytes."""


def check_size(what: str, data: bytes) -> bytes:
    """Returns the data. ZooKeeper closes the connection on a request too big, so none may be sent."""
    if len(data) > DATA_BYTES_MAX:
        raise ConfigError(f"{what}: expected at most {DATA_BYTES_MAX} bytes, found {len(data)}")
    return data


def check_number(what: str, value: int, lowest: int = 0, highest: int = INT32[-1]) -> int:
    """Returns the number where it lies between the bounds; they are those of a Java int by default."""
    if not lowest <= value <= highest:
        raise ConfigError(f"{what}: expected a number from {lowest} to {highest}, found {value}")
    return value


def check_brokers(what: str, brokers: Sequence[int]) -> list[int]:
    """Returns the list where each is a broker id and none stands in it twice. It may be empty."""
    if brokers and not (min(brokers) >= 0 and max(brokers) in INT32):
        raise ConfigError(f"{what}: expected broker ids from 0 to {INT32[-1]}, found {list(brokers)}")
    if len(set(brokers)) < len(brokers):
        raise ConfigError(f"{what}: expected each broker once, found {list(brokers)}")
    return list(brokers)


def check_text(what: str, text: str) -> str:
    """Returns the text where UTF-8 has it: the command line's undecodable bytes are lone surrogates."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ConfigError(f"{what}: expected text that UTF-8 can hold, found {show(text)}") from error
    return text
