"""Runs one job of the audit on Spark in a process of its own; prints what each part took, as JSON.

    python -m tests.programs.benchmarks.spark_job CORES FOLDER [OUTPUT]

The process, its JVM and its Python workers run on this many cores of the machine, and the figures are those
of all of them together. The start of the session is not counted. Without an output the same rules are asked
without Spark.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tests.programs.benchmarks.process_tree import Usage, cpu_of_parts, usage
from zkgroup.audit.findings.engine import RULES, audit
from zkgroup.audit.incidents.attribution import numbered
from zkgroup.audit.incidents.incident import findings_document
from zkgroup.audit.inputs.opening import open_source
from zkgroup.audit.inputs.source import without_collector
from zkgroup.audit.spark.job import run
from zkgroup.audit.spark.session import session

SETTINGS = {"spark.driver.memory": "1g"}


class _Moment(NamedTuple):
    what: str
    seconds: float
    usage: Usage

    def until(self, other: _Moment) -> dict[str, float]:
        return {
            "seconds": round(other.seconds - self.seconds, 2),
            "cpu_s": round(other.usage.cpu_s - self.usage.cpu_s, 2),
        }


def alone(cores: int, folder: str) -> None:
    """Prints the same without Spark: of the same rules, with incidents and JSON of the findings."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    begin = _Moment("job", time.monotonic(), usage(os.getpid()))
    with without_collector():
        found = audit(open_source([Path(folder)]), RULES)
        json.dumps(findings_document(found, numbered(found)))
    end = _Moment("end", time.monotonic(), usage(os.getpid()))
    peak_mb = round(end.usage.peak_mb)
    print(json.dumps({**begin.until(end), "peak_mb": peak_mb, "findings": len(found.findings)}))


def main(cores: int, folder: str, output: str) -> None:
    """Prints seconds and CPU seconds of the job and of its parts, the tasks of each stage, and memory."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    moments: list[_Moment] = []
    processes: list[dict[str, float]] = []

    def begun(what: str, count: int | None = None, total: int | None = None) -> None:
        del count, total
        moments.append(_Moment(what, time.monotonic(), usage(os.getpid())))
        processes.append(cpu_of_parts(os.getpid()))

    with session(f"local[{cores}]", SETTINGS) as spark:
        spark.range(1).count()
        begun("job")
        (audited,) = run(spark, [folder], output, rules=RULES, progress=begun)
        begun("end")
        stages = list(_stages(spark))
    told = {
        **moments[0].until(moments[-1]),
        "peak_mb": round(max(moment.usage.peak_mb for moment in moments)),
        "worker_mb": round(max(moment.usage.worker_mb for moment in moments)),
        "processes": {part: round(ticks - processes[0][part], 2) for part, ticks in processes[-1].items()},
        "parts": {one.what: one.until(other) for one, other in pairwise(moments[1:])},
        "stages": stages,
        "findings": len(audited.found.findings),
    }
    print(json.dumps(told))


def _stages(spark: Any) -> Iterator[dict[str, Any]]:
    """For each stage that ran: how many tasks, their seconds together, and those of the longest."""
    gateway = spark.sparkContext._gateway
    store, every = spark._jsc.sc().statusStore(), gateway.jvm.java.util.ArrayList()
    none, most = (gateway.new_array(gateway.jvm.double, size) for size in (0, 1))
    most[0] = 1.0
    stages = store.stageList(every, False, False, none, every)
    for stage in map(stages.apply, range(stages.size())):
        if stage.numCompleteTasks():
            summary = store.taskSummary(stage.stageId(), stage.attemptId(), most)
            longest_ms = summary.get().executorRunTime().apply(0) if summary.isDefined() else 0.0
            yield {
                "stage": stage.stageId(),
                "tasks": stage.numCompleteTasks(),
                "seconds": stage.executorRunTime() / 1000,
                "longest_s": longest_ms / 1000,
                "shuffled_mb": round(stage.shuffleWriteBytes() / 1e6, 1),
                "spilled_mb": round(stage.diskBytesSpilled() / 1e6, 1),
            }


if __name__ == "__main__":
    (main if len(sys.argv) > 3 else alone)(int(sys.argv[1]), *sys.argv[2:])
