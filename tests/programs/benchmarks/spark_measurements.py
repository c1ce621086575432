"""The cost of the audit on Spark by operation: on one core and two, and of ten times as many operations.

    python -m tests.programs.benchmarks.spark_measurements FEW MANY

measures these numbers of operations instead of the million and ten millions of
`python -m tests.programs.benchmarks spark`. Each job is a process of its own that converts 20 logs and
asks every rule about the rows of a key; the start of the session is not counted. CPU is that of the whole
tree of processes, so it is meaningful on a shared machine; of the processes driver, JVM, the daemon that
forks workers, and workers are told apart. The tasks show how far more cores would help: the
sum of all tasks, over the longest of each stage. The larger number is also asked without Spark,
with incidents and JSON of the findings, as jobs make them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.programs.benchmarks.group_days import write_logs
from tests.programs.benchmarks.report import Line, Plan, Report

LOGS = 20
CORES = 2
TIMEOUT_S = 1800
COST_US = 15.0
CLOCK_S = 180.0
WORKER_MB = 1536.0
LAPTOP_MB = 2048.0
ANEW = "sessions of Spark, workers and compiled code are begun anew in each job"


def spark(plan: Plan, report: Report) -> None:
    """Lines for each size and number of cores; goals for scaling and for a flat cost."""
    measure(report, *((20_000, 100_000) if plan.short else (1_000_000, 10_000_000)))


def measure(report: Report, few: int, many: int) -> None:
    """Measures this many operations in 20 logs each; the smaller number on one core as well."""
    with tempfile.TemporaryDirectory(prefix="zkgroup-spark-") as name:
        place = Path(name)
        for operations in {few, many}:
            write_logs(place / str(operations), operations, LOGS)
        told = {
            (operations, cores): _job(cores, place / str(operations), place / f"out-{operations}-{cores}")
            for operations, cores in ((few, 1), (few, CORES), (many, CORES))
        }
        laptop = _job(CORES, place / str(many))
    for (operations, cores), job in told.items():
        report.lines.append(_line(operations, cores, job))
    report.lines.append(_laptop_line(many, laptop))
    alone, beside, large = told.values()
    cost_us = 1e6 * beside["cpu_s"] / few
    report.at_most(f"audit on Spark, CPU of an operation, {few}", COST_US, cost_us, "µs", ANEW)
    flat = (large["cpu_s"] / many) / (beside["cpu_s"] / few)
    what = f"audit on Spark, CPU of an operation, {many} beside {few}"
    report.at_most(what, 1.1, flat, "x", ANEW)
    report.at_most(f"audit on Spark, {many} operations", CLOCK_S, large["seconds"], "s", "by the clock")
    slower = large["seconds"] / laptop["seconds"]
    report.at_most(f"audit on Spark beside the laptop, {many}", 1.0, slower, "x", "by the clock, two cores")
    report.at_most(
        f"audit on Spark, memory of a task, {many}", WORKER_MB, large["worker_mb"], "MiB", "resident"
    )
    what = f"audit without Spark, memory, {many}"
    report.at_most(what, LAPTOP_MB, laptop["peak_mb"], "MiB", "resident")
    clock = alone["seconds"] / beside["seconds"]
    report.notes.append(
        f"Audit on Spark by the clock, {CORES} cores beside one: {clock:.2f}x; tasks of {many} operations"
        f" fill {fillable(large['stages']):.1f} cores."
    )


def fillable(stages: list[dict[str, Any]]) -> float:
    """How many cores have work: the seconds of all tasks over those of the longest task of each stage."""
    return sum(float(stage["seconds"]) for stage in stages) / sum(
        float(stage["longest_s"]) for stage in stages
    )


def _line(operations: int, cores: int, job: dict[str, Any]) -> Line:
    parts = ", ".join(f"{what} {part['cpu_s']:g} s" for what, part in job["parts"].items())
    processes = ", ".join(f"{name} {cpu_s:g} s" for name, cpu_s in job["processes"].items())
    return Line(
        f"audit on Spark, {operations} operations in {LOGS} logs",
        f"{cores} cores",
        seconds=job["seconds"],
        client_cpu_s=job["cpu_s"],
        note=f"{1e6 * job['cpu_s'] / operations:.1f} µs of CPU an operation: {parts}; {processes}; at most"
        f" {job['worker_mb']} MiB resident in a task, {job['peak_mb']} MiB in all,"
        f" {job['findings']} findings",
    )


def _laptop_line(operations: int, job: dict[str, Any]) -> Line:
    return Line(
        f"audit without Spark, {operations} operations in {LOGS} logs",
        "one process",
        seconds=job["seconds"],
        client_cpu_s=job["cpu_s"],
        note=f"{1e6 * job['cpu_s'] / operations:.1f} µs of CPU an operation; at most {job['peak_mb']} MiB"
        f" resident, {job['findings']} findings",
    )


def _job(cores: int, folder: Path, output: Path | None = None) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "tests.programs.benchmarks.spark_job",
        str(cores),
        str(folder),
        *([] if output is None else [str(output)]),
    ]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=True)
    told: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    print(f"{folder.name} operations on {cores}: {told}", file=sys.stderr, flush=True)
    return told


if __name__ == "__main__":
    measured = Report()
    measure(measured, int(sys.argv[1]), int(sys.argv[2]))
    print(measured.as_table())
    sys.exit(0 if all(goal.reached for goal in measured.goals) else 3)
