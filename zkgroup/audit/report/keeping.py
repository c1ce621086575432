"""Keeps a report small, however long its history: bounded lists, names written once, safe texts.

All that a report shows comes from a tree that any client may have written to.
"""

from __future__ import annotations

import heapq
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Generic, TypeVar

Item = TypeVar("Item")

NOBODY: Final = -1
"""The number of no name."""

TEXT_MAX: Final = 400
"""Characters of one text, unless another number is given."""
_EXACT_MAX: Final = 2**53
"""Integers beyond are not exact in a browser."""
_UNSEEN: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
"""Categories of characters that are not seen, or change how others are shown."""


@dataclass(frozen=True, slots=True)
class ReportLimits:
    """Says how much of each kind a report holds at the most; what is beyond is counted and said."""

    partitions: int = 20_000
    """Rows of owners, and of offsets, each."""
    spans: int = 60_000
    """Ownerships and the like in one timeline; short ones beside each other are drawn as one beyond."""
    points: int = 80_000
    """Points of all offset curves together."""
    marks: int = 5_000
    """Rewinds, foreign commits, resets and deletions."""
    rebalances: int = 1_000
    changes: int = 40_000
    """Partitions named in all rebalances together."""
    sessions: int = 5_000
    findings_of_a_rule: int = 250
    incidents: int = 500
    areas: int = 11
    """Subtrees that have a colour of their own in the write load."""
    buckets: int = 240
    """Steps of the write load."""
    text: int = TEXT_MAX
    """Characters of one text."""


def shown(text: str, limit: int = TEXT_MAX) -> str:
    """A text with escapes for invisible characters, cut to a length."""
    spelled = text if text.isascii() and text.isprintable() else "".join(map(_spelled, text[: limit + 1]))
    return spelled if len(spelled) <= limit else f"{spelled[: limit - 1]}…"


def hex_zxid(zxid: int | None) -> str | None:
    """As ZooKeeper's tools write it, for a browser has no whole numbers of 64 bits."""
    return None if zxid is None else f"0x{zxid:x}"


def number(value: int | None) -> int | str | None:
    """As it is where a browser keeps it exactly, else its digits."""
    return value if value is None or abs(value) < _EXACT_MAX else str(value)


class Names:
    """Each text once, by number: owners, sessions and topics come again and again."""

    def __init__(self, limit: int = TEXT_MAX, start_ms: int = 0, start_zxid: int = 0) -> None:
        """What begins with the history is small: many times and zxids are written from its start on."""
        self._limit, self.start_ms, self._start_zxid = limit, start_ms, start_zxid
        self._numbers: dict[str, int] = {}
        self.texts: list[str] = []
        """By number, as they are to be shown."""

    def of(self, text: str | None) -> int:
        """Its number; NOBODY for None."""
        if text is None:
            return NOBODY
        known = self._numbers.get(text)
        if known is None:
            known = self._numbers[text] = len(self.texts)
            self.texts.append(shown(text, self._limit))
        return known

    def zxids(self, first: int, last: int | None) -> tuple[int | str | None, int | str | None]:
        """The first one from that of the history on, the last one from the first one on.

        Texts where a browser would round one of them.
        """
        since, behind = first - self._start_zxid, None if last is None else last - first
        if max(abs(since), abs(since + (behind or 0)), abs(behind or 0)) >= _EXACT_MAX:
            return hex_zxid(first), hex_zxid(last)
        return since, behind


@dataclass(slots=True)
class Kept(Generic[Item]):
    """The weightiest of what is added, in the order in which it was; of equal ones the first."""

    limit: int
    weight: Callable[[Item], Any]
    left_out: int = 0
    _heap: list[tuple[Any, int, Item]] = field(default_factory=list)
    _serial: count[int] = field(default_factory=count)

    def add(self, item: Item) -> None:
        entry = (self.weight(item), -next(self._serial), item)
        if len(self._heap) < self.limit:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)
            self.left_out += 1

    def items(self) -> list[Item]:
        return [item for _, _, item in sorted(self._heap, key=lambda entry: -entry[1])]


def _spelled(character: str) -> str:
    if unicodedata.category(character) in _UNSEEN:
        return f"\\u{{{ord(character):x}}}"
    return character
