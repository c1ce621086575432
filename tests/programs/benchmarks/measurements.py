"""The rows of the table: each function measures one row's sides in turn and compares them with the goal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from tests.programs.benchmarks import (
    audit_measurements,
    authorizer_measurements,
    broker_measurements,
    cluster_measurements,
    commits,
    embedded,
    exporter_measurements,
    file_measurements,
    group_measurements,
    history_measurements,
    kafka_cluster_measurements,
    quota_measurements,
    reads,
    replay_measurements,
    replication_measurements,
    secured_measurements,
    series_measurements,
    spark_measurements,
    tree_measurements,
)
from tests.programs.benchmarks.pauses import PauseBench
from tests.programs.benchmarks.report import Line, Plan, Report, cost_line, median, ratio, spread
from tests.programs.benchmarks.scenarios import GroupBench, Result
from tests.programs.benchmarks.server import BenchServer, Cost
from tests.programs.benchmarks.sides import JVM, JVM_SMALL, OURS, Side
from tests.programs.benchmarks.splits import SplitBench

GIL = (
    "CPU: some 12 ms for each member, a third of it planning and digests; the members of one process share "
    "one core (GIL), so a hundred take 1.2 s where one alone takes 0.1 s with its round trips"
)


def _group_line(what: str, results: Sequence[Result], note: str = "") -> Line:
    seconds = [r["converged_s"] for r in results if r["converged_s"] is not None]
    failed = sum(not r["converged"] for r in results)
    notes = [note] if note else []
    if failed:
        notes.append(f"{failed} did not converge")
    return Line(
        what,
        results[0]["side"],
        seconds=median(seconds),
        spread_s=spread(seconds),
        packets=round(median(r["packets_net"] for r in results) or 0),
        client_cpu_s=median(r["members_cpu_s"] for r in results),
        server_cpu_s=median(r["server_cpu_s"] for r in results),
        runs=len(results),
        note="; ".join(notes),
    )


def _kept(results: Sequence[Result]) -> str:
    """The pauses of the partitions whose owner stayed."""
    paused = sum(r["kept"].get("paused", 0) for r in results)
    total = sum(r["kept"]["partitions"] for r in results)
    p50 = median(r["kept"].get("p50_ms") for r in results)
    return f"{paused} of {total} kept partitions without owner meanwhile, p50 {p50:g} ms" if total else ""


def single_and_bulk_reads(plan: Plan, report: Report) -> None:
    """10,000 znodes read by one client: one by one without waiting, and in bulk."""
    count = 2_000 if plan.short else 10_000
    with BenchServer() as server:
        paths = reads.lay_out(server.address, count)
        sides = {
            "kazoo": reads.kazoo_reads(server.address, paths),
            "single": reads.our_single_reads(server.address, paths),
            "bulk": reads.our_bulk_reads(server.address, paths),
        }
        costs = reads.measure(server, sides, plan.repeats)
        plain: list[Cost] = []
        piped: list[Cost] = []
        for _ in range(0 if plan.short else plan.repeats):
            plain += reads.java_bulk_reads(server, count, plan.repeats, "plain")
            piped += reads.java_bulk_reads(server, count, plan.repeats, "pipelined")
            again = {"bulk": reads.our_bulk_reads(server.address, paths)}
            costs["bulk"] += reads.measure(server, again, plan.repeats)["bulk"]
    kazoo = cost_line(f"{count} single reads", "kazoo as is", costs["kazoo"])
    single = cost_line(f"{count} single reads", "zkgroup", costs["single"])
    bulk = cost_line(f"bulk read of {count}", "zkgroup", costs["bulk"])
    report.lines += [kazoo, single, bulk]
    one_core = "the server's CPU for each request, beside the client on few cores"
    report.at_least("pipelined single reads over kazoo", 2.5, ratio(kazoo, single), one_core)
    report.at_least("bulk reads over kazoo", 25, ratio(kazoo, bulk), "decoding each znode in Python")
    if plain:
        java = cost_line(f"bulk read of {count}", "Java client, multi", plain, "warm JVM, waits for each")
        report.lines.append(java)
        report.lines.append(
            cost_line(f"bulk read of {count}", "Java client, multi pipelined", piped, "warm JVM")
        )
        report.at_least("bulk reads over the Java client's multi", 1, ratio(java, bulk), "as above")


def fenced_commits(plan: Plan, report: Report) -> None:
    """Commits of the offsets of 1,000 partitions by one member."""
    count = 1_000
    what = f"commit of {count} partitions"
    mine, sets = commits.ours_beside_kazoo(count, 2 * plan.repeats)
    kazoo = cost_line(what, "kazoo, set one by one", sets)
    ours = _commit_line(f"{what}, later ones", mine[1:])
    report.lines += [kazoo, _commit_line(f"{what}, the first", mine[:1]), ours]
    for side in () if plan.short else plan.peers():
        results = commits.member_commits(side, count, 2 * plan.repeats)
        later = _commit_line(f"{what}, later ones", results[1:])
        report.lines += [_commit_line(f"{what}, the first", results[:1]), later]
    assert ours.packets is not None
    limit = (
        "one transaction of 2,001 operations: 20-30 ms of the server's CPU, 12-15 ms of the client's; "
        "kazoo's side is the latency of a forced log write, so that ratio follows the disk"
    )
    report.at_least("commit over kazoo's sets", 40, ratio(kazoo, ours), limit)
    for jvm in (line for line in report.lines if line.side == JVM.name and line.what.endswith("later ones")):
        report.at_least("commit over a JVM member's later ones", 8, ratio(jvm, ours), limit)
    report.at_most("commit", 10, ours.packets, "packets")


def _commit_line(what: str, results: Sequence[Result]) -> Line:
    seconds = [r["seconds"] for r in results]
    return Line(
        what,
        results[0]["side"],
        seconds=median(seconds),
        spread_s=spread(seconds),
        packets=round(median(r["packets"] for r in results) or 0),
        client_cpu_s=median(r["members_cpu_s"] for r in results),
        server_cpu_s=median(r["server_cpu_s"] for r in results),
        runs=len(results),
    )


def _joins(side: Side, members: int, partitions: int, repeats: int) -> dict[str, list[Result]]:
    """A start, then joins and leaves in turn."""
    results: defaultdict[str, list[Result]] = defaultdict(list)
    with GroupBench(side, members=members, partitions=partitions) as bench:
        results["start"].append(bench.start())
        for _ in range(repeats):
            results["join"].append(bench.join())
            results["leave"].append(bench.leave())
    return results


def join_large(plan: Plan, report: Report) -> None:
    """One member joins 100 members with 1,000 partitions."""
    what, repeats = "join of one into N=100, P=1000", plan.repeats
    with SplitBench(members=100, partitions=1000) as split:
        split.start()
        splitter = _group_line(what, [split.join()])
    report.lines.append(splitter)
    found = {side.name: _joins(side, 100, 1000, repeats) for side in (*plan.peers(), OURS)}
    for results in found.values():
        for scenario, some in results.items():
            report.lines.append(_group_line(what.replace("join", scenario), some, _kept(some)))
    ours = _group_line(what, found[OURS.name]["join"])
    report.at_most(f"packets of a {what}", 350, ours.packets or 0, "packets")
    report.at_least(f"{what} over SetPartitioner", 15, ratio(splitter, ours), GIL)
    if JVM.name in found:
        jvm = _group_line(what, found[JVM.name]["join"])
        report.at_least(f"{what} over JVM members", 8, ratio(jvm, ours), GIL)


def join_small(plan: Plan, report: Report) -> None:
    """One member joins 10 members with 100 partitions; partitions that stay keep their owner."""
    what = "join of one into N=10, P=100"
    sides = (OURS,) if plan.short else (*plan.peers(), OURS)
    found = {side.name: _joins(side, 10, 100, plan.repeats) for side in sides}
    for results in found.values():
        for scenario, some in results.items():
            report.lines.append(_group_line(what.replace("join", scenario), some, _kept(some)))
    ours = _group_line(what, found[OURS.name]["join"])
    report.at_most(f"packets of a {what}", 80, ours.packets or 0, "packets")
    both = [*found[OURS.name]["join"], *found[OURS.name]["leave"]]
    longest = max(r["kept"].get("max_ms", 0) for r in both)
    report.at_most("time without owner of partitions that stay", 0, longest, "ms")
    if JVM.name in found:
        jvm = _group_line(what, found[JVM.name]["join"])
        report.at_least(f"{what} over JVM members", 4, ratio(jvm, ours), "settle_ms and the round trips")


def mass_start(plan: Plan, report: Report) -> None:
    """50 members start at once in an empty group with 200 partitions."""
    what, seconds = "mass start N=50, P=200", dict[str, float]()
    found: defaultdict[str, list[Result]] = defaultdict(list)
    for _ in range(plan.repeats):
        with SplitBench(members=50, partitions=200) as split:
            found["SetPartitioner"].append(split.start())
        for side in (*plan.peers(), OURS):
            with GroupBench(side, members=50, partitions=200) as bench:
                found[side.name].append(bench.start())
    for name, results in found.items():
        line = _group_line(what, results)
        report.lines.append(line)
        seconds[name] = line.seconds or 0.0
    for name in found.keys() - {OURS.name}:
        report.at_least(f"{what} over {name}", 1, seconds[name] / seconds[OURS.name], GIL)
    most = max(r["counters"]["most_rebalances"] for r in found[OURS.name])
    report.at_most(f"rebalances of a member, {what}", 2, most, "rebalances")


def rolling_restart(plan: Plan, report: Report) -> None:
    """3 of 10 members close and come back, one after another."""
    what = "rolling restart of 3 of N=10, P=100"
    for side in (*plan.peers(), OURS):
        with GroupBench(side, members=10, partitions=100) as bench:
            bench.start()
            results = [bench.rolling() for _ in range(plan.repeats)]
        gave_up = sum(r["counters"].get("members_that_gave_up", 0) for r in results)
        report.lines.append(_group_line(what, results, f"{gave_up} members gave up"))
        if side is OURS:
            failures = gave_up + sum(not r["converged"] for r in results)
            report.at_most(
                "members that gave up, or restarts that did not converge", 0, failures, "of zkgroup"
            )


def pauses(plan: Plan, report: Report) -> None:
    """The pauses of delivery on partitions that stay, at a join, a leave and a crash."""
    results = PauseBench.run(members=3, partitions=30, repeats=plan.repeats)
    by_scenario: defaultdict[str, list[Result]] = defaultdict(list)
    for result in results:
        by_scenario[result["scenario"]].append(result)
    for scenario, some in by_scenario.items():
        p99, own, p50 = (
            median(r[key] for r in some) or 0.0 for key in ("p99_ms", "p99_with_core_ms", "p50_ms")
        )
        note = (
            f"longest pause of each partition: p50 {p50:.0f} ms, p99 {p99:.0f} ms;"
            f" p99 {own:.0f} ms less the time in which one of its threads had no core"
        )
        report.lines.append(Line(scenario, some[0]["side"], runs=len(some), note=note))
        report.at_most(
            scenario, 50, p99, "ms p99", f"{own:.0f} ms p99 less the wait of a ready thread for a core"
        )


def steady_state(plan: Plan, report: Report) -> None:
    """100 idle members: the load on the server without any event."""
    members = 10 if plan.short else 100
    for side in (*plan.peers(), OURS) if not plan.short else (OURS,):
        with GroupBench(side, members=members, partitions=members * 2) as bench:
            bench.start()
            _idle_until_published(bench)
            found = bench.idle(10.0 if plan.short else 60.0)
        what = f"{members} idle members, session {found['session_ms'] / 1000:g} s"
        note = (
            f"{found['packets_per_s']:g} packets/s, {found['writes_per_s']:g} quorum writes/s, server CPU "
            f"{found['server_cpu_ms_per_s']:g} ms/s, members CPU {found['members_cpu_ms_per_s']:g} ms/s"
        )
        report.lines.append(Line(what, found["side"], note=note))
        if side is OURS:
            a_session = found["writes_per_s"] / members * found["session_ms"] / 1000
            limit = "one every T/6 and up to 20 % later"
            report.at_most("quorum writes of an idle session in T", 6.0, a_session, "writes", limit)


def _idle_until_published(bench: GroupBench) -> None:
    """Waits until members have published their view, some seconds after they are stable: no steady cost."""
    bench.idle(6.0)


def memory(plan: Plan, report: Report) -> None:
    """The memory of one idle member in a process of its own."""
    for side in ((JVM_SMALL,) if plan.peers() and not plan.short else ()) + (OURS,):
        with GroupBench(side, members=1, partitions=10) as bench:
            bench.start()
            found: dict[str, Any] = bench.idle(2.0)
        note = f"{found['members_mb']:g} MiB resident"
        report.lines.append(Line("memory of a process with one idle member", found["side"], note=note))


def embedded_start(plan: Plan, report: Report) -> None:
    """The start of one server, and of three, each until it serves sessions."""
    for servers, side in ((1, "one server"), (3, "three servers")):
        costs = [embedded.start(servers) for _ in range(plan.repeats)]
        report.lines.append(cost_line("start of the embedded ZooKeeper", side, costs))


MEASUREMENTS: dict[str, Callable[[Plan, Report], None]] = {
    "reads": single_and_bulk_reads,
    "commits": fenced_commits,
    "join-small": join_small,
    "join-large": join_large,
    "mass-start": mass_start,
    "rolling": rolling_restart,
    "pauses": pauses,
    "idle": steady_state,
    "memory": memory,
    "start": embedded_start,
    "kafka-cluster": kafka_cluster_measurements.kafka_cluster,
    "acks-all": replication_measurements.acks_all,
    "failover": cluster_measurements.failover,
    "failover-loss": cluster_measurements.failover_with_loss,
    "controller-memory": cluster_measurements.controller_memory,
    "describe": cluster_measurements.describe,
    "move-plan": cluster_measurements.move_plan,
    "exporter": exporter_measurements.exporter,
    "history": history_measurements.history,
    "files": file_measurements.files,
    "replay": replay_measurements.replay,
    "series": series_measurements.series,
    "series-spark": series_measurements.series_on_spark,
    "tree-at": tree_measurements.tree_at,
    "audit": audit_measurements.audit,
    "spark": spark_measurements.spark,
    "broker-fetch": broker_measurements.fetch,
    "broker-produce": broker_measurements.produce,
    "broker-latency": broker_measurements.latency,
    "broker-connections": broker_measurements.connections,
    "broker-start": broker_measurements.start,
    "broker-memory": broker_measurements.memory,
    "secured": secured_measurements.secured,
    "authorizer": authorizer_measurements.authorizer,
    "quotas": quota_measurements.quotas,
    **group_measurements.GROUP_MEASUREMENTS,
}
BY_NAME_ONLY = frozenset({"tree-at", "audit", "spark"})
"""What takes long, and is not of "everything"."""
