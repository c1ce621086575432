"""Compares what rules find in all rows with what they find in those that screens keep."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from tests.worlds.plain_findings import find_all
from zkgroup.audit.findings.engine import RULES, bounds_of
from zkgroup.audit.findings.rules import Bounds
from zkgroup.audit.findings.tables import ScreenTables
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.facts import facts_of
from zkgroup.audit.inputs.rows import ROWS_PER_PART, Columns, ColumnsBuilder, columns_of, facts_in, joined
from zkgroup.audit.inputs.source import Rows, SeenTree

_EVENTS_AT_A_TIME: Final = 1 << 15


def whole_columns(rows: Rows) -> Columns:
    """All of them, with the ends of ephemerals that no record names."""
    return joined(list(rows.parts(ROWS_PER_PART)))


def events_in(rows: Rows) -> list[Event]:
    """The same as objects."""
    return list(whole_columns(rows).events())


def rows_of_events(events: Callable[[], Iterable[Event]], seen: SeenTree) -> Rows:
    """Rows that are objects as a range of a history."""
    return Rows(lambda size, groups=None: parts_of(events(), size), seen, None)


_SHARES = (1, 0, 0.1, 0.001)
"""Of the default bounds: most findings of long histories need small ones in a short one."""


def bounds_for(seed: int) -> Mapping[str, Bounds]:
    """The defaults, and for odd seeds parts of them."""
    chosen = bounds_of(RULES, {})
    if seed % 2 == 0:
        return chosen
    draw = random.Random(seed)
    return {
        rule: {name: value if name == "depth" else value * draw.choice(_SHARES) for name, value in of.items()}
        for rule, of in chosen.items()
    }


def assert_same(events: Sequence[Event], bounds: Mapping[str, Bounds], what: str) -> Counter[str]:
    """Rows, facts and findings are the same in columns; gives how often each finding was found."""
    columns = columns_of(events)
    assert list(columns.events()) == list(events), what
    facts = facts_of(events)
    assert facts_in(columns) == facts, what
    exact = Counter(find_all(RULES, events, facts, bounds))
    screened = Counter(ScreenTables(columns, facts).find(RULES, bounds))
    assert (what, exact - screened) == (what, Counter())
    assert (what, screened - exact) == (what, Counter())
    return Counter(finding.finding for finding in exact.elements())


def parts_of(events: Iterable[Event], rows_per_part: int) -> Iterator[Columns]:
    """Rows that are objects in parts that each end with a transaction; seeds come first."""
    kinds = groupby(events, key=attrgetter("seed"))
    is_seed, some = next(kinds, (False, iter(())))
    yield columns_of(some if is_seed else ())
    yield from _in_parts(next(kinds, (False, iter(())))[1] if is_seed else some, rows_per_part)


def _in_parts(events: Iterable[Event], rows_per_part: int) -> Iterator[Columns]:
    builder, some, rows = ColumnsBuilder(), list[Event](), 0
    for _, of_one in groupby(events, key=attrgetter("zxid")):
        some.extend(of_one)
        if len(some) >= min(_EVENTS_AT_A_TIME, rows_per_part):
            builder.add_events(some)
            rows += len(some)
            some.clear()
        if rows >= rows_per_part:
            yield builder.columns()
            builder, rows = ColumnsBuilder(), 0
    builder.add_events(some)
    yield builder.columns()
