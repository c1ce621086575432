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

KILL_WAIT_S = 5.0


class ChildProcess:
    """One process of a demo.

    It ends with this process, even when this one is killed: it stops when its standard input closes.
    Its events come through `events`, put there by a thread that ends with the process.
    """

    def __init__(self, name: str, module: str, log: Path) -> None:
        """Starts it; it waits for its orders. `log` receives what it writes to standard error."""
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

    def give(self, line: bytes) -> None:
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
        """Takes the events that came since the last call, and brings what is known up to date."""
        found: list[dict[str, Any]] = []
        while True:
            try:
                event = self.events.get_nowait()
            except queue.Empty:
                return found
            self.note(event)
            found.append(event)

    def note(self, event: dict[str, Any]) -> None:
        """Takes in one event."""

    def check(self) -> None:
        """Raises where it ended by itself."""

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    @property
    def exit_code(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    @property
    def last_words(self) -> str:
        """The last line of its log."""
        log = self.log.read_text(errors="replace").strip()
        return log.splitlines()[-1] if log else "nothing in its log"

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        self._process.kill()
        self._process.wait(KILL_WAIT_S)
        self.killed = True
        self.state = "killed"

    def ask_to_stop(self) -> None:
        """SIGTERM: it leaves in order."""
        if not self.ended:
            self._process.send_signal(signal.SIGTERM)

    def hang_up(self) -> None:
        """Closes its standard input, as the end of the demo does."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # orders that it never took
                self._process.stdin.close()

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
        self.hang_up()
        if self._process.stdout is not None:
            self._process.stdout.close()


@contextmanager
def connected(address: str, settings: ClientSettings, answer_timeout_s: float) -> Iterator[Ensemble]:
    """Closed at the end. Raises what a first connection raises."""
    client = ZooKeeperClient(address, replace(settings, session_timeout_ms=10_000))
    try:
        zk = Blocking(client, timeout_s=answer_timeout_s)
        zk.wait_connected()
        yield Ensemble(zk, SystemClock())
    finally:
        client.close()
