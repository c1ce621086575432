"""A set of offsets, kept as runs. Pure."""

from __future__ import annotations

import bisect


class Offsets:
    """Whole numbers in disjoint runs, so that a partition read from end to end is one run."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        """Exclusive; run n is from `_starts[n]` to `_ends[n]`."""

    def add(self, start: int, end: int | None = None) -> None:
        """Adds one number, or all from `start` up to and without `end`."""
        end = start + 1 if end is None else end
        if end <= start:
            return
        low = bisect.bisect_left(self._ends, start)
        high = bisect.bisect_right(self._starts, end)
        if low < high:
            start, end = min(start, self._starts[low]), max(end, self._ends[high - 1])
        self._starts[low:high] = [start]
        self._ends[low:high] = [end]

    def first_missing(self, start: int, end: int) -> int | None:
        """The least number from `start` up to and without `end` that is not in the set."""
        run = bisect.bisect_right(self._starts, start) - 1
        missing = max(start, self._ends[run]) if run >= 0 else start
        return missing if missing < end else None
