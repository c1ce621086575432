"""`zookeeper-snapshot`: znodes, sessions, ACLs and ends of snapshots as tables, one partition a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from zkgroup.audit.spark.options import Options
from zkgroup.audit.spark.schemas import require_types, struct_of
from zkgroup.errors import ConfigError
from zkgroup.zkfiles.arrow import record_batch
from zkgroup.zkfiles.batches import Batch
from zkgroup.zkfiles.columns import snapshot_columns
from zkgroup.zkfiles.names import SNAPSHOT as SNAPSHOT_FILE
from zkgroup.zkfiles.names import ServerFile, list_files
from zkgroup.zkfiles.schemas import SNAPSHOT, Column
from zkgroup.zkfiles.snapshots import SnapshotReader, open_snapshot

NAME: Final = "zookeeper-snapshot"

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
            yield Batch(self._columns, len(rows), lists)


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
        return NAME

    def schema(self) -> StructType:
        return struct_of(Options.of(self.options, NAME).selected(SECTIONS[self._section]))

    def reader(self, schema: StructType) -> DataSourceReader:
        columns = require_types(SECTIONS[self._section], schema)
        return self._reader(Options.of(self.options, NAME), self._section, columns)

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
