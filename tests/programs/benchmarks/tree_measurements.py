"""The cost of the tree at a zxid, from a folder with many logs and snapshots: CPU, bytes read, files opened.

The digests in the logs are random numbers (`zookeeper_files`); they are compared as usual, and none matches.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.programs.benchmarks.report import Line, Plan, Report, median, spread
from tests.programs.benchmarks.zookeeper_files import FIRST_MS, FIRST_ZXID, write_log, write_snapshot
from tests.worlds.zkfiles_tables import counted_reads
from zkgroup.zkfiles.files import PIECE_BYTES
from zkgroup.zkfiles.history import History

ZNODES = 34_122
"""All that the records write to."""
MEGABYTE = 1_000_000
NEEDED = "a snapshot, the log behind it up to the zxid, and at the end the newest log for what is certain"


class _Folder(NamedTuple):
    path: Path
    bytes: int
    """Of snapshots and records; the zeros that logs end with are not counted."""
    bound: int
    """Bytes of the largest snapshot, twice those of the largest log, and some pieces that were begun."""


class _Run(NamedTuple):
    seconds: float
    cpu_s: float
    applied: int
    read: dict[str, int]
    """Bytes by file."""

    @property
    def megabytes(self) -> float:
        return sum(self.read.values()) / MEGABYTE


def tree_at(plan: Plan, report: Report) -> None:
    """The trees at three zxids and a time; a snapshot precedes each log, as servers take them."""
    records, logs = (20_000, 10) if plan.short else (10_000_000, 100)
    with tempfile.TemporaryDirectory(prefix="zkgroup-tree-at-") as name:
        folder = _written(Path(name), records, logs)
        for number in (0, logs // 2, logs - 1):
            zxid = FIRST_ZXID + (2 * number + 1) * records // (2 * logs)
            runs = [_measured(folder, zxid) for _ in range(plan.repeats)]
            what = f"tree within log {number + 1} of {logs}, {records} records"
            report.lines.append(_line(what, folder, runs))
            report.at_most(f"{what}: files opened of {2 * logs}", 2, len(runs[0].read), "files", NEEDED)
            most = round(folder.bound / MEGABYTE, 1)
            report.at_most(f"{what}: bytes read", most, runs[0].megabytes, "MB", NEEDED)
        zxid = FIRST_ZXID + records // 2 + 1
        time_ms = FIRST_MS + (zxid - FIRST_ZXID) // 3
        runs = [_measured(folder, zxid, time_ms) for _ in range(plan.repeats)]
        report.lines.append(_line(f"tree at a time half-way through {records} records", folder, runs))


def _written(path: Path, records: int, logs: int) -> _Folder:
    of_one = records // logs
    snapshots, written = [], []
    for number in range(logs):
        first = FIRST_ZXID + number * of_one
        snapshot = write_snapshot(path / f"snapshot.{first - 1:x}", ZNODES, end_zxid=first - 1)
        log = write_log(path / f"log.{first:x}", of_one, seed=number, first_zxid=first)
        snapshots.append(snapshot.stat().st_size)
        written.append(log.stat().st_blocks * 512)
    return _Folder(path, sum(snapshots) + sum(written), max(snapshots) + 2 * max(written) + 3 * PIECE_BYTES)


def _measured(folder: _Folder, zxid: int, time_ms: int | None = None) -> _Run:
    with counted_reads() as read:
        began, cpu = time.perf_counter(), time.process_time()
        history = History(folder.path)
        past = history.tree_at(zxid=zxid) if time_ms is None else history.tree_at(time_ms=time_ms)
        run = _Run(time.perf_counter() - began, time.process_time() - cpu, past.account.applied, dict(read))
    # Three records share a millisecond, and the last of them is meant.
    assert 0 <= past.account.zxid - zxid <= (0 if time_ms is None else 2)
    assert past.account.is_whole
    assert len(past.tree) >= ZNODES // 2
    return run


def _line(what: str, folder: _Folder, runs: list[_Run]) -> Line:
    first = runs[0]
    return Line(
        what,
        "zkgroup",
        seconds=median(run.seconds for run in runs),
        spread_s=spread([run.seconds for run in runs]),
        client_cpu_s=median(run.cpu_s for run in runs),
        runs=len(runs),
        note=f"{first.applied} records replayed; read {first.megabytes:.1f} of "
        f"{folder.bytes / MEGABYTE:,.0f} MB, in {len(first.read)} files",
    )
