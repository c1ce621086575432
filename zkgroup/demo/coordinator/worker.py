"""One client of the demo's group as a child process, which reads flights and writes one line for each.

    python -m zkgroup.demo.coordinator.worker

The first line of its standard input holds its settings. It leaves the group on SIGTERM, and when its standard
input closes it ends. Events go to standard output, one JSON object a line.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

from zkgroup.demo.coordinator import group_clients
from zkgroup.demo.flight_data import Processed, airport_and_delay, encode_line
from zkgroup.demo.processes import ChildProcess
from zkgroup.errors import MemberFailedError

COMMIT_EVERY_S = 0.5
PROGRESS_EVERY_S = 0.2
PAUSE = 'kill -STOP "$0"; cat >/dev/null; kill -CONT "$0" 2>/dev/null'
"""Shell script that pauses a process until its own standard input closes."""
LEAVE_S = 3
"""Longest time to leave when the demo is gone; a signal ends the process then."""


@dataclass(frozen=True, slots=True)
class ClientChildSettings:
    """Settings of one client's process."""

    name: str
    """Its client id."""
    client: str
    """The package, or `java`."""
    bootstrap: str
    group: str
    output: str
    """File for the processed records, one line each."""
    session_timeout_ms: int
    jars: str = ""
    """Folder of Kafka's jars, for `java`."""


def encode_settings(child_settings: ClientChildSettings) -> bytes:
    """One line, newline included."""
    return json.dumps(asdict(child_settings)).encode() + b"\n"


def decode_settings(line: bytes) -> ClientChildSettings:
    """The decoded settings. Raises ValueError where the line is incomplete."""
    return ClientChildSettings(**json.loads(line))


class ClientChild(ChildProcess):
    """The process of one client."""

    def __init__(self, child_settings: ClientChildSettings, log: Path) -> None:
        """Starts the process. `log` receives its standard error."""
        self.settings = child_settings
        self.output = Path(child_settings.output)
        self.processed = 0
        self.refusals: list[str] = []
        """Names of the errors of its failed commits."""
        self.is_stopping = False
        self._pause: subprocess.Popen[bytes] | None = None
        super().__init__(child_settings.name, "zkgroup.demo.coordinator.worker", log)
        self.send_line(encode_settings(child_settings))

    def apply_event(self, event: dict[str, Any]) -> None:
        """Updates the state, the number of processed records and the failed commits."""
        match event["event"]:
            case "assigned" | "progress":
                self.processed = event.get("processed", self.processed)
                if self.state == "starting":
                    self.state = "running"
            case "not_committed":
                self.refusals.append(event["error"])

    def pause(self) -> None:
        """Sends SIGSTOP; SIGCONT follows when this process ends, at the latest."""
        self._pause = subprocess.Popen(
            ["sh", "-c", PAUSE, str(self.pid)], stdin=subprocess.PIPE, start_new_session=True
        )
        self.state = "paused"

    def resume(self) -> None:
        """Sends SIGCONT."""
        if self._pause is not None:
            self._pause.communicate()
            self._pause = None
            self.state = "running"

    def close(self) -> None:
        """Kills the process if it runs, and releases what it has."""
        super().close()
        self.resume()

    def terminate(self) -> None:
        """Sends SIGTERM, on which it commits and leaves."""
        self.is_stopping = True
        super().terminate()

    def check(self) -> None:
        """Raises `MemberFailedError` where it ended by itself."""
        if self.ended and not self.killed and not self.is_stopping:
            raise MemberFailedError(
                f"{self.name} ended with exit code {self.exit_code}: {self.last_log_line}"
            )


class ClientWork:
    """What a client works for: writes a line for each record, and decides when to commit."""

    def __init__(self, child_settings: ClientChildSettings, output: BinaryIO) -> None:
        self.group = child_settings.group
        self.client_id = child_settings.name
        self.bootstrap = child_settings.bootstrap
        self.session_timeout_ms = child_settings.session_timeout_ms
        self.is_stopping = False
        self._output = output
        self._next: dict[int, int] = {}
        self._acknowledged: dict[int, int] = {}
        self._assigned: frozenset[int] = frozenset()
        self._token = 0
        self._tokens: dict[int, int] = {}
        """Of partitions whose assignment was not reported."""
        self._processed = 0
        self._committed_s = self._printed_s = time.monotonic()

    def assigned(self, partitions: Collection[int]) -> None:
        """Begins a new assignment; its token is greater than those of all earlier ones of any member."""
        self._token = _now_ms()
        self._assigned = frozenset(partitions)
        self._next.clear()
        self._acknowledged.clear()
        print_event("assigned", partitions=sorted(partitions))

    def revoked(self) -> None:
        """Forgets the partitions."""
        self._assigned = frozenset()
        self._next.clear()
        print_event("revoked")

    def process(self, partition: int, offset: int, value: bytes | None) -> None:
        """Writes one line to the member's own file, in one write."""
        assert value is not None
        token = self._token
        if partition not in self._assigned:
            if self._next.get(partition) != offset:
                self._tokens[partition] = _now_ms()
            token = self._tokens[partition]
        self._output.write(encode_line(Processed(partition, offset, *airport_and_delay(value), token)))
        self._next[partition] = offset + 1
        self._processed += 1
        if time.monotonic() - self._printed_s > PROGRESS_EVERY_S:
            self._printed_s = time.monotonic()
            self.report()

    def report(self) -> None:
        """Prints how many records were processed."""
        print_event("progress", processed=self._processed)

    def due(self) -> Mapping[int, int]:
        """The positions that are not committed yet, at intervals."""
        if time.monotonic() - self._committed_s < COMMIT_EVERY_S:
            return {}
        self._committed_s = time.monotonic()
        return {
            partition: offset
            for partition, offset in self._next.items()
            if self._acknowledged.get(partition) != offset
        }

    def positions(self) -> Mapping[int, int]:
        """Every position, for the last commit before the partitions go."""
        return dict(self._next)

    @property
    def metadata(self) -> str:
        """Member and token."""
        return f"{self.client_id} {self._token}"

    def committed(self, offsets: Mapping[int, int]) -> None:
        """Keeps what was acknowledged."""
        self._acknowledged.update(offsets)

    def not_committed(self, error: str) -> None:
        """Prints the error."""
        print_event("not_committed", error=error)


def _now_ms() -> int:
    """Milliseconds on the clock that all processes of a machine share."""
    return time.monotonic_ns() // 1_000_000


def print_event(event: str, **fields: object) -> None:
    """Prints one event in one write, so that lines of two threads never mix."""
    line = json.dumps({"event": event, **fields}) + "\n"
    os.write(sys.stdout.fileno(), line.encode())


def run(child_settings: ClientChildSettings) -> None:
    """Joins the group and consumes until SIGTERM or the end of its input."""
    with open(child_settings.output, "ab", buffering=0) as output:  # noqa: PTH123
        work = ClientWork(child_settings, output)

        def stop(number: int, frame: FrameType | None) -> None:
            work.is_stopping = True

        signal.signal(signal.SIGTERM, stop)
        threading.Thread(target=_stop_at_end_of_input, args=(work,), daemon=True).start()
        if child_settings.client == group_clients.JAVA:
            group_clients.run_java(work, Path(child_settings.jars))
        else:
            group_clients.RUNNERS[child_settings.client](work)
        work.report()


def _stop_at_end_of_input(work: ClientWork) -> None:
    """Ends when standard input closes, as it does when the demo is killed."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    work.is_stopping = True
    signal.alarm(LEAVE_S)


if __name__ == "__main__":
    run(decode_settings(sys.stdin.buffer.readline()))
