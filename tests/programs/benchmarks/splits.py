"""kazoo's SetPartitioner: when a set is split again, from what its members print."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from tests.programs.benchmarks.scenarios import Bench
from tests.programs.benchmarks.sides import SET_PARTITIONER


class SplitBench(Bench):
    """One server, one set, and the members of one program."""

    GROUP = "split"

    def __init__(self, *, members: int, partitions: int) -> None:
        super().__init__(SET_PARTITIONER, members=members, partitions=partitions)
        self._holds: dict[str, int] = {}

    def start(self, timeout_s: float = 240.0) -> dict[str, Any]:
        """Starts all members at once."""
        return self._add("start", [f"m{number:05d}" for number in range(self._count)], timeout_s)

    def join(self, timeout_s: float = 240.0) -> dict[str, Any]:
        """Starts one more member."""
        return self._add("join", ["z00000"], timeout_s)

    def _add(self, scenario: str, names: Sequence[str], timeout_s: float) -> dict[str, Any]:
        self.members.send("reset")
        meter = self.server.meter(self.members.pids)
        self.members.add(names)
        self._follow(timeout_s)
        cost = meter.stop()
        return {
            "scenario": scenario,
            "side": SET_PARTITIONER.name,
            "N": self._count,
            "P": self._partitions,
            "converged": sum(self._holds.values()) == self._partitions,
            "converged_s": round(cost.seconds, 3),
            "packets_net": cost.packets,
            "server_cpu_s": cost.server_cpu_s,
            "members_cpu_s": cost.client_cpu_s,
            "counters": self.members.counters(),
        }

    def _follow(self, timeout_s: float) -> None:
        """Waits until every member has its share; after a change each first prints that it holds nothing."""
        share = self._partitions // len(self.members.names)
        deadline = time.monotonic() + timeout_s
        while True:
            line = self.members.wait("holds", deadline - time.monotonic())[-1]
            self._holds[line["member"]] = line["partitions"]
            everybody = len(self._holds) == len(self.members.names)
            fair = all(held in (share, share + 1) for held in self._holds.values())
            if everybody and fair and sum(self._holds.values()) == self._partitions:
                return
