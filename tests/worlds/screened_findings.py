"""Compares what rules find in all rows with what they find in those that screens keep."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

from tests.worlds.plain_findings import find_all
from zkgroup.audit.columns.logs import with_ends
from zkgroup.audit.columns.parts import ROWS_PER_PART
from zkgroup.audit.columns.rows import Columns, columns_of
from zkgroup.audit.engine import bounds_of
from zkgroup.audit.events import Event
from zkgroup.audit.facts import facts_of
from zkgroup.audit.findings import RULES
from zkgroup.audit.rules import Bounds
from zkgroup.audit.screening import facts_in, find_screened
from zkgroup.audit.source import Rows


def whole_columns(rows: Rows) -> Columns | None:
    """None where rows come as objects."""
    parts = rows.parts(ROWS_PER_PART)
    return None if parts is None else with_ends(list(parts.logged), parts.before)


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
    screened = Counter(find_screened(RULES, columns, facts, bounds))
    assert (what, exact - screened) == (what, Counter())
    assert (what, screened - exact) == (what, Counter())
    return Counter(finding.finding for finding in exact.elements())
