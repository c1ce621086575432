"""The short version of the benchmarks: counts of packets, files and calls, which are the same everywhere.

Seconds and their ratios are left to `python -m tests.programs.benchmarks`: on a shared machine a test cannot
check them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.programs.benchmarks import (
    audit_measurements,
    broker_sides,
    cluster_measurements,
    commits,
    exporter_measurements,
    file_measurements,
    kafka_cluster_measurements,
    reads,
    replay_measurements,
    replication_measurements,
    series_measurements,
    tree_measurements,
)
from tests.programs.benchmarks.measurements import MEASUREMENTS, embedded_start
from tests.programs.benchmarks.report import Plan, Report
from tests.programs.benchmarks.scenarios import GroupBench
from tests.programs.benchmarks.server import BenchServer
from tests.programs.benchmarks.sides import OURS
from tests.worlds.zkfiles_tables import IS_BUILT, needs_kernel


def missed(report: Report) -> list[str]:
    """The goals that are counted and were not reached."""
    assert any(goal.is_counted for goal in report.goals)
    return [f"{goal.what}: {goal.found}" for goal in report.goals if goal.is_counted and not goal.reached]


def test_bulk_reads_take_few_packets() -> None:
    """2,000 znodes in at most 10 packets, where kazoo sends one for each."""
    with BenchServer() as server:
        paths = reads.lay_out(server.address, 2000)
        sides = {
            "kazoo": reads.kazoo_reads(server.address, paths),
            "ours": reads.our_bulk_reads(server.address, paths),
        }
        costs = reads.measure(server, sides, 1)
    kazoo, ours = (min(cost.packets for cost in costs[name]) for name in ("kazoo", "ours"))
    assert ours <= 10
    assert kazoo >= 2000


def test_a_commit_of_many_partitions_is_a_few_packets() -> None:
    """One transaction commits all of them; setting one after another takes a packet for each."""
    count = 200
    ours, sets = commits.ours_beside_kazoo(count, 1)
    assert all(result["partitions"] == count for result in ours)
    assert min(result["packets"] for result in ours) <= 10
    assert min(cost.packets for cost in sets) >= count


def test_a_read_of_the_exporter_is_a_few_packets() -> None:
    """Also where the leader of all partitions is dead."""
    report = Report()
    exporter_measurements.exporter(Plan(repeats=1, short=True), report)
    assert missed(report) == []


def test_a_group_starts_is_joined_and_is_restarted() -> None:
    """Ten members with 100 partitions: at most two rebalances each when all start at once. One that joins
    costs at most 80 packets, and kept partitions stay owned. Three close and come back: none fails.
    """
    with GroupBench(OURS, members=10, partitions=100, calm_s=1.0) as bench:
        started = bench.start()
        rounds = [(bench.join(), bench.leave()) for _ in range(2)]
        restarted = bench.rolling()
    assert all(
        result["converged"] for result in (started, *(one for pair in rounds for one in pair), restarted)
    )
    assert started["counters"]["most_rebalances"] <= 2
    assert min(join["packets_net"] for join, _ in rounds) <= 80
    assert {result["kept"]["max_ms"] for pair in rounds for result in pair} == {0}
    assert restarted["counters"]["members_that_gave_up"] == 0


def test_the_start_of_the_embedded_server_is_measured() -> None:
    """The seconds and the servers' own CPU, of one server and of three."""
    report = Report()
    embedded_start(Plan(repeats=1), report)
    assert [line.side for line in report.lines] == ["one server", "three servers"]
    assert all(line.seconds and line.server_cpu_s for line in report.lines)


def test_the_report_names_what_was_not_reached() -> None:
    """A missed goal is in the JSON and in the table, with the cause."""
    report = Report()
    report.at_least("speed", 2, 1.0, "the clock")
    report.at_most("packets", 10, 10, "packets")
    assert [goal.reached for goal in report.goals] == [False, True]
    assert "| speed | ≥ 2x | 1.0x | NO | the clock |" in report.as_table()


@pytest.mark.parametrize("measure", [cluster_measurements.describe, cluster_measurements.move_plan])
def test_status_takes_few_packets_and_a_plan_few_copies(
    measure: Callable[[Plan, Report], None],
) -> None:
    """400 partitions: all are described, and one of ten brokers is emptied by as few copies as possible."""
    report = Report()
    measure(Plan(repeats=1, short=True), report)
    assert missed(report) == []


def test_logs_and_snapshots_become_columns_with_next_to_no_call_for_a_row() -> None:
    """No call a row by kernel or numpy, some thirty in plain Python. The tools run too."""
    report = Report()
    file_measurements.files(Plan(repeats=1, short=True), report)
    assert missed(report) == []
    sides = 3 if IS_BUILT else 1
    assert len([goal for goal in report.goals if goal.wanted.endswith("calls")]) == 2 * sides + 2
    assert len([goal for goal in report.goals if "TxnLogToolkit" in goal.what]) == sides
    snapshots = [line for line in report.lines if line.what.startswith("snapshot")]
    assert len(snapshots) == 3


