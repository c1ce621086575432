"""Times of a history: ranges from one transaction to another, and times in which something came often."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from typing import NamedTuple, Protocol

from zkgroup.audit.answers.partitions import OwnerLife
from zkgroup.audit.inputs.facts import Facts, Life


class Moment(Protocol):
    """A transaction, and the leader's clock then."""

    @property
    def zxid(self) -> int: ...
    @property
    def time_ms(self) -> int: ...


class Interval(Protocol):
    """A time between two transactions; `to_*` is None where it lasts."""

    @property
    def from_zxid(self) -> int | None: ...
    @property
    def to_zxid(self) -> int | None: ...
    @property
    def from_ms(self) -> int | None: ...
    @property
    def to_ms(self) -> int | None: ...


class Occurrence(NamedTuple):
    zxid: int
    time_ms: int


class TimeRange(NamedTuple):
    """A part of a history; `to_zxid` and `to_ms` are None where it lasts to the end."""

    from_zxid: int
    from_ms: int
    to_zxid: int | None = None
    to_ms: int | None = None

    @classmethod
    def of(cls, life: Life | OwnerLife) -> TimeRange:
        """That in which a znode existed."""
        return cls(life.from_zxid, life.from_ms, life.to_zxid, life.to_ms)

    def ms(self, facts: Facts) -> int:
        """Its length, up to the end of the history; below 0 after a step of the clock."""
        return (facts.end_ms if self.to_ms is None else self.to_ms) - self.from_ms


def is_alive(life: Life, zxid: int) -> bool:
    """True if it lived at a zxid, or in the same transaction."""
    return life.from_zxid <= zxid and (life.to_zxid is None or zxid <= life.to_zxid)


def overlaps(some: Sequence[TimeRange], others: Sequence[TimeRange]) -> list[TimeRange]:
    """The times that are in both; the ranges of each do not overlap, and are in order."""
    found = []
    for one in some:
        end = _end(one)
        first = max(bisect_right(others, one.from_zxid, key=lambda each: each.from_zxid) - 1, 0)
        for other in islice(others, first, None):
            if other.from_zxid >= end:
                break
            late = other if other.from_zxid > one.from_zxid else one
            early = other if _end(other) < end else one
            if late.from_zxid < _end(early):
                found.append(TimeRange(late.from_zxid, late.from_ms, early.to_zxid, early.to_ms))
    return found


def gaps(whole: TimeRange, covered: Sequence[TimeRange]) -> list[TimeRange]:
    """The times of `whole` behind the first of the covered ones that none of them covers; those in order."""
    found = []
    for before, after in zip_longest(covered, covered[1:]):
        to_zxid, to_ms = (None, None) if after is None else (after.from_zxid, after.from_ms)
        if before.to_zxid is not None and before.to_ms is not None:
            found.append(TimeRange(before.to_zxid, before.to_ms, to_zxid, to_ms))
    return overlaps([whole], found)


def merged(ranges: Iterable[TimeRange]) -> list[TimeRange]:
    """The union. One that begins in the transaction in which another ends goes on from it."""
    found: list[TimeRange] = []
    for one in sorted(ranges, key=lambda each: each.from_zxid):
        if found and one.from_zxid <= _end(found[-1]):
            last = found.pop()
            longer = max(last, one, key=_end)
            one = TimeRange(last.from_zxid, last.from_ms, longer.to_zxid, longer.to_ms)
        found.append(one)
    return found


def _end(one: TimeRange) -> float:
    return float("inf") if one.to_zxid is None else one.to_zxid


class FullWindow(NamedTuple):
    """A time in which every window had enough of them, from the first to the last."""

    first: Moment
    last: Moment
    times: int


def full_windows(moments: Iterable[Moment], enough: int, window_ms: float) -> Iterator[FullWindow]:
    """The times in which moments were many: `enough` of them within every window.

    Each is given once a moment came too late for it. Memory: as many moments as are enough.
    """
    recent: deque[Moment] = deque(maxlen=max(enough, 1))
    full: FullWindow | None = None
    for now in moments:
        if full is not None and now.time_ms - full.last.time_ms > window_ms:
            yield full
            full = None
            recent.clear()
        recent.append(now)
        first = recent[0]
        if len(recent) == recent.maxlen and now.time_ms - first.time_ms <= window_ms:
            full = (
                full._replace(last=now, times=full.times + 1) if full else FullWindow(first, now, len(recent))
            )
        elif full is not None:
            yield full
            full = None
            recent.clear()
            recent.append(now)
    if full is not None:
        yield full
