"""The Parquet of `audit run` read without Spark, one log at a time.

pyarrow is a part of the extra `audit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

from zkgroup.audit import manifest
from zkgroup.audit.manifest import Converted, ConvertedLog, Manifest
from zkgroup.errors import ConfigError
from zkgroup.zkfiles.lifetimes import owner_of
from zkgroup.zkfiles.records import (
    Acl,
    AclEntry,
    Operation,
    StoredStat,
    StoredZnode,
    Transaction,
    TransactionType,
)

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
except ImportError:
    pa = None

_CLOSE_SESSION: Final = int(TransactionType.CLOSE_SESSION)
_CREATE_SESSION: Final = int(TransactionType.CREATE_SESSION)
_CREATES: Final[Mapping[str | None, int]] = {
    "container": TransactionType.CREATE_CONTAINER,
    "ttl": TransactionType.CREATE_TTL,
}


class _Row(NamedTuple):
    """What is read of one operation; the names are those of `zkfiles.schemas.LOG`."""

    zxid: int
    sub: int
    session: int
    cxid: int
    time: int
    """Microseconds."""
    type: int
    path: str | None
    data: bytes | None
    version: int | None
    ephemeral: str | None
    ttl_ms: int | None
    timeout_ms: int | None
    error: int | None
    acl: list[dict[str, Any]] | None


@dataclass(slots=True)
class StoredTables:
    """What was converted of one ensemble. Memory: the rows of one log.

    All methods raise ConfigError for Parquet that cannot be read.
    """

    folder: Path
    ensemble: str
    converted: Converted
    _groups: dict[int, dict[int, list[_Group]]] = field(default_factory=dict)
    """Of each batch, the row groups by the logs whose rows they have."""

    def transactions(self, of: ConvertedLog) -> Iterator[Transaction]:
        """Those of one log, by zxid."""
        rows = map(_Row._make, self._values(of, _Row._fields))
        for _, some in groupby(rows, key=lambda row: row.zxid):
            yield _transaction(list(some))

    def times(self, of: ConvertedLog) -> list[tuple[int, int]]:
        """Zxid and time, in milliseconds, of the rows of one log."""
        return [(zxid, time // 1000) for zxid, time in self._values(of, ("zxid", "time"))]

    def seeds(self) -> Iterator[StoredZnode]:
        """The znodes before the first transaction, with as much of their history as rows tell."""
        for row in self._seed_rows():
            if row["op"] == "create":
                yield _znode(row)

    def sessions(self) -> dict[int, int]:
        """The sessions before the first transaction, with their timeouts in milliseconds."""
        return {
            row["session"]: row["timeout_ms"] for row in self._seed_rows() if row["op"] == "createSession"
        }

    def _values(self, of: ConvertedLog, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Columns of the rows of a log, by zxid and place."""
        columns = list(dict.fromkeys((*names, "zxid", "sub", "stretch")))
        tables = [
            group.read(columns) for batch in of.batches for group in self._of_batch(batch).get(of.start, ())
        ]
        if not tables:
            raise ConfigError(f"{self.folder}: expected the rows of log {of.start:x}, found none")
        table = pa.concat_tables(tables)
        table = table.filter(pc.equal(table["stretch"], of.start))
        table = table.sort_by([("zxid", "ascending"), ("sub", "ascending")])
        return zip(*(_list(table[name]) for name in names), strict=True)

    def _of_batch(self, batch: int) -> dict[int, list[_Group]]:
        known = self._groups.get(batch)
        if known is None:
            known = self._groups[batch] = {}
            starts = [each.start for each in self.converted.stretches if batch in each.batches]
            for group in _groups(self._place("operations", batch), "stretch"):
                for start in starts:
                    if group.least <= start <= group.most:
                        known.setdefault(start, []).append(group)
        return known

    def _seed_rows(self) -> Iterator[dict[str, Any]]:
        batch = self.converted.seed_batch
        if batch is not None:
            for group in _groups(self._place("seeds", batch), "zxid"):
                yield from group.read(None).to_pylist()

    def _place(self, table: str, batch: int) -> Path:
        return self.folder / table / f"batch={batch}" / f"ensemble={self.ensemble}"


