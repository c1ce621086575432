"""A client of `zkgroup demo coordinator` that is paused ends with the demo."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.leaks import process_state
from tests.waiting import eventually

DEMO = """
import sys
from pathlib import Path
from zkgroup.demo.processes import Child
print(Child("paused", "stops_itself", Path(sys.argv[1])).pid, flush=True)
sys.stdin.read()
"""


def test_a_paused_process_ends_with_a_demo_that_is_killed(tmp_path: Path) -> None:
    """It would stay otherwise: a stopped process does not notice the end of its input."""
    (tmp_path / "stops_itself.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)")
    command = [sys.executable, "-c", DEMO, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as demo:
        assert demo.stdout is not None
        pid = int(demo.stdout.readline())
        eventually(lambda: process_state(pid), lambda state: state == "T")
        demo.kill()

    eventually(lambda: process_state(pid), lambda state: state in ("", "Z"))
