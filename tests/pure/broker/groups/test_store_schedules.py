"""Two brokers with coordinator and store keep what the exhaustive model promises, under faults."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.worlds.coordinated_stores import CoordinatedStores
from zkgroup.model.error_codes import ErrorCode

SCHEDULES, STEPS = 36, 800


@pytest.mark.parametrize("part", range(3))
def test_schedules_with_faults_keep_the_promises_of_the_model(part: int) -> None:
    """No generation begins twice, no stale commit, never both kinds of members; and no group is stuck."""
    total: Counter[str] = Counter()
    for seed in range(part, SCHEDULES, 3):
        world = CoordinatedStores(seed)
        for _ in range(STEPS):
            world.step()
        assert world.settle() is ErrorCode.NONE, f"seed {seed}: the group is stuck"
        total += world.stats

    assert min(total[each] for each in ("generations", "synced", "committed", "registered")) > 10, total
