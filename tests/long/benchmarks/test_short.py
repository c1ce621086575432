"""The short version of the benchmarks: counts of packets, which are exact, and ratios with room to spare.

Seconds are left to `python -m tests.programs.benchmarks`: on a shared machine they are not worth a verdict.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.programs.benchmarks import (
    cluster_measurements,
    commits,
    file_measurements,
    reads,
    replay_measurements,
    tree_measurements,
)
from tests.programs.benchmarks.measurements import embedded_start
from tests.programs.benchmarks.plan import Plan
from tests.programs.benchmarks.report import Report, median
from tests.programs.benchmarks.scenarios import GroupBench
from tests.programs.benchmarks.server import BenchServer
from tests.programs.benchmarks.sides import OURS

pytestmark = pytest.mark.timeout(180)


def test_bulk_reads_take_few_packets_and_a_fraction_of_kazoos_time() -> None:
    """2,000 znodes in at most 10 packets, at least five times as fast as kazoo reads them one by one."""
    with BenchServer() as server:
        paths = reads.lay_out(server.address, 2000)
        sides = {
            "kazoo": reads.kazoo_reads(server.address, paths),
            "ours": reads.our_bulk_reads(server.address, paths),
        }
        costs = reads.measure(server, sides, 3)
    kazoo, ours = (median(cost.seconds for cost in costs[name]) or 0.0 for name in ("kazoo", "ours"))
    assert min(cost.packets for cost in costs["ours"]) <= 10
    assert kazoo >= 5 * ours


def test_a_commit_of_a_thousand_partitions_is_a_few_packets() -> None:
    """One transaction for all of them, at least five times as fast as setting one after another."""
    ours, sets = commits.ours_beside_kazoo(1000, 3)
    assert all(result["partitions"] == 1000 for result in ours)
    assert min(result["packets"] for result in ours) <= 10
    kazoo = median(cost.seconds for cost in sets) or 0.0
    assert kazoo >= 5 * (median(result["seconds"] for result in ours[1:]) or 0.0)


def test_a_join_costs_few_packets_and_stops_nobody_else() -> None:
    """One joins ten members with 100 partitions: at most 80 packets; who keeps partitions keeps them."""
    with GroupBench(OURS, members=10, partitions=100, calm_s=1.0) as bench:
        bench.start()
        rounds = [(bench.join(), bench.leave()) for _ in range(2)]
    joins = [join for join, _ in rounds]
    assert all(result["converged"] for pair in rounds for result in pair)
    assert min(result["packets_net"] for result in joins) <= 80
    assert {result["kept"]["max_ms"] for pair in rounds for result in pair} == {0}


def test_a_mass_start_is_at_most_two_rebalances_a_member() -> None:
    """Twenty members at once into an empty group."""
    with GroupBench(OURS, members=20, partitions=80, calm_s=1.0) as bench:
        result = bench.start()
    assert result["converged"]
    assert result["counters"]["most_rebalances"] <= 2


def test_a_rolling_restart_converges_and_nobody_gives_up() -> None:
    """Three of ten members go and come back, one after another."""
    with GroupBench(OURS, members=10, partitions=100, calm_s=1.0) as bench:
        bench.start()
        result = bench.rolling()
    assert result["converged"]
    assert result["counters"]["members_that_gave_up"] == 0


def test_the_start_of_the_embedded_server_is_measured() -> None:
    """Seconds and the servers' own CPU, which three of them need more of than one."""
    report = Report()
    embedded_start(Plan(repeats=1), report)
    assert [line.side for line in report.lines] == ["one server", "three servers"]
    assert all(line.seconds for line in report.lines)
    alone, three = (line.server_cpu_s or 0.0 for line in report.lines)
    assert 0.0 < alone < three


def test_the_report_names_what_was_not_reached() -> None:
    """A goal that is missed is in the JSON and the table, with what limits it."""
    report = Report()
    report.at_least("speed", 2, 1.0, "the clock")
    report.at_most("packets", 10, 10, "packets")
    assert [goal.reached for goal in report.goals] == [False, True]
    assert "| speed | ≥ 2x | 1.0x | NO | the clock |" in report.as_table()


@pytest.mark.parametrize("measure", [cluster_measurements.describe, cluster_measurements.move_plan])
def test_an_operators_look_and_plan_are_few_packets_and_little_cpu(
    measure: Callable[[Plan, Report], None],
) -> None:
    """400 partitions: all are described, and one of ten brokers is emptied."""
    report = Report()
    measure(Plan(repeats=1, short=True), report)
    assert [goal.what for goal in report.goals if not goal.reached] == []
    assert report.goals


def test_logs_become_columns_many_times_faster_than_zookeepers_tool_prints_them() -> None:
    """15 times by numpy and 9 times without, where 40 and some ten are usual in the long run.

    The ratios to ZooKeeper's parser and of snapshots are printed only: a few thousand rows do not warm a JVM.
    """
    report = Report()
    file_measurements.files(Plan(repeats=1, short=True), report)
    beside_tool = [goal for goal in report.goals if "TxnLogToolkit" in goal.what]
    assert len(beside_tool) == 3
    assert [goal.what for goal in beside_tool if not goal.reached] == []
    snapshots = [line for line in report.lines if line.what.startswith("snapshot")]
    assert len(snapshots) == 4


def test_a_replay_with_every_digest_compared_costs_little_beside_decoding() -> None:
    """A quarter of the speed of decoding alone is asked for; some 0.8 are usual."""
    report = Report()
    replay_measurements.replay(Plan(repeats=3, short=True), report)
    assert [goal.what for goal in report.goals if not goal.reached] == []
    assert len(report.lines) == 2


def test_a_tree_out_of_many_files_reads_one_snapshot_and_its_log() -> None:
    """Ten logs and ten snapshots: two files are opened, wherever the zxid is."""
    report = Report()
    tree_measurements.tree_at(Plan(repeats=1, short=True), report)
    assert [goal.what for goal in report.goals if not goal.reached] == []
    assert len(report.lines) == 4
    assert all("in 2 files" in line.note for line in report.lines[:3])
