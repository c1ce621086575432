"""Facts and findings from columns: screens say which rows become objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from zkgroup.audit.findings.rules import Bounds, Finding, KeyRows, Rule
from zkgroup.audit.findings.tables import ScreenTables, equal_runs
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.keys import Key, Keys, is_of_groups
from zkgroup.audit.inputs.rows import Columns, Flags, Numbers, of_group
from zkgroup.audit.inputs.selection import Selection
from zkgroup.znodes.paths import path_kind


def of_one_group(columns: Columns, group: str | None, groups: set[str]) -> Columns:
    """Without the rows of other groups, where one is given; the names of all are put into `groups` then."""
    if group is None:
        return columns
    places = [path_kind(columns.paths[code]) for code in np.unique(columns.path).tolist()]
    groups |= {place.name for place in places if is_of_groups(place)}
    return of_group(columns, group)


def find_screened(
    rules: Sequence[Rule], columns: Columns, facts: Facts, bounds: Mapping[str, Bounds]
) -> Iterator[Finding]:
    """Yields what the rules find in the rows that their screens keep."""
    return AuditedColumns(columns, facts).find(rules, bounds)


class AuditedColumns:
    """The columns of a history, with what was computed of them: rules and the report share it."""

    def __init__(self, columns: Columns, facts: Facts) -> None:
        self.columns, self.facts = columns, facts
        self.tables = ScreenTables(columns, facts)
        self._by_key: dict[Selection, list[tuple[Key, KeyRows]]] = {}
        """The rows of each key of a selection that several rules see, or the report."""

    def find(self, rules: Sequence[Rule], bounds: Mapping[str, Bounds]) -> Iterator[Finding]:
        """Yields what the rules find in the rows that their screens keep."""
        screened: list[tuple[Rule, Selection]] = []
        for rule in rules:
            if rule.is_counted:
                yield from rule.find(self.tables, bounds[rule.name])
            elif rule.screen is None:
                screened.append((rule, self.tables.of(rule.keys)))
            else:
                screened.append((rule, rule.screen(self.tables, bounds[rule.name])))
        wanted: Flags = np.zeros(len(self.columns), np.bool_)
        for _, selection in screened:
            wanted[selection.rows] = True
        events = list(self.columns.events(np.flatnonzero(wanted)))
        places = np.cumsum(wanted) - 1
        shared = Counter(selection for _, selection in screened)
        for rule, selection in screened:
            by_key = self._by_key.get(selection)
            if by_key is None:
                by_key = list(_by_key(selection, places, events))
                if shared[selection] > 1 or rule.screen is None:
                    self._by_key[selection] = by_key
            for key, rows in by_key:
                yield from rule.find(rows, key, self.facts, bounds[rule.name])

    def forget_rows(self) -> None:
        """Frees the rows by key, with what rules computed of them; they can be made again."""
        self._by_key.clear()

    def by_key(self, keys: Keys) -> list[tuple[Key, KeyRows]]:
        """All rows of each key, with what rules have computed of them."""
        selection = self.tables.of(keys)
        known = self._by_key.get(selection)
        if known is None:
            events = list(self.columns.events(selection.rows))
            places = np.searchsorted(selection.rows, np.arange(len(self.columns)))
            known = self._by_key[selection] = list(_by_key(selection, places, events))
        return known


def _by_key(selection: Selection, places: Numbers, events: Sequence[Event]) -> Iterator[tuple[Key, KeyRows]]:
    """The rows of each key, in order."""
    if not len(selection.rows):
        return
    ordered = selection.by_key()
    codes, numbers = ordered.codes, places[ordered.rows].tolist()
    starts = equal_runs(codes)[0].tolist()
    get: Callable[[int], Event] = events.__getitem__
    for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
        yield selection.keys[int(codes[start])], KeyRows(list(map(get, numbers[start:end])))
