"""A member program: one process that holds all members, or one process for each.

Commands go to its standard input, one JSON object a line comes back, each with "event" and "at_ms":

    (start-up)        `ready`
    add NAME...       `started` for each (with "error"), then `done`; registrations are <group>_NAME
    close NAME...     `closed` for each, then `done`
    commit NAME BASE  every owned partition gets position BASE + partition: `committed` with "us"
    status            `member` for each with integer counters, then `done`
    reset             zero the counters;   halt  end at once
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.long.interop.processes import tethered
from tests.programs.benchmarks.server import cpu_seconds, resident_mb

START_TOGETHER = 4
"""Processes started at a time: a JVM's start is all CPU."""


class Child:
    """One process of a member program."""

    def __init__(self, command: Sequence[str], log: Path, lines: queue.Queue[dict[str, Any]]) -> None:
        with log.open("ab") as sink:
            self._process = subprocess.Popen(
                tethered(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
                bufsize=1,
            )
        self._lines, self._ending = lines, False
        self._reader = threading.Thread(target=self._read, name=f"member {self.pid}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(json.loads(line))
        if not self._ending:
            self._lines.put({"event": "ended"})

    def send(self, words: Sequence[str]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._ending = True
        self._process.kill()
        self._process.wait(10)
        self._reader.join(10)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()


class Members:
    """All members of one side. For one thread at a time, but for `lines`."""

    def __init__(self, command: Sequence[str], log: Path, *, separate: bool = False) -> None:
        self._command, self._log, self._separate = list(command), log, separate
        self._lines: queue.Queue[dict[str, Any]] = queue.Queue()
        self._children: dict[str | None, Child] = {}
        self.names: list[str] = []
        self.ended_cpu = 0.0
        if not separate:
            self.prepare([None])

    def prepare(self, names: Sequence[str | None]) -> None:
        """Starts the processes of these members ahead of time, so that no start-up is measured."""
        if self._children and not self._separate:
            return
        wanted = [name for name in names if name not in self._children]
        for index in range(0, len(wanted), START_TOGETHER):
            some = wanted[index : index + START_TOGETHER]
            for name in some:
                self._children[name] = Child(self._command, self._log, self._lines)
            for _ in some:
                self.wait("ready", 120)

    def send(self, word: str, names: Sequence[str] = ()) -> int:
        """Sends a command to every process; how many processes got it."""
        if self._separate and names:
            for name in names:
                self._children[name].send([word, name])
            return len(names)
        for child in self._children.values():
            child.send([word, *names])
        return len(self._children)

    def tell(self, name: str, *words: str) -> None:
        """Sends a command with further arguments to the process that holds one member."""
        self._children[name if self._separate else None].send(words)

    def wait(self, event: str, timeout_s: float, command: str | None = None) -> list[dict[str, Any]]:
        """All events up to the awaited one. TimeoutError when it does not come or every process has ended."""
        came: list[dict[str, Any]] = []
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                line = {"event": "ended"}
            if line["event"] == "ended":
                tail = self._log.read_text(errors="replace")[-800:]
                raise TimeoutError(f"no {event} {command or ''} in {timeout_s:g} s; {came[-3:]}; {tail}")
            came.append(line)
            if line["event"] == event and command in (None, line.get("command")):
                return came

    def add(self, names: Sequence[str]) -> None:
        self.prepare(names)
        self.send("add", names)
        self.names = sorted([*self.names, *names])

    def close(self, names: Sequence[str]) -> None:
        self.send("close", names)
        self.names = [name for name in self.names if name not in names]

    def kill(self, name: str) -> None:
        """Kills the process of one member with SIGKILL (separate processes only)."""
        child = self._children.pop(name)
        self.ended_cpu += cpu_seconds(child.pid)
        child.kill()
        self.names.remove(name)

    def counters(self) -> dict[str, int]:
        """The sums of the members' counters, and the number of members that gave up."""
        total: Counter[str] = Counter()
        for _ in range(self.send("status")):
            for line in self.wait("done", 60, "status"):
                if line["event"] != "member":
                    continue
                total.update({k: v for k, v in line.items() if isinstance(v, int) and k != "at_ms"})
                total["members_that_gave_up"] += bool(line.get("gave_up"))
                total["most_rebalances"] = max(total["most_rebalances"], line.get("rebalances", 0))
        return dict(total)

    @property
    def pids(self) -> list[int]:
        return [child.pid for child in self._children.values()]

    def cpu(self) -> float:
        return self.ended_cpu + sum(map(cpu_seconds, self.pids))

    def memory_mb(self) -> float:
        return sum(map(resident_mb, self.pids))

    def stop(self) -> None:
        for child in self._children.values():
            child.kill()
        self._children = {}
