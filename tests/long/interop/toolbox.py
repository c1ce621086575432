"""Kafka's command-line tools of any release in one JVM, as a JVM's start costs more than most tools do."""

from __future__ import annotations

import os
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.long.interop.jars import compiled, java, kafka_jars
from tests.long.interop.processes import tethered
from tests.waiting import PATIENCE_S

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Printed:
    """The output of a tool on both streams, and its exit code."""

    code: int
    text: str


class Toolbox:
    """Starts its JVM with the first tool, and again when a tool has ended it. For one thread."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def pids(self) -> list[int]:
        return [] if self._process is None else [self._process.pid]

    def run(
        self,
        release: str,
        main: str,
        *arguments: str,
        classes: Path | None = None,
        timeout_s: float = 2 * PATIENCE_S,
    ) -> Printed:
        """Runs one tool, of a release or of our own classes; AssertionError when it has not ended in time."""
        folder = kafka_jars(release)
        words = (f"{folder}{os.pathsep}{classes}" if classes else str(folder), main, *arguments)
        assert not any("\t" in word or "\n" in word for word in words), words
        process = self._process = self._process or self._start(release)
        assert process.stdin is not None
        assert process.stdout is not None
        late = threading.Timer(timeout_s, process.kill)
        late.start()
        try:
            process.stdin.write("\t".join(words).encode() + b"\n")
            process.stdin.flush()
            head = process.stdout.readline().split()
            printed = process.stdout.read(int(head[1])) if head else b""
        finally:
            late.cancel()
            late.join()
        if not head or len(printed) < int(head[1]):
            code = self._end()
            raise AssertionError(f"{main} of {release} ended the JVM with {code}, or not in {timeout_s:g} s")
        return Printed(self._end() if head[0] == b"exit" else int(head[0]), printed.decode())

    def _start(self, release: str) -> subprocess.Popen[bytes]:
        classes = compiled(HERE / "Tools.java", "")
        settings = kafka_jars(release) / "log4j.properties"
        command = java(str(classes), "Tools", heap_mb=192, log=settings)
        return subprocess.Popen(tethered(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _end(self) -> int:
        """The exit code of the JVM, which ends with its input."""
        process, self._process = self._process, None
        if process is None:
            return 0
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            return process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait(PATIENCE_S)
        finally:
            process.stdout.close()
