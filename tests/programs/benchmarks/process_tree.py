"""CPU time and memory of a process and everything below it (proc(5), /proc/pid/stat and status)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")


class Usage(NamedTuple):
    """The usage of all processes of a tree together."""

    cpu_s: float
    """Of those that live, and of those that their parents have waited for."""
    peak_mb: float
    """The sum of the most that each living process had resident, in MiB: no less than the tree ever had."""
    worker_mb: float = 0.0
    """The most that one living process of Python below the first one had resident, in MiB."""


def usage(root: int) -> Usage:
    """The usage of the tree below a process, and of the process."""
    stats = {int(each.name): stat for each in _PROC.glob("[0-9]*") if (stat := _stat(each)) is not None}
    tree = {root}
    while more := {pid for pid, stat in stats.items() if int(stat[1]) in tree} - tree:
        tree |= more
    ticks = sum(int(ticks) for pid in tree & stats.keys() for ticks in stats[pid][11:15])
    peaks = {pid: _peak_mb(pid) for pid in tree}
    workers = [peak for pid, peak in peaks.items() if pid != root and "python" in _name(pid)]
    return Usage(ticks / _TICKS, sum(peaks.values()), max(workers, default=0.0))


def cpu_of_parts(root: int) -> dict[str, float]:
    """CPU seconds of a process, the JVM below it, the daemon below that, and the daemon's workers."""
    stats = {int(each.name): stat for each in _PROC.glob("[0-9]*") if (stat := _stat(each)) is not None}
    parts = dict.fromkeys(("driver", "jvm", "daemon", "workers"), 0)
    below = {"driver": "jvm", "jvm": "daemon", "daemon": "workers"}
    some = {root: "driver"}
    while some:
        for pid, part in some.items():
            user, system, *ended = (int(ticks) for ticks in stats[pid][11:15])
            parts[part] += user + system
            if part == "daemon":
                parts["workers"] += sum(ended)
        some = {
            pid: below[some[int(stat[1])]]
            for pid, stat in stats.items()
            if int(stat[1]) in some and some[int(stat[1])] in below
        }
    return {part: round(ticks / _TICKS, 2) for part, ticks in parts.items()}


def _stat(process: Path) -> list[str] | None:
    """The fields of a process from the third on, the state; None where it has just ended."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def _name(pid: int) -> str:
    try:
        return (_PROC / str(pid) / "comm").read_text()
    except OSError:
        return ""


def _peak_mb(pid: int) -> float:
    try:
        lines = (_PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)
