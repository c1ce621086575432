"""Consumers of the records, killed, restarted and paused; the invariants of their group are checked too."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.programs.chaos.cluster import RECORDS, SESSION_MS, ChaosCluster
from tests.programs.chaos.reader import GROUP
from tests.programs.chaos.schedule import ReaderAct
from zkgroup.history import CheckOptions, Report, ServerTransaction, check_history, read_files

COUNT: Final = 2
TICK_MS: Final = 500
HALF_CLAIM_MS: Final = 120_000
"""Without a quorum no session ends; on a busy machine it takes a minute to get one back."""
STOP_S: Final = 90.0


class Readers:
    """Two static members, each a process; a killed one is started again, under its name or another one. A
    context manager."""

    def __init__(self, cluster: ChaosCluster) -> None:
        self._address = cluster.network.address
        self._home = cluster.home
        self._processes: list[subprocess.Popen[bytes]] = []
        self._names: list[str] = []
        self._paused: set[int] = set()
        self.wrong: list[str] = []

    def __enter__(self) -> Self:
        for number in range(COUNT):
            self._processes.append(self._start(number))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    @property
    def histories(self) -> list[Path]:
        return [self._home / f"{name}.history.jsonl" for name in self._names]

    def _start(self, number: int, name: str | None = None) -> subprocess.Popen[bytes]:
        name = name or f"reader-{number}-{len(self._names)}"
        self._names.append(name)
        words = (self._address, name, RECORDS, str(self.histories[-1]), str(SESSION_MS), str(TICK_MS))
        with (self._home / f"reader-{number}.err").open("ab") as errors:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.programs.chaos.reader", *words], stdout=errors, stderr=errors
            )

    def begin(self, act: ReaderAct, number: int) -> None:
        """Kills and restarts a member, or pauses it until `end`."""
        which = number % COUNT
        process = self._processes[which]
        if process.poll() is not None:
            self._ended(which)
        elif act in ("kill", "restart"):
            process.kill()
            process.wait()
            mine = [name for name in self._names if name.startswith(f"reader-{which}-")]
            self._processes[which] = self._start(which, mine[-1] if act == "restart" else None)
        elif act == "pause":
            process.send_signal(signal.SIGSTOP)
            self._paused.add(which)

    def _ended(self, which: int) -> None:
        told = (self._home / f"reader-{which}.err").read_text("utf-8", "replace")[-1_000:]
        self.wrong.append(f"reader {which} ended with code {self._processes[which].returncode}: {told}")
        self._processes[which] = self._start(which)

    def end(self) -> None:
        """Resumes every paused member."""
        for which in self._paused:
            self._processes[which].send_signal(signal.SIGCONT)
        self._paused.clear()

    def stop(self) -> None:
        """Stops all members cleanly."""
        self.end()
        for process in self._processes:
            process.terminate()
        for which, process in enumerate(self._processes):
            try:
                code = process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.wrong.append(f"reader {which} did not stop within {STOP_S:g} s")
                process.kill()
                continue
            if code not in (0, -signal.SIGTERM):
                self._ended(which)

    def check(self, log: Sequence[ServerTransaction]) -> Report:
        """Checks S1 to S10 and S22, by the servers' logs and the members' records."""
        ahead_ms = time.time() * 1000 - time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1_000_000
        shifted = [dataclasses.replace(each, at_ms=int(each.at_ms - ahead_ms)) for each in log]
        records = read_files(sorted({path for path in self.histories if path.exists()}))
        return check_history(records, shifted, CheckOptions(group=GROUP, half_claim_ms=HALF_CLAIM_MS))
