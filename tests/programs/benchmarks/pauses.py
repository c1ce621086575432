"""How long delivery pauses on partitions that stay while other partitions move."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Callable, Sequence

from tests.programs.benchmarks.scenarios import LAST, GroupBench, Result
from tests.programs.benchmarks.sides import OUR_CONSUMERS

CALM_S = 10.0
"""About as long as a crash takes to be seen and settled: the longest pause grows with the time watched."""


class PauseBench:
    """zkgroup consumers, each in a process of its own, on partitions that always have a new record."""

    def __init__(self, bench: GroupBench) -> None:
        self._bench = bench

    @classmethod
    def run(cls, *, members: int, partitions: int, repeats: int) -> list[Result]:
        """Measures pauses without an event, then at joins, leaves and crashes."""
        results = []
        with GroupBench(OUR_CONSUMERS, members=members, partitions=partitions, separate=True) as group:
            bench = cls(group)
            group.start()
            for _ in range(repeats):
                results.append(bench.measure("calm", lambda: threading.Event().wait(CALM_S)))
                results.append(bench.measure("join", group.join))
                results.append(bench.measure("leave", group.leave))
                results.append(bench.measure("crash", group.crash))
                group.refill()
        return results

    def measure(self, scenario: str, act: Callable[[], object]) -> Result:
        members = self._bench.members
        if scenario == "join":
            members.prepare([LAST])
        members.send("window")
        self._bench.observer.catch_up()
        before = dict(self._bench.observer.group.owners)
        act()
        self._bench.observer.catch_up()
        after = self._bench.observer.group.owners
        kept = {f"{topic}-{p}" for (topic, p), owner in after.items() if before.get((topic, p)) == owner}
        longest: dict[str, tuple[float, float]] = {}
        for _ in range(members.send("pauses")):
            for line in members.wait("done", 60, "pauses"):
                if line["event"] == "pauses":
                    longest.update(line["longest_ms"])
        pauses = sorted(longest[partition][0] for partition in kept & longest.keys())
        own = sorted(
            ms - waited for ms, waited in (longest[partition] for partition in kept & longest.keys())
        )
        return {
            "scenario": f"pause of partitions that stay: {scenario}",
            "side": OUR_CONSUMERS.name,
            "partitions": len(pauses),
            "p50_ms": round(statistics.median(pauses), 1),
            "p99_ms": _p99(pauses),
            "p99_with_core_ms": round(_p99(own), 1),
            "max_ms": pauses[-1],
        }


def _p99(ascending: Sequence[float]) -> float:
    return ascending[min(len(ascending) - 1, int(0.99 * len(ascending)))]
