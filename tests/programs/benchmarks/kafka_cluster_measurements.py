"""A Kafka cluster for a test: `KafkaCluster` beside librdkafka's mock cluster and one ZooKeeper server.

The imports are not measured: a test run has them once.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import Producer
from kafka import KafkaConsumer, KafkaProducer

from tests.programs.benchmarks import embedded
from tests.programs.benchmarks.report import Line, Plan, Report, median, ratio, spread
from zkgroup.testing import KafkaCluster
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

PARTITIONS = 30
METADATA_S = 30.0
MOCK = {"bootstrap.servers": "", "test.mock.num.brokers": 3, "log_level": 0}


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _lead_again(cluster: KafkaCluster, killed: int) -> None:
    cluster.kill(killed)
    for tp in cluster.partitions("t"):
        cluster.wait_for_leader(*tp)


def _cluster() -> dict[str, float]:
    """The seconds of each part of one cluster's life."""
    cluster = KafkaCluster()
    try:
        found = {"start": _timed(cluster.start)}
        found["topic"] = _timed(lambda: cluster.create_topic("t", PARTITIONS))
        controller = cluster.wait_for_controller()
        other = next(broker for broker in cluster.running if broker != controller)
        found["failover"] = _timed(lambda: _lead_again(cluster, other))
        cluster.restart(other)
        found["controller"] = _timed(lambda: _lead_again(cluster, controller))
        cluster.restart(controller)
    finally:
        found["close"] = _timed(cluster.close)
    return found


def _mock_start() -> float:
    """A mock cluster lives inside a client: until that client has its metadata."""
    began = time.perf_counter()
    producer = Producer(MOCK)
    producer.list_topics(timeout=METADATA_S)
    return time.perf_counter() - began


def _client_test(cluster: KafkaCluster, topic: str) -> float:
    """The CPU of one test with the fixture `kafka_topic`, beyond what its consumer takes, in seconds.

    The consumer works on this thread. What the producer's own thread takes is counted.
    """
    began = time.process_time()
    cluster.create_topic(topic)
    client_began = time.thread_time()
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as sending:
        sending.send(topic, b"a record").get()
    options = {"group_id": topic, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    with KafkaConsumer(topic, bootstrap_servers=cluster.bootstrap_servers, **options) as reading:
        next(reading)
        reading.commit()
    of_consumer = time.thread_time() - client_began
    cluster.delete_topic(topic)
    return time.process_time() - began - of_consumer


def _client_tests(plan: Plan) -> list[float]:
    with KafkaCluster() as cluster:
        _client_test(cluster, "first")
        return [_client_test(cluster, f"test-{number}") for number in range(plan.repeats)]


def _line(what: str, side: str, seconds: list[float]) -> Line:
    return Line(what, side, seconds=median(seconds), spread_s=spread(seconds), runs=len(seconds))


def kafka_cluster(plan: Plan, report: Report) -> None:
    """Three brokers: start, a topic, a broker killed, the controller killed, close."""
    if not plan.short:
        _cluster(), _mock_start()  # the first ones load what is imported late
    clusters: list[dict[str, float]] = []
    mocks: list[float] = []
    servers: list[float] = []
    for _ in range(plan.repeats):
        clusters.append(_cluster())
        mocks.append(_mock_start())
        servers += [] if plan.short else [embedded.start(1).seconds]
    names = {
        "start": "three brokers until all are ready",
        "topic": f"topic of {PARTITIONS} partitions, until it is served",
        "failover": "broker killed, until other leaders serve",
        "controller": "controller killed, until other leaders serve",
        "close": "close",
    }
    ours = {key: _line(what, "KafkaCluster", [one[key] for one in clusters]) for key, what in names.items()}
    mock = _line(names["start"], "librdkafka's mock cluster", mocks)
    report.lines += [*ours.values(), mock]
    for key, most in (("start", 0.5), ("failover", 1.0), ("controller", 1.0), ("close", 0.5)):
        report.at_most(f"KafkaCluster: {names[key]}", most, ours[key].seconds or 0.0, "s")
    cpu_s = median(_client_tests(plan)) or 0.0
    what = "a test with kafka_topic that sends, joins a group, reads and commits"
    report.lines.append(Line(what, "KafkaCluster", client_cpu_s=cpu_s, runs=plan.repeats))
    report.at_most(f"CPU beyond its consumer's: {what}", 0.2, cpu_s, "s")
    if servers:
        server = _line("one embedded ZooKeeper server", EmbeddedZooKeeper.__name__, servers)
        report.lines.append(server)
        report.at_least("three brokers beside one ZooKeeper server", 2.0, ratio(server, ours["start"]), "")
