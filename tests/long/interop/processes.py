"""Child processes of these tests: started, awaited by protocol, ended by their own pid."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout_s: float, what: str) -> T:
    """The first true result of `condition`; AssertionError with `what` when the deadline passes first."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}; last seen {result!r}")
        pause.wait(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def tethered(command: Sequence[str]) -> list[str]:
    """The same command, ending with the thread that starts it where the system can do that.

    Linux's parent-death signal follows the spawning thread, so start such processes on the main thread.
    """
    return ["setpriv", "--pdeathsig", "KILL", *command] if shutil.which("setpriv") else list(command)


def pause(pid: int) -> None:
    """Stops a process; returns when all its threads stand still, which the signal only begins."""
    os.kill(pid, signal.SIGSTOP)
    threads = Path(f"/proc/{pid}/task")
    if threads.is_dir():  # elsewhere than on Linux nobody tells
        wait_until(lambda: all(map(_stands_still, threads.iterdir())), 30, f"process {pid} stands still")


def _stands_still(thread: Path) -> bool:
    """By the third field of its `stat` (proc(5)); the second is a name in brackets. Or it has ended."""
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    except OSError:
        return True


class Process:
    """One child process with its log file."""

    def __init__(self, command: Sequence[str], log: Path, *, pipe: bool = False) -> None:
        self.log = log
        with log.open("ab") as sink:
            self._process = subprocess.Popen(
                tethered(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if pipe else sink,
                stderr=sink,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    @property
    def stdout(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def pause(self) -> None:
        """SIGSTOP; returns when every thread has stopped."""
        pause(self.pid)

    def wait(self, timeout_s: float) -> int:
        return self._process.wait(timeout_s)

    def end(self, timeout_s: float = 30.0) -> None:
        """SIGTERM, then SIGKILL; idempotent."""
        if self.running:
            self._process.terminate()
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(60)

    def tail(self, lines: int = 20) -> str:
        """The end of the log, for messages."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class Events:
    """The JSON lines that a child prints, as they come; safe to read from any thread."""

    def __init__(self, process: Process) -> None:
        self._lines: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._stream = process.stdout
        self._reader = threading.Thread(target=self._read, name=f"events of {process.pid}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for raw in self._stream:
            line = json.loads(raw)
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()

    def all(self, *kinds: str) -> list[dict[str, Any]]:
        """All lines so far, or those of some kinds."""
        with self._changed:
            return [line for line in self._lines if not kinds or line["event"] in kinds]

    def wait(self, kind: str, timeout_s: float) -> dict[str, Any] | None:
        """The first line of a kind, or None when it does not come in time."""
        with self._changed:
            self._changed.wait_for(lambda: any(line["event"] == kind for line in self._lines), timeout_s)
            return next((line for line in self._lines if line["event"] == kind), None)

    def join(self) -> None:
        """After the child's end: reads to the last line."""
        self._reader.join(60)
