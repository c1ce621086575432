"""Some planted mistakes, drawn anew in each run; all of them by `python -m tests.programs.mistakes`."""

from __future__ import annotations

import random

import pytest

from tests.programs.mistakes.catalogue import MISTAKES
from tests.programs.mistakes.run import run

DRAWN = 1


@pytest.mark.timeout(1800)  # two runs of pytest
def test_drawn_mistakes_are_caught() -> None:
    """Each in a copy of the tree whose tests pass without it; pytest-randomly's seed repeats the draw."""
    results = run(random.sample(MISTAKES, DRAWN), jobs=1)

    assert [each.line for each in results if each.trouble] == []
