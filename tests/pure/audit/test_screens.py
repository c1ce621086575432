"""Screens leave out no row that a finding needs: on random histories, recorded ones, and a healthy day."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from tests.worlds.golden_data import FOLDER
from tests.worlds.made_series import enriched
from tests.worlds.random_histories import histories, history_of
from tests.worlds.record_by_record import exact_rows
from tests.worlds.screened_findings import assert_same, bounds_for, events_in
from zkgroup.audit.findings.engine import RULES, bounds_of
from zkgroup.audit.inputs.opening import open_source

SCREENED = sorted(rule.name for rule in RULES if rule.screen is not None)


def test_screened_findings_are_those_of_all_rows() -> None:
    """On random histories, every second with random bounds; each of them is found in some history.

    `tests/long/audit/test_screens.py` has more histories.
    """
    found: Counter[str] = Counter()
    for seed, events in histories(0, 24):
        found += assert_same(events, bounds_for(seed), f"history {seed}")
    for seed, events in histories(0, 6):
        with_resets = list(enriched(events, random.Random(seed)))
        found += assert_same(with_resets, bounds_for(seed), f"history {seed} with resets")

    assert set(SCREENED) - set(found) == set()


def test_an_offset_that_was_set_before_its_znode_was_made_is_not_left_out() -> None:
    """Of damaged snapshots. The screen took the later time, the rule that of the data."""
    assert_same(history_of(10_048), bounds_for(10_048), "history 10048")


@pytest.mark.parametrize("folder", sorted(FOLDER.rglob("version-2")), ids=lambda path: path.parts[-2])
def test_recorded_histories_have_the_same_findings(folder: Path) -> None:
    """The rows that logs give as columns are those that they give as objects."""
    events = exact_rows(open_source([folder]))

    assert events_in(open_source([folder]).rows()) == events
    assert_same(events, bounds_of(RULES, {}), str(folder))
