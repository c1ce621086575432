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


class Child:
    """One process of a demo: a member, a broker or a client of Kafka.

    It ends with the thread that starts it, the demo's main thread, even when the demo is killed.
    """

    def __init__(self, name: str, module: str, folder: Path, settings: object = None) -> None:
        """Starts `serve` of the module, which waits for its settings. Standard error goes to a file."""
        self.name = name
        self.log = folder / f"{name.replace(' ', '-')}.log"
        self.output = folder / f"{name}.processed.jsonl"
        self.reported: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        """Its events by kind, as `not_committed`, `controller` and `leads`."""
        self._fate = ""
        """`killed`, `paused` or `left`: what was done to it last."""
        self._is_stopping = False
        self._unread = b""
        with self.log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "zkgroup.demo.processes", module, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # Ctrl-C is for the demo, which stops its processes in order
            )
        self.pid = self._process.pid
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._printed = self._process.stdin, self._process.stdout
        os.set_blocking(self._printed.fileno(), False)
        if settings is not None:
            self.send(settings)

    def send(self, settings: object) -> None:
        """Sends its settings: a command line would show secrets to other users."""
        with contextlib.suppress(BrokenPipeError), self._input:  # it has ended already, see `check`
            _Pickler(self._input).dump(settings)

    def poll_events(self) -> list[dict[str, Any]]:
        """Keeps and returns the events since the last call."""
        *lines, self._unread = (self._unread + (self._printed.read() or b"")).split(b"\n")
        found = [json.loads(line) for line in lines]
        for event in found:
            self.reported[event["event"]].append(event)
        return found

    @property
    def state(self) -> str:
        """What was done to it, else what it reported last."""
        if self._fate:
            return self._fate
        states = self.reported["state"]
        return states[-1]["state"] if states else "running" if self.reported["progress"] else "starting"

    @property
    def processed(self) -> int:
        """Number of records, as it reported last."""
        progress = self.reported["progress"]
        return progress[-1]["processed"] if progress else 0

    def check(self) -> None:
        """Raises `MemberFailedError` where the process ended by itself."""
        if self.ended and not self._is_stopping and self.state not in ("killed", "left", "closed"):
            log = self.log.read_text(errors="replace").strip().splitlines() or ["nothing in its log"]
            raise MemberFailedError(f"{self.name} ended with exit code {self.exit_code}: {log[-1]}")

    @property
    def ended(self) -> bool:
        return self.exit_code is not None

    @property
    def exit_code(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    @property
    def killed(self) -> bool:
        return self._fate == "killed"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(KILL_WAIT_S)
        self._fate = "killed"

    def terminate(self) -> None:
        """Sends SIGTERM, on which it leaves in order."""
        self._process.send_signal(signal.SIGTERM)
        self._is_stopping = True
        self.reported["state"].append({"state": "leaving"})

    def has_left(self) -> bool:
        """Returns whether it has ended after `terminate`."""
        if self.ended and not self.killed:
            self._fate = "left"
        return self.ended

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        self._fate = "paused"

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self._fate = ""

    def close(self) -> None:
        """Kills the process if it runs, and releases its pipes."""
        self._process.kill()
        self._process.wait(KILL_WAIT_S)
        self._input.close()
        self._printed.close()


class Stopping:
    """In a process of a demo: whether it is to end, by SIGTERM; then `stop` is called."""

    def __init__(self) -> None:
        """Begins to listen."""
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
