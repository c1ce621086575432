"""A day without accidents, as incidents: members restart, followers fall behind, and nothing is wrong.

    python -m tests.programs.healthy_day

is the same with a million operations.
"""

from __future__ import annotations

from pathlib import Path

from tests.programs.healthy_day import healthy_day

OPERATIONS = 25_000
WARNINGS_MAX = 20


def test_a_healthy_day_has_no_error_and_few_warnings(tmp_path: Path) -> None:
    """Restarts of members are rebalances, not hundreds of partitions without an owner."""
    day = healthy_day(tmp_path / "logs", OPERATIONS, groups=3)

    assert (day.findings["error"], day.incidents["error"]) == (0, 0)
    assert day.findings["warning"] > 300
    assert day.incidents["warning"] <= WARNINGS_MAX
    assert day.restarts >= 1
