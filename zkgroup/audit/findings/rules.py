"""A finding, its times, and the rule that decides it: a pure function over the rows of one key.

One process and Spark both bring the rows of each key together, in order, and call the same function, so both
find the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest
from typing import Any, Final, Literal, NamedTuple, Protocol, Self, TypeVar

from zkgroup.audit.answers.partitions import OwnerLife
from zkgroup.audit.inputs.events import Event, Keys
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


_Item = TypeVar("_Item")


class KeyRows(list[Event]):
    """The rows of one key in order; what rules share of them is computed once."""

    def __init__(self, rows: Iterable[Event]) -> None:
        super().__init__(rows)
        self._known: dict[tuple[Any, ...], Sequence[Any]] = {}

    def once(
        self, make: Callable[..., Iterable[_Item]], key: tuple[str, ...], facts: Facts, *bounds: float
    ) -> Sequence[_Item]:
        """All that `make(rows, key, facts, *bounds)` gives; the rules of a key share it."""
        known = self._known.get((make, *bounds))
        if known is None:
            known = self._known[make, *bounds] = list(make(self, key, facts, *bounds))
        return known


def runs(items: Iterable[_Item], is_next: Callable[[_Item, _Item], bool]) -> list[list[_Item]]:
    """Items in order, in one list as long as each is next to the one before it."""
    found: list[list[_Item]] = []
    for item in items:
        if found and is_next(found[-1][-1], item):
            found[-1].append(item)
        else:
            found.append([item])
    return found


Severity = Literal["error", "warning", "info"]
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")
"""The worst first."""
Input = Literal["snapshot", "log"]


_Place = tuple[str | None, str | None, int | None]
"""Group, topic and partition."""
_NOWHERE: Final[_Place] = (None, None, None)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found. What does not apply is None. `to_zxid` is None for what lasts to the end."""

    finding: str
    severity: Severity
    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    session: int | None = None
    from_zxid: int | None = None
    to_zxid: int | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    detail: str = ""

    @classmethod
    def during(
        cls,
        name: str,
        severity: Severity,
        time: Interval,
        detail: str,
        place: _Place = _NOWHERE,
        session: int | None = None,
    ) -> Finding:
        """Of the time of an interval; `place` is group, topic and partition."""
        ends = (time.from_zxid, time.to_zxid, time.from_ms, time.to_ms)
        return cls(name, severity, *place, session, *ends, detail)

    @classmethod
    def between(
        cls,
        name: str,
        severity: Severity,
        since: Moment,
        to: Moment | None,
        detail: str,
        place: _Place = _NOWHERE,
        session: int | None = None,
    ) -> Finding:
        """Of what began at one moment and ended at another; None where it lasts."""
        zxids, times = (since.zxid, to.zxid if to else None), (since.time_ms, to.time_ms if to else None)
        return cls(name, severity, *place, session, *zxids, *times, detail)

    @classmethod
    def at(
        cls, name: str, severity: Severity, event: Event, detail: str, place: _Place = _NOWHERE
    ) -> Finding:
        """Of what one row did: of its session and its moment."""
        return cls.between(name, severity, event, event, detail, place, event.session)


Bounds = Mapping[str, float]
Screen = Callable[[Any, Bounds], Any]
"""Gives the Selection of ScreenTables that a rule has to see: at times more, never less."""


def partitions_with(mask: Callable[[Any], Any]) -> Screen:
    """Keeps all rows of the partitions of groups that have a row in this mask on a PartitionTable."""
    return lambda tables, bounds: tables.partitions.keys_with(mask(tables.partitions))


_Find = Callable[..., Iterable[Finding]]


def _nothing(*_: object) -> Iterable[Finding]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyRule:
    """One finding: what it asks, what it needs, and how it is decided. It stands above its function."""

    question: str
    act: str
    """What an operator does about it."""
    severity: Severity = "warning"
    """The worst that it says."""
    needs: Sequence[Input] = ("log",)
    """What it cannot do without: a snapshot alone, or the log."""
    bounds: Bounds = field(default_factory=dict)
    """Numbers that the user may set, with their defaults; milliseconds end in `_ms`."""
    find: _Find = _nothing
    """The name is that of the finding, the docstring the text of its section."""

    def __call__(self, find: _Find) -> Self:
        """The rule that a function decides."""
        return replace(self, find=find)

    @property
    def name(self) -> str:
        return self.find.__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRule(AnyRule):
    """A finding about the whole tree or the files themselves: `find` gets history, facts and bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(AnyRule):
    """A finding about rows: `find` gets those of one key in order, their key, the facts and the bounds."""

    keys: Keys
    screen: Screen | None = None
    """None where the rule sees all rows of its keys."""
    is_counted: bool = False
    """True if it is decided in columns: `find` gets the ScreenTables of all rows, and the bounds."""
