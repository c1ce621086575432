"""A finding, its times, and its rule: a pure function over the rows of one key.

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
from zkgroup.audit.inputs.events import Event, Keys, is_of_groups
from zkgroup.audit.inputs.facts import Facts, Life
from zkgroup.znodes.config import entities_path
from zkgroup.znodes.paths import path_kind


class Moment(Protocol):
    """A transaction, and its time by the leader's clock."""

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
        """The time in which a znode existed."""
        return cls(life.from_zxid, life.from_ms, life.to_zxid, life.to_ms)

    def ms(self, facts: Facts) -> int:
        """Its length in ms, up to the end of the history; below 0 after a step of the clock."""
        return (facts.end_ms if self.to_ms is None else self.to_ms) - self.from_ms


def is_alive(life: Life, zxid: int) -> bool:
    """True if a zxid lies in a life, both ends included."""
    return life.from_zxid <= zxid and (life.to_zxid is None or zxid <= life.to_zxid)


def overlaps(some: Sequence[TimeRange], others: Sequence[TimeRange]) -> list[TimeRange]:
    """The times that are in both; the ranges of each are in order and do not overlap."""
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
    """The times of `whole`, from the first covered one on, that none of these covers; they are in order."""
    found = []
    for before, after in zip_longest(covered, covered[1:]):
        to_zxid, to_ms = (None, None) if after is None else (after.from_zxid, after.from_ms)
        if before.to_zxid is not None and before.to_ms is not None:
            found.append(TimeRange(before.to_zxid, before.to_ms, to_zxid, to_ms))
    return overlaps([whole], found)


def merged(ranges: Iterable[TimeRange]) -> list[TimeRange]:
    """The union. A range that begins in the transaction in which another one ends continues it."""
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
    """A time in which every window has enough moments, from the first to the last."""

    first: Moment
    last: Moment
    times: int


def full_windows(moments: Iterable[Moment], enough: int, window_ms: float) -> Iterator[FullWindow]:
    """The times in which moments were many: `enough` of them within every window.

    Each is yielded once a moment comes too late for it. Memory: as many moments as are enough.
    """
    recent: deque[Moment] = deque(maxlen=max(enough, 1))
    full: FullWindow | None = None
    for now in moments:
        first = recent[1] if len(recent) > 1 else now
        if full is not None and now.time_ms - min(first.time_ms, full.last.time_ms) > window_ms:
            yield full
            full = None
            recent.clear()
        recent.append(now)
        if len(recent) == recent.maxlen and now.time_ms - recent[0].time_ms <= window_ms:
            times = len(recent) if full is None else full.times + 1
            full = FullWindow(recent[0] if full is None else full.first, now, times)
    if full is not None:
        yield full


_Item = TypeVar("_Item")


class KeyRows(list[Event]):
    """The rows of one key in order; values that rules share are computed once."""

    def __init__(self, rows: Iterable[Event]) -> None:
        super().__init__(rows)
        self._known: dict[tuple[Any, ...], Sequence[Any]] = {}

    def once(
        self, make: Callable[..., Iterable[_Item]], key: tuple[str, ...], facts: Facts, *bounds: float
    ) -> Sequence[_Item]:
        """All values of `make(rows, key, facts, *bounds)`; the rules of a key share them."""
        known = self._known.get((make, *bounds))
        if known is None:
            known = self._known[make, *bounds] = list(make(self, key, facts, *bounds))
        return known


def runs(items: Iterable[_Item], is_next: Callable[[_Item, _Item], bool]) -> list[list[_Item]]:
    """The items in order, as lists: each item of a list is next to the one before it."""
    found: list[list[_Item]] = []
    for item in items:
        if found and is_next(found[-1][-1], item):
            found[-1].append(item)
        else:
            found.append([item])
    return found


Severity = Literal["error", "warning", "info"]
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")
"""The severities, the worst first."""
Input = Literal["tree", "log", "series"]
Basis = Literal["log", "snapshots"]


