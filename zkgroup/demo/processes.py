"""The processes of the demos: each is started, gets its settings, prints events, and is killed or stopped.

`python -m zkgroup.demo.processes MODULE` is such a process. It ends in order on SIGTERM, and when its
standard input closes. Its events go to standard output, one JSON object a line.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import io
import json
import os
import pickle
import queue
import select
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zkgroup.errors import MemberFailedError
from zkgroup.zookeeper.settings import Secret

KILL_WAIT_S = 60.0
PAUSE = 'kill -STOP "$0"; cat >/dev/null; kill -CONT "$0" 2>/dev/null'
"""Shell script that pauses a process until its own standard input closes."""


class _Pickler(pickle.Pickler):
    """Pickles secrets too, in clear text: for the pipe to the own process only."""

    def reducer_override(self, value: Any) -> Any:
        return (Secret, (value.reveal(),)) if isinstance(value, Secret) else NotImplemented


def encoded(settings: object) -> bytes:
    """The settings of a process as one line; a command line would show secrets to other users."""
    made = io.BytesIO()
    _Pickler(made).dump(settings)
    return base64.b64encode(made.getvalue()) + b"\n"


def decoded(line: bytes) -> Any:
    """The settings in a line."""
    return pickle.loads(base64.b64decode(line))  # noqa: S301 - from the process that started this one


class Child:
    """One process of a demo: a member, a broker or a client of Kafka.

    It ends with this process, even when this one is killed, because it stops when its standard input closes.
    A thread, which ends with the process, puts its events into a queue.
    """

    def __init__(self, name: str, module: str, folder: Path, settings: object = None) -> None:
        """Starts `serve` of the module, which waits for its settings. Standard error goes to a file."""
        self.name = name
        self.log = folder / f"{name.replace(' ', '-')}.log"
        self.output = folder / f"{name}.processed.jsonl"
        self.state = "starting"
        self.killed = self.is_stopping = False
        self.processed = 0
        self.reported: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        """Its events by kind, as `not_committed`, `controller` and `leads`."""
        self._pause: subprocess.Popen[bytes] | None = None
        self._events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        with self.log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "zkgroup.demo.processes", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # Ctrl-C is for the demo, which stops its processes in order
            )
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._listen, name=f"demo-{name}", daemon=True)
        self._reader.start()
        if settings is not None:
            self.send(settings)

    def send(self, settings: object) -> None:
        """Sends its settings. Its standard input stays open: its end means that the demo is gone."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended already, which is noticed elsewhere
            self._process.stdin.write(encoded(settings))
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith(b"\n"):  # a SIGKILL may leave half a line
                self._events.put(json.loads(line))

    def poll_events(self) -> list[dict[str, Any]]:
        """Applies and returns the events since the last call."""
        found: list[dict[str, Any]] = []
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(self._events.get_nowait())
                self._apply(found[-1])
        return found

    def _apply(self, event: dict[str, Any]) -> None:
        self.reported[event["event"]].append(event)
        match event["event"]:
            case "state":
                self.state = event["state"]
            case "progress":
                self.processed = event["processed"]
                self.state = "running" if self.state == "starting" else self.state

    def check(self) -> None:
        """Raises `MemberFailedError` where the process ended by itself."""
        if self.ended and not (self.killed or self.is_stopping or self.state in ("left", "closed")):
            log = self.log.read_text(errors="replace").strip().splitlines() or ["nothing in its log"]
            raise MemberFailedError(f"{self.name} ended with exit code {self.exit_code}: {log[-1]}")

    @property
    def ended(self) -> bool:
        return self.exit_code is not None

    @property
    def exit_code(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(KILL_WAIT_S)
        self.killed, self.state = True, "killed"

    def terminate(self) -> None:
        """Sends SIGTERM, on which it leaves in order."""
        self.is_stopping, self.state = True, "leaving"
        self._process.send_signal(signal.SIGTERM)

    def pause(self) -> None:
        """Sends SIGSTOP; SIGCONT follows when this process ends, at the latest."""
        self._pause = subprocess.Popen(
            ["sh", "-c", PAUSE, str(self.pid)], stdin=subprocess.PIPE, start_new_session=True
        )
        self.state = "paused"

    def resume(self) -> None:
        if self._pause is not None:
            self._pause.communicate()
            self._pause, self.state = None, "running"

    def close_stdin(self) -> None:
        """Closes its standard input, as the end of the demo does."""
        self.is_stopping = True
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # lines that it never read
            self._process.stdin.close()

    def wait(self, timeout_s: float) -> bool:
        """Waits for the end of the process; False when it did not end in time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        if self.ended and not self.killed:
            self.state = "left"
        return self.ended

    def close(self) -> None:
        """Kills the process if it runs, and releases its pipes and its thread."""
        if not self.ended:
            self._process.kill()
        self._process.wait(KILL_WAIT_S)
        self._reader.join(KILL_WAIT_S)
        self.close_stdin()
        self.resume()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Stopping:
    """In a process of a demo: whether it is to end, by SIGTERM or because its standard input has closed."""

    def __init__(self) -> None:
        """Begins to listen."""
        self.is_requested = self.is_orphan = False
        self._then: Callable[[], None] = lambda: None
        self._orphan_s = 0
        self._woken, self._wake = os.pipe()
        signal.signal(signal.SIGTERM, lambda number, frame: self._request())
        threading.Thread(target=self._await_end_of_input, daemon=True).start()

    def then(self, then: Callable[[], None]) -> None:
        """Has something called when the process is to end, at once where it is already."""
        self._then = then
        if self.is_requested:
            then()

    def limit(self, orphan_s: int) -> None:
        """Limits the time to leave when the demo is gone, and ZooKeeper with it; a signal ends it then."""
        self._orphan_s = orphan_s
        if self.is_orphan:
            signal.alarm(orphan_s)

    def wait(self, timeout_s: float) -> bool:
        """Waits until the process is to end; returns whether it is."""
        return bool(select.select([self._woken], [], [], timeout_s)[0])

    def _request(self) -> None:
        self.is_requested = True
        os.write(self._wake, b"!")
        self._then()

    def _await_end_of_input(self) -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        self.is_orphan = True
        signal.alarm(self._orphan_s)
        self._request()


def print_event(event: str, **fields: object) -> None:
    """Prints one event of a process in one write, so that lines of two threads never mix."""
    os.write(sys.stdout.fileno(), json.dumps({"event": event, **fields}).encode() + b"\n")


def main() -> None:
    """Imports the module before its settings are there, as that takes a while; then calls its `serve`.

    The settings are the first line of standard input.
    """
    module = importlib.import_module(sys.argv[1])
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(sys.stdin.fileno(), 1)):  # no byte beyond the line
        line += byte
    if line:
        module.serve(Stopping(), **decoded(line))


if __name__ == "__main__":
    main()
