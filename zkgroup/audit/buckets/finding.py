"""Asks the rules of a history whose rows are in buckets: of each bucket alone, then of all together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from zkgroup.audit.buckets.spanning import (
    SESSION_KEYS,
    TREE_KEYS,
    TreeRows,
    rules_by,
    rules_of_buckets,
)
from zkgroup.audit.columns.rows import Columns
from zkgroup.audit.columns.stored import in_order, joined
from zkgroup.audit.facts import Facts
from zkgroup.audit.rules import Bounds, Finding, Rule
from zkgroup.audit.screening import AuditedColumns, find_screened


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
    asked = [*rules_of_buckets(rules), *([tree.rule] if rules_by(rules, TREE_KEYS) else ())]
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
