"""The data sources of a Spark session: snapshots, transaction logs, and whole trees as tables.

A file is one partition; logs can also be read as a growing stream. Trees are those that `audit export` and
servers wrote, or that of a live ensemble.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from time import time
from typing import Any, ClassVar, Final

from pyspark.sql import SparkSession, datasource, types
from pyspark.sql.types import StructType

from zkgroup.audit.inputs.found_files import find_files
from zkgroup.audit.inputs.one_tree import walk
from zkgroup.audit.spark.session import PUSHDOWN, matching
from zkgroup.errors import ConfigError, NotZooKeeperFileError
from zkgroup.zkfiles.arrow import LOG, SNAPSHOT, Column, ColumnType, batch_of_lists, record_batch, select
from zkgroup.zkfiles.columns import ROWS_PER_BATCH, log_columns, parent_of
from zkgroup.zkfiles.files import LOG as LOG_FILE
from zkgroup.zkfiles.files import SNAPSHOT as SNAPSHOT_FILE
from zkgroup.zkfiles.files import ServerFile, list_files
from zkgroup.zkfiles.logs import Hop, last_record, splits_of
from zkgroup.zkfiles.records import StoredZnode, lifetime_of
from zkgroup.zkfiles.snapshots import SnapshotReader, open_snapshot
from zkgroup.zkfiles.states import StatesReader
from zkgroup.zkfiles.znode_columns import snapshot_columns
from zkgroup.zookeeper import ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking

_ACL_FIELDS: Final = {"perms": types.IntegerType, "scheme": types.StringType, "id": types.StringType}
_ACL: Final = types.StructType(
    [types.StructField(name, type_(), nullable=False) for name, type_ in _ACL_FIELDS.items()]
)
_TYPES: Final[dict[ColumnType, types.DataType]] = {
    "long": types.LongType(),
    "int": types.IntegerType(),
    "string": types.StringType(),
    "binary": types.BinaryType(),
    "boolean": types.BooleanType(),
    "timestamp": types.TimestampType(),
    "acl": types.ArrayType(_ACL, containsNull=False),
}


def struct_of(columns: Iterable[Column]) -> types.StructType:
    """The type of a table with these columns."""
    return types.StructType(
        [
            types.StructField(column.name, _TYPES[column.type], column.nullable, {"comment": column.meaning})
            for column in columns
        ]
    )


def selected(
    table: tuple[Column, ...], names: Sequence[str] | None, *, data: bool = True
) -> tuple[Column, ...]:
    """The columns of a table as of `arrow.select`. Raises ConfigError for an unknown one."""
    try:
        return select(table, names, data=data)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def require_types(table: tuple[Column, ...], asked: types.StructType) -> tuple[Column, ...]:
    """The columns that a schema given by the user selects. Raises ConfigError for another type."""
    columns = selected(table, asked.fieldNames())
    for field, column in zip(asked.fields, columns, strict=True):
        expected = _TYPES[column.type]
        if field.dataType != expected:
            raise ConfigError(
                f"column {column.name}: expected {expected.simpleString()}, "
                f"found {field.dataType.simpleString()}"
            )
    return columns


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "1", "yes", "false", "0", "no"):
        raise ConfigError(f"option {name}: expected true or false, found {text!r}")
    return text.lower() in ("true", "1", "yes")


def _number(name: str, text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise ConfigError(f"option {name}: expected a number, decimal or 0x hex, found {text!r}") from None


def _count(name: str, text: str) -> int:
    count = _number(name, text)
    if count < 1:
        raise ConfigError(f"option {name}: expected at least 1, found {count}")
    return count


_PARSERS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "columns": lambda _, text: tuple(each.strip() for each in text.split(",")),
    "data": _boolean,
    "from_zxid": _number,
    "to_zxid": _number,
    "path_prefix": lambda _, text: text,
    "resync": _boolean,
    "records_per_split": _count,
}
_KNOWN: Final = ("path", "paths", *_PARSERS, "section", "zookeeper")
"""The names of options of all sources together; Spark gives them in lower case."""
_BOUNDS: Final[Mapping[type[datasource.Filter], tuple[int | None, int | None]]] = {
    datasource.EqualTo: (0, 0),
    datasource.EqualNullSafe: (0, 0),
    datasource.GreaterThan: (1, None),
    datasource.GreaterThanOrEqual: (0, None),
    datasource.LessThan: (None, -1),
    datasource.LessThanOrEqual: (None, 0),
}
"""The numbers added to the value of a filter for the first zxid and the last; None for no bound."""
_ZXIDS: Final = (("zxid",), ("snap_zxid",))
"""The columns of logs and of snapshots by which records and files are found."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a source. Zxids are decimal or 0x hex; both ends are included."""

    paths: tuple[Path, ...]
    """The files and folders, at least one."""
    columns: tuple[str, ...] | None = None
    data: bool = True
    from_zxid: int | None = None
    to_zxid: int | None = None
    path_prefix: str | None = None
    resync: bool = False
    """True if reading goes on behind damage, where it can."""
    records_per_split: int | None = None
    """Logs with more records than that are read in several partitions; None for one partition a file."""

    @classmethod
    def of(cls, given: Mapping[str, str], source: str) -> Options:
        """Reads the options. Raises ConfigError for missing, misspelt or wrong ones."""
        for name in given:
            if name.lower() not in _KNOWN:
                near = get_close_matches(name.lower(), _KNOWN, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(_KNOWN)}"
                raise ConfigError(f"{source}: there is no option {name!r}: {hint}")
        paths = _paths(given, source)
        values = {name: parse(name, given[name]) for name, parse in _PARSERS.items() if name in given}
        return cls(paths, **values)

    def narrowed(self, filters: Iterable[datasource.Filter]) -> tuple[Options, list[datasource.Filter]]:
        """The options with the filters that reading itself applies, and the filters that are left for Spark.

        Applied are bounds of the zxid, and the beginning of the path.
        """
        options, left = self, []
        for each in filters:
            narrowed = options._narrowed(each)
            if narrowed is None:
                left.append(each)
            else:
                options = narrowed
        return options, left

    def _narrowed(self, each: datasource.Filter) -> Options | None:
        if isinstance(each, datasource.StringStartsWith) and each.attribute == ("path",):
            known = self.path_prefix or ""
            if each.value.startswith(known):
                return replace(self, path_prefix=each.value)
            return self if known.startswith(each.value) else None
        if type(each) not in _BOUNDS or each.attribute not in _ZXIDS or not isinstance(each.value, int):
            return None
        first, last = _BOUNDS[type(each)]
        lows = [] if first is None else [each.value + first]
        highs = [] if last is None else [each.value + last]
        lows += [] if self.from_zxid is None else [self.from_zxid]
        highs += [] if self.to_zxid is None else [self.to_zxid]
        return replace(self, from_zxid=max(lows, default=None), to_zxid=min(highs, default=None))


