"""`zkgroup demo` as a process of its own, run to its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.waiting import eventually
from zkgroup.demo.kafka_clients import KafkaJars

ZKGROUP = str(Path(sys.executable).parent / "zkgroup")


def demo(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs it to its end; its files go below `folder`."""
    return subprocess.run(
        [ZKGROUP, *arguments],
        env={**os.environ, "TMPDIR": str(folder), "ZKGROUP_ZOOKEEPER": "nowhere.invalid:1", **environment},
        capture_output=True,
        text=True,
    )


def kafka_tools_are_there() -> bool:
    """Whether Kafka's tools take part. Their jars are fetched first: how long Maven takes is not the demo's.

    With ZKGROUP_TEST_INTEROP=required (as in CI wherever Maven is installed) they have to.
    """
    jars = KafkaJars()
    try:
        eventually(lambda: not jars.is_fetching, what="Maven has ended")
        jars.has_ended_in_time()
        assert not jars.reason or os.environ.get("ZKGROUP_TEST_INTEROP") != "required", jars.reason
        return not jars.reason
    finally:
        jars.close()
