"""`zookeeper-txnlog`: transaction logs as a table of operations, in batches and as a growing stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from zkgroup.audit.spark.options import Options
from zkgroup.audit.spark.schemas import require_types, struct_of
from zkgroup.zkfiles.arrow import record_batch
from zkgroup.zkfiles.columns import log_columns
from zkgroup.zkfiles.log_index import HopIndex, Split, index_log
from zkgroup.zkfiles.names import LOG as LOG_FILE
from zkgroup.zkfiles.names import ServerFile, list_files
from zkgroup.zkfiles.schemas import LOG

NAME: Final = "zookeeper-txnlog"


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
            known = self._known if self._known is not None and self._known.is_of(log.path) else None
            index = index_log(log.path, known=known)
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
        return NAME

    def schema(self) -> StructType:
        return struct_of(self._asked().selected(LOG))

    def reader(self, schema: StructType) -> DataSourceReader:
        return self._reader(self._asked(), _names(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return LogRowsStreamReader(self._asked(), _names(schema))

    def _asked(self) -> Options:
        return Options.of(self.options, NAME)


class FilteringLogSource(LogSource):
    """For sessions that push filters down."""

    _reader = FilteringLogRowsReader


def _names(schema: StructType) -> tuple[str, ...]:
    return tuple(column.name for column in require_types(LOG, schema))