def _paths(given: Mapping[str, str], source: str) -> tuple[Path, ...]:
    texts = json.loads(given["paths"]) if "paths" in given else [given.get("path", "")]
    if not all(texts) or not texts:
        raise ConfigError(f"{source}: expected a file or folder, as load(path) or option path")
    found: list[Path] = []
    for text in texts:
        matched = matching(Path(re.sub("^file:/+", "/", text)))
        if not matched:
            raise ConfigError(f"{source}: no file or folder matches {text}")
        found += matched
    return tuple(found)


_ZXID: Final = Column("snap_zxid", "long", False, "From the file's name: everything up to it is inside.")
_FILE: Final = Column("file", "string", False, "The file as it was named to the reader.")
TREE: Final = (
    *SNAPSHOT,
    Column("snapshot_zxid", "long", False, "The zxid by which findings name the snapshot."),
    Column(
        "snapshot_time",
        "timestamp",
        True,
        "When it was walked; of a server's snapshot the newest ctime or mtime in it. Null where not known.",
    ),
    Column("snapshot_path", "string", False, "The file, or the servers of a live ensemble."),
)
_SECTIONS: Final[dict[str, tuple[Column, ...]]] = {
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


class _TableSource(datasource.DataSource):
    """A source of the columns of `table`, read by `Options`; the classes are registered by their formats."""

    format: ClassVar[str]
    readers: ClassVar[type[_TableReader]]

    @classmethod
    def name(cls) -> str:
        return cls.format

    @property
    def asked(self) -> Options:
        """The options and columns. Raises ConfigError."""
        return Options.of(self.options, self.format)

    def schema(self) -> StructType:
        return struct_of(selected(self.table, self.asked.columns, data=self.asked.data))

    def reader(self, schema: StructType) -> datasource.DataSourceReader:
        return self.readers(self.asked, require_types(self.table, schema), self.options)


class _TableReader(datasource.DataSourceReader):
    def __init__(self, options: Options, columns: tuple[Column, ...], given: Mapping[str, str]) -> None:
        self.options, self.columns, self.given = options, columns, dict(given)

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]


