"""The cost of reading tree snapshots over time, as every command of the audit does.

Snapshots of servers, and exports of which few znodes or nearly all changed. CPU of one znode of one snapshot
counts, in a process of its own, and its memory.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Final

from tests.programs.benchmarks.calls import calls_of
from tests.programs.benchmarks.report import Line, Plan, Report, median, spread
from tests.programs.benchmarks.series_files import write_series
from tests.worlds.history_files import PlayedSpark
from zkgroup.audit.inputs.opening import open_source

MOST: Final = {
    ("snapshots", 0.05): (2.0, 1),
    ("snapshots", 0.9): (2.0, 1),
    ("exports", 0.05): (4.0, 16),
    ("exports", 0.9): (12.0, 46),
}
"""Microseconds of CPU and calls, by the kind of files and the share of znodes that changed."""
MOST_MB: Final = 500
ZNODES: Final = 5_000
TIMEOUT_S: Final = 600
_READ = """
import json, resource, sys, time
from pathlib import Path

from zkgroup.audit.inputs.opening import open_source

seconds = []
for _ in range(int(sys.argv[2]) + 1):
    began = time.process_time()
    open_source([Path(sys.argv[1])])
    seconds.append(time.process_time() - began)
print(json.dumps([seconds[1:], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def series(plan: Plan, report: Report) -> None:
    """Lines and goals for each kind of series."""
    count = 20 if plan.short else 200
    for (kind, changed), (most_us, most_calls) in MOST.items():
        with tempfile.TemporaryDirectory(prefix="zkgroup-series-") as folder:
            write_series(kind, Path(folder), count, ZNODES, changed)
            words = [sys.executable, "-c", _READ, folder, str(plan.repeats)]
            read = partial(open_source, [Path(folder)])
            read()  # imports
            calls = calls_of(read)
            done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
        cpu_s, peak_mb = json.loads(done.stdout)
        what = f"{count} {kind} of {ZNODES} znodes, {changed:.0%} of which change"
        cost_us = (median(cpu_s) or 0.0) / (count * ZNODES) * 1e6
        note = f"{cost_us:.2f} \N{MICRO SIGN}s a znode, {peak_mb:.0f} MiB at most"
        report.lines.append(
            Line(what, "zkgroup", seconds=median(cpu_s), spread_s=spread(cpu_s), runs=len(cpu_s), note=note)
        )
        limit = "CPU: unpacking, lines and columns"
        report.at_most(f"{what}: of a znode", most_us, cost_us, "\N{MICRO SIGN}s", limit)
        report.at_most(f"{what}: of a znode", most_calls, calls / (count * ZNODES), "calls")
        report.at_most(f"{what}: memory", MOST_MB, peak_mb, "MiB")


def series_on_spark(plan: Plan, report: Report) -> None:
    """A line and a goal for `audit run`: all exports, and in the note one more behind them.

    Tasks run one after the other in this process, so CPU is that of their work, without Spark's own. What a
    job over two exports costs is taken off both. Of one more, and of such a job, the median of three counts.
    """
    from zkgroup.audit.spark.job import run

    count, znodes = (60, 500) if plan.short else (1_000, 1_000)
    with tempfile.TemporaryDirectory(prefix="zkgroup-series-") as place:
        data, few, out = (Path(place, name) for name in ("data", "few", "out"))
        files = write_series("exports", data, count + 3, znodes, 0.05)
        few.mkdir()
        for path in files[:2]:
            shutil.copy(path, few)
        later = [shutil.move(path, place) for path in files[count:]]

        def cpu_s(folder: Path, to: Path) -> float:
            began = time.process_time()
            run(PlayedSpark(), [f"x={folder}"], str(to))  # type: ignore[arg-type]
            return time.process_time() - began

        imports_s = cpu_s(few, Path(place, "few-out"))
        fixed_s = median([cpu_s(few, Path(place, f"few-out-{number}")) for number in range(3)]) or 0.0
        all_s = cpu_s(data, out) - fixed_s
        more_s = median([cpu_s(Path(shutil.move(path, data)).parent, out) for path in later]) or 0.0
        share = max(more_s - fixed_s, 0) / all_s
    what = f"audit run over {count} exports of {znodes} znodes"
    cost_us = all_s / (count * znodes) * 1e6
    note = f"{cost_us:.2f} \N{MICRO SIGN}s a znode; one more: {more_s:.2f} s, of which any job takes"
    note += f" {fixed_s:.2f} s, the rest is 1/{1 / max(share, 1e-6):.0f}; imports: {imports_s:.1f} s"
    report.lines.append(Line(what, "zkgroup", seconds=all_s + fixed_s, note=note))
    report.at_most(
        f"{what}: of a znode", 4.0, cost_us, "\N{MICRO SIGN}s", "CPU: reading, and rows of changes"
    )
