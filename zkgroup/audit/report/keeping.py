"""Keeps a report small, however long its history: bounded lists, names written once, safe texts.

All that a report shows comes from a tree that any client may have written to.
"""

from __future__ import annotations

import heapq
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any, Final, TypeVar

from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.rows import Numbers
from zkgroup.model.text import hex_session

Item = TypeVar("Item")

NOBODY: Final = -1
"""The number of no name."""
LARGEST: Final = 2**63 - 1
"""Of the numbers in columns."""
TEXT_MAX: Final = 400
"""Characters of one text, unless another number is given."""
_EXACT_MAX: Final = 2**53
"""Integers beyond are not exact in a browser."""
_UNSEEN: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
"""Categories of characters that are not seen, or change how others are shown."""


@dataclass(frozen=True, slots=True)
class ReportLimits:
    """The most of each kind that a report holds; what is beyond is counted, and the report has the number."""

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
    spelled = text
    if not (text.isascii() and text.isprintable()):
        is_unseen = {each: unicodedata.category(each) in _UNSEEN for each in text[: limit + 1]}
        spelled = "".join(f"\\u{{{ord(each):x}}}" if is_unseen[each] else each for each in text[: limit + 1])
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

    def session(self, session: int | None) -> int:
        """The number of its hexadecimal digits; NOBODY for none."""
        return self.of(hex_session(session)) if session else NOBODY

    def zxids(self, first: int, last: int | None) -> tuple[int | str | None, int | str | None]:
        """The first one from that of the history on, the last one from the first one on.

        Texts where a browser would round one of them.
        """
        since, behind = first - self._start_zxid, None if last is None else last - first
        if max(abs(since), abs(since + (behind or 0)), abs(behind or 0)) >= _EXACT_MAX:
            return hex_zxid(first), hex_zxid(last)
        return since, behind


def weightiest(items: Iterable[Item], most: int, weight: Callable[[Item], Any]) -> list[Item]:
    """The weightiest in their order; of equal ones the first."""
    chosen = heapq.nlargest(most, enumerate(items), key=lambda each: weight(each[1]))
    return [item for _, item in sorted(chosen, key=itemgetter(0))]


class Thinned:
    """Takes what is drawn of some rows at a time, as structured arrays that have the row first.

    It holds at most so many items. Beyond, they are thinned with a grain of time: the shortest, doubled again
    and again, with which all fit; so it does not matter in which order rows are taken in.
    """

    def __init__(
        self, most: int, facts: Facts, parts: int, thin: Callable[[Numbers, int, Facts], Numbers]
    ) -> None:
        """`thin` gives less of items with a grain, the same as of what a shorter one left.

        The first grain is the history by `parts`.
        """
        self._most, self._facts, self._thin = most, facts, thin
        self._finest_ms = max((facts.end_ms - facts.start_ms) // parts, 1)
        self._held: list[Numbers] = []
        self.grain_ms = 0
        """0 where all stand as they are."""

    def add(self, items: Numbers) -> None:
        """Takes all items of some rows: those of a row follow each other, in order."""
        self._held.append(self._thinned(items))
        while self.grain_ms <= LARGEST + 1 and sum(map(len, self._held)) > self._most:
            self.grain_ms = 2 * self.grain_ms or self._finest_ms
            self._held = list(map(self._thinned, self._held))

    def _thinned(self, items: Numbers) -> Numbers:
        return self._thin(items, min(self.grain_ms, LARGEST), self._facts) if self.grain_ms else items

    def by_row(self) -> dict[int, list[tuple[Any, ...]]]:
        found: defaultdict[int, list[tuple[Any, ...]]] = defaultdict(list)
        for item in chain.from_iterable(held.tolist() for held in self._held):
            found[item[0]].append(item)
        return found
