"""Which partition a line goes to. Pure."""

from __future__ import annotations

from collections.abc import Sequence

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
