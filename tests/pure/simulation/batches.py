"""Seeds in batches, each large enough that the figures of its schedules prove something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

BATCH = 250
"""Schedules, enough for the rarest figure."""
MEANINGFUL = 50
"""Schedules; in fewer than these, the rarest of the figures may be absent by chance."""


def batches(schedules: int) -> list[range]:
    """All seeds below this number, in batches of that size or somewhat more; fewer make one batch."""
    count = max(1, schedules // BATCH)
    return [range(i * schedules // count, (i + 1) * schedules // count) for i in range(count)]


def name_of(seeds: range) -> str:
    """Of a batch, as a parameter of a test."""
    return f"{seeds.start}-{seeds.stop - 1}"


def require_that_faults_bit(figures: Counter[str], seeds: range, least: Mapping[str, int]) -> None:
    """`least`: in a hundred schedules. A batch in which less happened proves nothing (reliability.md 2.5)."""
    if len(seeds) < MEANINGFUL:
        pytest.skip(f"{len(seeds)} schedules held; whether the faults bit is asked of {MEANINGFUL} and more")
    wanted = {name: count * len(seeds) // 100 for name, count in least.items()}
    assert {name: figures[name] for name in wanted if figures[name] < wanted[name]} == {}
