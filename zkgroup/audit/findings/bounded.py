"""The rows of an audit in this process: in memory, or in buckets on the disk where they are too many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from zkgroup.audit.findings.buckets import find_in_bucket, find_in_sessions, find_in_tree
from zkgroup.audit.findings.rules import Bounds, Finding, Rule
from zkgroup.audit.findings.screening import AuditedColumns, of_one_group
from zkgroup.audit.inputs.buckets import CLUSTER, TemporaryBuckets, known_rows
from zkgroup.audit.inputs.rows import (
    ROWS_PER_PART,
    Columns,
    apart,
    closes_in,
    compact,
    facts_in,
    in_order,
    joined,
)
from zkgroup.audit.inputs.source import Rows


class RowLimits(NamedTuple):
    """Says how many rows are in memory at a time."""

    most_rows: int = 1_500_000
    """Of a history with more all are written by bucket."""
    rows_per_part: int = ROWS_PER_PART
    """So many are read and written at a time, and those of one transaction more."""
    buckets: int = 32
    """For groups. How long the history is shows only when it has been read."""


LIMITS: Final = RowLimits()


class BoundedRows:
    """The rows of an audit, of one group where one is named. Close it when all is found."""

    def __init__(
        self,
        rows: Rows,
        group: str | None,
        limits: RowLimits = LIMITS,
        watch: Callable[[Columns], None] | None = None,
    ) -> None:
        self.rows, self.group, self._limits = rows, group, limits
        self._watch = watch
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
        return 0 if self._kept is None else self._kept.tables.size

    def find(
        self,
        rules: Sequence[Rule],
        bounds: Mapping[str, Bounds],
        then: Callable[[AuditedColumns], None] | None = None,
    ) -> Iterator[Finding]:
        """Yields what the rules find; `then` gets all rows, or those of one bucket after the other."""
        if self._kept is None:
            audited = AuditedColumns(self._columns, self.facts)
            yield from audited.find(rules, bounds)
            if then is not None:
                then(audited)
            return
        yield from find_in_sessions(rules, self._columns, self.facts, bounds)
        closes, trees, names = closes_in(self._columns), [], self._kept.names
        for number, name in enumerate(names):
            self.rows.progress("searching for findings in buckets", number, len(names))
            before, logged = apart(self._kept.columns(name))
            if name != CLUSTER:
                logged = in_order(joined([logged, closes]))
            found = find_in_bucket(rules, joined([before, logged]), self.facts, bounds, then)
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
        for rows in self.rows.parts(self._limits.rows_per_part):
            part = of_one_group(rows, self.group, self.groups)
            size += int((~part.seed).sum())
            if self._watch is not None:
                self._watch(part)
            if self._kept is None and size > self._limits.most_rows:
                self._kept = TemporaryBuckets(self._limits.buckets)
                known += [self._keep(self._kept, each) for each in held]
                held.clear()
            if self._kept is None:
                held.append(part)
            else:
                known.append(self._keep(self._kept, part))
        return joined(held if self._kept is None else known)

    @staticmethod
    def _keep(buckets: TemporaryBuckets, columns: Columns) -> Columns:
        """Writes rows; gives those of them that have to be seen together."""
        buckets.add(columns)
        return compact(columns.take(known_rows(columns)))
