"""`zkgroup demo` as a process of its own, run to its end."""

from __future__ import annotations

import os
import subprocess
import sys
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
