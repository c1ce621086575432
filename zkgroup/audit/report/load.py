"""The write load by subtree over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from zkgroup.audit.facts import Facts
from zkgroup.audit.report.keeping import Names, ReportLimits
from zkgroup.audit.texts import count_text

AREAS_MAX: Final = 2_000
_TABLE_MAX: Final = 60
_OTHER: Final = "everything else"
_LEAST_MS: Final = 1_000


class _Counted(NamedTuple):
    first: tuple[int, int]
    """Zxid and place of the first row."""
    counts: Counter[int]
    size: int


class WriteLoad:
    """Counts operations by what they are to, in equal steps of time."""

    def __init__(self, facts: Facts, limits: ReportLimits) -> None:
        self.start_ms = facts.start_ms
        length_ms = max(facts.end_ms - facts.start_ms, 1)
        self.step_ms = max(-(-length_ms // limits.buckets), _LEAST_MS)
        self.buckets = length_ms // self.step_ms + 1
        self._areas_drawn = limits.areas
        self._counts: dict[str, Counter[int]] = {}
        self._bytes: Counter[str] = Counter()
        self._counted: dict[str, _Counted] = {}

    def add(self, area: str, counts: Mapping[int, int], size: int, first: tuple[int, int]) -> None:
        """What was counted of some rows of an area: operations by step, bytes, and where the first one is."""
        known = self._counted.get(area)
        if known is None:
            self._counted[area] = _Counted(first, Counter(counts), size)
            return
        known.counts.update(counts)
        self._counted[area] = _Counted(min(known.first, first), known.counts, known.size + size)

    def end(self) -> None:
        """Once all is counted: the areas that come first are shown apart."""
        for place, area in enumerate(sorted(self._counted, key=lambda area: self._counted[area].first)):
            counted = self._counted[area]
            name = area if place < AREAS_MAX else _OTHER
            self._counts.setdefault(name, Counter()).update(counted.counts)
            self._bytes[name] += counted.size
        self._counted.clear()

    def data(self, names: Names) -> dict[str, Any]:
        """As the page reads it."""
        totals = {area: counts.total() for area, counts in self._counts.items()}
        areas = sorted(totals, key=lambda area: (-totals[area], area))
        drawn, rest = areas[: self._areas_drawn], areas[self._areas_drawn :]
        other: Counter[int] = Counter()
        for area in rest:
            other.update(self._counts[area])
        series = [[names.of(area), self._dense(self._counts[area])] for area in drawn]
        if rest:
            series.append([names.of(_OTHER), self._dense(other)])
        notes = []
        if len(areas) > _TABLE_MAX:
            notes.append(f"{count_text(len(areas) - _TABLE_MAX, 'subtree')} more are not in the table.")
        return {
            "notes": notes,
            "step_ms": self.step_ms,
            "series": series,
            "rows": [[names.of(area), totals[area], self._bytes[area]] for area in areas[:_TABLE_MAX]],
        }

    def _dense(self, counts: Counter[int]) -> list[int]:
        return [counts[bucket] for bucket in range(self.buckets)]
