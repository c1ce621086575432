"""A client of `zkgroup demo coordinator` that is paused goes on when the demo ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.waiting import ended, eventually
from zkgroup.demo.processes import PAUSE


def state_of(pid: int) -> str:
    """The state in `/proc/PID/stat`; `T` for a stopped process."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def test_a_paused_process_goes_on_when_the_pipe_closes() -> None:
    """As it does when the demo ends, even by SIGKILL: the process would stay stopped otherwise."""
    script = "import sys; sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as process:
        pause = subprocess.Popen(["sh", "-c", PAUSE, str(process.pid)], stdin=subprocess.PIPE)
        eventually(lambda: state_of(process.pid), lambda state: state == "T")
        assert pause.stdin is not None
        pause.stdin.close()

        assert ended(pause) == 0
        eventually(lambda: state_of(process.pid), lambda state: state != "T")
        assert process.stdin is not None
        process.stdin.close()
        assert ended(process) == 0
