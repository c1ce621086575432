"""Child processes of a demo (start, read events, kill, stop), and the demo's own connection to ZooKeeper."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from zkgroup.groups.ensemble import Ensemble
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.clock import SystemClock

KILL_WAIT_S = 60.0


class ChildProcess:
    """One child process of a demo.

    It ends with this process, even when this one is killed, because it stops when its standard input closes.
    A thread, which ends with the process, puts its events into `events`.
    """

    def __init__(self, name: str, module: str, log: Path) -> None:
        """Starts the process, which waits for its settings. `log` receives its standard error."""
        self.name = name
        self.log = log
        self.state = "starting"
        self.killed = False
        self.events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # Ctrl-C is for the demo, which stops its processes in order
            )
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._listen, name=f"demo-{name}", daemon=True)
        self._reader.start()

    def send_line(self, line: bytes) -> None:
        """Writes a line to its standard input, which stays open: its end means that the demo is gone."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended already, which is noticed elsewhere
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith(b"\n"):  # a SIGKILL may leave half a line
                self.events.put(json.loads(line))

    def poll_events(self) -> list[dict[str, Any]]:
        """Applies and returns the events since the last call."""
        found: list[dict[str, Any]] = []
        while True:
            try:
                event = self.events.get_nowait()
            except queue.Empty:
                return found
            self.apply_event(event)
            found.append(event)

    def apply_event(self, event: dict[str, Any]) -> None:
        """Updates what is known of the process from one event."""

    def check(self) -> None:
        """Raises where the process ended unexpectedly."""

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    @property
    def exit_code(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    @property
    def last_log_line(self) -> str:
        """The last line of its log."""
        log = self.log.read_text(errors="replace").strip()
        return log.splitlines()[-1] if log else "nothing in its log"

    def kill(self) -> None:
        """Sends SIGKILL, and waits for the end."""
        self._process.kill()
        self._process.wait(KILL_WAIT_S)
        self.killed = True
        self.state = "killed"

    def terminate(self) -> None:
        """Sends SIGTERM, on which it leaves in order."""
        if not self.ended:
            self._process.send_signal(signal.SIGTERM)

    def close_stdin(self) -> None:
        """Closes its standard input, as the end of the demo does."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # lines that it never read
                self._process.stdin.close()

    def wait(self, timeout_s: float) -> bool:
        """Waits for the end of the process; False when it did not end in time."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        if not self.killed:
            self.state = "left"
        return True

    def close(self) -> None:
        """Kills the process if it runs, and releases its pipes and its thread."""
        if not self.ended:
            self._process.kill()
        self._process.wait(KILL_WAIT_S)
        self._reader.join(KILL_WAIT_S)
        self.close_stdin()
        if self._process.stdout is not None:
            self._process.stdout.close()


@contextmanager
def connected(address: str, settings: ClientSettings, answer_timeout_s: float) -> Iterator[Ensemble]:
    """A connection to an ensemble for a `with` statement. Raises what a first connection raises."""
    client = ZooKeeperClient(address, replace(settings, session_timeout_ms=10_000))
    try:
        zk = Blocking(client, timeout_s=answer_timeout_s)
        zk.wait_connected()
        yield Ensemble(zk, SystemClock())
    finally:
        client.close()
