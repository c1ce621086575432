"""A finding, and what decides it: a pure function over the rows of one key.

One process and Spark both bring the rows of each key together, in order, and call the same function, so both
find the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self, TypeVar

from zkgroup.audit.findings.times import Interval, Moment
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.keys import Keys

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
