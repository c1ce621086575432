"""The rules whose keys have rows in several buckets, and what a bucket gives them.

Rules about sessions read the known rows of all buckets (`known_rows`). Rules about the whole tree
read the rows that make up what stands in it, and those by which rights were changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from zkgroup.audit.columns.rows import Flags, Numbers
from zkgroup.audit.columns.tables import ScreenTables
from zkgroup.audit.columns.tree import TreeTable
from zkgroup.audit.findings.load import ACLS, OPEN_ACL
from zkgroup.audit.keys import BY_SESSION, BY_SUBTREE
from zkgroup.audit.rules import Bounds, Rule, Screened

SESSION_KEYS: Final = frozenset({BY_SESSION.name})
TREE_KEYS: Final = frozenset({BY_SUBTREE.name, ACLS.name})
SPANNING: Final = SESSION_KEYS | TREE_KEYS
"""Names of keys whose rows are in several buckets."""


def rules_of_buckets(rules: Iterable[Rule]) -> list[Rule]:
    """Those of these rules whose keys each have all rows in one bucket."""
    return [rule for rule in rules if rule.keys.name not in SPANNING]


def rules_by(rules: Iterable[Rule], keys: frozenset[str]) -> list[Rule]:
    """Those of these rules that have such keys."""
    return [rule for rule in rules if rule.keys.name in keys]


class TreeRows:
    """Collects, while rules are asked of a bucket, what the rules of TREE_KEYS cannot do without.

    That is whatever the other buckets have: all that makes up the tree, and all by which rights changed.
    """

    def __init__(self) -> None:
        self.rows: Numbers = np.zeros(0, np.int64)
        """The numbers of these rows of the bucket."""
        self.rule: Final = Rule(
            name="tree_rows",
            severity="info",
            question="",
            needs=(),
            act="",
            keys=BY_SUBTREE,
            find=lambda rows, key, facts, bounds: iter(()),
            screen=self._collect,
        )
        """Asked beside the others, finds nothing: it shares their tables."""

    def _collect(self, tables: ScreenTables, bounds: Bounds) -> Screened:
        rows = tables.of(BY_SUBTREE)
        matters: Flags = np.zeros(len(tables.columns), np.bool_)
        if len(rows.rows):
            tree = TreeTable(tables, rows)
            for places in (tree.change, tree.write):
                matters[rows.rows[places]] = True
        assert OPEN_ACL.screen is not None
        matters[OPEN_ACL.screen(tables, OPEN_ACL.bounds).rows.rows] = True
        self.rows = np.flatnonzero(matters)
        return Screened(rows.none())
