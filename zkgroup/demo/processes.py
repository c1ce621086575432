"""The processes of the demos: each is started, gets its settings, prints events, and is killed or stopped.

`python -m zkgroup.demo.processes MODULE DEMO_PID` is such a process. It ends in order on SIGTERM, and is
killed when the demo has ended. Its events go to standard output, one JSON object a line.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import pickle
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zkgroup.errors import MemberFailedError
from zkgroup.zookeeper.settings import Secret

KILL_WAIT_S = 60.0
_PR_SET_PDEATHSIG = 1


class _Pickler(pickle.Pickler):
    """Pickles secrets too, in clear text: for the pipe to the own process only."""

    def reducer_override(self, value: Any) -> Any:
        return (Secret, (value.reveal(),)) if isinstance(value, Secret) else NotImplemented


class Child(subprocess.Popen[bytes]):
    """One process of a demo: a member, a broker or a client of Kafka.

    It ends with the thread that starts it, the demo's main thread, even when the demo is killed.
    """

    def __init__(self, name: str, module: str, folder: Path) -> None:
        """Starts `serve` of the module, which waits for its settings. Standard error goes to a file."""
        self.name = name
        self.log = folder / f"{name.replace(' ', '-')}.log"
        self.output = folder / f"{name}.processed.jsonl"
        self.reported: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        """Its events by kind, as `not_committed`, `controller` and `leads`."""
        self.fate = ""
        """The last that was done to it: `killed`, `paused`, `leaving` or `left`."""
        self._unread = b""
        with self.log.open("ab") as errors:
            super().__init__(
                [sys.executable, "-m", "zkgroup.demo.processes", module, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # Ctrl-C is for the demo, which stops its processes in order
            )
        assert self.stdin is not None
        assert self.stdout is not None
        self._settings, self._printed = self.stdin, self.stdout
        os.set_blocking(self._printed.fileno(), False)

    def send(self, **settings: object) -> None:
        """Sends its settings: a command line would show secrets to other users."""
        with contextlib.suppress(BrokenPipeError), self._settings:  # it has ended already, see `check`
            _Pickler(self._settings).dump(settings)

    def poll_events(self) -> list[dict[str, Any]]:
        """Keeps and returns the events since the last call."""
        *lines, self._unread = (self._unread + (self._printed.read() or b"")).split(b"\n")
        found = [json.loads(line) for line in lines]
        for event in found:
            self.reported[event["event"]].append(event)
        return found

    @property
    def state(self) -> str:
        """Its fate, else the state that it reported last."""
        if self.fate:
            return self.fate
        states = self.reported["state"]
        return states[-1]["state"] if states else "running" if self.processed else "starting"

    @property
    def processed(self) -> int:
        """Number of records, one a line, in its output."""
        return self.output.read_bytes().count(b"\n") if self.output.exists() else 0

    @property
    def ended(self) -> bool:
        return self.poll() is not None

    @property
    def killed(self) -> bool:
        return self.fate == "killed"

    def check(self) -> None:
        """Raises `MemberFailedError` where the process ended by itself."""
        if self.ended and self.state not in ("killed", "leaving", "left", "closed"):
            log = self.log.read_text(errors="replace").strip().splitlines() or ["nothing in its log"]
            raise MemberFailedError(f"{self.name} ended with exit code {self.returncode}: {log[-1]}")

    def kill(self) -> None:
        super().kill()
        self.wait(KILL_WAIT_S)
        self.fate = "killed"

    def terminate(self) -> None:
        """Sends SIGTERM, on which it leaves in order."""
        super().terminate()
        self.fate = "leaving"

    def has_left(self) -> bool:
        """Returns whether it has ended after `terminate`."""
        if self.ended and not self.killed:
            self.fate = "left"
        return self.ended

    def pause(self) -> None:
        self.send_signal(signal.SIGSTOP)
        self.fate = "paused"

    def resume(self) -> None:
        self.send_signal(signal.SIGCONT)
        self.fate = ""

    def close(self) -> None:
        """Kills the process if it runs, and releases its pipes."""
        super().kill()
        self.wait(KILL_WAIT_S)
        self._settings.close()
        self._printed.close()


class Stopping:
    """In a process of a demo: whether it is to end, by SIGTERM; then `stop` is called."""

    def __init__(self) -> None:
        self.is_requested = False
        self.stop: Callable[[], None] = lambda: None
        signal.signal(signal.SIGTERM, self._request)

    def _request(self, *_: object) -> None:
        self.is_requested = True
        self.stop()


def print_event(event: str, **fields: object) -> None:
    """Prints one event of a process in one write, so that lines of two threads never mix."""
    os.write(sys.stdout.fileno(), json.dumps({"event": event, **fields}).encode() + b"\n")


def main() -> None:
    """Imports the module before its settings are there, as that takes a while; then calls its `serve`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    module = importlib.import_module(sys.argv[1])
    given = sys.stdin.buffer.read()
    has_parent = os.getppid() == int(sys.argv[2])  # else the demo ended before the line above took effect
    if given and has_parent:
        module.serve(Stopping(), **pickle.loads(given))  # noqa: S301 - from the demo


if __name__ == "__main__":
    main()
