"""The rows of an audit, on which rules are run: all in memory, or in buckets where there are too many.

All rows of a group are in one bucket, and all rows of no group in another. So every key of a rule has its
rows in one bucket, except those of `SPANNING`: rules about sessions read the known rows of all buckets
(`known_rows`), rules about the whole tree the rows of its znodes, and those by which ACLs were changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from tempfile import TemporaryFile, gettempdir
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zkgroup.audit.findings.load import ACLS
from zkgroup.audit.findings.rules import Bounds, Finding, Rule
from zkgroup.audit.findings.tables import ScreenTables, known_rows
from zkgroup.audit.inputs import rows
from zkgroup.audit.inputs.converted import parquet_of
from zkgroup.audit.inputs.events import BY_SESSION, BY_SUBTREE, SET, SET_ACL, is_of_groups
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.source import Rows
from zkgroup.errors import ConfigError
from zkgroup.znodes.paths import path_kind

CLUSTER: Final = "cluster"
"""The bucket of rows of no group: brokers, topics, controllers, sessions, refused requests."""
_FEWEST: Final = 4
_MOST: Final = 256
_BYTES: Final = 64 << 20
"""The bytes of logs that one bucket is meant for."""


def bucket_of_group(group: str, count: int) -> str:
    """The bucket of a group, where there are this many."""
    return str(crc32(group.encode("utf-8", "surrogatepass")) % count)


def names_of(count: int) -> list[str]:
    """The names of all buckets, where this many are for groups."""
    return [CLUSTER, *map(str, range(count))]


def numbers_of(paths: Any, count: int, chroot: str = "") -> rows.Numbers:
    """The number in `names_of` of the bucket of each path in a pyarrow array, as servers have them.

    A path belongs to a group if it is at or below `/consumers/<group>` as clients see it.
    """
    groups, codes = rows.groups_of_paths(paths, chroot)
    return np.array([*(int(bucket_of_group(group, count)) + 1 for group in groups), 0], np.int64)[codes]


def count_for(size: int) -> int:
    """The number of buckets for groups where the logs have so many bytes at first."""
    return max(_FEWEST, min(_MOST, -(-size // _BYTES)))


def by_code(table: Any, codes: rows.Numbers) -> Iterator[tuple[int, Any]]:
    """The rows of each code as a pyarrow.Table, in their order."""
    order = rows.stable_order(codes)
    ordered, codes = table.take(pa.array(order)), codes[order]
    starts = np.flatnonzero(np.append([True], codes[1:] != codes[:-1])[: len(codes)]).tolist()
    for start, end in pairwise([*starts, len(codes)]):
        yield int(codes[start]), ordered.slice(start, end - start)


class TemporaryTables:
    """Tables by name, in a file without a name: the system deletes it when the process ends, however it ends.

    Each call of `add` writes one document of Parquet. `TMPDIR` says where the file is.
    """

    def __init__(self) -> None:
        self._file = TemporaryFile(prefix="zkgroup-")  # noqa: SIM115
        self._documents: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        self.size = 0
        """The bytes of all documents."""

    def add(self, name: str, table: Any) -> None:
        """Adds rows behind those of that name. Raises ConfigError where the disk has no room."""
        content = parquet_of(table)
        try:
            self._file.seek(self.size)
            self._file.write(content)
            self._file.flush()
        except OSError as error:
            raise ConfigError(
                f"{gettempdir()}: cannot keep the rows of a long history there: {error.strerror}; "
                "TMPDIR names another folder"
            ) from error
        self._documents[name].append((self.size, len(content)))
        self.size += len(content)

    def read(self, name: str, codes: Sequence[str] = ()) -> list[Any]:
        """The tables that were added to a name, in order, as pyarrow.Tables. Raises ConfigError.

        Args:
            codes: columns that come as codes of their different values.
        """
        found = []
        for at, size in self._documents[name]:
            self._file.seek(at)
            content = self._file.read(size)
            if len(content) < size:
                raise ConfigError(f"{gettempdir()}: the rows of a long history that were kept there are gone")
            with pq.ParquetFile(pa.BufferReader(content), read_dictionary=list(codes)) as file:
                found.append(file.read(use_threads=False))
        return found

    def close(self) -> None:
        """Closes the file, which deletes it."""
        with suppress(OSError):  # rows that found no room are not needed any more
            self._file.close()


class TemporaryBuckets(TemporaryTables):
    """The rows of a history by bucket."""

    def __init__(self, count: int) -> None:
        """Makes `count` buckets for groups, and one more."""
        super().__init__()
        self.names: Final = names_of(count)

    def add_rows(self, columns: rows.Columns) -> None:
        """Adds rows behind those that were added before. Raises ConfigError where the disk has no room."""
        codes = numbers_of(pa.array(columns.paths, pa.string()), len(self.names) - 1)[columns.path]
        for number, some in by_code(rows.table_of(columns), codes):
            self.add(self.names[number], some)

    def columns(self, name: str) -> rows.Columns:
        """The rows of a bucket, in the order in which they were added. Raises ConfigError."""
        tables = self.read(name, rows.AS_CODES)
        return rows.columns_of_rows(pa.concat_tables(tables)) if tables else rows.columns_of(())


SESSION_KEYS: Final = frozenset({BY_SESSION.name})
TREE_KEYS: Final = frozenset({BY_SUBTREE.name, ACLS.name})
SPANNING: Final = SESSION_KEYS | TREE_KEYS
"""Names of keys whose rows are in several buckets."""


def rules_by(rules: Iterable[Rule], keys: frozenset[str]) -> list[Rule]:
    """The rules that have such keys."""
    return [rule for rule in rules if rule.keys.name in keys]


def find_in_bucket(
    rules: Sequence[Rule],
    columns: rows.Columns,
    facts: Facts,
    bounds: Mapping[str, Bounds],
    then: Callable[[ScreenTables], None] | None = None,
) -> tuple[list[Finding], rows.Columns]:
    """Runs the rules whose keys are in one bucket; `then` gets the tables that were computed for them.

    Returns the findings, and the rows of the bucket that rules about the whole tree need.
    """
    if not len(columns):
        return [], columns
    tables = ScreenTables(columns, facts)
    found = list(tables.find([rule for rule in rules if rule.keys.name not in SPANNING], bounds))
    tree = _tree_rows(tables) if rules_by(rules, TREE_KEYS) else np.zeros(0, np.int64)
    if then is not None:
        then(tables)
    return found, columns.take(tree)


def _tree_rows(tables: ScreenTables) -> rows.Numbers:
    """The rows of the tree's znodes, and those by which ACLs changed, whatever other buckets have."""
    columns, tree, acls = tables.columns, tables.of(BY_SUBTREE), tables.of(ACLS).rows
    _, made, written = tables.standing(tree, SET)
    matters: rows.Flags = np.zeros(len(columns), np.bool_)
    of_first_path = columns.path[acls] == columns.path[acls[:1]]
    for each in (tree.rows[made], tree.rows[written], acls[of_first_path | (columns.op[acls] == SET_ACL)]):
        matters[each] = True
    return np.flatnonzero(matters)


