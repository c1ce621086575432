"""How long threads of this process were ready to run and had no core, as Linux counts it.

Source: Documentation/scheduler/sched-stats.rst of Linux, `/proc/<pid>/task/<tid>/schedstat`: nanoseconds on a
core, nanoseconds waiting for one, time slices. Time that a hypervisor takes away is not counted.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

_TASKS = Path("/proc/self/task")


class CoreWaits:
    """The counters of every thread; the files stay open, as they are read hundreds of times a second."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def read(self) -> Mapping[str, int]:
        """Thread id to nanoseconds that it has waited so far; empty where the system does not count them."""
        with contextlib.suppress(OSError):
            for thread in (task.name for task in _TASKS.iterdir()):
                if thread not in self._files:
                    self._files[thread] = os.open(_TASKS / thread / "schedstat", os.O_RDONLY)
        waited = {}
        for thread, file in list(self._files.items()):
            try:
                waited[thread] = int(os.pread(file, 64, 0).split()[1])
            except OSError:  # the thread has ended
                os.close(self._files.pop(thread))
        return waited


def longest_wait_ns(before: Mapping[str, int], after: Mapping[str, int]) -> int:
    """The longest wait of one thread between two readings: a lower bound, since waits of threads overlap."""
    return max((waited - before.get(thread, 0) for thread, waited in after.items()), default=0)
