"""`zkgroup demo` as a process of its own, run to its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.waiting import eventually
from zkgroup.demo.kafka_tools import KafkaTools

ZKGROUP = str(Path(sys.executable).parent / "zkgroup")


def demo(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs it to its end; its files go below `folder`."""
    return subprocess.run(
        [ZKGROUP, *arguments],
        env={**os.environ, "TMPDIR": str(folder), "ZKGROUP_ZOOKEEPER": "nowhere.invalid:1", **environment},
        capture_output=True,
        text=True,
    )


def kafka_tools_are_there(folder: Path) -> bool:
    """Whether Kafka's tools take part. Their jars are fetched first: how long Maven takes is not the demo's.

    With ZKGROUP_TEST_INTEROP=required (as in CI wherever Maven is installed) they have to.
    """
    tools = KafkaTools(folder)
    try:
        eventually(lambda: not tools.is_fetching, what="Maven has ended")
        tools.has_ended_in_time()
        assert not tools.reason or os.environ.get("ZKGROUP_TEST_INTEROP") != "required", tools.reason
        return not tools.reason
    finally:
        tools.close()