def read_manifest(folder: Path) -> Manifest:
    """The newest one of a folder. Raises ConfigError."""
    place = folder / manifest.FOLDER
    if pa is None:
        raise ConfigError(
            f"{folder}: reading Parquet needs pyarrow, not installed here: pip install 'zkgroup[audit]'"
        )
    try:
        name = manifest.newest(each.name for each in place.iterdir())
        if name is None:
            raise ConfigError(f"{place}: expected a manifest of converted logs, found none")
        content = (place / name).read_bytes()
    except OSError as error:
        raise ConfigError(f"{place}: cannot be read: {error.strerror or error}") from error
    return Manifest.decode(str(place / name), content)


class _Group(NamedTuple):
    """One row group of a file, with the least and most that one of its columns has."""

    path: Path
    number: int
    least: int
    most: int

    def read(self, names: Sequence[str] | None) -> Any:
        """Its rows as a pyarrow.Table."""
        with _opened(self.path) as file:
            return file.read_row_groups([self.number], columns=names)


def _groups(folder: Path, column: str) -> Iterator[_Group]:
    """The row groups of all files below a folder. A folder without files has no rows."""
    for path in sorted(folder.rglob("*.parquet")):
        with _opened(path) as file:
            at = [file.schema.column(at).path for at in range(len(file.schema))].index(column)
            for number in range(file.metadata.num_row_groups):
                ends = file.metadata.row_group(number).column(at).statistics
                if ends is None:
                    raise ConfigError(f"{path}: expected statistics of column {column}, found none")
                yield _Group(path, number, ends.min, ends.max)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Raises ConfigError for a file that is not a Parquet file of zkgroup."""
    try:
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            yield file
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ConfigError(f"{path}: expected Parquet that `audit run` wrote: {error}") from error


def _list(column: Any) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def _transaction(rows: Sequence[_Row]) -> Transaction:
    """A record, out of its opened rows."""
    first, operations, closed = rows[0], tuple(map(_operation, rows)), None
    kind = TransactionType.MULTI if first.sub >= 0 else first.type
    if kind in (_CREATE_SESSION, _CLOSE_SESSION):
        operations = ()
        closed = tuple(row.path for row in rows[1:] if row.path is not None) or None
    return Transaction(
        first.zxid,
        first.session,
        first.cxid,
        first.time // 1000,
        kind,
        operations,
        timeout_ms=first.timeout_ms,
        closed_paths=closed,
    )


def _operation(row: _Row) -> Operation:
    return Operation(
        row.type,
        row.path,
        row.data,
        _acl(row.acl),
        row.version,
        is_ephemeral=row.ephemeral == "session",
        ttl_ms=row.ttl_ms,
        error=row.error,
    )


def _znode(row: Mapping[str, Any]) -> StoredZnode:
    """Of a seed: what rows do not tell is 0."""
    lifetime = row["ephemeral"]
    create = Operation(
        _CREATES.get(lifetime, TransactionType.CREATE),
        is_ephemeral=lifetime == "session",
        ttl_ms=0 if lifetime == "ttl" else None,
    )
    stat = StoredStat(
        czxid=row["zxid"],
        mzxid=row["zxid"],
        ctime=row["time_ms"],
        mtime=row["mtime_ms"],
        version=row["version"],
        cversion=0,
        aversion=0,
        ephemeral_owner=owner_of(create, row["session"]),
        pzxid=0,
    )
    return StoredZnode(row["path"], row["data"], _acl(row["acl"]), stat)


def _acl(entries: Iterable[Mapping[str, Any]] | None) -> Acl | None:
    return None if entries is None else tuple(AclEntry(**entry) for entry in entries)
