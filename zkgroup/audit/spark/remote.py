"""Folders behind a Hadoop URI: Spark reads whole files, the same decoder makes rows of them.

Python workers have no Hadoop client, so the JVM brings the bytes; each log is one task and in memory there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from zkgroup.audit.folders import Folders
from zkgroup.audit.source import Rows
from zkgroup.audit.spark.decoding import Decoded, RowLayout, decode
from zkgroup.audit.spark.outputs import TaskOutput
from zkgroup.audit.spark.storage import FolderStorage
from zkgroup.audit.spark.units import ListedLog, Unit, logs_of_servers
from zkgroup.errors import NotZooKeeperFileError
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.names import DATA_FOLDER, LOG, SNAPSHOT, ServerFile


class RemoteFolder:
    """The `version-2` of one server, or the folder above."""

    def __init__(self, storage: FolderStorage) -> None:
        self._storage = storage

    def listed(self) -> list[ListedLog]:
        """Its logs. Raises NotZooKeeperFileError where there is none, and no snapshot."""
        prefix, files = self._files()
        logs = [(file, size) for file, size in files if file.kind == LOG]
        found = logs_of_servers([logs])
        return [
            replace(each, files=(self._storage.path(prefix + Path(each.files[0]).name),)) for each in found
        ]

    def newest_snapshot(self) -> int:
        """The zxid in its name; 0 where there is none."""
        _, files = self._files()
        return max((file.zxid for file, _ in files if file.kind == SNAPSHOT), default=0)

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
    """The logs that can have records behind one zxid, up to another."""
    ends = [*(log.zxid for log in logs[1:]), None]
    return [
        log
        for log, end in zip(logs, ends, strict=True)
        if (end is None or end > from_zxid) and (to_zxid is None or log.zxid <= to_zxid)
    ]


def decoded_of(
    spark: SparkSession, units: Sequence[tuple[Unit, RowLayout]], output: TaskOutput
) -> list[Decoded]:
    """What tasks make of logs behind URIs, one a task: Spark brings the content."""
    context = spark.sparkContext
    tasks = [
        context.binaryFiles(unit.files[0], 1).map(partial(_of_content, unit, layout, output))
        for unit, layout in units
    ]
    return context.union(tasks).collect() if tasks else []


def _of_content(unit: Unit, layout: RowLayout, output: TaskOutput, named: tuple[str, bytes]) -> Decoded:
    (file,) = unit.files
    with TemporaryDirectory(prefix="zkgroup-") as place:
        path = Path(place, file.rpartition("/")[2])
        path.write_bytes(named[1])
        here = replace(unit, folders=(place,), files=(str(path),), start_offset=None)
        return decode(here, layout, output, file)
