"""A report whose counts come out of columns is the one that goes through all rows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.worlds.golden_audits import INCIDENTS
from tests.worlds.golden_audits import folder as folder_of
from tests.worlds.random_histories import history_of
from zkgroup.audit.columns.rows import columns_of
from zkgroup.audit.engine import Found
from zkgroup.audit.events import Event
from zkgroup.audit.fact_builder import facts_of
from zkgroup.audit.groups import of_group
from zkgroup.audit.report import counting, load
from zkgroup.audit.report.data import About, gather
from zkgroup.audit.report.keeping import Limits
from zkgroup.audit.source import Rows
from zkgroup.audit.sources import open_source

ABOUT = About(inputs=["made"])


def both(rows: Rows, group: str | None = None) -> tuple[dict[str, object], dict[str, object], int, int]:
    """The data by rows and by columns, and how many rows each went through."""
    events: list[Event] = list(rows.events() if group is None else of_group(rows.events(), group))
    found = Found([], [], facts_of(events))
    shown, counted = counting.counted(rows, found.facts, Limits(), group)
    some = list(shown)
    return gather(events, found, ABOUT), gather(some, found, ABOUT, counted=counted), len(events), len(some)


def rows_of(events: Sequence[Event]) -> Rows:
    seen = open_source([folder_of(INCIDENTS)]).rows().seen
    return Rows(lambda: iter(events), seen, None, lambda: columns_of(events))


@pytest.mark.parametrize("group", [None, "idle"])
def test_a_recorded_history_has_the_same_report(group: str | None) -> None:
    """Columns give what rows give, and go through fewer rows."""
    by_rows, by_columns, every, some = both(open_source([folder_of(INCIDENTS)]).rows(), group)
    assert by_columns == by_rows
    assert some < every


@pytest.mark.parametrize("areas", [load.AREAS_MAX, 2])
def test_random_histories_have_the_same_report(monkeypatch: pytest.MonkeyPatch, areas: int) -> None:
    """With multis that failed; and with more subtrees than are counted apart."""
    monkeypatch.setattr(load, "AREAS_MAX", areas)
    monkeypatch.setattr(counting, "AREAS_MAX", areas)
    for seed in range(8):
        by_rows, by_columns, _, _ = both(rows_of(history_of(seed)))
        assert by_columns == by_rows, seed
