"""Brokers beside Kafka 2.8.2: fetch, produce, latency, connections, start and memory.

Both sides run at the same time and are measured in turns, with the same client program and the same disk. A
side that is not measured is idle. CPU is that of the brokers, and of the client's process.
"""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.programs.benchmarks.broker_client import Figures, ask
from tests.programs.benchmarks.broker_sides import KAFKA, OURS, BrokerSide, all_sides, sides
from tests.programs.benchmarks.report import Line, Plan, Report, median, ratio, spread
from tests.waiting import eventually
from tests.worlds.batches import build_batch
from tests.worlds.led_brokers import ask as ask_broker
from zkgroup.broker.log.data_dir import DataDir
from zkgroup.broker.log.disk_storage import DiskStorage
from zkgroup.broker.log.log_config import LogConfig
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import SIZE, encode_request
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse
from zkgroup.wire.record_batch import Record

TOPIC = "measured"
CALM_SHARE = 0.25
"""CPU of three brokers with nothing to do in a second, with 1,000 partitions; Kafka's a little less."""
SHARED = "the cores are shared with the client and with other work"
Found = Mapping[str, Sequence[Figures]]
"""Side to the figures of its runs."""


def in_turns(
    started: Mapping[str, BrokerSide], order: Callable[[BrokerSide], Figures], repeats: int
) -> dict[str, list[Figures]]:
    """The figures of each side, with the CPU of its brokers; the first run of each is a warm-up."""
    found: defaultdict[str, list[Figures]] = defaultdict(list)
    for number in range(repeats + 1):
        for name, side in started.items():
            cpu = side.cpu_s()
            figures = order(side)
            if number or not repeats:
                found[name].append({"brokers_cpu_s": side.cpu_s() - cpu, **figures})
    return found


