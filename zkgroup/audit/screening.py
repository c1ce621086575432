"""Facts and findings from columns: screens say which rows become objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zkgroup.audit.answers.sessions import SessionRow
from zkgroup.audit.columns.codes import CLOSE_SESSION, CREATE_SESSION
from zkgroup.audit.columns.ends import Ends
from zkgroup.audit.columns.groups import groups_of_paths
from zkgroup.audit.columns.parts import ROWS_PER_PART, Parts, SessionParts, compact, of_group
from zkgroup.audit.columns.rows import Columns, Flags, Numbers, first_places
from zkgroup.audit.columns.selection import Selection
from zkgroup.audit.columns.session_rows import SessionsBuilder
from zkgroup.audit.columns.stored import joined
from zkgroup.audit.columns.tables import ScreenTables
from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts, facts_of, is_fact_path
from zkgroup.audit.groups import is_of_groups
from zkgroup.audit.keys import Key, Keys
from zkgroup.audit.rules import Bounds, Finding, KeyRows, Rule, Screened
from zkgroup.audit.source import Rows
from zkgroup.znodes.consumers import consumers_path
from zkgroup.znodes.paths import path_kind

_OF_PARTITIONS: Final = rf"^{consumers_path()}/[^/]*/(owners|offsets)/[^/]*/[0-9]+$"
"""Owners and offsets of partitions, as `path_kind` has them."""


def of_one_group(columns: Columns, group: str | None, groups: set[str]) -> Columns:
    """Without the rows of other groups, where one is given; the names of all are put into `groups` then."""
    if group is None:
        return columns
    places = [path_kind(columns.paths[code]) for code in np.unique(columns.path).tolist()]
    groups |= {place.name for place in places if is_of_groups(place)}
    return of_group(columns, group)


def partition_rows(
    rows: Rows, group: str | None, rows_per_part: int = ROWS_PER_PART
) -> tuple[Facts, list[Event]]:
    """The facts, and the rows of owners and offsets of a group, or of all; of each other group one row.

    Memory: these rows, and a part of the others.
    """
    if group is not None and rows.parts_of_group is not None:
        parts = rows.parts_of_group(group, rows_per_part)
    else:
        parts = rows.parts(rows_per_part)
    return _partition_rows(rows, parts, group)


def _partition_rows(rows: Rows, parts: Parts, group: str | None) -> tuple[Facts, list[Event]]:
    ends, seen = Ends(parts.before), set[str]()
    known: list[Columns] = []
    found: list[Event] = []
    for part in chain((parts.before,), map(ends.added, parts.logged)):
        known.append(compact(part.take(fact_rows(part))))
        names, groups = groups_of_paths(part.paths)
        is_asked = (
            groups >= 0 if group is None else np.isin(groups, [names.index(group)] if group in names else [])
        )
        wanted = np.zeros(len(part.paths), np.bool_)
        for place in np.flatnonzero(is_asked).tolist():
            wanted[place] = path_kind(part.paths[place]).kind in ("owner", "offset")
        matters: Flags = wanted[part.path]
        is_new = np.append([name not in seen for name in names], False).astype(np.bool_)[groups]
        of_rows = np.flatnonzero(is_new[part.path])
        matters[of_rows[first_places(groups[part.path[of_rows]])]] = True
        seen.update(names)
        found += part.events(np.flatnonzero(matters))
    return rows.ended(facts_in(joined(known))), found


def session_views(rows: Rows, rows_per_part: int = ROWS_PER_PART) -> tuple[Facts, list[SessionRow], set[str]]:
    """The facts, every session, and the names of all groups. Memory: the sessions, and a part of the rows."""
    if rows.session_parts is not None:
        parts = rows.session_parts(rows_per_part)
    else:
        parts = SessionParts.of(rows.parts(rows_per_part))
    return _session_views(rows, parts)


def _session_views(rows: Rows, parts: SessionParts) -> tuple[Facts, list[SessionRow], set[str]]:
    ends, builder, groups = Ends(parts.before), SessionsBuilder(), set[str]()
    known: list[Columns] = []
    for logged, transactions in chain(((parts.before, None),), parts.logged):
        part = logged if logged is parts.before else ends.added(logged)
        builder.add(part, transactions)
        known.append(compact(part.take(fact_rows(part))))
        groups |= set(groups_of_paths(part.paths)[0])
    facts = rows.ended(facts_in(joined(known)))
    return facts, builder.rows(facts, ends.living), groups


def facts_in(columns: Columns) -> Facts:
    """The facts of a history: of its rows only those are made objects that change them."""
    return facts_of(columns.events(fact_rows(columns)))


def fact_rows(columns: Columns) -> Numbers:
    """The rows that make the facts: those that change them, each session's first one, and the ends.

    Of a history in parts the facts are those of these rows of all parts.
    """
    if not len(columns):
        return np.zeros(0, np.int64)
    matters: Flags = columns.applied & _are_fact_paths(columns.paths)[columns.path]
    matters |= (columns.op == CREATE_SESSION) | (columns.op == CLOSE_SESSION)
    matters[first_places(columns.session)] = True
    for seed in (False, True):
        of_kind = np.flatnonzero(columns.seed == seed)
        matters[of_kind[:1]] = True
    written_ms = columns.mtime_ms.fill_null(np.iinfo(np.int64).min).to_numpy(zero_copy_only=False)
    for ends in (columns.zxid, columns.time_ms, written_ms):
        matters[int(np.argmax(ends))] = True
    return np.flatnonzero(matters)


def _are_fact_paths(paths: Sequence[str]) -> Flags:
    """`is_fact_path` of each. Nearly all are owners and offsets, which are none: a pattern excludes them."""
    flags: Flags = np.zeros(len(paths), np.bool_)
    others = pc.invert(pc.match_substring_regex(pa.array(paths, pa.string()), _OF_PARTITIONS))
    for place in np.flatnonzero(others.to_numpy(zero_copy_only=False)).tolist():
        flags[place] = is_fact_path(paths[place])
    return flags


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
        screened = [_screened(rule, self.tables, bounds[rule.name]) for rule in rules]
        wanted: Flags = np.zeros(len(self.columns), np.bool_)
        for each in screened:
            wanted[each.rows.rows] = True
        events = list(self.columns.events(np.flatnonzero(wanted)))
        places = np.cumsum(wanted) - 1
        shared = Counter(each.rows for each in screened)
        for rule, each in zip(rules, screened, strict=True):
            yield from each.found
            by_key = self._by_key.get(each.rows)
            if by_key is None:
                by_key = list(_by_key(each.rows, places, events))
                if shared[each.rows] > 1 or rule.screen is None:
                    self._by_key[each.rows] = by_key
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


def _screened(rule: Rule, tables: ScreenTables, bounds: Bounds) -> Screened:
    return Screened(tables.of(rule.keys)) if rule.screen is None else rule.screen(tables, bounds)


def _by_key(selection: Selection, places: Numbers, events: Sequence[Event]) -> Iterator[tuple[Key, KeyRows]]:
    """The rows of each key, in order."""
    if not len(selection.rows):
        return
    ordered = selection.by_key()
    codes, numbers = ordered.codes, places[ordered.rows].tolist()
    starts = np.flatnonzero(np.append([True], codes[1:] != codes[:-1])).tolist()
    get: Callable[[int], Event] = events.__getitem__
    for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
        yield selection.keys[int(codes[start])], KeyRows(list(map(get, numbers[start:end])))
