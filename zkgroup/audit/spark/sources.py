"""The data sources of a Spark session: snapshots, transaction logs, and whole trees as tables.

A file of snapshots and logs is one partition; logs can also be read as a growing stream. A tree is that of a
live ensemble, or one that `audit export` wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from zkgroup.audit.inputs.opening import walk
from zkgroup.audit.spark.options import Options, require_types, struct_of
from zkgroup.audit.spark.session import PUSHDOWN
from zkgroup.errors import ConfigError
from zkgroup.zkfiles.arrow import Batch, batch_of_lists, record_batch
from zkgroup.zkfiles.columns import ROWS_PER_BATCH, log_columns, parent_of
from zkgroup.zkfiles.exports import ExportReader
from zkgroup.zkfiles.lifetimes import lifetime_of
from zkgroup.zkfiles.log_index import HopIndex, Split, has_hop, index_log
from zkgroup.zkfiles.names import LOG as LOG_FILE
from zkgroup.zkfiles.names import SNAPSHOT as SNAPSHOT_FILE
from zkgroup.zkfiles.names import ServerFile, list_files
from zkgroup.zkfiles.records import StoredZnode
from zkgroup.zkfiles.schemas import LOG, SNAPSHOT, Column
from zkgroup.zkfiles.snapshots import SnapshotReader, open_snapshot
from zkgroup.zkfiles.znode_columns import snapshot_columns
from zkgroup.zookeeper import ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking

SNAPSHOTS: Final = "zookeeper-snapshot"

_ZXID: Final = Column("snap_zxid", "long", False, "From the file's name: everything up to it is inside.")
_FILE: Final = Column("file", "string", False, "The file as it was named to the reader.")
SECTIONS: Final[dict[str, tuple[Column, ...]]] = {
    "nodes": SNAPSHOT,
    "sessions": (
        _ZXID,
        Column("session", "long", False, "The session's number, signed."),
        Column("timeout_ms", "int", False, "The timeout that was granted."),
        _FILE,
    ),
    "acls": (
        _ZXID,
        Column("number", "long", False, "What znodes of this file name the ACL by."),
        Column("acl", "acl", False, "Who may do what."),
        _FILE,
    ),
    "header": (
        _ZXID,
        Column("sessions", "int", False, "Sessions that were open."),
        Column("acls", "int", False, "Different ACLs."),
        Column("end_zxid", "long", True, "Nothing after it is inside; null where the file does not say."),
        Column(
            "digest", "long", True, "The tree's digest at the end, taken as signed; null where there is none."
        ),
        _FILE,
    ),
}


@dataclass
class SnapshotPartition(InputPartition):
    """One snapshot."""

    path: str
    zxid: int


class SnapshotRowsReader(DataSourceReader):
    """Reads the snapshots of a folder, or one file. `from_zxid` and `to_zxid` are about the files' names."""

    def __init__(self, options: Options, section: str, columns: tuple[Column, ...]) -> None:
        self._options = options
        self._section = section
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        files: list[ServerFile] = []
        for path in self._options.paths:
            if path.is_file():
                files.append(ServerFile.of(path) or ServerFile(0, path, SNAPSHOT_FILE))
            else:
                files += list_files(path).snapshots
        low, high = self._options.from_zxid, self._options.to_zxid
        return [
            SnapshotPartition(str(file.path), file.zxid)
            for file in files
            if (low is None or file.zxid >= low) and (high is None or file.zxid <= high)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, SnapshotPartition)
        return (record_batch(batch) for batch in self._batches(partition))

    def _batches(self, partition: SnapshotPartition) -> Iterator[Batch]:
        path, names = Path(partition.path), [column.name for column in self._columns]
        if self._section == "nodes":
            yield from snapshot_columns(
                path, columns=names, path_prefix=self._options.path_prefix, zxid=partition.zxid
            )
            return
        rows = list(_rows(self._section, open_snapshot(path, partition.zxid)))
        table = [column.name for column in SECTIONS[self._section]]
        lists = {name: [row[table.index(name)] for row in rows] for name in names}
        if rows:
            yield batch_of_lists(self._columns, lists)


