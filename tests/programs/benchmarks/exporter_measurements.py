"""The cost of a read of the exporter: CPU and packets for groups whose every offset has moved since the last.

A broker, a process of its own, leads all partitions and is asked for their log ends.
"""

from __future__ import annotations

import json
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from zkgroup_cli.serving import rare_collections

from tests.long.interop.processes import Process
from tests.programs.benchmarks.commands import zkgroup
from tests.programs.benchmarks.process_tree import usage
from tests.programs.benchmarks.report import Line, Plan, Report, median
from tests.programs.benchmarks.server import BenchServer
from tests.waiting import PATIENCE_S, eventually
from zkgroup import Admin
from zkgroup.exporter.exporter import connection_to
from zkgroup.exporter.history import ReadingHistory
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
SCRAPED = 3
"""Reads until the memory of the command is measured."""
WARM = 12
"""Reads before those that are measured: then every window of the verdict is full."""


class Size(NamedTuple):
    """How many groups there are, and the limits for them."""

    groups: int
    partitions: int
    """Of each group, all of one topic."""
    topics: int
    members: int
    """Of each group."""
    packets: int
    cpu_ms: float
    memory_mb: float

    @property
    def text(self) -> str:
        each = f"{self.partitions} partition{'s' if self.partitions > 1 else ''}"
        return f"exporter: {self.groups} groups of {each}, all offsets moved"


FEW = Size(100, 100, 10, 10, packets=40, cpu_ms=150, memory_mb=150)
MANY = Size(10_000, 1, 10, 1, packets=150, cpu_ms=1_500, memory_mb=400)
SHORT = FEW._replace(groups=10, partitions=10)


def exporter(plan: Plan, report: Report) -> None:
    """A few large groups and many small ones: reads, one of them with a dead leader, and the memory."""
    for size in (SHORT,) if plan.short else (FEW, MANY):
        _measure(size, plan, report)


def _measure(size: Size, plan: Plan, report: Report) -> None:
    with BenchServer() as server, _broker(server) as broker, Admin(server.address) as admin:
        for topic in range(size.topics):
            admin.create_topic(f"topic-{topic}", partitions=size.partitions)
        opened = connection_to(server.address, ClientSettings(session_timeout_ms=60_000), timeout_s=60.0)
        try:
            tree = _Groups(opened.ensemble.zk, size)
            settings = ReadingSettings(servers=Address.parse(server.address))
            reader = Reader(opened.ensemble, settings, LagWindows(), packets=opened.packets)
            history = ReadingHistory()
            eventually(
                lambda: len(reader.read().log_ends), lambda found: found == size.topics * size.partitions
            )
            with rare_collections():
                costs = [_read(reader, history, tree) for _ in range(WARM + max(plan.repeats, 3))][WARM:]
                memory_mb = _memory_mb(server, tree)
                broker.kill()
                without_leader = _read(reader, history, tree)
        finally:
            opened.close()
    what = size.text
    cpu_s, packets = median(cost[0] for cost in costs), max(cost[1] for cost in costs)
    seconds = median(cost[2] for cost in costs)
    note = f"{memory_mb:.0f} MiB resident at most"
    report.lines.append(
        Line(
            what, "zkgroup", seconds=seconds, client_cpu_s=cpu_s, packets=packets, runs=len(costs), note=note
        )
    )
    report.at_most(f"{what}: packets", size.packets, packets, "packets")
    report.at_most(f"{what}: CPU of a read with its text", size.cpu_ms, 1000 * cpu_s, "ms")
    report.at_most(f"{what}: packets with a dead leader", size.packets, without_leader[1], "packets")
    report.at_most(f"{what}: memory of the command", size.memory_mb, memory_mb, "MiB")


def _memory_mb(server: BenchServer, tree: _Groups) -> float:
    """The most that the command has resident in its first reads, each of which is scraped."""
    words = ("exporter", "--listen", "127.0.0.1:0", "--interval", "1s", "--format", "ndjson")
    with tempfile.TemporaryDirectory(prefix="zkgroup-exporter-") as folder:
        log = Path(folder) / "exporter.log"
        process = Process(zkgroup("-z", server.address, *words), log)

        def scraped() -> str:
            """The line of the last group's offset."""
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                text = str(answer.read(), "utf-8")
            name = f'zkgroup_group_committed_offset{{group="group-{tree.groups - 1}"'
            return text[text.find(name) :].partition("\n")[0]

        try:
            line = eventually(lambda: [one for one in log.read_text().splitlines() if '"ready"' in one])[0]
            url = f"http://{json.loads(line)['listen']}/metrics"
            for _ in range(SCRAPED):
                tree.commit()
                eventually(scraped, lambda sample: sample.endswith(f" {tree.commits}"))
            return usage(process.pid).peak_mb
        finally:
            process.end()


def _read(reader: Reader, history: ReadingHistory, tree: _Groups) -> tuple[float, int, float]:
    """CPU seconds of a read, of remembering it, and of the text made of it; packets; seconds of the read."""
    tree.commit()
    began = time.process_time()
    reading = reader.read()
    history.add(reading)
    text = render(reading, 0, reading.time_ms)
    cpu_s = time.process_time() - began
    assert text.count(b"\nzkgroup_group_committed_offset{") == tree.size
    assert reading.packets is not None
    return cpu_s, reading.packets, reading.took_s


class _Groups:
    """Groups that own and have committed every partition of one topic each."""

    def __init__(self, zk: Blocking, size: Size) -> None:
        self._zk, self.commits, self.groups = zk, 0, size.groups
        names = [(f"group-{number}", f"topic-{number % size.topics}") for number in range(size.groups)]
        self._offsets = [
            Offset.path(group, TopicPartition(topic, number))
            for group, topic in names
            for number in range(size.partitions)
        ]
        self.size = len(self._offsets)
        zk.create_missing("/consumers")
        self._write([one for group, topic in names for one in _group(group, topic, size)])

    def commit(self) -> None:
        """Commits another offset of each partition."""
        self.commits += 1
        self._write([SetData(path, str(self.commits).encode(), -1) for path in self._offsets])

    def _write(self, operations: list[Operation]) -> None:
        for start in range(0, len(operations), BATCH):
            self._zk.multi(*operations[start : start + BATCH])


def _group(group: str, topic: str, size: Size) -> Iterator[Operation]:
    for path in (group_path(group), ids_path(group), owners_path(group), offsets_path(group)):
        yield Create(path, None)
    yield Create(owners_topic_path(group, topic), None)
    yield Create(offsets_topic_path(group, topic), None)
    wanted = Registration.of(StaticSubscription({topic: 1}), 0)
    for member in range(size.members):
        yield Create(Registration.path(group, f"{group}_host-{member}"), wanted.encode(), ephemeral=True)
    for number in range(size.partitions):
        tp, member = TopicPartition(topic, number), number * size.members // size.partitions
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
