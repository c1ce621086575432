"""A day without accidents, as incidents: members restart, followers fall behind, and nothing is wrong.

    python -m tests.programs.healthy_day

is the same with a million operations.
"""

from __future__ import annotations

from pathlib import Path

from tests.programs.healthy_day import Day, healthy_day

OPERATIONS = 25_000
WARNINGS_MAX = 20


def test_a_healthy_day_has_no_error_and_few_warnings(tmp_path: Path) -> None:
    """Restarts of members are rebalances, not hundreds of partitions without an owner."""
    day = healthy_day(tmp_path / "logs", OPERATIONS, groups=3)

    assert (day.findings["error"], day.incidents["error"]) == (0, 0)
    assert day.findings["warning"] > 300
    assert day.incidents["warning"] <= WARNINGS_MAX
    assert day.restarts >= 1


def test_the_figures_are_printed() -> None:
    """By severity, before and after."""
    day = Day(1_000_000, {"error": 0, "warning": 9, "info": 7}, {"error": 0, "warning": 1, "info": 3}, 4, 2.5)

    assert day.text() == (
        "1,000,000 operations, 4 restarts of members\n"
        "findings: 0 errors, 9 warnings, 7 notes\n"
        "incidents: 0 errors, 1 warnings, 3 notes; brought together in 2.5 s of CPU"
    )
