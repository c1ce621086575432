"""`zookeeper-tree`: the tree of a live ensemble, or one that `audit export` wrote, as a table of znodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from zkgroup.audit.live import walk
from zkgroup.audit.spark.options import Options
from zkgroup.audit.spark.schemas import require_types, struct_of
from zkgroup.errors import ConfigError
from zkgroup.zkfiles.arrow import record_batch
from zkgroup.zkfiles.batches import Batch
from zkgroup.zkfiles.columns import ROWS_PER_BATCH
from zkgroup.zkfiles.exports import ExportReader
from zkgroup.zkfiles.lifetimes import lifetime_of
from zkgroup.zkfiles.log_lists import parent_of
from zkgroup.zkfiles.records import StoredZnode
from zkgroup.zkfiles.schemas import SNAPSHOT, Column
from zkgroup.zookeeper import ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking

NAME: Final = "zookeeper-tree"


@dataclass(frozen=True, slots=True)
class _Tree:
    """What the columns that are the same in all rows say."""

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
            yield record_batch(Batch(self._columns, len(some), lists))


class TreeSource(DataSource):
    """`path`: an export; or `zookeeper`: HOST:PORT,.../CHROOT. Also `columns`, `data` and `path_prefix`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return struct_of(_options(self.options).selected(SNAPSHOT))

    def reader(self, schema: StructType) -> DataSourceReader:
        return TreeRowsReader(dict(self.options), require_types(SNAPSHOT, schema))


def _options(given: Mapping[str, str]) -> Options:
    if "zookeeper" not in given:
        options = Options.of(given, NAME)
        if len(options.paths) > 1:
            raise ConfigError(f"{NAME}: expected one export, found {', '.join(map(str, options.paths))}")
        return options
    if "path" in given:
        raise ConfigError(f"{NAME}: path and zookeeper exclude each other: an export or a live ensemble")
    return Options.of({**given, "path": "/"}, NAME)
