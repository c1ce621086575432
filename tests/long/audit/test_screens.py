"""Screened findings are those of all rows: the long form of tests/pure/audit/test_screens.py.

`ZKGROUP_SCREENED_HISTORIES=900` says how many histories in all.
"""

from __future__ import annotations

import os

import pytest

from tests.worlds.random_histories import histories
from tests.worlds.screened_findings import assert_same, bounds_for

HISTORIES = int(os.environ.get("ZKGROUP_SCREENED_HISTORIES", "60"))
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_screened_findings_are_those_of_all_rows(part: int) -> None:
    """On random histories, every second with random bounds."""
    size = HISTORIES // PARTS
    for seed, events in histories(10_000 + part * size, size):
        assert_same(events, bounds_for(seed), f"history {seed}")
