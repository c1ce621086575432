"""The cost of starting the embedded ZooKeeper, from the call until every server serves sessions."""

from __future__ import annotations

import time

from tests.programs.benchmarks.server import Cost, cpu_seconds
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper


def start(servers: int) -> Cost:
    """One start: wall seconds, and the CPU seconds of all servers until they are ready."""
    zookeeper = EmbeddedZooKeeper(servers, fsync=False)
    began = time.perf_counter()
    zookeeper.start()
    try:
        seconds = time.perf_counter() - began
        return Cost(seconds, 0, None, sum(cpu_seconds(pid) for pid in zookeeper.pids))
    finally:
        zookeeper.stop()
