"""Which partition a line goes to. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from zkgroup.errors import ConfigError

_M = 0x5BD1E995
_SEED = 0x9747B28C
_ALL = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit hash of Kafka's producers, unsigned (org/apache/kafka/common/utils/Utils.java)."""
    length = len(data)
    h = (_SEED ^ length) & _ALL
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _ALL
        h = (h * _M & _ALL) ^ ((k ^ (k >> 24)) * _M & _ALL)
    if length > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _ALL
    h = (h ^ (h >> 13)) * _M & _ALL
    return h ^ (h >> 15)


def partition_of_key(key: bytes, partitions: Sequence[int]) -> int:
    """Where Kafka's own producers put this key: equal keys in one partition, while there are as many.

    `partitions`: all of the topic, ascending.
    """
    return partitions[(murmur2(key) & 0x7FFFFFFF) % len(partitions)]


def key_of(line: bytes, field: str) -> bytes:
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


def _excerpt(line: bytes) -> str:
    text = line[:60].decode("utf-8", "backslashreplace")
    return text + ("..." if len(line) > 60 else "")
