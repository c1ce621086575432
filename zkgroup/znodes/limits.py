"""What may be written. Each check raises ConfigError that says what, the bound and what was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zkgroup.errors import ConfigError
from zkgroup.znodes.json_object import INT32, show

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