_Place = tuple[str | None, str | None, int | None]
_NOWHERE: Final[_Place] = (None, None, None)


def place_of(path: str) -> _Place:
    """The group, topic and partition that a path is of."""
    place = path_kind(path)
    topic = place.name if path.startswith(f"{entities_path('topics')}/") else place.topic
    number = None if place.partition < 0 else place.partition
    return place.name if is_of_groups(place) else None, topic or None, number


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. Fields that do not apply are None; `to_zxid` is None if it lasts to the end.

    Of a change that snapshots show, `from_*` and `to_*` are those of the snapshots before and after it.
    """

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
    basis: Basis = "log"
    at_zxid: int | None = None
    """The very transaction, where snapshots prove it."""

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
        """A finding about the time of an interval; `place` is group, topic and partition."""
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
        """A finding from one moment to another; None where it lasts."""
        zxids, times = (since.zxid, to.zxid if to else None), (since.time_ms, to.time_ms if to else None)
        return cls(name, severity, *place, session, *zxids, *times, detail)

    @classmethod
    def at(
        cls, name: str, severity: Severity, event: Event, detail: str, place: _Place = _NOWHERE
    ) -> Finding:
        """A finding about one row, with its session and moment."""
        return cls.between(name, severity, event, event, detail, place, event.session)


Bounds = Mapping[str, float]
Screen = Callable[[Any, Bounds], Any]
"""Returns the Selection of ScreenTables that a rule has to see: at times more, never less."""


def partitions_with(mask: Callable[[Any], Any]) -> Screen:
    """A screen that keeps the partitions of groups which have a row in this mask on a PartitionTable."""
    return lambda tables, bounds: tables.partitions.keys_with(mask(tables.partitions))


_Find = Callable[..., Iterable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyRule:
    """The rule of one finding: its question, what it needs, and its function, above which it stands."""

    question: str
    act: str
    """The advice to an operator."""
    severity: Severity = "warning"
    """The worst severity of its findings."""
    needs: Sequence[Input] = ("log",)
    """The inputs that it cannot do without: a tree, which is always there, the log, or a series of trees."""
    bounds: Bounds = field(default_factory=dict)
    """The numbers that the user may set, with their defaults; milliseconds end in `_ms`."""
    find: _Find = lambda *_: ()
    """The function: its name is that of the finding, its docstring the text of its section."""

    def __call__(self, find: _Find) -> Self:
        """The rule with this function."""
        return replace(self, find=find)

    @property
    def name(self) -> str:
        return self.find.__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRule(AnyRule):
    """A rule about the files of servers: `find` gets their history, the facts and the bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(AnyRule):
    """A rule about rows: `find` gets those of one key in order, their key, the facts and the bounds."""

    keys: Keys
    screen: Screen | None = None
    """The screen; None where the rule gets all rows of its keys."""
    is_counted: bool = False
    """True if `find` gets the ScreenTables of all rows and the bounds, and decides in columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRule(AnyRule):
    """A finding about snapshots over time: `find` gets a SeriesView of them, and the bounds."""

    needs: Sequence[Input] = ("series",)
    like: AnyRule | None = None
    """The rule about rows that has its name."""
    is_beside: bool = False
    """True if that is asked of the last snapshot, too."""
    is_whole: bool = False
    """True if it asks for all paths; else those of one group or topic tell enough."""

    @classmethod
    def of(cls, like: AnyRule, bounds: Bounds | None = None, **more: bool) -> Self:
        """The same finding of snapshots: name, question, act and severity are those of `like`."""
        shared = {"question": like.question, "act": like.act, "severity": like.severity}
        return cls(**shared, bounds=bounds or {}, like=like, **more)  # type: ignore[arg-type]

    @property
    def name(self) -> str:
        return self.find.__name__ if self.like is None else self.like.name
