"""The second step, a task a bucket: its rows as columns, screened and folded as on a laptop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from zkgroup.audit.findings.all_rules import RULES
from zkgroup.audit.findings.buckets import find_in_bucket, find_screened
from zkgroup.audit.findings.rules import Bounds, Finding
from zkgroup.audit.inputs.buckets import CLUSTER, bucket_of_group, known_rows
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.keys import is_of_groups
from zkgroup.audit.inputs.logs import with_ends
from zkgroup.audit.inputs.rows import (
    AS_CODES,
    OPERATION_COLUMNS,
    ROWS,
    Columns,
    behind,
    between,
    columns_of,
    columns_of_operations,
    columns_of_rows,
    facts_in,
    in_order,
    inside,
    joined,
    of_group,
    table_of,
)
from zkgroup.audit.inputs.stored_files import STATES, Source, StoredFile, read_files
from zkgroup.audit.spark.collector import without_collector
from zkgroup.audit.spark.results import brought_together, packed
from zkgroup.audit.spark.storage import TaskFile, TaskOutput
from zkgroup.znodes.paths import path_kind

_COST_OF_CLUSTER: Final = 8
"""A row of a group costs 1."""
ROW_NAMES = tuple(column.name for column in ROWS)


class ZxidRange(NamedTuple):
    """The part of a history that is asked about."""

    after_zxid: int
    """Its rows stand on the tree at this zxid."""
    to_zxid: int | None = None
    """The last transaction; None for all there are."""


@dataclass(frozen=True, slots=True)
class BucketRows:
    """Says where the rows of a bucket are, or of several together."""

    ensemble: str
    bucket: str
    """Empty for several buckets."""
    seeds: tuple[StoredFile, ...]
    seeds_zxid: int
    """They are what stood then."""
    operations: tuple[StoredFile, ...]
    part: ZxidRange

    @property
    def files(self) -> tuple[StoredFile, ...]:
        return (*self.seeds, *self.operations)

    @property
    def cost(self) -> int:
        """Returns how long a task takes beside others: rules see most rows of the cluster, few of groups."""
        return sum(file.rows for file in self.files) * (_COST_OF_CLUSTER if self.bucket == CLUSTER else 1)

    def columns(self, source: Source, closes: Columns | None = None) -> Columns:
        """The rows of the part behind what stood before, with the paths that servers have.

        Args:
            closes: the ends of sessions, where no file of operations has them.
        """
        logged = operations_in(self.operations, source, self.seeds_zxid, self.part.to_zxid)
        if closes is not None:
            logged = joined([logged, between(closes, self.seeds_zxid, self.part.to_zxid)])
        whole = with_ends([in_order(logged)], rows_in(self.seeds, source))
        if self.part.after_zxid <= self.seeds_zxid:
            return whole
        return behind(whole, self.part.after_zxid)


def operations_in(
    files: tuple[StoredFile, ...], source: Source, after_zxid: int, to_zxid: int | None
) -> Columns:
    """Operations behind one zxid up to another, in the order of the files."""
    table = read_files(files, source, OPERATION_COLUMNS, AS_CODES)
    return columns_of(()) if table is None else between(columns_of_operations(table), after_zxid, to_zxid)


def rows_in(files: tuple[StoredFile, ...], source: Source) -> Columns:
    """Rows of the audit, in the order of the files."""
    table = read_files(files, source, ROW_NAMES, AS_CODES)
    return columns_of(()) if table is None else columns_of_rows(table)


class Together(NamedTuple):
    """Holds what tasks need to bring the findings of their buckets together."""

    buckets: int
    """So many are for groups."""
    of_sessions: Sequence[Finding]
    """Holds what was found in the sessions of members, which are in several buckets."""


class Asked(NamedTuple):
    """Holds what all tasks of an ensemble know."""

    facts: Facts
    closes: Any
    """The ends of sessions, as a pyarrow.Table of rows."""
    bounds: Mapping[str, Bounds]
    rules: frozenset[str]
    chroot: str
    together: Together | None
    """None where the driver gets findings as they are."""


class Folded(NamedTuple):
    """Holds what a task found."""

    ensemble: str
    findings: list[Finding]
    rows: tuple[int, bytes] | None
    """The findings brought together, `packed`; then there are no others."""
    tree: Any
    """The rows that rules about the whole tree need of this bucket, as a pyarrow.Table."""


def fold(rows: BucketRows, asked: Asked, source: Source) -> Folded:
    """Asks the rules whose keys are in one bucket."""
    with without_collector():
        closes = None if rows.bucket == CLUSTER else columns_of_rows(asked.closes)
        columns = inside(rows.columns(source, closes), asked.chroot)
        rules = [rule for rule in RULES if rule.name in asked.rules]
        found = find_in_bucket(rules, columns, asked.facts, asked.bounds)
        if asked.together is None:
            return Folded(rows.ensemble, found.findings, None, table_of(found.tree))
        buckets, of_sessions = asked.together
        mine = [one for one in of_sessions if bucket_of_group(one.group or "", buckets) == rows.bucket]
        together = brought_together(rows.ensemble, [*found.findings, *mine], asked.facts)
        return Folded(rows.ensemble, [], packed(together), table_of(found.tree))


class FoldedAlone(NamedTuple):
    """Holds what a task found that has all rows which are asked about."""

    ensemble: str
    facts: Facts
    groups: set[str]
    findings: list[Finding]


def fold_alone(
    rows: BucketRows,
    bounds: Mapping[str, Bounds],
    names: frozenset[str],
    chroot: str,
    group: str | None,
    source: Source,
) -> FoldedAlone:
    """Asks all rules of the rows of several buckets together, or of one group in them: as on a laptop."""
    with without_collector():
        columns = inside(rows.columns(source), chroot)
        groups = {place.name for place in map(path_kind, columns.paths) if is_of_groups(place)}
        if group is not None:
            columns = of_group(columns, group)
        facts = facts_in(columns)
        rules = [rule for rule in RULES if rule.name in names]
        if not facts.has_log:
            rules = [rule for rule in rules if "log" not in rule.needs]
        return FoldedAlone(rows.ensemble, facts, groups, list(find_screened(rules, columns, facts, bounds)))


class Rolled(NamedTuple):
    """Holds what stands in a bucket at a zxid."""

    ensemble: str
    written: tuple[TaskFile, ...]
    known: Any
    """The rows of it that make facts, as a pyarrow.Table."""


def roll(
    rows: BucketRows, closes: Any, batch: int, chroot: str, source: Source, output: TaskOutput | None
) -> Rolled:
    """Returns what stands in a bucket before the part that is asked about; written where there is an
    output."""
    with without_collector():
        zxid = rows.part.after_zxid
        until = BucketRows(
            rows.ensemble, rows.bucket, rows.seeds, rows.seeds_zxid, rows.operations, ZxidRange(zxid, zxid)
        )
        seeds = until.columns(source, None if rows.bucket == CLUSTER else columns_of_rows(closes))
        written: tuple[TaskFile, ...] = ()
        if len(seeds) and output is not None:
            name = f"{STATES}/batch={batch}/ensemble={rows.ensemble}/bucket={rows.bucket}/state.parquet"
            file = StoredFile(name, STATES, rows.ensemble, rows.bucket, -1, len(seeds), zxid, zxid)
            written = (output.write(table_of(seeds), file),)
        seen = inside(seeds, chroot)
        return Rolled(rows.ensemble, written, table_of(seen.take(known_rows(seen))))


def groups_in(rows: BucketRows, chroot: str, source: Source) -> set[str]:
    """The names of the groups of a bucket."""
    columns = inside(rows.columns(source, None), chroot)
    return {place.name for place in map(path_kind, columns.paths) if is_of_groups(place)}