class FilteringSnapshotRowsReader(SnapshotRowsReader):
    """Obeys bounds of snap_zxid and the beginning of path itself."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        if self._section == "nodes":
            self._options, filters = self._options.narrowed(filters, "snap_zxid")
        return filters


class SnapshotSource(DataSource):
    """Options: those of `options.Options`, and `section`, one of SECTIONS."""

    _reader: type[SnapshotRowsReader] = SnapshotRowsReader

    @classmethod
    def name(cls) -> str:
        return SNAPSHOTS

    def schema(self) -> StructType:
        return struct_of(Options.of(self.options, SNAPSHOTS).selected(SECTIONS[self._section]))

    def reader(self, schema: StructType) -> DataSourceReader:
        columns = require_types(SECTIONS[self._section], schema)
        return self._reader(Options.of(self.options, SNAPSHOTS), self._section, columns)

    @property
    def _section(self) -> str:
        section = self.options.get("section", "nodes")
        if section not in SECTIONS:
            raise ConfigError(f"option section: expected one of {', '.join(SECTIONS)}, found {section!r}")
        return str(section)


class FilteringSnapshotSource(SnapshotSource):
    """For sessions that push filters down."""

    _reader = FilteringSnapshotRowsReader


def _rows(section: str, reader: SnapshotReader) -> Iterator[tuple[Any, ...]]:
    zxid, file = reader.zxid, str(reader.path)
    if section == "sessions":
        for session, timeout_ms in sorted(reader.sessions.items()):
            yield zxid, session, timeout_ms, file
    elif section == "acls":
        for number, acl in sorted(reader.acls.items()):
            yield zxid, number, acl, file
    else:
        digest = reader.end.digest
        signed = None if digest is None else (digest.value + (1 << 63)) % (1 << 64) - (1 << 63)
        yield zxid, len(reader.sessions), len(reader.acls), reader.end_zxid, signed, file


LOGS: Final = "zookeeper-txnlog"


@dataclass
class LogPartition(InputPartition):
    """One log, or the records of one that start within a part of it."""

    path: str
    split: Split | None = None


def logs_of(options: Options) -> tuple[ServerFile, ...]:
    """The logs of the folders that can hold what is wanted, and the files that were named."""
    found: list[ServerFile] = []
    for path in options.paths:
        if path.is_file():
            found.append(ServerFile.of(path) or ServerFile(0, path, LOG_FILE))
        else:
            found += list_files(path).logs_within(options.from_zxid or 0, options.to_zxid)
    return tuple(sorted(found, key=lambda file: file.zxid))


def partitions_of(options: Options) -> list[LogPartition]:
    """One a file, or several where a size of splits is asked for: then each log is passed over once."""
    found = []
    for log in logs_of(options):
        index = None
        if options.records_per_split is not None:
            index = index_log(log.path, every=options.records_per_split)
        if index is None or index.records == 0:
            found.append(LogPartition(str(log.path)))
        else:
            splits = index.splits(options.from_zxid, options.to_zxid)
            found += [LogPartition(str(log.path), split) for split in splits]
    return found


def batches_of(options: Options, names: Iterable[str], partition: LogPartition) -> Iterator[Any]:
    """The pyarrow.RecordBatches of a partition."""
    start, end = partition.split or (None, None)
    batches = log_columns(
        Path(partition.path),
        columns=names,
        from_zxid=options.from_zxid,
        to_zxid=options.to_zxid,
        path_prefix=options.path_prefix,
        start_offset=start,
        end_offset=end,
        resync=options.resync,
    )
    return (record_batch(batch) for batch in batches)


class LogRowsReader(DataSourceReader):
    """Reads the logs of a folder, or one log."""

    def __init__(self, options: Options, names: tuple[str, ...]) -> None:
        self._options = options
        self._names = names

    def partitions(self) -> list[InputPartition]:
        return list(partitions_of(self._options))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, LogPartition)
        return batches_of(self._options, self._names, partition)


class FilteringLogRowsReader(LogRowsReader):
    """Obeys bounds of zxid and the beginning of path itself; whole files are then never opened."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        self._options, left = self._options.narrowed(filters, "zxid")
        return left


class LogRowsStreamReader(DataSourceStreamReader):
    """A growing folder: the offset is the last zxid that was read."""

    def __init__(self, options: Options, names: tuple[str, ...]) -> None:
        self._options = options
        self._names = names
        self._known: HopIndex | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        first = self._options.from_zxid
        return {"zxid": 0 if first is None else first - 1}

    def latestOffset(  # noqa: N802
        self, start: Mapping[str, int] | None = None, limit: object = None
    ) -> dict[str, int]:
        """The last whole record, whatever the limit: a half written one is left for the next time."""
        del limit
        last = (start or self.initialOffset())["zxid"]
        for log in reversed(logs_of(replace(self._options, from_zxid=last + 1))):
            known = self._known
            is_same = known is not None and has_hop(log.path, known.hops[-1])
            index = index_log(log.path, known=known if is_same else None)
            if index.last_zxid is not None:
                self._known = index
                last = max(last, index.last_zxid)
                break
        if self._options.to_zxid is not None:
            last = min(last, max(self._options.to_zxid, self.initialOffset()["zxid"]))
        return {"zxid": last}

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> list[InputPartition]:
        within = self._within(start, end)
        return [LogRange(each.path, each.split, start["zxid"], end["zxid"]) for each in partitions_of(within)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, LogRange)
        within = self._within({"zxid": partition.after_zxid}, {"zxid": partition.to_zxid})
        return batches_of(within, self._names, partition)

    def _within(self, start: Mapping[str, int], end: Mapping[str, int]) -> Options:
        return replace(self._options, from_zxid=start["zxid"] + 1, to_zxid=end["zxid"])


@dataclass
class LogRange(LogPartition):
    """The records of a log behind one zxid, up to another."""

    after_zxid: int = 0
    to_zxid: int = 0


