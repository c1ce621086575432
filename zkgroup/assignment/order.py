"""Java's orders and hashes, which every member of a group must reproduce exactly.

Nothing here or in the assignors iterates a set or uses `hash()`: Python salts string hashes per process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from zkgroup.model import EvaluatedMember

THREADS_COUNTED = 100_000
"""Threads of one member in a topic that take part: more partitions than any topic's znode can hold.

A registration of another client may ask for 2,147,483,647. Threads beyond the partitions own nothing, and a
name for each of them would exhaust the memory of every member of the group.
"""


def utf16_key(text: str) -> bytes:
    """Sort key that orders like `java.lang.String.compareTo`: by UTF-16 units, not by code points."""
    return text.encode("utf-16-be", "surrogatepass")


def java_sorted(texts: Iterable[str]) -> list[str]:
    """The texts in the order of `String.compareTo`."""
    found = list(texts)
    # For ASCII both orders agree, and Python's own is several times faster.
    if all(map(str.isascii, found)):
        found.sort()
    else:
        found.sort(key=utf16_key)
    return found


def java_hash(text: str, seed: int = 0) -> int:
    """`String.hashCode` as a signed 32-bit number; `seed` is the hash of the text before this one."""
    value = seed & 0xFFFFFFFF
    for unit in _utf16_units(text):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (value >> 31 << 32)


def _utf16_units(text: str) -> Iterable[int]:
    if text.isascii():
        return text.encode("ascii")
    units = text.encode("utf-16-be", "surrogatepass")
    return (high << 8 | low for high, low in zip(units[::2], units[1::2], strict=True))


def threads_by_topic(members: Sequence[EvaluatedMember]) -> dict[str, list[str]]:
    """For each topic that a member subscribes to, the thread ids of its members, in Java's string order.

    Whole ids are compared, so `g_a-10` comes before `g_a-2`, and members whose names extend one another
    by `-<digits>` interleave. Topics are in order too.
    """
    found: dict[str, list[str]] = {}
    for member in members:
        for topic, threads in member.threads.items():
            found.setdefault(topic, []).extend(f"{member.member}-{n}" for n in _first_threads(threads))
    return {topic: java_sorted(found[topic]) for topic in java_sorted(found)}


def _first_threads(count: int) -> Iterable[int]:
    """The thread numbers below `count`; of more than `THREADS_COUNTED`, those whose ids come first."""
    if count <= THREADS_COUNTED:
        return range(count)
    return islice(_in_text_order(count), THREADS_COUNTED)


def _in_text_order(count: int) -> Iterator[int]:
    """0 to `count` - 1 in the order of their decimal texts: 0, 1, 10, 100, 101, ..., 2, 20, ..."""
    yield 0
    number = 1
    for _ in range(count - 1):
        yield number
        if number * 10 < count:
            number *= 10
            continue
        while number % 10 == 9 or number + 1 >= count:
            number //= 10
        number += 1


def sorted_partitions(partitions: Mapping[str, Sequence[int]], topic: str) -> list[int]:
    """The partitions of a topic in numeric order; none where the topic does not exist."""
    return sorted(set(partitions.get(topic, ())))
