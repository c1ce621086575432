"""Asks the rules of a history whose rows are in buckets: of each bucket alone, then of all together.

Rules about sessions and about the whole tree have rows in several buckets. The former read the known rows of
all (`known_rows`), the latter the rows that make up the tree, and those by which rights were changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from zkgroup.audit.findings.load import ACLS, open_acl
from zkgroup.audit.findings.rules import Bounds, Finding, KeyRows, Rule, Screened
from zkgroup.audit.findings.screening import AuditedColumns, find_screened
from zkgroup.audit.findings.tables import ScreenTables
from zkgroup.audit.findings.tree_columns import TreeTable
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.keys import BY_SESSION, BY_SUBTREE, Key
from zkgroup.audit.inputs.rows import Columns, Flags, Numbers, in_order, joined

SESSION_KEYS: Final = frozenset({BY_SESSION.name})
TREE_KEYS: Final = frozenset({BY_SUBTREE.name, ACLS.name})
SPANNING: Final = SESSION_KEYS | TREE_KEYS
"""Names of keys whose rows are in several buckets."""


def rules_by(rules: Iterable[Rule], keys: frozenset[str]) -> list[Rule]:
    """Those of these rules that have such keys."""
    return [rule for rule in rules if rule.keys.name in keys]


def _tree_rows(rows: KeyRows, key: Key, facts: Facts, bounds: Bounds) -> Iterator[Finding]:
    """Finds nothing."""
    return iter(())


class TreeRows:
    """Collects, while rules are asked of a bucket, what the rules of TREE_KEYS cannot do without.

    That is whatever the other buckets have: all that makes up the tree, and all by which rights changed.
    """

    def __init__(self) -> None:
        self.rows: Numbers = np.zeros(0, np.int64)
        """The numbers of these rows of the bucket."""
        self.rule: Final = Rule(_tree_rows, question="", act="", keys=BY_SUBTREE, screen=self._collect)
        """Asked beside the others, finds nothing: it shares their tables."""

    def _collect(self, tables: ScreenTables, bounds: Bounds) -> Screened:
        rows = tables.of(BY_SUBTREE)
        matters: Flags = np.zeros(len(tables.columns), np.bool_)
        if len(rows.rows):
            tree = TreeTable(tables, rows)
            for places in (tree.change, tree.write):
                matters[rows.rows[places]] = True
        assert open_acl.screen is not None
        matters[open_acl.screen(tables, open_acl.bounds).rows.rows] = True
        self.rows = np.flatnonzero(matters)
        return Screened(rows.none())


class FoundInBucket(NamedTuple):
    """Holds what was found in one bucket."""

    findings: list[Finding]
    tree: Columns
    """The rows of the bucket that rules about the whole tree cannot do without."""


def find_in_bucket(
    rules: Sequence[Rule],
    columns: Columns,
    facts: Facts,
    bounds: Mapping[str, Bounds],
    then: Callable[[AuditedColumns], None] | None = None,
) -> FoundInBucket:
    """Asks those of the rules whose keys are in one bucket; `then` gets what was computed for them."""
    if not len(columns):
        return FoundInBucket([], columns)
    tree = TreeRows()
    asked = [rule for rule in rules if rule.keys.name not in SPANNING]
    if rules_by(rules, TREE_KEYS):
        asked.append(tree.rule)
    audited = AuditedColumns(columns, facts)
    found = list(audited.find(asked, {**bounds, tree.rule.name: {}}))
    if then is not None:
        then(audited)
    return FoundInBucket(found, columns.take(tree.rows))


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
