"""Says what is converted in one task: the records of one ensemble from one log's name to the next.

A server alone has its logs one a task. Of several servers the same records of all are read together, since
which record counts is decided between them (`zkfiles.agreement`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from zkgroup.errors import DamagedFileError, NotZooKeeperFileError
from zkgroup.zkfiles.agreement import pieces
from zkgroup.zkfiles.arrow import record_batch, schema
from zkgroup.zkfiles.columns import Wanted, log_columns
from zkgroup.zkfiles.history import History
from zkgroup.zkfiles.names import ServerFile, list_files
from zkgroup.zkfiles.schemas import LOG, Column

LAST: Final = (1 << 63) - 1

OPERATIONS: Final[tuple[Column, ...]] = (
    *LOG,
    Column("log", "long", False, "The zxid in the name of the log that has the record."),
)
"""Holds what is stored, beside what Parquet is partitioned by."""


@dataclass(frozen=True)
class Unit:
    """One task: the records from one zxid to another, both included."""

    ensemble: str
    log: int
    """The zxid in the name of the log."""
    folders: tuple[str, ...]
    files: tuple[str, ...]
    """The log, of each server that has it."""
    from_zxid: int
    to_zxid: int
    start_offset: int | None = None
    """Of a record at or before `from_zxid`, in the only file."""


def batches_of(unit: Unit) -> Iterator[Any]:
    """The rows of a unit as pyarrow.RecordBatches of OPERATIONS.

    What is damaged is passed over, as the laptop does; the files' health is told by `History`.
    """
    batches = _of_one_file(unit) if len(unit.folders) == 1 else _of_servers(unit)
    return (_with_log(batch, unit.log) for batch in batches)


def _with_log(batch: Any, log: int) -> Any:
    """A batch of LOG with the log that it is from."""
    logs = pa.repeat(pa.scalar(log, pa.int64()), batch.num_rows)
    return pa.RecordBatch.from_arrays([*batch.columns, logs], schema=schema(OPERATIONS))


def _of_one_file(unit: Unit) -> Iterator[Any]:
    (file,) = unit.files
    batches = log_columns(
        Path(file),
        from_zxid=unit.from_zxid,
        to_zxid=unit.to_zxid,
        start_offset=unit.start_offset,
        resync=True,
    )
    try:
        for batch in batches:
            yield record_batch(batch)
    except DamagedFileError:
        return
    except NotZooKeeperFileError as error:
        if error.__cause__ is not None:
            raise


def _of_servers(unit: Unit) -> Iterator[Any]:
    wanted = Wanted(LOG, ", ".join(unit.files))
    for piece in pieces(History(*unit.folders).ensemble, unit.from_zxid, unit.to_zxid):
        yield from map(record_batch, piece.batches(wanted))


@dataclass(frozen=True, slots=True)
class ListedLog:
    """A log as the folders have it now; of several servers all logs from one name to the next."""

    start: int
    end: int
    files: tuple[str, ...]
    sizes: tuple[int, ...]
    is_closed: bool


def listed(folders: tuple[Path, ...]) -> list[ListedLog]:
    """The logs of an ensemble, by their names. Raises NotZooKeeperFileError."""
    of_servers = [list_files(folder).logs for folder in folders]
    return logs_of_servers([[(log, log.path.stat().st_size) for log in logs] for logs in of_servers])


def logs_of_servers(servers: list[list[tuple[ServerFile, int]]]) -> list[ListedLog]:
    """Returns what is between the names of all logs; each log comes with its size."""
    starts = sorted({log.zxid for logs in servers for log, _ in logs})
    found = []
    for start, following in pairwise([*starts, None]):
        assert start is not None
        newest = [max((each for each in logs if each[0].zxid <= start), default=None) for logs in servers]
        there = [each for each in newest if each is not None]
        found.append(
            ListedLog(
                start,
                LAST if following is None else following - 1,
                tuple(str(log.path) for log, _ in there),
                tuple(size for _, size in there),
                following is not None,
            )
        )
    return found
