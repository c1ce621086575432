"""Replication: the latency of acks=all, with one partition and with many that are idle."""

from __future__ import annotations

import asyncio
import time

from tests.programs.benchmarks.report import Line, Plan, Report, median, ratio, spread
from tests.worlds.batches import records_of
from zkgroup.testing import KafkaCluster
from zkgroup.wire.client import BrokerClient
from zkgroup.wire.records import ProducedPartition, ProducedTopic, ProduceRequest, ProduceResponse

BATCH = records_of([b"x" * 100], timestamp_ms=1)
WARM_UP = 20
TIMEOUT_MS = 60_000
SETTLE_S = 3.0
"""After the topics are there: all followers have joined their ISRs by then. The short form settles less."""


async def _appends(host: str, port: int, count: int) -> list[float]:
    """Seconds of each append with acks=all to partition 0 of `busy`, one after the other."""
    client = BrokerClient(host, port, client_id="bench", timeout_ms=TIMEOUT_MS)
    request = ProduceRequest(-1, TIMEOUT_MS, (ProducedTopic("busy", (ProducedPartition(0, BATCH),)),))
    seconds = []
    try:
        for _ in range(WARM_UP + count):
            began = time.perf_counter()
            response = await client.ask(request, ProduceResponse, version=8)
            seconds.append(time.perf_counter() - began)
            assert response.topics[0].partitions[0].error == 0, response
    finally:
        await client.close()
    return sorted(seconds[WARM_UP:])


def _latencies(idle: int, count: int, settle_s: float) -> tuple[list[float], float]:
    """The latencies with so many idle partitions, and the CPU share of the idle cluster."""
    with KafkaCluster() as cluster:
        cluster.create_topic("busy", 1)
        if idle:
            cluster.create_topic("idle", idle, timeout_s=120)
        host, port = cluster.address(cluster.wait_for_leader("busy", 0)).rsplit(":", 1)
        time.sleep(settle_s)
        cpu, began = time.process_time(), time.perf_counter()
        time.sleep(settle_s)
        share = (time.process_time() - cpu) / (time.perf_counter() - began)
        return asyncio.run(_appends(host, int(port), count)), share


def acks_all(plan: Plan, report: Report) -> None:
    """Three brokers in one process: p50 and p99 of acks=all beside idle partitions."""
    many, count, settle_s = (30, 50, 0.2) if plan.short else (1_000, 1_000, SETTLE_S)
    found: dict[int, list[tuple[list[float], float]]] = {0: [], many: []}
    for _ in range(plan.repeats):
        for idle in found:
            found[idle].append(_latencies(idle, count, settle_s))
    lines = []
    for idle, runs in found.items():
        p50 = [seconds[len(seconds) // 2] for seconds, _ in runs]
        p99 = median(seconds[len(seconds) * 99 // 100] for seconds, _ in runs) or 0.0
        share = median(share for _, share in runs) or 0.0
        side = f"{idle} idle partitions" if idle else "no other partition"
        note = f"p99 {p99 * 1_000:.1f} ms; CPU of three idle brokers {share * 100:.0f} %"
        lines.append(
            Line("acks=all, p50", side, seconds=median(p50), spread_s=spread(p50), runs=len(runs), note=note)
        )
    report.lines += lines
    report.at_most(f"acks=all with {many} idle partitions", 1.2, ratio(lines[1], lines[0]), "x of none")
