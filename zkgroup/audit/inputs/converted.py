"""Parquet that `audit run` wrote as a source of rows: no Spark, and the files may be gone.

The tables hold every operation and the state before the first, but no whole trees.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zkgroup.audit.inputs import manifest, stored_files
from zkgroup.audit.inputs.logs import Ends, with_ends
from zkgroup.audit.inputs.manifest import Converted, ConvertedLog, Manifest
from zkgroup.audit.inputs.rows import (
    AS_CODES,
    OPERATION_COLUMNS,
    ROWS,
    Columns,
    apart,
    behind,
    between,
    columns_of,
    columns_of_operations,
    columns_of_rows,
    in_order,
    inside,
    sorted_seeds,
)
from zkgroup.audit.inputs.source import (
    Covered,
    PointInTime,
    Progress,
    Rows,
    SeenTree,
    Source,
    quiet,
    standing_text,
    unlogged_part,
)
from zkgroup.audit.inputs.stored_files import OPERATIONS, SEEDS, StoredFile
from zkgroup.errors import ConfigError, NotFoundError
from zkgroup.zkfiles.dates import time_text
from zkgroup.zkfiles.tree import Tree
from zkgroup.zkfiles.zxids import hole_between


@dataclass(slots=True)
class StoredTables:
    """Holds what was converted of one ensemble. All methods raise ConfigError for Parquet that cannot be
    read."""

    folder: str
    ensemble: str
    converted: Converted
    source: stored_files.Source
    """Gives what pyarrow reads of a file."""
    content: Callable[[str], bytes]
    """Gives the content of a small file."""
    _batches: dict[int, list[StoredFile]] = field(default_factory=dict)

    def operations(self, logs: Sequence[ConvertedLog]) -> Columns:
        """The rows of some logs, by zxid and place."""
        table = self._read([file for log in logs for file in self._of_log(log)], OPERATION_COLUMNS, AS_CODES)
        return columns_of(()) if table is None else in_order(columns_of_operations(table))

    def times(self, of: ConvertedLog) -> list[tuple[int, int]]:
        """Zxid and time, in milliseconds, of the rows of one log."""
        table = self._read(self._of_log(of), ("zxid", "time"), ()).sort_by("zxid")
        times = table["time"].cast("int64").to_pylist()
        return [(zxid, time // 1000) for zxid, time in zip(table["zxid"].to_pylist(), times, strict=True)]

    def seeds(self) -> Columns:
        """Returns what stood before the first transaction."""
        batch = self.converted.seed_batch
        files = [] if batch is None else [each for each in self._of_batch(batch) if each.table == SEEDS]
        table = self._read(files, [column.name for column in ROWS], AS_CODES)
        return columns_of(()) if table is None else sorted_seeds(columns_of_rows(table))

    def _of_log(self, log: ConvertedLog) -> list[StoredFile]:
        found = [
            each
            for batch in log.batches
            for each in self._of_batch(batch)
            if each.table == OPERATIONS and each.log == log.start
        ]
        if not found:
            raise ConfigError(f"{self.folder}: expected the rows of log {log.start:x}, found none")
        return found

    def _of_batch(self, batch: int) -> list[StoredFile]:
        known = self._batches.get(batch)
        if known is None:
            name = stored_files.index_name(batch)
            files = stored_files.decoded(f"{self.folder}/{name}", self.content(name))
            known = self._batches[batch] = [each for each in files if each.ensemble == self.ensemble]
        return known

    def _read(self, files: Sequence[StoredFile], names: Sequence[str], codes: Sequence[str]) -> Any:
        return stored_files.read_files(files, self.source, names, codes)


def stored_tables(folder: Path, ensemble: str, converted: Converted) -> StoredTables:
    """Returns what was converted of one ensemble to a folder on a path."""
    return StoredTables(
        str(folder),
        ensemble,
        converted,
        lambda name: str(folder / name),
        lambda name: _content(folder / name),
    )


def read_manifest(folder: Path) -> Manifest:
    """The newest one of a folder. Raises ConfigError."""
    place = folder / manifest.FOLDER
    try:
        name = manifest.newest(each.name for each in place.iterdir())
    except OSError as error:
        raise ConfigError(f"{place}: cannot be read: {error.strerror or error}") from error
    if name is None:
        raise ConfigError(f"{place}: expected a manifest of converted logs, found none")
    return Manifest.decode(str(place / name), _content(place / name))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error


class ConvertedSource(Source):
    """One ensemble of a folder that `audit run` wrote."""

    def __init__(self, tables: StoredTables, chroot: str = "", progress: Progress = quiet) -> None:
        super().__init__(chroot, progress)
        self.tables = tables
        converted = tables.converted
        if not converted.is_exact:
            self._details[standing_text(converted.base_zxid, converted.detail)] = None

    @property
    def base_zxid(self) -> int:
        """The tree at this zxid is the first one that is known."""
        return self.tables.converted.base_zxid

    def tree(self, at: PointInTime | None = None) -> SeenTree:
        raise ConfigError(
            f"{self.tables.folder}: Parquet of `audit run` holds operations and no trees: name the folders "
            "of servers, or an export"
        )

    def rows(self, start: PointInTime | None = None, end: PointInTime | None = None) -> Rows:
        from_zxid, to_zxid = self.zxids(start, end)
        known = self.tables.converted
        hole = unlogged_part(known.unlogged, known.last_record, from_zxid, to_zxid, end)
        if hole is not None:
            self._holes[hole] = None
        marks = self._marks(from_zxid - 1) if from_zxid > self.base_zxid + 1 else ()
        before = max((self.base_zxid, *(mark.last_zxid for mark in marks)))

        def parts(rows_per_part: int, groups: Collection[str] | None = None) -> Iterator[Columns]:
            return self._parts(before, to_zxid)

        seen = SeenTree(Tree(digests=False), before, None, known.is_exact, False, known.detail)
        return Rows(parts, seen, to_zxid, self.progress)

    def zxid_at(self, time_ms: int) -> int:
        found = last_at(self._marks(None, time_ms), time_ms)
        if found is None:
            raise NotFoundError(f"{self.tables.folder}: no log goes back to {time_text(time_ms)}")
        return found

    def _covered(self) -> Covered:
        logs = list(self._logs(0, None))
        if not logs:
            return Covered(None, None, self.base_zxid, None)
        return Covered(*self.tables.times(logs[0])[0], *self.tables.times(logs[-1])[-1])

    def _marks(self, to_zxid: int | None, time_ms: int | None = None) -> Iterator[LogTimes]:
        """Of each log that has rows up to a zxid: its last transaction up to there, or up to a time."""
        for each in self._logs(0, to_zxid):
            times = [(zxid, ms) for zxid, ms in self.tables.times(each) if to_zxid is None or zxid <= to_zxid]
            if times:
                until = [zxid for zxid, ms in times if time_ms is None or ms <= time_ms]
                yield LogTimes(times[0][1], max(until, default=-1))

    def _columns(self, before: int, to_zxid: int | None) -> Columns:
        """The rows behind a transaction, up to another; what is missing up to there is noted."""
        whole = with_ends(list(self._logged(to_zxid)), self.tables.seeds())
        found = inside(behind(whole, before) if before > self.base_zxid else whole, self.chroot)
        self._note_chroot(is_empty=not any(found.paths))
        return found

    def _parts(self, before: int, to_zxid: int | None) -> Iterator[Columns]:
        """The same log by log. What stood later than the first tree, or in a chroot, is known of all rows."""
        if before > self.base_zxid or self.chroot:
            yield from apart(self._columns(before, to_zxid))
            return
        yield from map(Ends().added, chain([self.tables.seeds()], self._logged(to_zxid)))

    def _logged(self, to_zxid: int | None) -> Iterator[Columns]:
        """The rows of each log up to a transaction; zxids that are missing are noted."""
        last, rows = self.base_zxid, 0
        for each in self._logs(self.base_zxid + 1, to_zxid):
            self.progress("reading operations", rows or None)
            logged = between(self.tables.operations([each]), self.base_zxid, to_zxid)
            zxids = np.concatenate(([last], logged.zxid))
            for place in np.flatnonzero(np.diff(zxids) > 1).tolist():
                hole = hole_between(int(zxids[place]), int(zxids[place + 1]))
                if hole is not None:
                    self._holes[hole] = None
            last, rows = int(zxids[-1]), rows + len(logged)
            yield logged

    def _logs(self, from_zxid: int, to_zxid: int | None) -> Iterator[ConvertedLog]:
        """The logs that have rows of this part of the history, in order."""
        for each in self.tables.converted.logs:
            if each.rows and each.last_zxid >= from_zxid and (to_zxid is None or each.start <= to_zxid):
                yield each


class LogTimes(NamedTuple):
    """Holds what the transactions of one log say about time."""

    first_ms: int
    """Of the first one."""
    last_zxid: int
    """The last one that is asked for; -1 for none."""


def last_at(marks: Iterable[LogTimes], time_ms: int) -> int | None:
    """The last transaction at or before a time: of the last log that begins by then."""
    found = None
    for mark in marks:
        if mark.first_ms > time_ms:
            break
        found = mark.last_zxid
    return found


def open_converted(
    folder: Path, ensemble: str | None, chroot: str = "", progress: Progress = quiet
) -> ConvertedSource:
    """One ensemble, by its name where there are several.

    Raises ConfigError where the folder cannot be read, or the name is none or missing.
    """
    known = read_manifest(folder)
    name = known.named(str(folder), ensemble)
    return ConvertedSource(stored_tables(folder, name, known.ensembles[name]), chroot, progress)
