"""The demo's members as processes of their own: start, listen, kill, stop."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from zkgroup.demo.orders import Orders, encode

KILL_WAIT_S = 5.0


class MemberProcess:
    """One consumer in a process of its own.

    It ends with this process, even when this one is killed: it stops when its standard input closes.
    Its events come through `events`, put there by a thread that ends with the process.
    """

    def __init__(self, orders: Orders, log: Path) -> None:
        """Starts it. `log` receives what it writes to standard error."""
        self.name = orders.name
        self.output = Path(orders.output)
        self.state = "starting"
        self.processed = 0
        self.killed = False
        self.lost_session = False
        self.events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "zkgroup.demo.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # Ctrl-C is for the demo, which stops its members in order
            )
        self.pid = self._process.pid
        self._give(encode(orders))
        self._reader = threading.Thread(target=self._listen, name=f"demo-{self.name}", daemon=True)
        self._reader.start()

    def _give(self, line: bytes) -> None:
        """Its orders; the pipe stays open, because its end means that the demo is gone."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended already, which is noticed elsewhere
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith(b"\n"):  # a SIGKILL may leave half a line
                self.events.put(json.loads(line))

    def news(self) -> list[dict[str, Any]]:
        """Takes the events that came since the last call, and brings state and count up to date."""
        found: list[dict[str, Any]] = []
        while True:
            try:
                event = self.events.get_nowait()
            except queue.Empty:
                return found
            self._note(event)
            found.append(event)

    def _note(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "state":
                self.state = event["after"]
            case "lost":
                self.lost_session = True
            case "progress":
                self.processed = event["processed"]

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    @property
    def exit_code(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """SIGKILL: no commit, no release, no goodbye."""
        self._process.kill()
        self._process.wait(KILL_WAIT_S)
        self.killed = True
        self.state = "killed"

    def ask_to_stop(self) -> None:
        """SIGTERM: commit, release, leave."""
        if not self.ended:
            self._process.send_signal(signal.SIGTERM)

    def wait(self, timeout_s: float) -> bool:
        """Waits for the end; False when it did not come in time."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        if not self.killed:
            self.state = "left"
        return True

    def close(self) -> None:
        """Nothing of it is left afterwards."""
        if not self.ended:
            self._process.kill()
        self._process.wait(KILL_WAIT_S)
        self._reader.join(KILL_WAIT_S)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # orders that it never took
                    pipe.close()
