"""The foundations of the benchmark of the audit on Spark: its logs, and its counting of CPU and tasks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs.benchmarks.group_days import write_logs
from tests.programs.benchmarks.process_tree import usage
from tests.programs.benchmarks.spark_measurements import fillable
from tests.worlds.screened_findings import events_in
from zkgroup.audit.findings.engine import RULES, audit
from zkgroup.audit.inputs.opening import open_source

BURN = "import time\nwhile time.process_time() < 0.3: pass"
ASK = "import os, tests.programs.benchmarks.process_tree as tree\nprint(tree.usage(os.getppid()).cpu_s)"


def test_nothing_is_wrong_in_the_logs(tmp_path: Path) -> None:
    """Members, owners and controller fit together over a restart: no rule finds an error. The side of the
    benchmark that runs without Spark finds as much."""
    folder = write_logs(tmp_path / "version-2", 16_000, 20, groups=3)

    events = events_in(open_source([folder]).rows())
    found = audit(open_source([folder]), RULES).findings

    assert len(list(folder.iterdir())) == 20
    assert len({event.zxid for event in events if not event.seed}) == 16_000
    assert {event.op for event in events} >= {"create", "set", "delete", "createSession", "error"}
    assert [finding for finding in found if finding.severity == "error"] == []
    assert len([finding for finding in found if finding.finding == "rebalance"]) > 3
    command = [sys.executable, "-m", "tests.programs.benchmarks.spark_job", "1", str(folder)]
    without_spark = subprocess.run(command, check=True, capture_output=True, text=True)
    assert json.loads(without_spark.stdout)["findings"] == len(found)


def test_equal_arguments_give_equal_logs(tmp_path: Path) -> None:
    """Equal arguments give equal bytes, so two sides of a measurement read the same."""
    one, other = (write_logs(tmp_path / name, 5_000, 3, groups=2) for name in ("one", "other"))

    assert [path.read_bytes() for path in sorted(one.iterdir())] == [
        path.read_bytes() for path in sorted(other.iterdir())
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_that_has_ended_still_counts() -> None:
    """The CPU of children that run, and of those that have ended and were waited for."""
    before = usage(os.getpid())
    subprocess.run([sys.executable, "-c", BURN], check=True)
    after = usage(os.getpid())

    assert after.cpu_s - before.cpu_s >= 0.28  # counted in ticks of 10 ms
    assert after.peak_mb > 10


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_below_counts_while_it_lives() -> None:
    """The CPU of a running child process counts for its parent's tree."""
    own = usage(os.getpid())
    asked = subprocess.run(
        [sys.executable, "-c", f"{BURN}\n{ASK}"], check=True, capture_output=True, text=True
    )

    assert float(asked.stdout) - own.cpu_s >= 0.28


def test_cores_have_work_as_far_as_the_longest_tasks_allow() -> None:
    """Eight seconds of tasks in two stages, whose longest take four: two cores have work, more have not."""
    stages = [{"seconds": 5.0, "longest_s": 3.0}, {"seconds": 3.0, "longest_s": 1.0}]

    assert fillable(stages) == 2.0
