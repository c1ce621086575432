"""Parquet that `audit run` wrote: its files, and an ensemble in it as a source of rows.

It needs no Spark, and not ZooKeeper's files. The tables hold every operation and the state before the
first, but no whole trees.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, takewhile
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zkgroup.audit.inputs import rows, source
from zkgroup.audit.inputs.logs import Ends, with_ends
from zkgroup.audit.inputs.manifest import OPERATIONS, ConvertedLog, OutputFolder, StoredFile
from zkgroup.audit.inputs.rows import Columns, Numbers
from zkgroup.errors import ConfigError, NotFoundError
from zkgroup.model.text import time_text
from zkgroup.zkfiles.agreement import holes_in
from zkgroup.zkfiles.tree import Tree

_AS_CODES: Final = ("op", "path", "parent", "ephemeral", "file", "acl")
_IN_ORDER: Final = ("zxid", "time", "time_ms", "log")
"""Readers skip files by the bounds of these columns; bounds of all would take a third of the writing."""

OpenFile = Callable[[str], Any]
"""Returns the path of a file or its content, by its name, as pyarrow reads both."""


class ConvertedSource(source.Source):
    """One ensemble of a folder that `audit run` wrote."""

    def __init__(
        self, output: OutputFolder, ensemble: str, chroot: str = "", progress: source.Progress = source.quiet
    ) -> None:
        super().__init__(chroot, progress)
        self.output, self.ensemble = output, ensemble
        self.converted = output.ensembles[ensemble]
        self.base_zxid = self.converted.base_zxid
        """The zxid of the first tree that is known."""
        if not self.converted.is_exact:
            self._details[source.standing_text(self.base_zxid, self.converted.detail)] = None

    @property
    def logged(self) -> tuple[int, int, int]:
        first = self.converted.first_zxid
        return first, first, self.converted.last_record or 0

    def tree(self, at: source.PointInTime | None = None) -> source.SeenTree:
        raise ConfigError(
            f"{self.output.folder.place}: Parquet of `audit run` holds operations and no trees: name the "
            "folders of servers, or an export"
        )

    def rows(
        self, start: source.PointInTime | None = None, end: source.PointInTime | None = None
    ) -> source.Rows:
        from_zxid, to_zxid = zxids = self.zxids(start, end)
        self.note_unlogged(self.converted, zxids, end)
        before = max(self.base_zxid, self._last_before(from_zxid))

        def parts(rows_per_part: int, groups: Collection[str] | None = None) -> Iterator[Columns]:
            return self._parts(before, to_zxid)

        is_exact, detail = self.converted.is_exact, self.converted.detail
        seen = source.SeenTree(Tree(digests=False), before, None, is_exact, False, detail)
        return source.Rows(parts, seen, to_zxid, self.progress)

    def zxid_at(self, time_ms: int) -> int:
        begun = list(takewhile(lambda log: log.first_ms <= time_ms, self._logs(0, None)))
        if not begun:
            raise NotFoundError(f"{self.output.folder.place}: no log goes back to {time_text(time_ms)}")
        zxids, times = self._times(begun[-1])
        return int(zxids[times <= time_ms].max(initial=-1))

    @property
    def last_ms(self) -> int | None:
        """The time of the last record; None where there is none."""
        return self._covered().last_ms

    def _covered(self) -> source.Covered:
        logs = list(self._logs(0, None))
        if not logs:
            return source.Covered(None, None, self.base_zxid, None)
        (zxids, times), (last_zxids, last_times) = self._times(logs[0]), self._times(logs[-1])
        return source.Covered(int(zxids[0]), int(times[0]), int(last_zxids[-1]), int(last_times[-1]))

    def _last_before(self, zxid: int) -> int:
        """The last transaction before a zxid; -1 for none."""
        for log in reversed(list(self._logs(0, zxid - 1))):
            zxids, _ = self._times(log)
            if zxids[0] < zxid:
                return int(zxids[zxids < zxid][-1])
        return -1

    def _times(self, log: ConvertedLog) -> tuple[Numbers, Numbers]:
        table = table_in(self._files_of(log), self.output.folder.source, ("zxid", "time")).sort_by("zxid")
        return table["zxid"].to_numpy(), table["time"].cast("int64").to_numpy() // 1000

    def _files_of(self, log: ConvertedLog) -> list[StoredFile]:
        found = [each for each in self.output.files(OPERATIONS, self.ensemble) if each.log == log.start]
        if not found:
            raise ConfigError(
                f"{self.output.folder.place}: expected the rows of log {log.start:x}, found none"
            )
        return found

    def _seeds(self) -> Columns:
        files = self.output.seeds(self.ensemble, self.base_zxid)
        return rows.sorted_seeds(rows_in(files, self.output.folder.source))

    def _parts(self, before: int, to_zxid: int | None) -> Iterator[Columns]:
        """The rows behind one transaction up to another, log by log; zxids that are missing are noted.

        A tree later than the first one, or in a chroot, is made from all rows before it.
        """
        if before == self.base_zxid and not self.chroot:
            yield from map(Ends().added, chain([self._seeds()], self._logged(to_zxid)))
            return
        whole = with_ends(self._logged(to_zxid), self._seeds())
        found = rows.inside(rows.behind(whole, before) if before > self.base_zxid else whole, self.chroot)
        self._note_chroot(is_empty=not any(found.paths))
        yield from rows.apart(found)

    def _logged(self, to_zxid: int | None) -> Iterator[Columns]:
        """Yields the rows of each log up to a transaction, and notes zxids that are missing."""
        last, count = self.base_zxid, 0
        for each in self._logs(self.base_zxid + 1, to_zxid):
            self.progress("reading operations", count or None)
            files = self._files_of(each)
            logged = rows.in_order(operations_in(files, self.output.folder.source, self.base_zxid, to_zxid))
            self._holes |= dict.fromkeys(holes_in(last, np.unique(logged.zxid)))
            last, count = int(logged.zxid.max(initial=last)), count + len(logged)
            yield logged

    def _logs(self, from_zxid: int, to_zxid: int | None) -> Iterator[ConvertedLog]:
        """The logs that have rows of this part of the history, in order."""
        for each in self.converted.logs:
            if each.batches and each.last_zxid >= from_zxid and (to_zxid is None or each.start <= to_zxid):
                yield each


def operations_in(
    files: Iterable[StoredFile], source: OpenFile, after_zxid: int, to_zxid: int | None
) -> Columns:
    """The operations behind one zxid up to another, in the order of the files. Raises as `table_in`."""
    table = table_in(files, source, rows.OPERATION_COLUMNS, rows.AS_CODES)
    if table is None:
        return rows.columns_of(())
    return rows.between(rows.columns_of_operations(table), after_zxid, to_zxid)


def rows_in(files: Iterable[StoredFile], source: OpenFile) -> Columns:
    """The rows of the audit, in the order of the files. Raises as `table_in`."""
    table = table_in(files, source, [column.name for column in rows.ROWS], rows.AS_CODES)
    return rows.columns_of(()) if table is None else rows.columns_of_rows(table)


def table_in(
    files: Iterable[StoredFile], source: OpenFile, names: Sequence[str], codes: Sequence[str] = ()
) -> Any:
    """The rows of files one behind the other, as a pyarrow.Table; None for no file.

    Args:
        names: the columns that are read.
        codes: the columns that come as codes of their different values.

    Raises ConfigError for a file that is not there, or is no Parquet of zkgroup.
    """
    tables = []
    for each in files:
        place = each.name
        try:
            opened = source(each.name)
            place = opened if isinstance(opened, str) else place
            with pq.ParquetFile(opened, read_dictionary=list(codes)) as file:
                tables.append(file.read(columns=list(names), use_threads=False))
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            found = "nothing" if isinstance(error, FileNotFoundError) else f"another file ({error})"
            raise ConfigError(
                f"{place}: expected Parquet that `audit run` wrote, found {found}; convert the folders again,"
                " into another output"
            ) from error
    return pa.concat_tables(tables) if tables else None


def parquet_of(table: Any) -> pa.Buffer:
    """The content of a file for a pyarrow.Table."""
    stream = pa.BufferOutputStream()
    coded, bounded = (
        [name for name in table.column_names if name in some] for some in (_AS_CODES, _IN_ORDER)
    )
    pq.write_table(table, stream, use_dictionary=coded, write_statistics=bounded, store_schema=False)
    return stream.getvalue()
