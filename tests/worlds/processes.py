"""Commands as processes of their own: events read line by line, signals, exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest
from zkgroup_cli.schemas import EVENTS

from tests.long.interop.processes import pause
from tests.waiting import ended, joined, next_of
from tests.worlds.prefork import Prefork, servers
from tests.worlds.prefork import started as started

_TYPES: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
    "array": list,
    "object": dict,
}
_KNOWN = {
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "pattern",
    "anyOf",
    "minimum",
}


def violations(value: Any, schema: Mapping[str, Any], where: str = "$") -> list[str]:
    """The violations of the schema in a value; empty when the value is valid."""
    unknown = set(schema) - _KNOWN
    assert not unknown, f"schema keyword not supported here: {unknown}"
    if "anyOf" in schema:
        tried = [violations(value, one, where) for one in schema["anyOf"]]
        return [] if [] in tried else min(tried, key=len)
    if "const" in schema:
        return [] if value == schema["const"] else [f"{where}: expected {schema['const']!r}, found {value!r}"]
    if not _is(value, schema["type"]):
        return [f"{where}: expected {schema['type']}, found {value!r}"]
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where}: expected one of {schema['enum']}, found {value!r}")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{where}: expected {schema['pattern']}, found {value!r}")
    if "minimum" in schema and value < schema["minimum"]:
        found.append(f"{where}: expected at least {schema['minimum']}, found {value!r}")
    if isinstance(value, list):
        for number, item in enumerate(value):
            found += violations(item, schema["items"], f"{where}[{number}]")
    if isinstance(value, dict):
        found += _object(value, schema, where)
    return found


def _is(value: Any, kind: str) -> bool:
    if kind == "integer" and isinstance(value, bool):
        return False
    return isinstance(value, _TYPES[kind])


def _object(value: Mapping[str, Any], schema: Mapping[str, Any], where: str) -> list[str]:
    properties = schema.get("properties", {})
    found = [f"{where}: {key!r} is missing" for key in schema.get("required", ()) if key not in value]
    for key, item in value.items():
        if key in properties:
            found += violations(item, properties[key], f"{where}.{key}")
        elif schema.get("additionalProperties") is False:
            found.append(f"{where}: {key!r} is not expected")
        elif isinstance(schema.get("additionalProperties"), Mapping):
            found += violations(item, schema["additionalProperties"], f"{where}.{key}")
    return found


@pytest.fixture(scope="session", autouse=True)
def preforked() -> Iterator[Prefork | None]:
    """A fixture that starts commands by forking a process that has imported them."""
    if not sys.platform.startswith("linux"):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="zkgroup-") as folder, Prefork(Path(folder)) as server:
        servers.append(server)
        yield server
        servers.remove(server)


class Process:
    """A `zkgroup` that serves; its events are checked against the published schemas as they come."""

    def __init__(self, *args: str, env: Mapping[str, str], fresh: bool = False) -> None:
        self._process = started(args, env, fresh=fresh)
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.events: list[dict[str, Any]] = []
        self.errors = ""
        """The output on stderr so far."""
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
        """The next wanted event; raises when none comes in time or the process ends."""
        while True:
            line = next_of(self._lines, what=f"an event after {self.events}")
            assert line is not None, f"ended without it: {self.events} {self.errors}"
            event = json.loads(line)
            assert violations(event, EVENTS[event["event"]]) == []
            self.events.append(event)
            if wanted(event):
                return dict(event)

    def until_event(self, name: str) -> dict[str, Any]:
        """The next event of this name."""
        return self.until(lambda event: event["event"] == name)

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
        code = ended(self._process)
        joined(*self._readers)
        while not self._lines.empty():
            line = self._lines.get()
            if line is not None and line.startswith("{"):
                self.events.append(json.loads(line))
        return code

    def _read_out(self) -> None:
        assert self._process.stdout
        with self._process.stdout as stream:
            for line in stream:
                self._lines.put(line.decode())
        self._lines.put(None)

    def _read_err(self) -> None:
        assert self._process.stderr
        with self._process.stderr as stream:
            for line in stream:
                self.errors += messages_in(line)


class Piped:
    """A `zkgroup` that reads what is written to it, and what it has printed by its end."""

    def __init__(self, *args: str, env: Mapping[str, str], fresh: bool = False) -> None:
        self._process = started(args, env, stdin=subprocess.PIPE, fresh=fresh)
        self._printed = {"out": b"", "err": b""}
        streams = {"out": self._process.stdout, "err": self._process.stderr}
        self._readers = [
            threading.Thread(target=self._read, args=(name, stream)) for name, stream in streams.items()
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self.finish()

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    @property
    def printed(self) -> str:
        """The output so far."""
        return self._printed["out"].decode()

    def write(self, data: bytes) -> None:
        """Into its standard input, at once."""
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def finish(self) -> tuple[int, str, str]:
        """Exit code, stdout and stderr, after its input has ended and it as well."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        code = ended(self._process)
        joined(*self._readers)
        return code, self._printed["out"].decode(), messages_in(self._printed["err"])

    def _read(self, name: str, stream: Any) -> None:
        with stream:
            for line in stream:
                self._printed[name] += line


def messages_in(errors: bytes) -> str:
    """stderr of a command, without the messages about whom it waits for, which a slow machine causes."""
    lines = errors.decode().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("waiting for "))


def pipe_without_reader() -> int:
    """The write end of a pipe without a reader."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing
