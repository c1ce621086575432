"""An output folder of `audit run`: its manifest and its Parquet, and how tasks get at them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from zkgroup.audit.inputs import manifest, stored_files
from zkgroup.audit.inputs.buckets import names_of
from zkgroup.audit.inputs.manifest import Converted, Manifest, StoredState
from zkgroup.audit.inputs.stored_files import FACTS, OPERATIONS, SEEDS, STATES, Source, StoredFile
from zkgroup.audit.spark.folding import BucketRows, ZxidRange
from zkgroup.audit.spark.session import is_uri
from zkgroup.audit.spark.storage import FolderStorage, TaskFile, TaskOutput, storage_of

_Result = TypeVar("_Result")
_Shared = TypeVar("_Shared")


class Tables:
    """A folder that was converted to, or will be; `manifest` says what counts in it."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        """Raises ConfigError for a place that Spark cannot read, and a manifest that is none."""
        self._spark = spark
        self.storage = storage_of(spark, place)
        self.manifest = _read(self.storage)
        self._batches: dict[int, list[StoredFile]] = {}

    @property
    def is_local(self) -> bool:
        """True if every task opens the files by their paths."""
        return not is_uri(self.storage.place)

    @property
    def output(self) -> TaskOutput:
        """Returns what tasks write to."""
        return TaskOutput(self.storage.place if self.is_local else None)

    def source(self, name: str) -> Any:
        """Returns what pyarrow reads of a file, on the driver."""
        if self.is_local:
            return str(Path(self.storage.place, name))
        return pa.BufferReader(self.storage.read(name))

    def enter(self, ensembles: Mapping[str, Converted], written: Iterable[TaskFile] = ()) -> None:
        """Makes this the state of the folder, with the files of a batch; manifests before the last one go."""
        number = self.manifest.number + 1
        files = [each.file for each in written]
        self.storage.write(stored_files.index_name(number), stored_files.encoded(files))
        self.manifest = Manifest(number, dict(ensembles))
        self.storage.write(f"{manifest.FOLDER}/{manifest.name_of(number)}", self.manifest.encode())
        self.storage.delete(f"{manifest.FOLDER}/{manifest.name_of(number - 2)}")

    def placed(self, written: TaskFile) -> TaskFile:
        """A file that is in its place, also where a task could not put it there."""
        if written.content is not None:
            self.storage.write(written.file.name, written.content)
        return TaskFile(written.file, None)

    def clear(self, number: int) -> None:
        """Deletes what a job that was killed left of a batch."""
        for table in (OPERATIONS, FACTS, SEEDS, STATES):
            self.storage.delete(f"{table}/batch={number}")

    def files(self, table: str, ensemble: str) -> list[StoredFile]:
        """All files of a table, by log."""
        known = self.manifest.ensembles[ensemble]
        batches = {
            OPERATIONS: known.batches,
            FACTS: known.batches,
            SEEDS: () if known.seed_batch is None else (known.seed_batch,),
            STATES: tuple(state.batch for state in known.states),
        }[table]
        found = [
            each
            for batch in batches
            for each in self._of_batch(batch)
            if each.table == table and each.ensemble == ensemble and (table != FACTS or each.log >= 0)
        ]
        return sorted(found, key=lambda each: (each.log, each.first_zxid, each.name))

    def seed_facts(self, ensemble: str) -> list[StoredFile]:
        """The rows of facts among the seeds."""
        batch = self.manifest.ensembles[ensemble].seed_batch
        if batch is None:
            return []
        return [
            each
            for each in self._of_batch(batch)
            if each.table == FACTS and each.ensemble == ensemble and each.log < 0
        ]

    def rows(self, ensemble: str, part: ZxidRange, buckets: Sequence[str] | None = None) -> list[BucketRows]:
        """Returns where the rows of each bucket are."""
        known, state = self.manifest.ensembles[ensemble], self._state(ensemble, part)
        zxid = known.base_zxid if state is None else state.zxid
        seeds = self.files(SEEDS, ensemble) if state is None else self._states(ensemble, state.batch)
        operations = [each for each in self.files(OPERATIONS, ensemble) if each.has_any(zxid, part.to_zxid)]
        return [
            BucketRows(
                ensemble,
                bucket,
                tuple(each for each in seeds if each.bucket == bucket),
                zxid,
                tuple(each for each in operations if each.bucket == bucket),
                part,
            )
            for bucket in buckets or names_of(known.buckets)
        ]

    def together(self, ensemble: str, part: ZxidRange, buckets: Sequence[str] | None = None) -> BucketRows:
        """Returns where the rows of several buckets are, as those of one."""
        rows = self.rows(ensemble, part, buckets)
        return replace(
            rows[0],
            bucket="",
            seeds=tuple(file for each in rows for file in each.seeds),
            operations=tuple(file for each in rows for file in each.operations),
        )

    def map(self, rows: Sequence[BucketRows], do: Callable[[BucketRows, Source], _Result]) -> list[_Result]:
        """Returns what `do` gives of the rows of each bucket, in a task each; the longest task begins
        first."""
        context = self._spark.sparkContext
        if not rows:
            return []
        places = sorted(range(len(rows)), key=lambda place: rows[place].cost, reverse=True)
        ordered = [rows[place] for place in places]
        if self.is_local:
            folder = self.storage.place
            tasks = context.parallelize(ordered, len(ordered))
            found = tasks.map(lambda each: do(each, lambda name: f"{folder}/{name}")).collect()
        else:
            found = context.union([self._with_contents(each, do) for each in ordered]).collect()
        by_place: dict[int, _Result] = dict(zip(places, found, strict=True))
        return [by_place[place] for place in range(len(rows))]

    def shared(self, value: _Shared) -> Any:
        """A value that each worker gets once; its `value` is what was given."""
        return self._spark.sparkContext.broadcast(value)

    def _with_contents(self, rows: BucketRows, do: Callable[[BucketRows, Source], _Result]) -> Any:
        """One task to which Spark brings the contents of the files."""
        context = self._spark.sparkContext
        names = [each.name for each in rows.files]
        if not names:
            return context.parallelize([rows], 1).map(lambda each: do(each, str))

        def run(contents: Iterable[tuple[str, bytes]]) -> Iterable[_Result]:
            known = {}
            for path, content in contents:
                known[next(name for name in names if path.endswith(name))] = content
            yield do(rows, lambda name: pa.BufferReader(known[name]))

        places = ",".join(self.storage.path(name) for name in names)
        return context.binaryFiles(places).coalesce(1).mapPartitions(run)

    def stored_zxid(self, ensemble: str, part: ZxidRange) -> int:
        """The zxid of the last stored state at or before a part."""
        state = self._state(ensemble, part)
        return self.manifest.ensembles[ensemble].base_zxid if state is None else state.zxid

    def _state(self, ensemble: str, part: ZxidRange) -> StoredState | None:
        states = self.manifest.ensembles[ensemble].states
        before = [each for each in states if each.zxid <= part.after_zxid]
        return max(before, key=lambda each: each.zxid, default=None)

    def _states(self, ensemble: str, batch: int) -> list[StoredFile]:
        return [each for each in self._of_batch(batch) if each.table == STATES and each.ensemble == ensemble]

    def _of_batch(self, batch: int) -> list[StoredFile]:
        known = self._batches.get(batch)
        if known is None:
            name = stored_files.index_name(batch)
            known = self._batches[batch] = stored_files.decoded(
                self.storage.path(name), self.storage.read(name)
            )
        return known


def is_converted(storage: FolderStorage) -> bool:
    """Returns whether a folder is one that `conversion` wrote to."""
    return manifest.newest(file.name for file in storage.files(manifest.FOLDER)) is not None


def _read(storage: FolderStorage) -> Manifest:
    name = manifest.newest(file.name for file in storage.files(manifest.FOLDER))
    if name is None:
        return Manifest()
    file = f"{manifest.FOLDER}/{name}"
    return Manifest.decode(storage.path(file), storage.read(file))
