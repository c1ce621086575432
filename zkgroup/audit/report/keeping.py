"""Keeps a report small, however long its history: bounded lists, names written once, safe texts.

Everything in a report comes from a tree that any client may have written to.
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
from zkgroup.model.text import hex_session, hex_zxid

Item = TypeVar("Item")

NO_NAME: Final = -1
"""The number of no name."""
LARGEST: Final = 2**63 - 1
"""The largest number that a column holds."""
TEXT_MAX: Final = 400
"""The characters of one text, unless another number is given."""
_EXACT_MAX: Final = 2**53
"""The largest integer that is exact in a browser."""
_UNSEEN: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
"""The categories of characters that are invisible, or change how others are shown."""


@dataclass(frozen=True, slots=True)
class ReportLimits:
    """The most items of each kind in a report; further ones are counted, and the report has their number."""

    partitions: int = 20_000
    """The rows of owners, and those of offsets."""
    spans: int = 60_000
    """The spans in one timeline; beyond, short ones beside each other are drawn as one."""
    points: int = 80_000
    """The points of all offset curves together."""
    marks: int = 5_000
    """The rewinds, foreign commits, resets and deletions together."""
    rebalances: int = 1_000
    changes: int = 40_000
    """The partitions named in all rebalances together."""
    sessions: int = 5_000
    findings_of_a_rule: int = 250
    incidents: int = 500
    areas: int = 11
    """The subtrees that have a colour of their own in the write load."""
    buckets: int = 240
    """The steps of time in the write load."""
    text: int = TEXT_MAX
    """The characters of one text."""


def shown(text: str, limit: int = TEXT_MAX) -> str:
    """A text with escapes for invisible characters, cut to a length."""
    spelled = text
    if not (text.isascii() and text.isprintable()):
        is_unseen = {each: unicodedata.category(each) in _UNSEEN for each in text[: limit + 1]}
        spelled = "".join(f"\\u{{{ord(each):x}}}" if is_unseen[each] else each for each in text[: limit + 1])
    return spelled if len(spelled) <= limit else f"{spelled[: limit - 1]}…"


def number(value: int | None) -> int | str | None:
    """The number if a browser keeps it exactly, else the text of its digits."""
    return value if value is None or abs(value) < _EXACT_MAX else str(value)


class Names:
    """Numbers that stand for texts, for owners, sessions and topics come again and again."""

    def __init__(self, limit: int = TEXT_MAX, start_ms: int = 0, start_zxid: int = 0) -> None:
        """`start_zxid` and `start_ms` are subtracted from many zxids and times, so that these are short."""
        self._limit, self.start_ms, self._start_zxid = limit, start_ms, start_zxid
        self._numbers: dict[str, int] = {}
        self.texts: list[str] = []
        """The texts by number, as they are to be shown."""

    def of(self, text: str | None) -> int:
        """The number of a text; NO_NAME for None."""
        if text is None:
            return NO_NAME
        known = self._numbers.get(text)
        if known is None:
            known = self._numbers[text] = len(self.texts)
            self.texts.append(shown(text, self._limit))
        return known

    def session(self, session: int | None) -> int:
        """The number of a session in hex; NO_NAME for none."""
        return self.of(hex_session(session)) if session else NO_NAME

    def zxids(self, first: int, last: int | None) -> tuple[int | str | None, int | str | None]:
        """Two zxids: the first one counted from that of the history, the last one from the first one.

        They are texts where a browser would round one of them.
        """
        since, behind = first - self._start_zxid, None if last is None else last - first
        if max(abs(since), abs(since + (behind or 0)), abs(behind or 0)) >= _EXACT_MAX:
            return hex_zxid(first), hex_zxid(last)
        return since, behind


def weightiest(items: Iterable[Item], most: int, weight: Callable[[Item], Any]) -> list[Item]:
    """The items of most weight, in their order; of equal ones the first."""
    chosen = heapq.nlargest(most, enumerate(items), key=lambda each: weight(each[1]))
    return [item for _, item in sorted(chosen, key=itemgetter(0))]


class Thinned:
    """The items that are drawn, added for some rows at a time as structured arrays with the row first.

    It holds at most so many items. Beyond, they are thinned by a grain of time: the shortest, doubled again
    and again, with which all fit; so the order in which rows are added does not matter.
    """

    def __init__(
        self, most: int, facts: Facts, parts: int, thin: Callable[[Numbers, int, Facts], Numbers]
    ) -> None:
        """`thin` drops items by a grain; it drops the same after it was called with a shorter one.

        The first grain is the length of the history divided by `parts`.
        """
        self._most, self._facts, self._thin = most, facts, thin
        self._finest_ms = max((facts.end_ms - facts.start_ms) // parts, 1)
        self._held: list[Numbers] = []
        self.grain_ms = 0
        """The grain; 0 where nothing was dropped."""

    def add(self, items: Numbers) -> None:
        """Adds all items of some rows: those of a row follow each other, in order."""
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
