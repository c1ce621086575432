"""The group coordinator beside that of Kafka 2.8.2: joins, heartbeats, commits, many members, take-overs.

Both sides run at the same time and are measured in turns, with the same raw members (`group_client`).
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final

from tests.programs.benchmarks import group_client
from tests.programs.benchmarks.broker_client import ask
from tests.programs.benchmarks.broker_sides import KAFKA, OURS, UNFORCED, BrokerSide, all_sides, sides
from tests.programs.benchmarks.commit_calls import commit_calls
from tests.programs.benchmarks.group_client import COMMITTED, Found
from tests.programs.benchmarks.report import Line, Plan, Report, median, spread
from tests.waiting import eventually
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC

MEMBERS: Final = 50
SETTINGS: Final[Mapping[str, str]] = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "1",
    "max.connections": "15000",
}
WARM_UP_S: Final = 20.0
SHARED: Final = "the cores are shared with the members and with other work"


def _printed(line: Line) -> Line:
    print(f"  {line}", file=sys.stderr, flush=True)  # what is known, should the rest not end
    return line


def _measured(side: BrokerSide, order: str, **numbers: float) -> Found:
    """Performs an order, with what the side has used between `measured` and `over`."""
    process = group_client.begin(side.bootstrap, order, **numbers)
    assert process.stdin is not None
    assert process.stdout is not None
    found: dict[str, float] = {}
    for word, sign in ((b"measured", -1), (b"over", 1)):
        line = process.stdout.readline().strip()
        assert line == word, f"{order} said {line!r}"
        for name, value in _counters(side).items():
            found[name] = found.get(name, 0.0) + sign * value
        process.stdin.write(b"\n")
        process.stdin.flush()
    return {**group_client.end(process), **found}


def _counters(side: BrokerSide) -> dict[str, float]:
    packets = side.packets()
    cpu = {
        "brokers_cpu_s": side.cpu_s(),
        "zookeeper_cpu_s": side.zookeeper_cpu_s(),
        "compiler_cpu_s": side.compiler_cpu_s(),
    }
    return {**cpu, "packets": packets, "writes": side.writes(), "at_s": time.time()}


def group_joins(plan: Plan, report: Report) -> None:
    """A group forms without initial delay; then one more joins it."""
    members, rounds = (5, 2) if plan.short else (MEMBERS, 7)
    with all_sides(sides(short=plan.short), 1, SETTINGS) as started:
        for order, what, most in (
            ("form", f"{members} members, first join to last sync, delay 0", 2.0),
            ("grow", f"one more into {members}", 1.5),
        ):
            found = _joins(started, order, members, rounds, plan.repeats)
            lines = {name: _join_line(what, name, runs) for name, runs in found.items()}
            report.lines += lines.values()
            if KAFKA in lines:
                ratio = (lines[OURS].seconds or 0.0) / (lines[KAFKA].seconds or 1.0)
                report.at_most(f"{what}, over Kafka's", most, ratio, "times", SHARED)


def _joins(
    started: Mapping[str, BrokerSide], order: str, members: int, rounds: int, repeats: int
) -> dict[str, list[Found]]:
    found: defaultdict[str, list[Found]] = defaultdict(list)
    for run in range(repeats + 1):
        for name, side in started.items():
            cpu, writes = side.cpu_s(), side.writes()
            one = group_client.run(side.bootstrap, order, members=members, rounds=rounds, run=run)
            one["brokers_cpu_s"], one["writes"] = side.cpu_s() - cpu, side.writes() - writes
            if run or not repeats:
                found[name].append(one)  # the first run is a warm-up
    return found


def _join_line(what: str, name: str, runs: list[Found]) -> Line:
    seconds = [each for run in runs for each in run["seconds"]]
    generations = sum(sum(run["generations"]) for run in runs)
    writes = sum(run["writes"] for run in runs)
    note = f"{generations} generations, {writes} ZooKeeper transactions in all"
    return _printed(
        Line(
            what,
            name,
            seconds=median(seconds),
            spread_s=spread(seconds),
            server_cpu_s=median(run["brokers_cpu_s"] / len(run["seconds"]) for run in runs),
            runs=len(seconds),
            note=note,
        )
    )


def group_rates(plan: Plan, report: Report) -> None:
    """Heartbeats and commits a second, each member's next one when the former is answered.

    Kafka answers a commit before the disk has it; ZooKeeper forces its log by default. Commits are measured
    with and without that. Each side works for `WARM_UP_S` before: the compilers of the JVMs, Kafka's and
    ZooKeeper's, take a core at first.
    """
    members, seconds, warm_up_s = (5, 0.5, 0.5) if plan.short else (MEMBERS, 5.0, WARM_UP_S)
    names = sides(short=plan.short) if plan.short else [*sides(), UNFORCED]
    with all_sides(names, 1, SETTINGS) as started:
        for side in started.values():
            ask(side.bootstrap, "create", COMMITTED, partitions=members)
        for order, what in (("heartbeats", "heartbeats"), ("commits", "commits")):
            found: defaultdict[str, list[Found]] = defaultdict(list)
            for run in range(plan.repeats + 1):
                for name, side in started.items():
                    if name == UNFORCED and order == "heartbeats":
                        continue  # they write nothing
                    long = seconds if run or not plan.repeats else warm_up_s
                    one = _measured(side, order, members=members, seconds=long, run=run)
                    if run or not plan.repeats:
                        found[name].append(one)
            lines = [_rate_line(f"{what}, {members} members", name, runs) for name, runs in found.items()]
            report.lines += lines
            if KAFKA in found:
                rates = {name: _rate(runs) for name, runs in found.items()}
                cpu = _cpu_each(found[KAFKA]) / _cpu_each(found[OURS])
                limit = f"{cpu:.2f}x by the CPU of the brokers; {SHARED}"
                report.at_least(f"{what} a second, beside Kafka", 0.5, rates[OURS] / rates[KAFKA], limit)
                if UNFORCED in rates:
                    ratio = rates[UNFORCED] / rates[KAFKA]
                    report.notes.append(f"{what} with forceSync=no: {ratio:.2f} of Kafka's rate")
            if order == "commits":
                each = [run["packets"] / run["count"] for run in found[OURS]]
                report.at_most("packets to ZooKeeper a commit", 0.2, statistics.median(each), "packets")


def _rate(runs: list[Found]) -> float:
    return float(statistics.median(run["count"] / run["seconds"] for run in runs))


def _cpu_each(runs: list[Found]) -> float:
    return float(statistics.median(run["brokers_cpu_s"] / run["count"] for run in runs))


def _rate_line(what: str, name: str, runs: list[Found]) -> Line:
    packets = statistics.median(run["packets"] / run["count"] for run in runs)
    zookeeper = statistics.median(run["zookeeper_cpu_s"] / run["count"] for run in runs)
    compilers = statistics.median(run["compiler_cpu_s"] / run["count"] for run in runs)
    client = statistics.median(run["client_cpu_s"] / run["count"] for run in runs)
    note = (
        f"{_rate(runs):,.0f} a second, {1e6 * _cpu_each(runs):.0f} us of the broker's CPU each,"
        f" {1e6 * zookeeper:.0f} us of ZooKeeper's ({1e6 * compilers:.0f} us of it its compilers'),"
        f" {1e6 * client:.0f} us of the members',"
        f" {packets:.3f} packets to ZooKeeper each"
    )
    return _printed(
        Line(
            what,
            name,
            seconds=median(run["seconds"] for run in runs),
            client_cpu_s=median(run["client_cpu_s"] for run in runs),
            server_cpu_s=median(run["brokers_cpu_s"] for run in runs),
            runs=len(runs),
            note=note,
        )
    )


def group_scale(plan: Plan, report: Report) -> None:
    """Ten thousand members in five hundred groups at one coordinator, with heartbeats every three seconds."""
    groups, members, seconds = (10, 4, 2.0) if plan.short else (500, 20, 30.0)
    for name in sides(short=plan.short):
        with all_sides([name], 1, SETTINGS) as started:
            side = started[name]
            before_mb = side.memory_mb()
            found = _measured(side, "scale", groups=groups, members=members, seconds=seconds)
            took = seconds
            note = (
                f"all in after {found['formed_s']:.1f} s; then {found['heartbeats']} heartbeats"
                f" in {took:g} s, p50 {found['p50_ms']:.1f} ms, p99 {found['p99_ms']:.1f} ms,"
                f" {found['errors']} errors, {found['changed']} members in another generation;"
                f" broker {1000 * found['brokers_cpu_s'] / took:.0f} ms of CPU a second,"
                f" {side.memory_mb():.0f} MiB resident ({before_mb:.0f} before);"
                f" {found['writes'] / took:.1f} ZooKeeper transactions a second"
            )
            report.lines.append(
                _printed(
                    Line(
                        f"{groups * members} members in {groups} groups",
                        name,
                        seconds=took,
                        client_cpu_s=found["client_cpu_s"],
                        server_cpu_s=found["brokers_cpu_s"],
                        note=note,
                    )
                )
            )
            if name == OURS:
                lost = found["errors"] + found["changed"]
                report.at_most("members that had an error or another generation", 0, lost, "members")


def group_load(plan: Plan, report: Report) -> None:
    """A slot with a thousand groups changes its leader: from `state` written to a heartbeat of each group."""
    groups = 20 if plan.short else 1_000
    more = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "2"}
    found: defaultdict[str, list[float]] = defaultdict(list)
    first: defaultdict[str, list[float]] = defaultdict(list)
    with all_sides(sides(short=plan.short), 2, {**SETTINGS, **more}) as started:
        for run in range(max(1, plan.repeats)):
            for name, side in started.items():
                one = _take_over(side, groups, run)
                assert one["served"] == groups
                found[name].append(one["last"] - one["written"])
                first[name].append(one["first"] - one["written"])
    lines = {}
    for name, seconds in found.items():
        note = f"the first group after {median(first[name]) or 0:.2f} s; no generation lost"
        what = f"{groups} groups: from `state` written to a heartbeat served of each"
        lines[name] = _printed(
            Line(what, name, seconds=median(seconds), spread_s=spread(seconds), runs=len(seconds), note=note)
        )
    report.lines += lines.values()
    ours = lines[OURS]
    report.at_most(ours.what, 1.0, ours.seconds or 0.0, "s", SHARED)


def _take_over(side: BrokerSide, groups: int, run: int) -> Found:
    """Moves the slot to the other broker once all groups are there."""
    process = group_client.begin(side.bootstrap, "take_over", groups=groups, run=run)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline().strip() == b"measured"
    process.stdin.write(b"\n")
    process.stdin.flush()
    _prefer_another(side)
    assert process.stdout.readline().strip() == b"over"
    path = f"/brokers/topics/{OFFSETS_TOPIC}/partitions/0/state"
    _, written = side.read(path)
    process.stdin.write(b"\n")
    process.stdin.flush()
    return {**group_client.end(process), "written": written}


def _prefer_another(side: BrokerSide) -> None:
    """The slot's other replica becomes its preferred leader, and then leads it."""
    state, _ = side.read(f"/brokers/topics/{OFFSETS_TOPIC}/partitions/0/state")
    leader = json.loads(state)["leader"]
    order = [each for each in side.ids if each != leader] + [leader]
    moved = [{"topic": OFFSETS_TOPIC, "partition": 0, "replicas": order}]
    side.put(REASSIGN, json.dumps({"version": 1, "partitions": moved}).encode())
    eventually(lambda: not side.exists(REASSIGN), what="the order of the replicas is changed")
    preferred = [{"topic": OFFSETS_TOPIC, "partition": 0}]
    side.put(PREFER, json.dumps({"version": 1, "partitions": preferred}).encode())


REASSIGN: Final = "/admin/reassign_partitions"
PREFER: Final = "/admin/preferred_replica_election"

GROUP_MEASUREMENTS: Final[Mapping[str, Callable[[Plan, Report], None]]] = {
    "group-joins": group_joins,
    "group-rates": group_rates,
    "group-scale": group_scale,
    "group-load": group_load,
    "commit-calls": commit_calls,
}
