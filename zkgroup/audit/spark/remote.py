"""Folders behind a Hadoop URI: Spark reads whole files (`binaryFile`), the same decoder makes rows of them.

Python workers have no Hadoop client, so the JVM brings the bytes; each log is one task and in memory there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from zkgroup.audit.folders import Folders
from zkgroup.audit.source import Rows
from zkgroup.audit.spark.schemas import struct_of
from zkgroup.audit.spark.storage import Storage
from zkgroup.audit.spark.units import OPERATIONS, Listed, Unit, batches_of, stretches_of
from zkgroup.errors import NotZooKeeperFileError
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.names import DATA_FOLDER, LOG, SNAPSHOT, ServerFile

_PIECE_BYTES: Final = "spark.sql.files.maxPartitionBytes"


class RemoteFolder:
    """The `version-2` of one server, or the folder above."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def listed(self) -> list[Listed]:
        """Its logs, each a stretch. Raises NotZooKeeperFileError where there is none, and no snapshot."""
        prefix, files = self._files()
        logs = [(file, size) for file, size in files if file.kind == LOG]
        found = stretches_of([logs])
        return [
            replace(each, files=(self._storage.path(prefix + Path(each.files[0]).name),)) for each in found
        ]

    def rows(self) -> Rows:
        """The history from its first known tree on, for which the files behind that tree are fetched."""
        prefix, files = self._files()
        snapshots = [file for file, _ in files if file.kind == SNAPSHOT]
        logs = [file for file, _ in files if file.kind == LOG]
        with TemporaryDirectory(prefix="zkgroup-") as place:
            for number, snapshot in enumerate(snapshots):
                following = snapshots[number + 1].zxid if number + 1 < len(snapshots) else None
                wanted = [snapshot, *_around(logs, snapshot.zxid, following)]
                for file in wanted:
                    target = Path(place, file.path.name)
                    if not target.exists():
                        self._storage.fetch(prefix + file.path.name, target)
                rows = Folders(History(place)).rows()
                if not rows.seen.is_damaged:
                    return rows
            for file in logs[:1]:
                self._storage.fetch(prefix + file.path.name, Path(place, file.path.name))
            return Folders(History(place)).rows()

    def _files(self) -> tuple[str, list[tuple[ServerFile, int]]]:
        for prefix in ("", f"{DATA_FOLDER}/"):
            found = [
                (file, each.bytes)
                for each in self._storage.files(prefix)
                if (file := ServerFile.of(Path(each.name))) is not None
            ]
            if found:
                return prefix, sorted(found)
        raise NotZooKeeperFileError(
            self._storage.place, "snapshot.ZXID or log.ZXID, as in a version-2 folder", "none"
        )


def _around(logs: list[ServerFile], from_zxid: int, to_zxid: int | None) -> list[ServerFile]:
    """The logs that can have records of a stretch."""
    ends = [*(log.zxid for log in logs[1:]), None]
    return [
        log
        for log, end in zip(logs, ends, strict=True)
        if (end is None or end > from_zxid) and (to_zxid is None or log.zxid <= to_zxid)
    ]


def decoded(spark: SparkSession, units: list[Unit]) -> DataFrame | None:
    """The rows of units of one remote folder; None where there are none. One file a task."""
    if not units:
        return None
    before = spark.conf.get(_PIECE_BYTES)
    spark.conf.set(_PIECE_BYTES, "1")
    try:
        files = spark.read.format("binaryFile").load([unit.files[0] for unit in units])
        files = files.select("path", "content")
        return files.mapInArrow(_decoder(units), struct_of(OPERATIONS))
    finally:
        spark.conf.set(_PIECE_BYTES, before)


def _decoder(units: list[Unit]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    of_names = {unit.files[0].rpartition("/")[2]: unit for unit in units}

    def decode(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            for place, content in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                name = unquote(place.rpartition("/")[2])
                yield from _of_bytes(of_names[name], name, content.as_buffer())

    return decode


def _of_bytes(unit: Unit, name: str, content: Any) -> Iterator[Any]:
    with TemporaryDirectory(prefix="zkgroup-") as place:
        path = Path(place, name)
        path.write_bytes(content)
        here = Unit(unit.ensemble, unit.stretch, (place,), (str(path),), unit.from_zxid, unit.to_zxid)
        at = [column.name for column in OPERATIONS].index("file")
        for batch in batches_of(here):
            yield batch.set_column(at, batch.schema.field(at), pa.array([unit.files[0]] * batch.num_rows))
