"""What a cluster of many partitions costs its controller and its operator, beside real Kafka."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.long.interop.jars import kafka
from tests.programs.benchmarks import reads
from tests.programs.benchmarks.cluster_tree import FIRST_BROKER, ClusterTree
from tests.programs.benchmarks.commands import Ran, run, zkgroup
from tests.programs.benchmarks.report import Line, Plan, Report, cost_line, median, ratio, spread
from tests.programs.benchmarks.server import BenchServer, Cost
from tests.programs.benchmarks.take_overs import OURS, ControllerBench, TakeOver

NEW, OLD = "2.8.2", "0.8.2.2"
LARGE = ClusterTree(topics=100, partitions=100)
SMALL = ClusterTree(topics=50, partitions=100)
SHORT = ClusterTree(topics=20, partitions=20)
HUGE = ClusterTree(topics=500, partitions=200)
DECODING = "Python's time for each znode: decoding, the controller context, the requests to brokers"
MANY_BROKERS = ClusterTree(topics=100, partitions=100, brokers=50)


def _bulk_read(tree: ClusterTree, repeats: int) -> Line:
    """Reads the same znodes once with our client, which does nothing with them."""
    with BenchServer(heap_mb=1024) as server, tree.laid_out(server.address):
        paths = list(tree.paths())
        costs = reads.measure(server, {"bulk": reads.bulk_read_of(server.address, paths)}, repeats)["bulk"]
    return cost_line(f"bulk read of what a controller loads, {tree.size} partitions", OURS, costs)


def _line(what: str, side: str, results: Sequence[TakeOver], seconds: Sequence[float]) -> Line:
    states = median(result.states for result in results)
    return Line(
        what,
        side,
        seconds=median(seconds),
        spread_s=spread(seconds),
        packets=round(median(result.packets for result in results) or 0),
        client_cpu_s=median(result.controller_cpu_s for result in results),
        server_cpu_s=median(result.server_cpu_s for result in results),
        runs=len(results),
        note=f"{states:g} states written" if states else "",
    )


def _take_overs(side: str, tree: ClusterTree, repeats: int) -> Line:
    """Take-overs from the election until ready, after `/controller` was deleted."""
    with ControllerBench(side, tree) as bench:
        results = [bench.take_over() for _ in range(repeats)]
    what = f"take-over of {tree.size} partitions"
    return _line(what, side, results, [result.elected_to_ready_s for result in results])


def failover(plan: Plan, report: Report) -> None:
    """Take-overs from the election until everything is loaded and the first metadata is ready to send."""
    large = SHORT if plan.short else LARGE
    bulk, ours = _bulk_read(large, plan.repeats), _take_overs(OURS, large, plan.repeats)
    report.lines += [bulk, ours]
    report.at_most(f"{ours.what} over the bulk read", 2, ratio(ours, bulk), "x", DECODING)
    report.at_most(f"{ours.what}", 350, ours.packets or 0, "packets")
    if plan.short or not plan.peers():
        return
    new = _take_overs(NEW, LARGE, plan.repeats)
    old, half = _take_overs(OLD, SMALL, plan.repeats), _take_overs(OURS, SMALL, plan.repeats)
    report.lines += [new, old, half]
    report.at_least(f"{ours.what} over Kafka {NEW}", 2, ratio(new, ours), DECODING)
    report.at_least(f"{half.what} over Kafka {OLD}", 5, ratio(old, half), DECODING)


def failover_with_loss(plan: Plan, report: Report) -> None:
    """Take-overs after a broker was lost together with the controller: a third of the leaders is elected."""
    tree = SHORT if plan.short else LARGE
    sides = (OURS, NEW) if plan.peers() and not plan.short else (OURS,)
    lines: dict[str, Line] = {}
    for side in sides:
        with ControllerBench(side, tree) as bench:
            results = [bench.take_over_with_loss(number % tree.brokers) for number in range(plan.repeats)]
        what = f"take-over of {tree.size} partitions, a broker lost"
        lines[side] = _line(what, side, results, [result.last_state_s or 0.0 for result in results])
        report.lines.append(lines[side])
    ours = lines[OURS]
    report.at_most(ours.what, 1000, ours.packets or 0, "packets")
    if NEW in lines:
        limit = "CPU of the server for thousands of conditional writes, on the controller's cores"
        report.at_least(f"{ours.what}, over Kafka {NEW}", 3, ratio(lines[NEW], ours), limit)


def controller_memory(plan: Plan, report: Report) -> None:
    """Memory of the process of a controller of 100,000 partitions, after two take-overs."""
    tree = SHORT if plan.short else HUGE
    bulk = _bulk_read(tree, plan.repeats)
    with ControllerBench(OURS, tree) as bench:
        results = [bench.take_over() for _ in range(plan.repeats)]
        memory_mb = bench.memory_mb
    what = f"take-over of {tree.size} partitions"
    ours = _line(what, OURS, results, [result.elected_to_ready_s for result in results])
    report.lines += [bulk, ours]
    report.at_most(f"{what} over the bulk read", 2, ratio(ours, bulk), "x", DECODING)
    report.at_most(f"memory of a controller of {tree.size} partitions", 600, memory_mb, "MiB")


def describe(plan: Plan, report: Report) -> None:
    """`topic describe` of all topics, with the start of the process."""
    tree = SHORT if plan.short else LARGE
    what = f"topic describe of {tree.size} partitions"
    theirs: list[Cost] = []
    ours: list[Cost] = []
    with BenchServer(heap_mb=1024) as server, tree.laid_out(server.address):
        for _ in range(plan.repeats):
            ran = run(server, zkgroup("-z", server.address, "--format", "json", "topic", "describe"))
            described = json.loads(ran.output)["topics"]
            assert sum(len(topic["partitions"]) for topic in described) == tree.size
            ours.append(ran.cost)
            if not plan.short and plan.peers():
                tool = kafka(NEW, "kafka.admin.TopicCommand", "--zookeeper", server.address, "--describe")
                theirs.append(_counted(run(server, tool), "Partition: ", tree.size))
    line = cost_line(what, OURS, ours)
    report.lines.append(line)
    report.at_most(what, 200, line.packets or 0, "packets")
    if theirs:
        peer = cost_line(what, f"TopicCommand {NEW}", theirs)
        report.lines.append(peer)
        report.at_least(f"{what} over TopicCommand {NEW}", 4, ratio(peer, line), "decoding and printing")


def _counted(ran: Ran, word: str, times: int) -> Cost:
    assert ran.output.count(word) == times, f"{word}: expected {times}, found {ran.output.count(word)}"
    return ran.cost


def move_plan(plan: Plan, report: Report) -> None:
    """A plan that empties one of 50 brokers: its CPU time and its number of replica copies."""
    tree = ClusterTree(20, 20, brokers=10) if plan.short else MANY_BROKERS
    what = f"plan to empty one of {tree.brokers} brokers, {tree.size} partitions"
    with (
        BenchServer(heap_mb=1024) as server,
        tree.laid_out(server.address),
        tempfile.TemporaryDirectory() as scratch,
    ):
        file = Path(scratch, "plan.json")
        command = zkgroup("-z", server.address, "--format", "json", "reassign", "plan", "decommission",
                          str(FIRST_BROKER), "--output", str(file))  # fmt: skip
        costs = [run(server, command).cost for _ in range(plan.repeats)]
        planned = _copies(tree, json.loads(file.read_text()))
        line = cost_line(what, OURS, costs, f"{planned} replicas copied")
        report.lines.append(line)
        report.at_most(what, 5, line.client_cpu_s or 0.0, "s of CPU")
        report.at_most(what, tree.hosted_by_the_first, planned, "replicas")
        if plan.short or not plan.peers():
            return
        topics = Path(scratch, "topics.json")
        names = [{"topic": f"t{number}"} for number in range(tree.topics)]
        topics.write_text(json.dumps({"topics": names, "version": 1}))
        others = ",".join(str(FIRST_BROKER + number) for number in range(1, tree.brokers))
        tool = kafka(
            NEW, "kafka.admin.ReassignPartitionsCommand", "--zookeeper", server.address, "--generate",
            "--topics-to-move-json-file", str(topics), "--broker-list", others,
        )  # fmt: skip
        theirs = [run(server, tool) for _ in range(plan.repeats)]
        generated = _copies(tree, json.loads(theirs[-1].output.rstrip().splitlines()[-1]))
    note = f"{generated} replicas copied"
    costs = [each.cost for each in theirs]
    report.lines.append(cost_line(what, f"ReassignPartitionsCommand {NEW}", costs, note))
    report.at_least(f"replicas copied by {NEW}'s plan over zkgroup's", 10, generated / planned, "")


def _copies(tree: ClusterTree, reassignment: dict[str, list[dict[str, object]]]) -> int:
    """How many replicas are on a broker that has no replica of that partition yet."""
    copies = 0
    for move in reassignment["partitions"]:
        topic, replicas = int(str(move["topic"])[1:]), move["replicas"]
        assert isinstance(replicas, list)
        copies += len(set(replicas) - set(tree.replicas(topic, int(str(move["partition"])))))
    return copies
