"""The cost of reading ZooKeeper's files into columns, beside ZooKeeper's own tools and its own parser.

CPU time counts, for it is steady on a shared machine, and ratios are those of one run. The tools are slow for
reasons of their own: the reader of logs has no buffer, and they format text and print it. So they are
compared by operation, without the start of their JVM, on files that are small enough for them.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from tests.long.interop.jars import compiled
from tests.programs.benchmarks.report import Line, Plan, Report, median, spread
from tests.programs.benchmarks.zookeeper_files import write_log, write_snapshot
from zkgroup.zkfiles.columns import log_columns
from zkgroup.zookeeper.embedded.java import find_jars, find_java

TOOL = "org.apache.zookeeper.server.persistence.TxnLogToolkit"
FORMATTER = "org.apache.zookeeper.server.SnapshotFormatter"
WARM_UP = 4
"""Readings of the parser that are its JIT's."""
TIMEOUT_S = 600
KERNEL_ARROW, KERNEL = "Arrow, by the kernel", "columns, by the kernel"
ARROW, PACKED, LISTS = "Arrow, by numpy", "columns, by numpy", "columns, plain Python"
_WAYS = {KERNEL_ARROW: "arrow", KERNEL: "packed", ARROW: "arrow", PACKED: "packed", LISTS: "lists"}
VALUES = "CPU: the decoding of each record in Python, and a value for each column"
COPIES = "CPU: half of it is Arrow's, which copies texts"
LINES = "CPU: passes over all bytes, some 40 indexings and, for Arrow, the copying of texts"
IS_BUILT = find_spec("zkgroup.zkfiles.kernel") is not None
CALLS_OF_LOGS = {**({KERNEL_ARROW: 0.5, KERNEL: 0.5} if IS_BUILT else {}), LISTS: 52.0}
"""Of a row, at most, in each way that is here."""
CALLS_OF_SNAPSHOTS = {ARROW: 0.5, PACKED: 0.5}
WANTED_OF_PARSER = {KERNEL_ARROW: 0.4, KERNEL: 1.0}
"""Times the speed of ZooKeeper's own classes."""
WANTED_OF_TOOL = {KERNEL_ARROW: 15, KERNEL: 15, LISTS: 4}


class Reading(NamedTuple):
    """The cost of reading a file by one side."""

    rows: int
    cpu_s: list[float]
    seconds: list[float]
    peak_mb: int | None = None
    calls: int | None = None

    @property
    def cost_s(self) -> float:
        """CPU seconds of one row."""
        return (median(self.cpu_s) or 0.0) / self.rows

    @property
    def calls_a_row(self) -> float:
        assert self.calls is not None
        return self.calls / self.rows

    def line(self, what: str, side: str) -> Line:
        peak = "" if self.peak_mb is None else f", {self.peak_mb} MiB at most"
        return Line(
            f"{what}, {self.rows} rows",
            side,
            seconds=median(self.seconds),
            spread_s=spread(self.seconds),
            client_cpu_s=median(self.cpu_s),
            runs=len(self.cpu_s),
            note=f"{1 / self.cost_s:,.0f} rows for a second of CPU{peak}",
        )


def ours(kind: str, path: Path, side: str, repeats: int) -> Reading:
    """Reads a file with zkgroup, in a process of its own."""
    way = _WAYS[side]
    found = _json(
        [sys.executable, "-m", "tests.programs.benchmarks.read_files", kind, str(path), way, str(repeats)],
        {"ZKGROUP_KERNEL": "on" if side in (KERNEL_ARROW, KERNEL) else "off"},
    )
    return Reading(found["rows"], found["cpu_s"], found["seconds"], found["peak_mb"], found["calls"])


def parser(path: Path, repeats: int) -> Reading:
    """Reads a file with ZooKeeper's classes behind a buffer, once compiled. CPU of the reading thread."""
    classpath = os.pathsep.join(map(str, find_jars()))
    classes = compiled(Path(__file__).with_name("LogParser.java"), classpath)
    command = [find_java(), "-XX:+UseSerialGC", "-cp", f"{classes}{os.pathsep}{classpath}", "LogParser"]
    found = _json([*command, str(path), str(WARM_UP + repeats)])
    return Reading(found["operations"], found["cpu_s"][WARM_UP:], found["seconds"][WARM_UP:])


