"""The rows of an audit, and rules about them: all in memory, or in buckets where they are too many.

A bucket is asked alone. Rules about sessions and about the whole tree have rows in several buckets. The
former read the known rows of all (`known_rows`), the latter the rows that make up the tree, and those by
which rights were changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from zkgroup.audit.findings.load import ACLS
from zkgroup.audit.findings.rules import Bounds, Finding, Rule
from zkgroup.audit.findings.tables import ScreenTables
from zkgroup.audit.inputs.buckets import CLUSTER, TemporaryBuckets, known_rows
from zkgroup.audit.inputs.events import SET, SET_ACL
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.keys import BY_SESSION, BY_SUBTREE, is_of_groups
from zkgroup.audit.inputs.rows import (
    ROWS_PER_PART,
    Columns,
    Flags,
    Numbers,
    apart,
    closes_in,
    compact,
    facts_in,
    in_order,
    joined,
    of_group,
)
from zkgroup.audit.inputs.source import Rows
from zkgroup.znodes.paths import path_kind


def find_screened(
    rules: Sequence[Rule], columns: Columns, facts: Facts, bounds: Mapping[str, Bounds]
) -> Iterator[Finding]:
    """Yields what the rules find in the rows that their screens keep."""
    return ScreenTables(columns, facts).find(rules, bounds)


SESSION_KEYS: Final = frozenset({BY_SESSION.name})
TREE_KEYS: Final = frozenset({BY_SUBTREE.name, ACLS.name})
SPANNING: Final = SESSION_KEYS | TREE_KEYS
"""Names of keys whose rows are in several buckets."""


def rules_by(rules: Iterable[Rule], keys: frozenset[str]) -> list[Rule]:
    """Those of these rules that have such keys."""
    return [rule for rule in rules if rule.keys.name in keys]


class FoundInBucket(NamedTuple):
    """The answers of one bucket."""

    findings: list[Finding]
    tree: Columns
    """The rows of the bucket that rules about the whole tree cannot do without."""


def find_in_bucket(
    rules: Sequence[Rule],
    columns: Columns,
    facts: Facts,
    bounds: Mapping[str, Bounds],
    then: Callable[[ScreenTables], None] | None = None,
) -> FoundInBucket:
    """Asks those of the rules whose keys are in one bucket; `then` gets what was computed for them."""
    if not len(columns):
        return FoundInBucket([], columns)
    tables = ScreenTables(columns, facts)
    found = list(tables.find([rule for rule in rules if rule.keys.name not in SPANNING], bounds))
    tree = _tree_rows(tables) if rules_by(rules, TREE_KEYS) else np.zeros(0, np.int64)
    if then is not None:
        then(tables)
    return FoundInBucket(found, columns.take(tree))


def _tree_rows(tables: ScreenTables) -> Numbers:
    """The rows that make up the tree, and by which rights changed, whatever other buckets have."""
    columns, rows, acls = tables.columns, tables.of(BY_SUBTREE), tables.of(ACLS).rows
    _, made, written = tables.standing(rows, SET)
    matters: Flags = np.zeros(len(columns), np.bool_)
    of_first_path = columns.path[acls] == columns.path[acls[:1]]
    for each in (rows.rows[made], rows.rows[written], acls[of_first_path | (columns.op[acls] == SET_ACL)]):
        matters[each] = True
    return np.flatnonzero(matters)


def find_in_sessions(
    rules: Sequence[Rule], known: Columns, facts: Facts, bounds: Mapping[str, Bounds]
) -> Iterator[Finding]:
    """Asks those about sessions, of the `known_rows` of the history."""
    return find_screened(rules_by(rules, SESSION_KEYS), known, facts, bounds)


def find_in_tree(
    rules: Sequence[Rule], trees: Sequence[Columns], facts: Facts, bounds: Mapping[str, Bounds]
) -> Iterator[Finding]:
    """Asks those about the whole tree, of the rows that each bucket gave for them."""
    asked = rules_by(rules, TREE_KEYS)
    whole = in_order(joined(trees))
    if asked and len(whole):
        yield from find_screened(asked, whole, facts, bounds)


class RowLimits(NamedTuple):
    """The numbers of rows that are in memory at a time."""

    most_rows: int = 1_500_000
    """Of a history with more all are written by bucket."""
    rows_per_part: int = ROWS_PER_PART
    """So many are read and written at a time, and those of one transaction more."""
    buckets: int = 32
    """For groups. How long the history is shows only when it has been read."""


LIMITS: Final = RowLimits()


class AuditedRows:
    """The rows of an audit, of one group where one is named. Close it when all is found."""

    def __init__(
        self,
        rows: Rows,
        group: str | None,
        limits: RowLimits = LIMITS,
        watch: Callable[[Columns], None] | None = None,
        then: Callable[[ScreenTables], None] | None = None,
    ) -> None:
        """`watch` gets each part of the rows while they are read, what stood before first; `then` what rules
        have computed of all rows, or of those of one bucket after the other."""
        self.rows, self.group, self._limits = rows, group, limits
        self._watch, self._then = watch, then
        self.groups: set[str] = set()
        """The names of all groups, where one is asked for."""
        self._kept: TemporaryBuckets | None = None
        try:
            self._columns = self._all()
        except BaseException:
            self.close()
            raise
        self.facts = rows.ended(facts_in(self._columns))

    @property
    def written(self) -> int:
        """Bytes that were written to the disk."""
        return 0 if self._kept is None else self._kept.size

    def find(self, rules: Sequence[Rule], bounds: Mapping[str, Bounds]) -> Iterator[Finding]:
        """Yields what the rules find."""
        if self._kept is None:
            tables = ScreenTables(self._columns, self.facts)
            yield from tables.find(rules, bounds)
            if self._then is not None:
                self._then(tables)
            return
        yield from find_in_sessions(rules, self._columns, self.facts, bounds)
        closes, trees, names = closes_in(self._columns), [], self._kept.names
        for number, name in enumerate(names):
            self.rows.progress("searching for findings in buckets", number, len(names))
            before, logged = apart(self._kept.columns(name))
            if name != CLUSTER:
                logged = in_order(joined([logged, closes]))
            found = find_in_bucket(rules, joined([before, logged]), self.facts, bounds, self._then)
            trees.append(found.tree)
            yield from found.findings
        yield from find_in_tree(rules, trees, self.facts, bounds)

    def close(self) -> None:
        """Gives what was written back."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _all(self) -> Columns:
        """All rows; of more than may be in memory those that have to be seen together."""
        held: list[Columns] = []
        known: list[Columns] = []
        size = 0
        for part in self.rows.parts(self._limits.rows_per_part):
            if self.group is not None:
                places = [path_kind(part.paths[code]) for code in np.unique(part.path).tolist()]
                self.groups.update(place.name for place in places if is_of_groups(place))
                part = of_group(part, self.group)
            if self._watch is not None:
                self._watch(part)
            held.append(part)
            size += int((~part.seed).sum())
            if self._kept is None and size > self._limits.most_rows:
                self._kept = TemporaryBuckets(self._limits.buckets)
            if self._kept is not None:
                for each in held:
                    self._kept.add_rows(each)
                    known.append(compact(each.take(known_rows(each))))
                held.clear()
        return joined(known or held)