def lines_of(what: str, found: Found, rate: Callable[[Figures], str]) -> dict[str, Line]:
    """A line for each side; `rate` is the note for the median run."""
    lines = {}
    for name, runs in found.items():
        seconds = [run["seconds"] for run in runs]
        middle = sorted(runs, key=lambda run: run["seconds"])[len(runs) // 2]
        lines[name] = Line(
            what,
            name,
            seconds=median(seconds),
            spread_s=spread(seconds),
            client_cpu_s=median(run.get("client_cpu_s") for run in runs),
            server_cpu_s=median(run["brokers_cpu_s"] for run in runs),
            runs=len(runs),
            note=rate(middle),
        )
        print(f"  {lines[name]}", file=sys.stderr, flush=True)  # what is known, should the rest not end
    return lines


def add_beside(report: Report, lines: Mapping[str, Line], wanted: float | None) -> None:
    """Adds the lines, and the ratio of the seconds beside that of the brokers' CPU."""
    report.lines += lines.values()
    if wanted is not None and KAFKA in lines:
        ours, peer = lines[OURS], lines[KAFKA]
        cpu = (peer.server_cpu_s or 0) / (ours.server_cpu_s or 1)
        limit = f"{cpu:.1f}x by the CPU of the brokers; {SHARED}"
        report.at_least(f"{ours.what}, beside Kafka", wanted, ratio(peer, ours), limit)


def megabytes(run: Figures) -> str:
    return f"{run['bytes'] / run['seconds'] / 1e6:.0f} MB/s"


def records_a_second(run: Figures) -> str:
    return f"{run['records'] / run['seconds']:,.0f} records/s"


def fetch(plan: Plan, report: Report) -> None:
    """A warm log, fetched from its start to its end: large parts of 8 partitions, then small ones of 100."""
    size, records = 8192, 500 if plan.short else 50_000
    small, few = 1000, 500 if plan.short else 8_000
    with all_sides(sides(short=plan.short), 1) as started:
        for side in started.values():
            ask(side.bootstrap, "create", TOPIC, partitions=8)
            ask(side.bootstrap, "produce", TOPIC, partitions=8, records=records, size=size)
            ask(side.bootstrap, "create", "small", partitions=100)
            numbers = {"records": few, "size": small, "batch": 4096, "run": 4}
            ask(side.bootstrap, "produce", "small", partitions=100, **numbers)
        large = in_turns(
            started,
            lambda side: ask(side.bootstrap, "fetch", TOPIC, partitions=8, records=records),
            plan.repeats,
        )
        little = in_turns(
            started,
            lambda side: ask(side.bootstrap, "fetch", "small", partitions=100, records=few, each=4096),
            plan.repeats,
        )
    add_beside(report, lines_of("fetch of a warm log, up to 1 MiB a partition", large, megabytes), 0.7)
    add_beside(report, lines_of("fetch of 100 partitions, 4 KiB of each", little, megabytes), None)


def produce(plan: Plan, report: Report) -> None:
    """Records of 100 bytes and of 1 KiB: acks=1 at one broker, acks=all at three."""
    count = 1_000 if plan.short else 100_000
    for brokers, acks, name in ((1, 1, "acks=1"), (3, -1, "acks=all, three brokers")):
        with all_sides(sides(short=plan.short), brokers) as started:
            for side in started.values():
                ask(side.bootstrap, "create", TOPIC, partitions=6, replicas=brokers)
            for size in (100, 1024):
                numbers = {"partitions": 6, "records": count, "size": size, "acks": acks}
                found = in_turns(
                    started,
                    lambda side, numbers=numbers: ask(side.bootstrap, "produce", TOPIC, **numbers),  # type: ignore[misc]
                    plan.repeats,
                )
                what = f"produce, {name}, linger 5 ms, records of {size} bytes"
                add_beside(report, lines_of(what, found, records_a_second), 0.5)


def latency(plan: Plan, report: Report) -> None:
    """One record at a time with acks=all at three brokers; again beside 1,000 idle partitions."""
    count, idle = (20, 20) if plan.short else (500, 1000)
    topics = 2 if plan.short else 10
    with all_sides(sides(short=plan.short), 3) as started:
        for side in started.values():
            ask(side.bootstrap, "create", TOPIC, replicas=3)
        alone = _latencies(started, count, plan.repeats)
        quiet = {name: _idle_cpu(side, plan) for name, side in started.items()}
        for side in started.values():
            for number in range(topics):
                ask(side.bootstrap, "create", f"idle-{number}", partitions=idle // topics, replicas=3)
        beside = _latencies(started, count, plan.repeats)
        full = {name: _idle_cpu(side, plan) for name, side in started.items()}
    for what, found in (("one partition", alone), (f"beside {idle} idle partitions", beside)):
        report.lines += lines_of(f"acks=all, one record at a time, {what}", found, _times).values()
    for name, cpu in quiet.items():
        note = f"{1000 * cpu:.1f} ms of CPU a second; {1000 * full[name]:.1f} ms with {idle} partitions"
        report.lines.append(Line("three idle brokers", name, note=note))
    ours, ours_full = (median(run["p50_ms"] for run in found[OURS]) or 0.0 for found in (alone, beside))
    if KAFKA in alone:
        peer = median(run["p50_ms"] for run in alone[KAFKA]) or 0.0
        report.at_most("p50 of acks=all over Kafka's", 2.0, ours / peer, "times", SHARED)
    report.at_most(f"p50 beside {idle} idle partitions over one", 1.2, ours_full / ours, "times", SHARED)


def _latencies(started: Mapping[str, BrokerSide], count: int, repeats: int) -> dict[str, list[Figures]]:
    for name, side in started.items():
        eventually(lambda side=side: _is_calm(side), what=f"{name} has done what new topics cost")  # type: ignore[misc]
    return in_turns(started, lambda side: ask(side.bootstrap, "latency", TOPIC, records=count), repeats)


def _times(run: Figures) -> str:
    return f"p50 {run['p50_ms']:.2f} ms, p99 {run['p99_ms']:.1f} ms"


def _is_calm(side: BrokerSide) -> bool:
    """Whether the brokers take little CPU in a second: new followers have settled."""
    return _cpu_share(side, 1.0) < CALM_SHARE


def _idle_cpu(side: BrokerSide, plan: Plan) -> float:
    """CPU seconds of all brokers in an idle second."""
    return _cpu_share(side, 0.2 if plan.short else 15.0)


def _cpu_share(side: BrokerSide, seconds: float) -> float:
    cpu, began = side.cpu_s(), time.perf_counter()
    time.sleep(seconds)
    return (side.cpu_s() - cpu) / (time.perf_counter() - began)


def connections(plan: Plan, report: Report) -> None:
    """The CPU of a request for metadata, at few and at many open connections."""
    counts, requests = ((5, 50), 500) if plan.short else ((50, 5_000), 2_000)
    by_count: dict[int, dict[str, list[Figures]]] = {}
    with all_sides(sides(short=plan.short), 1) as started:
        for side in started.values():
            ask(side.bootstrap, "create", TOPIC)
        for count in counts:
            with ExitStack() as stack:
                opened = {name: _connect(side, count, stack) for name, side in started.items()}
                by_count[count] = in_turns(
                    started,
                    lambda side, opened=opened: round_robin(opened[side.name], requests),  # type: ignore[misc]
                    plan.repeats,
                )
    for count, found in by_count.items():
        report.lines += lines_of(f"{requests} requests over {count} connections", found, cpu_each).values()
    few, many = (median(run["brokers_cpu_s"] for run in by_count[count][OURS]) or 0.0 for count in counts)
    what = f"CPU of a request, {counts[1]} connections over {counts[0]}"
    report.at_most(what, 1.3, many / few, "times", SHARED)


def _connect(side: BrokerSide, count: int, stack: ExitStack) -> list[socket.socket]:
    address = ("127.0.0.1", side.ports[1])
    return [stack.enter_context(socket.create_connection(address, 30)) for _ in range(count)]


def round_robin(connections: Sequence[socket.socket], requests: int) -> Figures:
    """One request after the other, each on the next connection."""
    frame = encode_request(MetadataRequest.of(TOPIC), 7, "bench")
    cpu, began = time.process_time(), time.perf_counter()
    for number in range(requests):
        connection = connections[number % len(connections)]
        connection.sendall(frame)
        data = connection.recv(65536)
        while len(data) < SIZE.size + SIZE.unpack_from(data)[0]:
            more = connection.recv(65536)
            assert more, "a broker has closed a connection"
            data += more
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "client_cpu_s": time.process_time() - cpu, "requests": requests}


def cpu_each(run: Figures) -> str:
    return f"{1e6 * run['brokers_cpu_s'] / run['requests']:.0f} us of the broker's CPU each"


def start(plan: Plan, report: Report) -> None:
    """The start of a broker with many partitions, until all are led: after a clean end, and after SIGKILL.

    Both have the same logs of one segment each. After SIGKILL nothing counts as forced to the disk, so every
    batch is checked.
    """
    topics, each, batches = (2, 10, 8) if plan.short else (10, 100, 132)
    partitions = topics * each
    with all_sides(sides(short=plan.short), 1) as started:
        for side in started.values():
            for number in range(topics):
                ask(side.bootstrap, "create", f"{TOPIC}-{number}", partitions=each)
            side.stop(clean=True)
            _fill_logs(side.data(1), batches)
            side.start()
            eventually(lambda side=side: _led(side) == partitions, what="all partitions are led")  # type: ignore[misc]
        for clean, ending in ((True, "a clean end"), (False, "SIGKILL")):
            found: defaultdict[str, list[Figures]] = defaultdict(list)
            for _ in range(plan.repeats):
                for name, side in started.items():
                    found[name].append(_restart(side, partitions, clean=clean))
            what = (
                f"start with {partitions} partitions and {partitions * batches / 64000:.1f} GB after {ending}"
            )
            lines = lines_of(what, found, lambda run: "")
            report.lines += lines.values()
            if clean:
                report.at_most(what, 3.0, lines[OURS].seconds or 0.0, "s", SHARED)
            elif KAFKA in lines:
                report.at_least(f"{what}, beside Kafka", 0.5, ratio(lines[KAFKA], lines[OURS]), SHARED)


def _fill_logs(data: Path, batches: int) -> None:
    """Gives each partition of a stopped broker the same segment of batches of 16 KB; both sides read it."""
    with tempfile.TemporaryDirectory(prefix="zkgroup-bench-log-") as scratch:
        folder = DataDir(DiskStorage(Path(scratch)), LogConfig(), lambda: 1)
        log = folder.create(TopicPartition(TOPIC, 0), 0)
        now_ms = time.time_ns() // 1_000_000
        for _ in range(batches):
            records = [Record(number, now_ms, None, bytes(1000)) for number in range(15)]
            log.append_as_leader(build_batch(records), 0, now_ms)
        folder.close()
        for file in Path(scratch, f"{TOPIC}-0").glob("0*"):
            for partition in data.glob(f"{TOPIC}-*"):
                shutil.copy(file, partition)


def _restart(side: BrokerSide, partitions: int, *, clean: bool) -> Figures:
    side.stop(clean=clean)
    if not clean:
        (side.data(1) / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    began = time.perf_counter()
    side.start()
    eventually(lambda: _led(side) == partitions, what="all partitions are led")
    return {"seconds": time.perf_counter() - began, "brokers_cpu_s": side.cpu_s()}


def _led(side: BrokerSide) -> int:
    """The number of partitions that the broker answers to have a leader."""
    try:
        answer = ask_broker(("127.0.0.1", side.ports[1]), MetadataRequest(()), MetadataResponse)
    except OSError:
        return 0
    if answer is None:
        return 0
    return sum(one.leader > 0 for topic in answer.topics for one in topic.partitions)


def memory(plan: Plan, report: Report) -> None:
    """The resident memory of a broker with one topic, which no client has used."""
    with all_sides(sides(short=plan.short), 1) as started:
        for side in started.values():
            ask(side.bootstrap, "create", TOPIC)
        time.sleep(0.0 if plan.short else 5.0)
        found = {name: side.memory_mb() for name, side in started.items()}
    for name, resident in found.items():
        report.lines.append(Line("memory of an idle broker", name, note=f"{resident:.0f} MiB resident"))
    report.at_most("memory of an idle broker", 70, found[OURS], "MiB")