class _SnapshotReader(_TableReader):
    """Reads the snapshots of a folder, or one file. `from_zxid` and `to_zxid` are about the files' names."""

    def partitions(self) -> list[datasource.InputPartition]:
        files: list[ServerFile] = []
        for path in self.options.paths:
            if path.is_file():
                files.append(ServerFile.of(path) or ServerFile(0, path, SNAPSHOT_FILE))
            else:
                files += list_files(path).snapshots
        low, high = self.options.from_zxid, self.options.to_zxid
        return [
            datasource.InputPartition((file.path, file.zxid))
            for file in files
            if (low is None or file.zxid >= low) and (high is None or file.zxid <= high)
        ]

    def read(self, partition: datasource.InputPartition) -> Iterator[Any]:
        (path, zxid), prefix = partition.value, self.options.path_prefix
        section = self.given.get("section", "nodes")
        if section == "nodes":
            batches = snapshot_columns(path, columns=self.names, path_prefix=prefix, zxid=zxid)
            yield from map(record_batch, batches)
            return
        reader = open_snapshot(path, zxid)
        yield from _batches(
            self.columns, ({**row, "snap_zxid": zxid, "file": str(path)} for row in _rows(section, reader))
        )


def _rows(section: str, reader: SnapshotReader) -> Iterator[dict[str, Any]]:
    if section == "sessions":
        for session, timeout_ms in sorted(reader.sessions.items()):
            yield {"session": session, "timeout_ms": timeout_ms}
    elif section == "acls":
        for number, acl in sorted(reader.acls.items()):
            yield {"number": number, "acl": acl}
    else:
        counts = {"sessions": len(reader.sessions), "acls": len(reader.acls)}
        digest = reader.end.digest
        signed = None if digest is None else (digest.value + (1 << 63)) % (1 << 64) - (1 << 63)
        yield {**counts, "end_zxid": reader.end_zxid, "digest": signed}


def _batches(columns: tuple[Column, ...], rows: Iterator[Mapping[str, Any]]) -> Iterator[Any]:
    while some := list(islice(rows, ROWS_PER_BATCH)):
        lists = {column.name: [row[column.name] for row in some] for column in columns}
        yield record_batch(batch_of_lists(columns, lists))


class SnapshotSource(_TableSource):
    """The source of snapshots; its options are those of `Options`, and `section`, one of _SECTIONS."""

    format = "zookeeper-snapshot"
    readers = _SnapshotReader

    @property
    def table(self) -> tuple[Column, ...]:
        section = self.options.get("section", "nodes")
        if section not in _SECTIONS:
            raise ConfigError(f"option section: expected one of {', '.join(_SECTIONS)}, found {section!r}")
        return _SECTIONS[section]


