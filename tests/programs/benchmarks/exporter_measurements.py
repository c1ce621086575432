"""The cost of a read of the exporter: CPU and packets for groups whose every offset has moved since the last.

A broker, a process of its own, leads all partitions and is asked for their log ends.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zkgroup_cli.serving import rare_collections

from tests.long.interop.processes import Process
from tests.programs.benchmarks.commands import zkgroup
from tests.programs.benchmarks.report import Line, Plan, Report, median
from tests.programs.benchmarks.server import BenchServer
from tests.waiting import eventually
from zkgroup import Admin
from zkgroup.exporter.exporter import connection_to
from zkgroup.exporter.metrics import render
from zkgroup.exporter.reading import Reader, ReadingSettings
from zkgroup.groups.lag_verdict import LagWindows
from zkgroup.model import StaticSubscription, TopicPartition
from zkgroup.model.requests import Create, Operation, SetData
from zkgroup.znodes.consumers import (
    Offset,
    Owner,
    Registration,
    group_path,
    ids_path,
    offsets_path,
    offsets_topic_path,
    owners_path,
    owners_topic_path,
)
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.settings import Address, ClientSettings

BATCH = 500
"""Operations of a transaction."""
MEMBERS = 10
"""Of each group."""
TOPICS = 10
WARM = 12
"""Reads before those that are measured: then every window of the verdict is full."""


def exporter(plan: Plan, report: Report) -> None:
    """100 groups of 100 partitions, of ten topics; then the same with a dead leader."""
    groups, partitions = (10, 10) if plan.short else (100, 100)
    topics = min(TOPICS, groups)
    with BenchServer() as server, _broker(server) as broker, Admin(server.address) as admin:
        for topic in range(topics):
            admin.create_topic(f"topic-{topic}", partitions=partitions)
        opened = connection_to(server.address, ClientSettings(session_timeout_ms=60_000), timeout_s=60.0)
        try:
            tree = _Groups(opened.ensemble.zk, groups, partitions, topics)
            settings = ReadingSettings(servers=Address.parse(server.address))
            reader = Reader(opened.ensemble, settings, LagWindows(), packets=opened.packets)
            eventually(lambda: len(reader.read().log_ends), lambda found: found == topics * partitions)
            with rare_collections():
                costs = [_read(reader, tree) for _ in range(WARM + max(plan.repeats, 3))][WARM:]
                broker.kill()
                without_leader = _read(reader, tree)
        finally:
            opened.close()
    what = f"exporter: {groups} groups of {partitions} partitions, all offsets moved"
    cpu_s, packets = median(cost[0] for cost in costs), max(cost[1] for cost in costs)
    seconds = median(cost[2] for cost in costs)
    report.lines.append(
        Line(what, "zkgroup", seconds=seconds, client_cpu_s=cpu_s, packets=packets, runs=len(costs))
    )
    report.at_most(f"{what}: packets", 40, packets, "packets")
    report.at_most(f"{what}: CPU of a read with its text", 150, 1000 * cpu_s, "ms")
    report.at_most(f"{what}: packets with a dead leader", 40, without_leader[1], "packets")


def _read(reader: Reader, tree: _Groups) -> tuple[float, int, float]:
    """CPU seconds of a read and the text made of it, packets, and seconds of the read."""
    tree.commit()
    began = time.process_time()
    reading = reader.read()
    text = render(reading, 0, reading.time_ms)
    cpu_s = time.process_time() - began
    assert text.count(b"\nzkgroup_group_committed_offset{") == tree.size
    assert reading.packets is not None
    return cpu_s, reading.packets, reading.took_s


class _Groups:
    """Groups that own and have committed every partition of one topic each."""

    def __init__(self, zk: Blocking, groups: int, partitions: int, topics: int) -> None:
        self._zk, self._commits = zk, 0
        names = [(f"group-{number}", f"topic-{number % topics}") for number in range(groups)]
        self._offsets = [
            Offset.path(group, TopicPartition(topic, number))
            for group, topic in names
            for number in range(partitions)
        ]
        self.size = len(self._offsets)
        zk.create_missing("/consumers")
        self._write([one for group, topic in names for one in _group(group, topic, partitions)])

    def commit(self) -> None:
        """Commits another offset of each partition."""
        self._commits += 1
        self._write([SetData(path, str(self._commits).encode(), -1) for path in self._offsets])

    def _write(self, operations: list[Operation]) -> None:
        for start in range(0, len(operations), BATCH):
            self._zk.multi(*operations[start : start + BATCH])


def _group(group: str, topic: str, partitions: int) -> Iterator[Operation]:
    for path in (group_path(group), ids_path(group), owners_path(group), offsets_path(group)):
        yield Create(path, None)
    yield Create(owners_topic_path(group, topic), None)
    yield Create(offsets_topic_path(group, topic), None)
    wanted = Registration.of(StaticSubscription({topic: 1}), 0)
    for member in range(MEMBERS):
        yield Create(Registration.path(group, f"{group}_host-{member}"), wanted.encode(), ephemeral=True)
    for number in range(partitions):
        tp, member = TopicPartition(topic, number), number * MEMBERS // partitions
        yield Create(Owner.path(group, tp), f"{group}_host-{member}-0".encode(), ephemeral=True)
        yield Create(Offset.path(group, tp), b"0")


@contextmanager
def _broker(server: BenchServer) -> Iterator[Process]:
    """A broker as a process, once it is registered."""
    command = zkgroup("-z", server.address, "broker", "run", "--id", "1", "--format", "ndjson")
    with tempfile.TemporaryDirectory(prefix="zkgroup-exporter-") as folder:
        log = Path(folder) / "broker.log"
        process = Process(command, log)
        try:
            eventually(lambda: '"registered"' in log.read_text(), what="the broker registers")
            yield process
        finally:
            process.kill()