def test_a_replay_with_every_digest_compared_costs_little_beside_decoding() -> None:
    """A replay takes at most twice the calls of decoding alone."""
    report = Report()
    replay_measurements.replay(Plan(repeats=1, short=True), report)
    assert missed(report) == []
    assert len(report.lines) == 2


def test_series_of_snapshots_are_read_in_lines_and_columns() -> None:
    """Next to no call for a znode that did not change."""
    report = Report()
    series_measurements.series(Plan(repeats=1, short=True), report)
    assert missed(report) == []
    assert len(report.lines) == 4


@needs_kernel
def test_the_audit_of_a_healthy_day_makes_few_calls_for_an_operation() -> None:
    """Next to no call for questions that columns answer; without screens findings take some hundreds."""
    report = Report()
    audit_measurements.audit(Plan(repeats=1, short=True), report)
    assert missed(report) == []
    assert len(report.goals) == 4


def test_a_tree_out_of_many_files_reads_one_snapshot_and_its_log() -> None:
    """Ten logs and ten snapshots: two files are opened, for any zxid."""
    report = Report()
    tree_measurements.tree_at(Plan(repeats=1, short=True), report)
    assert missed(report) == []
    assert len(report.lines) == 4
    assert all("in 2 files" in line.note for line in report.lines[:3])


def test_the_life_of_a_cluster_in_one_process_is_measured_beside_librdkafkas() -> None:
    """Start, topic, failover of a broker and of the controller, close; the mock; a fixture's test."""
    report = Report()
    kafka_cluster_measurements.kafka_cluster(Plan(repeats=1, short=True), report)
    sides = [*["KafkaCluster"] * 5, "librdkafka's mock cluster", "KafkaCluster"]
    assert [line.side for line in report.lines] == sides
    assert len(report.goals) == 5


def test_the_latency_of_acks_all_is_measured_beside_idle_partitions() -> None:
    """With none and with many; the ratio of the two is the goal."""
    report = Report()
    replication_measurements.acks_all(Plan(repeats=1, short=True), report)
    assert [line.side for line in report.lines] == ["no other partition", "30 idle partitions"]
    assert len(report.goals) == 1


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("broker-fetch", 2),
        ("broker-produce", 4),
        ("broker-latency", 3),
        ("broker-connections", 2),
        ("broker-start", 2),
        ("secured", 5),
    ],
)
def test_brokers_are_measured_with_librdkafka(name: str, count: int) -> None:
    """`zkgroup broker run` in small sizes: each timed line has the seconds and the brokers' own CPU."""
    report = Report()
    repeats = 1 if name == "broker-start" else 0  # elsewhere the first run, which warms up, is enough
    MEASUREMENTS[name](Plan(repeats=repeats, short=True), report)
    assert [line.side for line in report.lines] == ["zkgroup"] * count
    timed = [line for line in report.lines if not line.what.startswith("three idle brokers")]
    assert all(line.seconds and line.server_cpu_s is not None for line in timed)


def test_acls_are_measured_beside_a_broker_without_an_authorizer() -> None:
    """Four requests at both, a goal for each, and the memory of more ACLs."""
    report = Report()
    MEASUREMENTS["authorizer"](Plan(repeats=0, short=True), report)
    assert [line.side for line in report.lines] == ["no authorizer", "1,000 ACLs"] * 4 + ["1,000 ACLs"]
    assert len(report.goals) == 4


def test_quotas_that_nobody_reaches_are_measured() -> None:
    """Beside a broker without any: two loads, each with quotas of bytes, and with one of request time."""
    report = Report()
    MEASUREMENTS["quotas"](Plan(repeats=0, short=True), report)
    assert [line.side for line in report.lines] == ["no quota", "quotas of bytes", "also of request time"] * 2
    assert len(report.goals) == 4


def test_an_idle_broker_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most 70 MiB are resident after a topic was created, in a process that is not forked."""
    monkeypatch.setattr(broker_sides, "servers", [])
    report = Report()
    MEASUREMENTS["broker-memory"](Plan(repeats=1, short=True), report)
    assert [goal.reached for goal in report.goals] == [True], report.goals


@pytest.mark.parametrize(
    ("name", "count"), [("group-joins", 2), ("group-rates", 2), ("group-scale", 1), ("group-load", 1)]
)
def test_groups_are_measured_with_raw_members(name: str, count: int) -> None:
    """In small sizes: members that have an error or another generation, or a lost generation, end it."""
    report = Report()
    MEASUREMENTS[name](Plan(repeats=0, short=True), report)
    assert [line.side for line in report.lines] == ["zkgroup"] * count
    assert all(line.seconds for line in report.lines)
    errors = [goal for goal in report.goals if goal.wanted.endswith("members")]
    assert all(goal.reached for goal in errors), errors


def test_a_commit_makes_a_bounded_number_of_calls() -> None:
    """Of Python's functions and C's, in all layers of a broker together."""
    report = Report()
    MEASUREMENTS["commit-calls"](Plan(repeats=0, short=True), report)
    assert [goal.reached for goal in report.goals] == [True], report.goals
