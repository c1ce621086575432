"""Demos that a signal ends while they run."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.long.demos.demo_runs import ZKGROUP
from tests.waiting import ended

OWNED = "every partition has an owner"
JOINING = "join group demo"


@pytest.mark.parametrize(
    ("words", "reached", "number"),
    [
        ("demo", OWNED, signal.SIGINT),
        ("demo coordinator", JOINING, signal.SIGTERM),
        ("demo coordinator", JOINING, signal.SIGKILL),
    ],
)
def test_ended_demo_leaves_nothing(words: str, reached: str, number: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C and SIGTERM stop every process, remove the files and end with exit code 130.

    After SIGKILL all processes end too, as the demo's end of their pipe is closed. All demos start theirs by
    `zkgroup.demo.processes`. The leak watch checks after each test that no process is left.
    """
    process = subprocess.Popen(
        [ZKGROUP, *words.split()],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        assert any(reached in line for line in iter(process.stderr.readline, ""))
        process.send_signal(number)
        assert ended(process) == (-number if number is signal.SIGKILL else 130)
    finally:
        process.kill()
        process.communicate()
    assert number is signal.SIGKILL or list(tmp_path.iterdir()) == []
