"""`zkgroup demo` as a process of its own, run to its end or as far as its story has come."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ZKGROUP = str(Path(sys.executable).parent / "zkgroup")
DEMO_TIMEOUT_S = 400


def demo(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs it to its end; its files go below `folder`."""
    return subprocess.run(
        [ZKGROUP, *arguments],
        env={**os.environ, "TMPDIR": str(folder), "ZKGROUP_ZOOKEEPER": "nowhere.invalid:1"},
        capture_output=True,
        text=True,
        timeout=DEMO_TIMEOUT_S,
    )


@contextmanager
def interrupted_when(
    text: str, number: signal.Signals, *arguments: str, folder: Path
) -> Iterator[subprocess.Popen[str]]:
    """A demo that gets a signal once its story has come so far."""
    with started_until(text, *arguments, folder=folder) as process:
        process.send_signal(number)
        yield process


@contextmanager
def started_until(text: str, *arguments: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A demo whose story has come so far."""
    process = subprocess.Popen(
        [ZKGROUP, *arguments],
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        story = iter(process.stderr.readline, "")
        assert any(re.search(text, line) for line in story)
        yield process
    finally:
        process.kill()
        process.communicate(timeout=60)
