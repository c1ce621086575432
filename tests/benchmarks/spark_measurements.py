"""What the audit on Spark costs by operation: with one core and two, of one million operations and of ten.

Each job is a process of its own that converts 20 logs and asks every rule that is a fold; the start of the
session is not counted. Beside other work on the machine only the ratios say something.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.plan import Plan
from tests.benchmarks.report import Line, Report
from tests.benchmarks.zookeeper_files import FIRST_ZXID, write_log

LOGS = 20
TIMEOUT_S = 3600


def spark(plan: Plan, report: Report) -> None:
    """Lines for each size and number of cores; goals for scaling and for a flat cost."""
    small, large = (20_000, 100_000) if plan.short else (1_000_000, 10_000_000)
    with tempfile.TemporaryDirectory(prefix="zkgroup-spark-") as name:
        costs = {}
        for records, cores in ((small, 1), (small, 2), (large, 2)):
            folder = _logs(Path(name, str(records)), records)
            told = _job(f"local[{cores}]", folder, Path(name, f"out-{records}-{cores}"))
            costs[records, cores] = told["job_s"] / records
            parts = ", ".join(f"{what} {seconds:g} s" for what, seconds in told["parts_s"].items())
            report.lines.append(
                Line(
                    f"audit on Spark, {records} records in {LOGS} logs",
                    f"{cores} cores",
                    seconds=told["job_s"],
                    runs=1,
                    note=f"{records / told['job_s']:,.0f} records/s; {parts}",
                )
            )
    limit = "the machine's two cores do the JVM's work, too; rules whose rows have one key are one task"
    scaling = costs[small, 1] / costs[small, 2]
    report.at_least("audit on Spark, two cores beside one", 1.3, scaling, limit)
    flat = costs[small, 2] / costs[large, 2]
    report.at_least("audit on Spark, cost of a record, few beside ten times as many", 0.7, flat, limit)


def _logs(folder: Path, records: int) -> Path:
    if not folder.exists():
        folder.mkdir()
        each = records // LOGS
        for number in range(LOGS):
            first = FIRST_ZXID + number * each
            write_log(folder / f"log.{first:x}", each, seed=number, first_zxid=first)
    return folder


def _job(master: str, folder: Path, output: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.benchmarks.spark_job", master, str(folder), str(output)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    told: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return told