def find_in_sessions(
    rules: Sequence[Rule], known: rows.Columns, facts: Facts, bounds: Mapping[str, Bounds]
) -> Iterator[Finding]:
    """Runs the rules about sessions on the `known_rows` of the history."""
    return ScreenTables(known, facts).find(rules_by(rules, SESSION_KEYS), bounds)


def find_in_tree(
    rules: Sequence[Rule], trees: Sequence[rows.Columns], facts: Facts, bounds: Mapping[str, Bounds]
) -> Iterator[Finding]:
    """Runs the rules about the whole tree on the rows that each bucket gave for them."""
    asked = rules_by(rules, TREE_KEYS)
    whole = rows.in_order(rows.joined(trees))
    if asked and len(whole):
        yield from ScreenTables(whole, facts).find(asked, bounds)


class RowLimits(NamedTuple):
    """The numbers of rows that are in memory at a time."""

    most_rows: int = 1_500_000
    """A history with more rows is written to buckets."""
    rows_per_part: int = rows.ROWS_PER_PART
    """The rows that are read and written at a time, beside the rest of the last transaction."""
    buckets: int = 32
    """The buckets for groups. The length of a history is known only when it has been read."""


LIMITS: Final = RowLimits()


class AuditedRows:
    """The rows of an audit, of one group where one is named. Close it when all is found."""

    def __init__(
        self,
        history: Rows,
        group: str | None,
        limits: RowLimits = LIMITS,
        watch: Callable[[rows.Columns], None] | None = None,
        then: Callable[[ScreenTables], None] | None = None,
    ) -> None:
        """`watch` gets each part of the rows while they are read, first the tree before; `then` what rules
        have computed of all rows, or of the rows of one bucket after the other."""
        self.rows, self.group, self._limits = history, group, limits
        self._watch, self._then = watch, then
        self.groups: set[str] = set()
        """The names of all groups, where the audit is of one."""
        self._kept: TemporaryBuckets | None = None
        try:
            self._columns = self._all()
        except BaseException:
            self.close()
            raise
        self.facts = history.ended(rows.facts_in(self._columns))

    @property
    def written(self) -> int:
        """The bytes that were written to the disk."""
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
        closes, trees, names = rows.closes_in(self._columns), [], self._kept.names
        for number, name in enumerate(names):
            self.rows.progress("searching for findings in buckets", number, len(names))
            before, logged = rows.apart(self._kept.columns(name))
            if name != CLUSTER:
                logged = rows.in_order(rows.joined([logged, closes]))
            whole = rows.joined([before, logged])
            findings, tree = find_in_bucket(rules, whole, self.facts, bounds, self._then)
            trees.append(tree)
            yield from findings
        yield from find_in_tree(rules, trees, self.facts, bounds)

    def close(self) -> None:
        """Deletes what was written."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _all(self) -> rows.Columns:
        """All rows; where memory does not hold them, those that rules have to see together."""
        held: list[rows.Columns] = []
        known: list[rows.Columns] = []
        size = 0
        for part in self.rows.parts(self._limits.rows_per_part):
            if self.group is not None:
                places = [path_kind(part.paths[code]) for code in np.unique(part.path).tolist()]
                self.groups.update(place.name for place in places if is_of_groups(place))
                part = rows.of_group(part, self.group)
            if self._watch is not None:
                self._watch(part)
            held.append(part)
            size += int((~part.seed).sum())
            if self._kept is None and size > self._limits.most_rows:
                self._kept = TemporaryBuckets(self._limits.buckets)
            if self._kept is not None:
                for each in held:
                    self._kept.add_rows(each)
                    known.append(rows.compact(each.take(known_rows(each))))
                held.clear()
        return rows.joined(known or held)
