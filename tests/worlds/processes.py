"""Commands as processes of their own: events read line by line, signals, exit codes."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from zkgroup_cli.schemas import EVENTS

from tests.long.interop.processes import pause
from tests.worlds.json_schema import violations

PATIENCE_S = 90.0


class Process:
    """A `zkgroup` that serves; its events are checked against the published schemas as they come."""

    def __init__(self, *args: str, env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from zkgroup_cli.main import main; main()", *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=dict(env),
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.events: list[dict[str, Any]] = []
        self.errors = ""
        self._readers = [threading.Thread(target=self._read_out), threading.Thread(target=self._read_err)]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self.wait()

    def until(self, wanted: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The next event that is wanted; raises when none comes in time or the process ends."""
        while True:
            line = self._lines.get(timeout=PATIENCE_S)
            assert line is not None, f"ended without it: {self.events} {self.errors}"
            event = json.loads(line)
            assert violations(event, EVENTS[event["event"]]) == []
            self.events.append(event)
            if wanted(event):
                return dict(event)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Signals, and waits for the end; the events until then are in `events`."""
        self.send(number)
        return self.wait()

    def send(self, number: signal.Signals) -> None:
        """Signals, and does not wait."""
        self._process.send_signal(number)

    def pause(self) -> None:
        """SIGSTOP; returns when every thread has stopped."""
        pause(self.pid)

    def wait(self) -> int:
        """The exit code, once the process has ended and everything is read."""
        code = self._process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        while not self._lines.empty():
            line = self._lines.get()
            if line is not None and line.startswith("{"):
                self.events.append(json.loads(line))
        return code

    def _read_out(self) -> None:
        assert self._process.stdout
        with self._process.stdout as stream:
            for line in stream:
                self._lines.put(line)
        self._lines.put(None)

    def _read_err(self) -> None:
        assert self._process.stderr
        with self._process.stderr as stream:
            self.errors = stream.read()
