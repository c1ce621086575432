"""Seeds in batches, each large enough that the figures of its schedules prove something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

FIRST = 10
"""Schedules that the tests of this folder run; `tests/long/simulation` goes on from here."""
BATCH = 250
"""Schedules, enough for the rarest figure."""
MEANINGFUL = 50
"""Schedules; in fewer than these, the rarest of the figures may be absent by chance."""


def batches(end: int, first: int = 0) -> list[range]:
    """All seeds from the first to below the end, in batches of that size or somewhat more; fewer make one."""
    seeds = range(first, end)
    count = max(1, len(seeds) // BATCH)
    return [seeds[i * len(seeds) // count : (i + 1) * len(seeds) // count] for i in range(count)]


def name_of(seeds: range) -> str:
    """Of a batch, as a parameter of a test."""
    return f"{seeds.start}-{seeds.stop - 1}"


def require_that_faults_bit(figures: Counter[str], seeds: range, least: Mapping[str, float]) -> None:
    """`least`: in a hundred schedules. A batch in which less happened proves nothing (invariants.md)."""
    if len(seeds) < MEANINGFUL:
        pytest.skip(f"{len(seeds)} schedules held; whether the faults bit is asked of {MEANINGFUL} and more")
    wanted = {name: int(count * len(seeds) / 100) for name, count in least.items()}
    missed = {name: figures[name] for name in wanted if figures[name] < wanted[name]}
    assert not missed, f"in schedules {name_of(seeds)} there was too little of {missed}"
