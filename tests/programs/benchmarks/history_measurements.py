"""The cost of a group's history: the same joins and leaves with it and without, in turns.

The publication of the views, some seconds after a rebalance, belongs to what is measured: with it the oldest
member writes the history. Each group is on a server of its own, whose packets are counted.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import replace

from tests.programs.benchmarks.report import Line, Plan, Report, median
from tests.programs.benchmarks.scenarios import GroupBench, Result
from tests.programs.benchmarks.sides import OURS

PUBLISHED_S = 8.0
"""Quiet after an event, in which all members have published their views."""
WITHOUT = replace(OURS, name="zkgroup without history", options=("history=false",))
PACKETS_NOISE = 4.0
"""Heartbeats that fall into one measurement and not into the other."""
CPU_RATIO = 1.15
"""Of the members, with the noise of two busy cores."""


def history(plan: Plan, report: Report) -> None:
    """One member joins ten members with 100 partitions, and leaves."""
    members, partitions = (3, 12) if plan.short else (10, 100)
    what = f"{{}} of one, N={members}, P={partitions}, views included"
    found: defaultdict[tuple[str, str], list[Result]] = defaultdict(list)
    with ExitStack() as stack:
        benches = {
            side.name: stack.enter_context(
                GroupBench(side, members=members, partitions=partitions, calm_s=PUBLISHED_S)
            )
            for side in (OURS, WITHOUT)
        }
        for bench in benches.values():
            bench.start()
        for _ in range(max(plan.repeats, 1)):
            for scenario in ("join", "leave"):
                for name, bench in benches.items():
                    found[scenario, name].append(bench.join() if scenario == "join" else bench.leave())
    for (scenario, name), results in found.items():
        report.lines.append(
            Line(
                what.format(scenario),
                name,
                packets=round(median(each["packets_net"] for each in results) or 0),
                client_cpu_s=median(each["members_cpu_s"] for each in results),
                server_cpu_s=median(each["server_cpu_s"] for each in results),
                runs=len(results),
            )
        )
    for scenario in ("join", "leave"):
        with_it, without = found[scenario, OURS.name], found[scenario, WITHOUT.name]
        more = _median(with_it, "packets_net") - _median(without, "packets_net")
        report.at_most(f"packets more for the history of a {scenario}", PACKETS_NOISE, more, "packets")
    cpu = [_median([*found["join", name], *found["leave", name]], "members_cpu_s") for name in benches]
    report.at_most("members' CPU with history over without", CPU_RATIO, cpu[0] / (cpu[1] or 1.0), "times")


def _median(results: list[Result], figure: str) -> float:
    return median(each[figure] for each in results) or 0.0
