"""The second step, a task a bucket: its rows as columns, of which rules are asked as on a laptop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from zkgroup.audit.findings.all_rules import RULES
from zkgroup.audit.findings.buckets import find_in_bucket, find_screened
from zkgroup.audit.findings.rules import Bounds, Finding
from zkgroup.audit.inputs.buckets import CLUSTER, known_rows
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.logs import with_ends
from zkgroup.audit.inputs.manifest import STATES, Folder, StoredFile
from zkgroup.audit.inputs.rows import (
    Columns,
    behind,
    between,
    columns_of_rows,
    facts_in,
    groups_of_paths,
    in_order,
    inside,
    joined,
    of_group,
    table_of,
)
from zkgroup.audit.inputs.stored_files import Source, operations_in, rows_in
from zkgroup.audit.spark.storage import TaskFile, written

_COST_OF_CLUSTER: Final = 8
"""A row of a group costs 1."""


class ZxidRange(NamedTuple):
    """The part of a history that is asked about."""

    after_zxid: int
    """Its rows stand on the tree at this zxid."""
    to_zxid: int | None = None
    """The last transaction; None for all there are."""


@dataclass(frozen=True, slots=True)
class BucketRows:
    """The files that have the rows of a bucket, or of several together."""

    place: str
    """The output folder."""
    ensemble: str
    bucket: str
    """Empty for several buckets."""
    seeds: tuple[StoredFile, ...]
    seeds_zxid: int
    """They are what stood then."""
    operations: tuple[StoredFile, ...]
    part: ZxidRange

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(file.name for file in (*self.seeds, *self.operations))

    @property
    def cost(self) -> int:
        """The rows: rules see most of those of the cluster, and few of those of groups."""
        rows = sum(file.rows for file in (*self.seeds, *self.operations))
        return rows * (_COST_OF_CLUSTER if self.bucket == CLUSTER else 1)

    def columns(self, source: Source, closes: Any = None) -> Columns:
        """The rows of the part behind what stood before, with the paths that servers have.

        Args:
            closes: the ends of sessions as a pyarrow.Table, which only the bucket of the cluster has.
        """
        logged = operations_in(self.operations, source, self.seeds_zxid, self.part.to_zxid)
        if closes is not None and self.bucket != CLUSTER:
            ends = between(columns_of_rows(closes), self.seeds_zxid, self.part.to_zxid)
            logged = joined([logged, ends])
        whole = with_ends([in_order(logged)], rows_in(self.seeds, source))
        return whole if self.part.after_zxid <= self.seeds_zxid else behind(whole, self.part.after_zxid)


class Asked(NamedTuple):
    """The question about an ensemble, as all its tasks know it."""

    chroot: str
    group: str | None
    rules: frozenset[str]
    bounds: Mapping[str, Bounds]
    facts: Facts | None = None
    """None where one task has all rows."""
    closes: Any = None
    """The ends of sessions, as a pyarrow.Table of rows."""
    output: Folder | None = None
    batch: int | None = None
    """Of the states in it; None where none is stored."""


class Evaluated(NamedTuple):
    """The findings of a task."""

    ensemble: str
    findings: list[Finding]
    tree: Any = None
    """The rows that rules about the whole tree need of this bucket, as a pyarrow.Table."""
    facts: Facts | None = None
    """Where the task had all rows, with the names of the groups."""
    groups: frozenset[str] = frozenset()


def evaluate(shared: Any, rows: BucketRows, source: Source) -> Evaluated:
    """Asks the rules whose keys are in one bucket; where a task has all rows, all rules as on a laptop.

    Args:
        shared: the broadcast of what is `Asked`, by ensemble.
    """
    asked: Asked = shared.value[rows.ensemble]
    rules = [rule for rule in RULES if rule.name in asked.rules]
    columns = inside(rows.columns(source, asked.closes), asked.chroot)
    if asked.facts is not None:
        found = find_in_bucket(rules, columns, asked.facts, asked.bounds)
        return Evaluated(rows.ensemble, found.findings, table_of(found.tree))
    groups = frozenset(groups_of_paths(columns.paths)[0])
    if asked.group is not None:
        columns = of_group(columns, asked.group)
    facts = facts_in(columns)
    if not facts.has_log:
        rules = [rule for rule in rules if "log" not in rule.needs]
    findings = list(find_screened(rules, columns, facts, asked.bounds))
    return Evaluated(rows.ensemble, findings, facts=facts, groups=groups)


class StateBefore(NamedTuple):
    """The tree in a bucket at a zxid."""

    ensemble: str
    written: Sequence[TaskFile]
    known: Any
    """The rows of it that make facts, as a pyarrow.Table."""


def state_before(shared: Any, rows: BucketRows, source: Source) -> StateBefore:
    """Makes, and stores, what stands in a bucket before the part that is asked about.

    Args:
        shared: the broadcast of what is `Asked`, by ensemble.
    """
    asked: Asked = shared.value[rows.ensemble]
    zxid = rows.part.after_zxid
    seeds = replace(rows, part=ZxidRange(zxid, zxid)).columns(source, asked.closes)
    files: list[TaskFile] = []
    if len(seeds) and asked.batch is not None:
        folder = f"{STATES}/batch={asked.batch}/ensemble={rows.ensemble}/bucket={rows.bucket}"
        name = f"{folder}/state.parquet"
        file = StoredFile(name, STATES, rows.ensemble, rows.bucket, -1, len(seeds), zxid, zxid)
        files.append(written(table_of(seeds), file, asked.output))
    seen = inside(seeds, asked.chroot)
    return StateBefore(rows.ensemble, files, table_of(seen.take(known_rows(seen))))


def groups_in(chroot: str, rows: BucketRows, source: Source) -> frozenset[str]:
    """The names of the groups of a bucket."""
    return frozenset(groups_of_paths(inside(rows.columns(source), chroot).paths)[0])