class LogSource(DataSource):
    """Options: those of `options.Options`."""

    _reader: type[LogRowsReader] = LogRowsReader

    @classmethod
    def name(cls) -> str:
        return LOGS

    def schema(self) -> StructType:
        return struct_of(self._asked().selected(LOG))

    def reader(self, schema: StructType) -> DataSourceReader:
        return self._reader(self._asked(), _names(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return LogRowsStreamReader(self._asked(), _names(schema))

    def _asked(self) -> Options:
        return Options.of(self.options, LOGS)


class FilteringLogSource(LogSource):
    """For sessions that push filters down."""

    _reader = FilteringLogRowsReader


def _names(schema: StructType) -> tuple[str, ...]:
    return tuple(column.name for column in require_types(LOG, schema))


TREES: Final = "zookeeper-tree"


@dataclass(frozen=True, slots=True)
class _Tree:
    """Holds what the columns that are the same in all rows say."""

    source: str
    zxid: int
    end_zxid: int | None


_VALUES: Final[Mapping[str, Callable[[_Tree, StoredZnode], object]]] = {
    "snap_zxid": lambda tree, znode: tree.zxid,
    "end_zxid": lambda tree, znode: tree.end_zxid,
    "path": lambda tree, znode: znode.path,
    "parent": lambda tree, znode: parent_of(znode.path),
    "name": lambda tree, znode: znode.path.rpartition("/")[2],
    "depth": lambda tree, znode: znode.path.count("/") if znode.path != "/" else 0,
    "data": lambda tree, znode: znode.data,
    "acl": lambda tree, znode: znode.acl,
    "czxid": lambda tree, znode: znode.stat.czxid,
    "mzxid": lambda tree, znode: znode.stat.mzxid,
    "pzxid": lambda tree, znode: znode.stat.pzxid,
    "ctime": lambda tree, znode: znode.stat.ctime,
    "mtime": lambda tree, znode: znode.stat.mtime,
    "version": lambda tree, znode: znode.stat.version,
    "cversion": lambda tree, znode: znode.stat.cversion,
    "aversion": lambda tree, znode: znode.stat.aversion,
    "owner": lambda tree, znode: znode.stat.ephemeral_owner,
    "kind": lambda tree, znode: lifetime_of(znode.stat.ephemeral_owner) or "persistent",
    "data_length": lambda tree, znode: len(znode.data or b""),
    "file": lambda tree, znode: tree.source,
}


class TreeRowsReader(DataSourceReader):
    """Reads one tree in one partition; a walk asks a live ensemble from the worker that reads it."""

    def __init__(self, given: Mapping[str, str], columns: tuple[Column, ...]) -> None:
        self._zookeeper = given.get("zookeeper")
        self._options = _options(given)
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        prefix = self._options.path_prefix or ""
        if self._zookeeper is None:
            (path,) = self._options.paths
            reader = ExportReader(path)
            tree = _Tree(str(reader.path), reader.header.zxid_before, reader.header.zxid_after)
            znodes: Iterable[StoredZnode] = reader.znodes()
        else:
            with ZooKeeperClient(self._zookeeper) as client, Blocking(client) as zk:
                walked = walk(zk)
            tree = _Tree(self._zookeeper, walked.zxid_before, walked.zxid_after)
            znodes = (znode.stored() for znode in walked.znodes)
        return self._batches(tree, (znode for znode in znodes if znode.path.startswith(prefix)))

    def _batches(self, tree: _Tree, znodes: Iterator[StoredZnode]) -> Iterator[Any]:
        while some := list(islice(znodes, ROWS_PER_BATCH)):
            lists = {
                column.name: [_VALUES[column.name](tree, znode) for znode in some] for column in self._columns
            }
            yield record_batch(batch_of_lists(self._columns, lists))


class TreeSource(DataSource):
    """`path`: an export; or `zookeeper`: HOST:PORT,.../CHROOT. Also `columns`, `data` and `path_prefix`."""

    @classmethod
    def name(cls) -> str:
        return TREES

    def schema(self) -> StructType:
        return struct_of(_options(self.options).selected(SNAPSHOT))

    def reader(self, schema: StructType) -> DataSourceReader:
        return TreeRowsReader(dict(self.options), require_types(SNAPSHOT, schema))


def _options(given: Mapping[str, str]) -> Options:
    if "zookeeper" not in given:
        options = Options.of(given, TREES)
        if len(options.paths) > 1:
            raise ConfigError(f"{TREES}: expected one export, found {', '.join(map(str, options.paths))}")
        return options
    if "path" in given:
        raise ConfigError(f"{TREES}: path and zookeeper exclude each other: an export or a live ensemble")
    return Options.of({**given, "path": "/"}, TREES)


def register(spark: SparkSession) -> None:
    """`spark.read.format("zookeeper-snapshot")`, `"zookeeper-txnlog"` and `"zookeeper-tree"`.

    Readers that filter are taken where the session pushes filters down (`session.PUSHDOWN`), for where it
    does not, Spark refuses them. Call it again when that setting was changed.
    """
    pushes_down = str(spark.conf.get(PUSHDOWN, "false")).lower() == "true"
    logs = FilteringLogSource if pushes_down else LogSource
    snapshots = FilteringSnapshotSource if pushes_down else SnapshotSource
    for source in (logs, snapshots, TreeSource):
        spark.dataSource.register(source)
