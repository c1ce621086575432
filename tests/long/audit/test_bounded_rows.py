"""Findings in buckets are those of all rows: the long form of tests/pure/audit/test_bounded_rows.py.

`ZKGROUP_BOUNDED_HISTORIES=900` says how many histories in all.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.worlds.bounded_findings import assert_same, rows_of
from tests.worlds.screened_findings import bounds_for

HISTORIES = int(os.environ.get("ZKGROUP_BOUNDED_HISTORIES", "16"))
PARTS = 2


@pytest.mark.parametrize("part", range(PARTS))
def test_bounded_findings_are_those_of_all_rows(tmp_path: Path, part: int) -> None:
    """On random histories, every second with random bounds."""
    size = HISTORIES // PARTS
    for seed in range(20_000 + part * size, 20_000 + (part + 1) * size):
        assert_same(rows_of(tmp_path, seed), bounds_for(seed), f"history {seed}")
