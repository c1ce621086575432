"""Commits of many partitions: kazoo sets them one by one, as a JVM member does; zkgroup sends one multi."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

from tests.programs.benchmarks.scenarios import GroupBench, Result
from tests.programs.benchmarks.server import BenchServer, Cost
from tests.programs.benchmarks.sides import OURS, Side
from tests.worlds.other_clients import kazoo_on


@contextlib.contextmanager
def kazoo_sets(server: BenchServer, count: int) -> Iterator[Callable[[int], Cost]]:
    """One synchronous `set` for each partition."""
    with kazoo_on(server.address) as client:
        client.create("/offsets")
        for number in range(count):
            client.create(f"/offsets/{number}", b"0")

        def commit(base: int) -> Cost:
            meter = server.meter([os.getpid()])
            for number in range(count):
                client.set(f"/offsets/{number}", str(base + number).encode())
            return meter.stop()

        yield commit


def ours_beside_kazoo(count: int, repeats: int) -> tuple[list[Result], list[Cost]]:
    """The first commit of a member that owns every partition, then later ones, in turn with kazoo's."""
    with GroupBench(OURS, members=1, partitions=count) as bench, kazoo_sets(bench.server, count) as sets:
        bench.start()
        ours, kazoo = [bench.commit(count)], []
        for turn in range(2, repeats + 2):
            kazoo.append(sets(turn * count))
            ours.append(bench.commit(turn * count))
    return ours, kazoo


def member_commits(side: Side, count: int, repeats: int) -> list[Result]:
    """The same commits by another member program alone."""
    with GroupBench(side, members=1, partitions=count) as bench:
        bench.start()
        return [bench.commit(turn * count) for turn in range(1, repeats + 2)]