def _logs_of(options: Options) -> list[ServerFile]:
    """The logs of the folders that can have the wanted records, and the files that were named."""
    found: list[ServerFile] = []
    for path in options.paths:
        if path.is_file():
            found.append(ServerFile.of(path) or ServerFile(0, path, LOG_FILE))
        else:
            found += list_files(path).logs_within(options.from_zxid or 0, options.to_zxid)
    return sorted(found, key=lambda file: file.zxid)


def _log_partitions(options: Options) -> list[datasource.InputPartition]:
    """The partitions: one for each file, or several where a size of splits is set, by a pass over each log.

    The value of each is the path, the options with the zxids, and the offsets between which records start;
    None for no bound.
    """
    found: list[datasource.InputPartition] = []
    for log in _logs_of(options):
        splits: Sequence[tuple[int | None, int | None]] = [(None, None)]
        if options.records_per_split is not None:
            bounds = options.from_zxid, options.to_zxid
            splits = splits_of(log.path, options.records_per_split, *bounds) or splits
        found += [datasource.InputPartition((log.path, options, *split)) for split in splits]
    return found


def _log_batches(names: Sequence[str], partition: datasource.InputPartition) -> Iterator[Any]:
    path, options, start, end = partition.value
    batches = log_columns(
        path,
        columns=names,
        from_zxid=options.from_zxid,
        to_zxid=options.to_zxid,
        path_prefix=options.path_prefix,
        start_offset=start,
        end_offset=end,
        resync=options.resync,
    )
    return map(record_batch, batches)


class _LogReader(_TableReader):
    def partitions(self) -> list[datasource.InputPartition]:
        return _log_partitions(self.options)

    def read(self, partition: datasource.InputPartition) -> Iterator[Any]:
        return _log_batches(self.names, partition)


class _LogStream(datasource.DataSourceStreamReader):
    """A growing folder, whose offset is the last zxid that was read."""

    def __init__(self, options: Options, names: Sequence[str]) -> None:
        self._options, self._names = options, names
        self._known: Hop | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        first = self._options.from_zxid
        return {"zxid": 0 if first is None else first - 1}

    def latestOffset(  # noqa: N802
        self, start: Mapping[str, int] | None = None, limit: object = None
    ) -> dict[str, int]:
        """The last whole record, whatever the limit; a half written one is read the next time."""
        del limit
        last = (start or self.initialOffset())["zxid"]
        for log in reversed(_logs_of(replace(self._options, from_zxid=last + 1))):
            found = last_record(log.path, self._known)
            if found is not None:
                self._known = found
                last = max(last, found.zxid)
                break
        if self._options.to_zxid is not None:
            last = min(last, max(self._options.to_zxid, self.initialOffset()["zxid"]))
        return {"zxid": last}

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> list[datasource.InputPartition]:
        return _log_partitions(replace(self._options, from_zxid=start["zxid"] + 1, to_zxid=end["zxid"]))

    def read(self, partition: datasource.InputPartition) -> Iterator[Any]:
        return _log_batches(self._names, partition)


class LogSource(_TableSource):
    """The source of logs; its options are those of `Options`."""

    format = "zookeeper-txnlog"
    readers = _LogReader
    table = LOG

    def streamReader(self, schema: StructType) -> datasource.DataSourceStreamReader:  # noqa: N802
        return _LogStream(self.asked, [column.name for column in require_types(LOG, schema)])