def tool(main: str, path: Path, nearly_empty: Path, rows: int, repeats: int) -> Reading:
    """Runs one of ZooKeeper's commands without its output; the cost of a nearly empty file is subtracted."""
    starts = [_run(main, nearly_empty) for _ in range(repeats)]
    start_cpu, start_s = (median(each[part] for each in starts) or 0.0 for part in (0, 1))
    runs = [_run(main, path) for _ in range(repeats)]
    return Reading(rows, [cpu - start_cpu for cpu, _ in runs], [seconds - start_s for _, seconds in runs])


def _run(main: str, path: Path) -> tuple[float, float]:
    classpath = os.pathsep.join(map(str, find_jars()))
    before, began = _children_cpu(), time.perf_counter()
    command = [find_java(), "-XX:+UseSerialGC", "-cp", classpath, main, "-d", str(path)]
    done = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]
    return _children_cpu() - before, time.perf_counter() - began


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _json(command: Sequence[str], variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    done = subprocess.run(
        command,
        env=os.environ | (variables or {}),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-500:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def files(plan: Plan, report: Report) -> None:
    """Reads logs and a snapshot of 3.9 into columns."""
    with tempfile.TemporaryDirectory(prefix="zkgroup-files-") as folder:
        _logs(plan, report, Path(folder))
        _snapshots(plan, report, Path(folder))


def _logs(plan: Plan, report: Report, folder: Path) -> None:
    records, few = (8_000, 1_000) if plan.short else (300_000, 30_000)
    singles = write_log(folder / "log.100000001", records)
    multis = write_log(folder / "log.200000001", records // 200, multi_of=200)
    small, empty = write_log(folder / "log.300000001", few), write_log(folder / "log.400000001", 1)
    for path, what in ((singles, "log of single operations"), (multis, "log of multis of 200")):
        readings = {side: ours("log", path, side, plan.repeats) for side in CALLS_OF_LOGS}
        java = parser(path, plan.repeats)
        report.lines += [reading.line(what, side) for side, reading in readings.items()]
        report.lines.append(java.line(what, "ZooKeeper's parser"))
        for side, reading in readings.items():
            report.at_most(f"{what}: {side}, of a row", CALLS_OF_LOGS[side], reading.calls_a_row, "calls")
        for side in [side for side in CALLS_OF_LOGS if side in WANTED_OF_PARSER]:
            found = java.cost_s / readings[side].cost_s
            report.at_least(f"{what}: {side}, over ZooKeeper's parser", WANTED_OF_PARSER[side], found, COPIES)
        if path is singles:
            rows = sum(batch.rows for batch in log_columns(small))
            dump = tool(TOOL, small, empty, rows, 1 if plan.short else plan.repeats)
            report.lines.append(dump.line(what, "TxnLogToolkit -d"))
            for side, reading in readings.items():
                found, limit = dump.cost_s / reading.cost_s, VALUES if side == LISTS else COPIES
                report.at_least(f"{what}: {side}, over TxnLogToolkit", WANTED_OF_TOOL[side], found, limit)


def _snapshots(plan: Plan, report: Report, folder: Path) -> None:
    znodes, few = (8_000, 1_000) if plan.short else (1_000_000, 100_000)
    large = write_snapshot(folder / "snapshot.100000001", znodes)
    small = write_snapshot(folder / "snapshot.200000001", few)
    empty = write_snapshot(folder / "snapshot.300000001", 1)
    formatter = tool(FORMATTER, small, empty, few, 1 if plan.short else plan.repeats)
    report.lines.append(formatter.line("snapshot", "SnapshotFormatter -d"))
    for side in (ARROW, PACKED):
        reading = ours("snapshot", large, side, plan.repeats)
        report.lines.append(reading.line("snapshot", side))
        report.at_most(f"snapshot: {side}, of a row", CALLS_OF_SNAPSHOTS[side], reading.calls_a_row, "calls")
        found = formatter.cost_s / reading.cost_s
        report.at_least(f"snapshot: {side}, over SnapshotFormatter", 15, found, LINES)
        report.at_most(f"snapshot of {znodes} znodes: {side}", 60, median(reading.seconds) or 0.0, "s", LINES)
