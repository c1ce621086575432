"""The write load by subtree over time, and the rebalances of all groups, each explained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from zkgroup.audit.findings.group_rebalances import PartitionChange, Rebalance
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.texts import count_text
from zkgroup.audit.report.keeping import Kept, Names, ReportLimits, hex_zxid
from zkgroup.audit.report.parquet import table_of
from zkgroup.audit.report.tables import REBALANCES, rebalance_lists
from zkgroup.znodes.consumers import Owner

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
        ordered = sorted(self._counted.items(), key=lambda each: each[1].first)
        self._counted = {}
        for place, (area, (first, counts, size)) in enumerate(ordered):
            self.add(area if place < AREAS_MAX else _OTHER, counts, size, first)

    def data(self, names: Names) -> dict[str, Any]:
        """As the page reads it."""
        counted = self._counted
        totals = {area: each.counts.total() for area, each in counted.items()}
        areas = sorted(totals, key=lambda area: (-totals[area], area))
        drawn, rest = areas[: self._areas_drawn], areas[self._areas_drawn :]
        other: Counter[int] = Counter()
        for area in rest:
            other.update(counted[area].counts)
        series = [[names.of(area), self._dense(counted[area].counts)] for area in drawn]
        if rest:
            series.append([names.of(_OTHER), self._dense(other)])
        notes = []
        if len(areas) > _TABLE_MAX:
            notes.append(f"{count_text(len(areas) - _TABLE_MAX, 'subtree')} more are not in the table.")
        return {
            "notes": notes,
            "step_ms": self.step_ms,
            "series": series,
            "rows": [[names.of(area), totals[area], counted[area].size] for area in areas[:_TABLE_MAX]],
        }

    def _dense(self, counts: Counter[int]) -> list[int]:
        return [counts[bucket] for bucket in range(self.buckets)]


_FLOWS_MAX: Final = 12
_TRIGGERS_MAX: Final = 12
_RETAKEN_MAX: Final = 8


class AllRebalances:
    """Takes rebalances; keeps those that are shown, and a row of the table for each."""

    def __init__(self, limits: ReportLimits) -> None:
        self._limits = limits
        self._kept: Kept[Rebalance] = Kept(limits.rebalances, _weight)
        self._tables: list[Any] = []

    def keep(self, found: Sequence[Rebalance]) -> None:
        """Takes the rebalances of a group."""
        for each in found:
            self._kept.add(each)
        if found:
            self._tables.append(table_of(REBALANCES, rebalance_lists(found)))

    def table(self) -> Any:
        """All of them as `tables.REBALANCES`, by zxid, then by group; None where there are none."""
        if not self._tables:
            return None
        return pa.concat_tables(self._tables).sort_by([("from_zxid", "ascending"), ("group", "ascending")])

    def data(self, names: Names) -> dict[str, Any]:
        """As the page reads it."""
        kept = sorted(self._kept.items(), key=lambda each: (each.from_zxid, each.group))
        changes = max(self._limits.changes // max(len(kept), 1), 1)
        notes = []
        if self._kept.left_out:
            notes.append(
                f"{count_text(self._kept.left_out, 'rebalance')} more, those that moved and cost least, are"
                " left out."
            )
        if any(len(each.changes) > changes for each in kept):
            notes.append(
                f"Of a rebalance the {changes} partitions that were longest without an owner are named; the"
                " numbers are of all."
            )
        return {"notes": notes, "rows": [_fields(each, names, changes) for each in kept]}


def _weight(one: Rebalance) -> tuple[float, int, str]:
    """Of equal ones the first by zxid is the heavier: the order of the groups does not matter."""
    return one.down_ms_max + 100 * one.moved + 1000 * one.unowned, -one.from_zxid, one.group


def _fields(one: Rebalance, names: Names, changes_max: int) -> dict[str, Any]:
    down = sorted(change.down_ms for change in one.changes if change.down_ms is not None)
    named = sorted(one.changes, key=lambda change: -_cost(change))[:changes_max]
    return {
        "group": names.of(one.group),
        "zxids": [hex_zxid(one.from_zxid), hex_zxid(one.to_zxid)],
        "from": one.from_ms,
        "to": one.to_ms,
        "triggers": [
            [trigger.cause, names.of(trigger.what), hex_zxid(trigger.zxid), trigger.time_ms]
            for trigger in one.triggers[:_TRIGGERS_MAX]
        ],
        "more_triggers": max(len(one.triggers) - _TRIGGERS_MAX, 0),
        "members": one.members,
        "touched": len(one.changes),
        "moved": one.moved,
        "least": one.least,
        "retaken": len(one.retaken),
        "retaken_named": [names.of(str(each)) for each in one.retaken[:_RETAKEN_MAX]],
        "unowned": one.unowned,
        "down_max": down[-1] if down else None,
        "down_median": down[len(down) // 2] if down else None,
        "flows": _flows(one, names),
        "changes": [
            [
                names.of(change.topic_partition.topic),
                change.topic_partition.partition,
                names.of(change.before),
                names.of(change.after),
                change.down_ms,
            ]
            for change in sorted(named, key=lambda change: change.topic_partition)
        ],
    }


def _cost(change: PartitionChange) -> float:
    """Largest for partitions without an owner at the end, then by the time without an owner."""
    return float("inf") if change.after is None else float(change.down_ms or 0)


def _flows(one: Rebalance, names: Names) -> list[list[Any]]:
    """From whom to whom how many partitions went, the most first."""
    flows = Counter(
        (_member(change.before), _member(change.after))
        for change in one.changes
        if change.before != change.after
    )
    most = sorted(flows.items(), key=lambda item: (-item[1], str(item[0])))
    return [[names.of(before), names.of(after), count] for (before, after), count in most[:_FLOWS_MAX]]


def _member(thread: str | None) -> str | None:
    return None if thread is None else Owner(thread).member or thread