class _TreeReader(_TableReader):
    """Reads each tree in one partition; the worker that reads it walks a live ensemble."""

    def partitions(self) -> list[datasource.InputPartition]:
        if "zookeeper" in self.given:
            return [datasource.InputPartition(None)]
        found = find_files(self.options.paths)
        for skipped in found.skipped:
            raise ConfigError(f"{skipped.path}: {skipped.reason}")
        files = sorted((*found.snapshots, *found.covered), key=lambda file: (file.zxid, file.path))
        if not files:
            place = ", ".join(map(str, self.options.paths))
            raise NotZooKeeperFileError(place, "an export or a server's snapshot", "none")
        return [datasource.InputPartition((file.path, file.header is None)) for file in files]

    def read(self, partition: datasource.InputPartition) -> Iterator[Any]:
        znodes: Iterable[StoredZnode]
        if partition.value is None:
            ensemble = self.given["zookeeper"]
            with ZooKeeperClient(ensemble) as client, Blocking(client) as zk:
                walked, found_znodes = walk(zk)
            znodes, source = (znode.stored() for znode in found_znodes), ensemble
            seen = walked.zxid_before, walked.zxid_after, walked.zxid_before, int(time() * 1000)
        else:
            path, is_server = partition.value
            reader, source = StatesReader(), str(path)
            found, states = (reader.read_snapshot if is_server else reader.read_export)(path)
            znodes = reader.states.znodes(states)
            end = found.end_zxid if found.header is None else found.header.zxid_after
            seen = found.zxid, end, found.end_zxid, found.time_ms
        begin, end, zxid, time_ms = seen
        of_tree = {"snap_zxid": begin, "end_zxid": end, "file": source}
        of_tree |= {"snapshot_zxid": zxid, "snapshot_time": time_ms or None, "snapshot_path": source}
        prefix = self.options.path_prefix or ""
        rows = ({**of_tree, **_row(znode)} for znode in znodes if znode.path.startswith(prefix))
        yield from _batches(self.columns, rows)


def _row(znode: StoredZnode) -> dict[str, Any]:
    path, data, stat = znode.path, znode.data, znode.stat
    return {
        **stat._asdict(),
        "path": path,
        "parent": parent_of(path),
        "name": path.rpartition("/")[2],
        "depth": path.count("/") if path != "/" else 0,
        "data": data,
        "acl": znode.acl,
        "owner": stat.ephemeral_owner,
        "kind": lifetime_of(stat.ephemeral_owner) or "persistent",
        "data_length": len(data or b""),
    }


class TreeSource(_TableSource):
    """The source of trees: `path`, exports and servers' snapshots, or `zookeeper`; `columns`, `data` and
    `path_prefix`."""

    format = "zookeeper-tree"
    readers = _TreeReader
    table = TREE

    @property
    def asked(self) -> Options:
        if "zookeeper" not in self.options:
            return Options.of(self.options, self.format)
        if "path" in self.options:
            raise ConfigError(
                f"{self.format}: path and zookeeper exclude each other: snapshots or a live ensemble"
            )
        return Options.of({**self.options, "path": "/"}, self.format)


class _Filtering(_TableReader):
    """A reader that applies bounds of the zxid and of the path, so that some files are never opened."""

    def pushFilters(self, filters: list[datasource.Filter]) -> Iterable[datasource.Filter]:  # noqa: N802
        self.options, left = self.options.narrowed(filters)
        return left


class FilteringLogSource(LogSource):
    """The source of logs for sessions that push filters down."""

    class readers(_Filtering, _LogReader):  # noqa: N801
        pass


class FilteringSnapshotSource(SnapshotSource):
    """The source of snapshots for sessions that push filters down."""

    class readers(_Filtering, _SnapshotReader):  # noqa: N801
        pass


def register(spark: SparkSession) -> None:
    """Registers the formats `zookeeper-snapshot`, `zookeeper-txnlog` and `zookeeper-tree`.

    Readers that filter are used where the session pushes filters down (`session.PUSHDOWN`), for where it
    does not, Spark refuses them. Call it again when that setting was changed.
    """
    pushes_down = str(spark.conf.get(PUSHDOWN, "false")).lower() == "true"
    logs = FilteringLogSource if pushes_down else LogSource
    snapshots = FilteringSnapshotSource if pushes_down else SnapshotSource
    for source in (logs, snapshots, TreeSource):
        spark.dataSource.register(source)
