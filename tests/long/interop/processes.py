"""Child processes of these tests: started, awaited by their output, ended by their own pid."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from tests.waiting import ended, eventually, joined
from tests.worlds.prefork import Started, started


def tethered(command: Sequence[str]) -> list[str]:
    """The same command, which ends with the thread that starts it where the system supports that.

    Linux's parent-death signal follows the spawning thread, so start such processes on the main thread.
    """
    return ["setpriv", "--pdeathsig", "KILL", *command] if shutil.which("setpriv") else list(command)


def pause(pid: int) -> None:
    """Stops a process; returns when all its threads have stopped, since the signal only begins that."""
    os.kill(pid, signal.SIGSTOP)
    threads = Path(f"/proc/{pid}/task")
    if threads.is_dir():  # only Linux lists the threads
        eventually(lambda: all(map(_stands_still, threads.iterdir())), what=f"process {pid} stands still")


def _stands_still(thread: Path) -> bool:
    """Whether a thread has stopped or ended: the third field of its `stat` (proc(5))."""
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    except OSError:
        return True


class Process:
    """One child process with its log file."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        pipe: bool = False,
        commands: bool = False,
        output: Path | None = None,
        is_zkgroup: bool = False,
    ) -> None:
        """`pipe`: a `Reader` gets its output, not the log; `output`: a file of its own does.

        `commands`: it reads commands from its input. `is_zkgroup`: the command is the arguments of `zkgroup`,
        which has done its imports, where the tests of the folder have a fork server.
        """
        self.log = log
        self._process: subprocess.Popen[bytes] | Started
        with log.open("ab") as sink, (output or log).open("ab") as printed:
            stdout = subprocess.PIPE if pipe else printed.fileno()
            if is_zkgroup:
                self._process = started(command, os.environ, stdout=stdout, stderr=sink.fileno())
            else:
                self._process = subprocess.Popen(
                    tethered(command),
                    stdin=subprocess.PIPE if commands else subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=sink,
                )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def socket_inodes(self) -> list[str]:
        """The inodes of the sockets to it, which are this process's."""
        return [self._process.socket_inode] if isinstance(self._process, Started) else []

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

    def tell(self, *words: str) -> None:
        """Sends one line to its input."""
        assert not any("\t" in word or "\n" in word for word in words), words
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join(words).encode() + b"\n")
        self._process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def pause(self) -> None:
        """Sends SIGSTOP; returns when every thread has stopped."""
        pause(self.pid)

    def wait(self) -> int:
        """The exit code, once it has ended."""
        return ended(self._process)

    def end(self) -> None:
        """Sends SIGTERM and waits for the end; idempotent."""
        if self.running:
            self._process.terminate()
            ended(self._process)
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # of what was not read
                self._process.stdin.close()

    def kill(self) -> None:
        self._process.kill()
        ended(self._process)

    def tail(self, lines: int = 20) -> str:
        """The end of the log, for messages."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class Events:
    """JSON lines as they come; safe to use from any thread."""

    def __init__(self) -> None:
        self._lines: list[dict[str, Any]] = []
        self._changing = threading.Lock()

    def add(self, line: dict[str, Any]) -> None:
        with self._changing:
            self._lines.append(line)

    def all(self, *kinds: str) -> list[dict[str, Any]]:
        """All lines so far, or those of some kinds."""
        with self._changing:
            return [line for line in self._lines if not kinds or line["event"] in kinds]

    def wait(self, kind: str) -> dict[str, Any]:
        """The first line of a kind."""
        return eventually(lambda: self.all(kind), what=f"{kind!r} is told")[0]


class Reader:
    """Passes on the JSON lines that a child prints, until its end."""

    def __init__(self, process: Process, to: Callable[[dict[str, Any]], None]) -> None:
        self._stream = process.stdout
        self._to = to
        self._thread = threading.Thread(target=self._read, name=f"events of {process.pid}", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._stream:
            for raw in self._stream:
                self._to(json.loads(raw))

    def join(self) -> None:
        """Reads to the last line, after the child's end."""
        joined(self._thread)
