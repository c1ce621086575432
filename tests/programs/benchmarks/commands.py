"""The cost of one command of an operator: wall time, CPU of the command and of the server, packets."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.programs.benchmarks.server import BenchServer, Cost

TIMEOUT_S = 300


class Ran(NamedTuple):
    """One run that ended with exit code 0, and its cost."""

    cost: Cost
    output: str


def zkgroup(*words: str) -> list[str]:
    """Our command line as a user starts it."""
    return [str(Path(sys.executable).with_name("zkgroup")), *words]


def run(server: BenchServer, command: Sequence[str]) -> Ran:
    """Runs a command and measures it from start to end, with the start of Python or Java."""
    meter = server.meter()
    cpu_before = _children_cpu()
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    cost = meter.stop()
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-500:]}\n{done.stderr[-500:]}"
    cpu_s = _children_cpu() - cpu_before
    return Ran(Cost(cost.seconds, cost.packets, cpu_s, cost.server_cpu_s), done.stdout)


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
