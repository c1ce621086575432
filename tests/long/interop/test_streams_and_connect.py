"""Kafka Streams and Connect at three zkgroup brokers: their compacted topics are kept whole, and suffice."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPartition

from tests.long.interop.conftest import fetched
from tests.long.interop.jars import applications_jars, compiled, java
from tests.long.interop.members import HERE
from tests.long.interop.processes import Events, Process, Reader
from tests.long.interop.releases import NEWEST
from tests.long.interop.tooled import OurBrokers
from tests.waiting import PATIENCE_S, eventually
from zkgroup.zookeeper.embedded.server import ReservedPort

LINES = [f"the {animal} sees the {number} dogs" for animal in ("fox", "cat", "cow") for number in range(40)]


@pytest.fixture(scope="module")
def classpath() -> str:
    """Of the word count, Streams and Connect."""
    fetched(NEWEST, applications_jars)
    jars = f"{applications_jars(NEWEST)}/*"
    return f"{compiled(HERE / 'WordCount.java', jars)}:{jars}"


def _program(classpath: str, log: Path, main: str, *arguments: str, pipe: bool = False) -> Process:
    settings = applications_jars(NEWEST) / "log4j.properties"
    return Process(java(classpath, main, *arguments, heap_mb=256, log=settings), log, pipe=pipe)


class WordCount:
    """One instance of the application, with stores of its own."""

    def __init__(self, classpath: str, folder: Path, *arguments: str) -> None:
        folder.mkdir()
        bootstrap, application, *topics = arguments
        words = (bootstrap, application, str(folder / "stores"), *topics)
        self.events = Events()
        self.process = _program(classpath, folder / "log", "WordCount", *words, pipe=True)
        self._reader = Reader(self.process, self.events.add)

    def kill(self) -> None:
        self.process.kill()
        self._reader.join()


class Counts:
    """What a topic of counts says: the last value of each word."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = KafkaConsumer(bootstrap_servers=bootstrap)
        self._consumer.assign([KafkaPartition(topic, 0)])
        self._consumer.seek_to_beginning()
        self._last: Counter[str] = Counter()

    def read(self) -> Counter[str]:
        for records in self._consumer.poll(100).values():
            self._last |= Counter({one.key.decode(): int(one.value) for one in records})
        return self._last

    def ends(self, topic: str, partitions: int) -> tuple[dict[int, int], dict[int, int]]:
        """The first and the next offset by partition."""
        wanted = [KafkaPartition(topic, number) for number in range(partitions)]
        first, end = self._consumer.beginning_offsets(wanted), self._consumer.end_offsets(wanted)
        return {tp.partition: first[tp] for tp in wanted}, {tp.partition: end[tp] for tp in wanted}

    def close(self) -> None:
        self._consumer.close()


def test_streams_restores_its_stores_after_a_kill(
    brokers: OurBrokers, classpath: str, tmp_path: Path
) -> None:
    """An instance without stores reads them from the compacted topics; records that are repartitioned go."""
    brokers.create("lines", (1, 2), (2, 3))
    brokers.create("counts", (3, 1))
    application, named = "count", ("lines", "counts")
    first = WordCount(classpath, tmp_path / "first", brokers.bootstrap, application, *named)
    counts = Counts(brokers.bootstrap, "counts")
    second = None
    try:
        _send(brokers.bootstrap, "lines", LINES)
        expected = _words(LINES)
        eventually(lambda: _running(first) and counts.read() == expected, what="every word is counted")

        def is_purged() -> bool:
            starts, ends = counts.ends(f"{application}-words-repartition", 2)
            read = counts.ends("lines", 2)[1]
            return (
                starts == ends == brokers.committed(application, f"{application}-words-repartition")
                and brokers.committed(application, "lines") == read
            )

        eventually(is_purged, what="all is committed, and deleted from the topic between")
        policies = {
            store: brokers.json(f"/config/topics/{application}-{store}-changelog")["config"]["cleanup.policy"]
            for store in ("counts", "hourly")
        }
        assert policies == {"counts": "compact", "hourly": "compact,delete"}

        first.kill()
        second = WordCount(classpath, tmp_path / "second", brokers.bootstrap, application, *named)
        _send(brokers.bootstrap, "lines", LINES)
        eventually(
            lambda: _running(second) and counts.read() == expected + expected,
            what="the words are counted on",
        )
        restored: Counter[str] = Counter()
        for event in second.events.all("restored"):
            restored[event["store"]] += event["records"]
        assert restored["counts"] >= expected.total()
        assert restored["hourly"] > 0
    finally:
        counts.close()
        for one in (first, second):
            if one is not None:
                one.kill()


def _words(lines: list[str]) -> Counter[str]:
    return Counter(word for line in lines for word in line.split())


def _running(application: WordCount) -> bool:
    assert application.process.running, application.process.tail()
    assert not application.events.all("ERROR"), application.process.tail()
    return bool(application.events.all("RUNNING"))


def _send(bootstrap: str, topic: str, lines: list[str]) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    try:
        for number, line in enumerate(lines):
            producer.send(topic, line.encode(), partition=number % 2)
        producer.flush(PATIENCE_S)
    finally:
        producer.close()


class Worker:
    """One worker of the cluster, with its REST API."""

    def __init__(self, classpath: str, folder: Path, bootstrap: str) -> None:
        folder.mkdir()
        self._held = ReservedPort()
        self.id = f"127.0.0.1:{self._held.number}"
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "connect",
            "listeners": f"http://{self.id}",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.flush.interval.ms": 200,
            "scheduled.rebalance.max.delay.ms": 0,
            "session.timeout.ms": 3000,
            "heartbeat.interval.ms": 500,
            "plugin.discovery": "service_load",
            "offset.storage.partitions": 2,
            "status.storage.partitions": 2,
            **{f"{kind}.storage.topic": f"connect-{kind}s" for kind in ("config", "offset", "status")},
            **{f"{kind}.storage.replication.factor": 3 for kind in ("config", "offset", "status")},
        }
        file = folder / "worker.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        self._held.release()
        self.process = _program(classpath, folder / "log", main, str(file))

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The answer of the REST API; None while there is none."""
        assert self.process.running, self.process.tail()
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{self.id}/{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return json.load(answer)
        except OSError:
            return None

    def told(self, path: str, name: str) -> list[dict[str, Any]]:
        """One list of what is told about a connector; empty while there is none."""
        found: list[dict[str, Any]] = (self.ask(f"connectors/{path}") or {}).get(name, [])
        return found


@contextmanager
def _workers(classpath: str, folder: Path, bootstrap: str) -> Iterator[tuple[Worker, Worker]]:
    started: list[Worker] = []
    try:
        started += [Worker(classpath, folder / name, bootstrap) for name in ("one", "two")]
        yield started[0], started[1]
    finally:
        for one in started:
            one.process.kill()


def test_connect_goes_on_after_a_worker_is_killed(
    brokers: OurBrokers, classpath: str, tmp_path: Path
) -> None:
    """A file goes through a topic into another file, from where it was: offsets are in a compacted topic."""
    source, sink = tmp_path / "from", tmp_path / "to"
    source.write_text("".join(f"{line}\n" for line in LINES))
    common = {"tasks.max": "1"}
    connectors = {
        "source": {**common, "connector.class": "FileStreamSource", "file": str(source), "topic": "piped"},
        "sink": {**common, "connector.class": "FileStreamSink", "file": str(sink), "topics": "piped"},
    }
    brokers.create("piped", (1, 2, 3))
    with _workers(classpath, tmp_path, brokers.bootstrap) as workers:
        eventually(lambda: workers[0].ask("connectors") == [], what="the REST API answers")
        for name, config in connectors.items():
            body = {"name": name, "config": config}
            eventually(partial(workers[0].ask, "connectors", body), what=f"{name} is made")
        eventually(lambda: _read(sink) == LINES, what="the lines are in the other file")
        stored = [{"position": source.stat().st_size}]
        eventually(
            lambda: [one["offset"] for one in workers[0].told("source/offsets", "offsets")] == stored,
            what="the end of the file is stored",
        )
        (task,) = eventually(lambda: workers[0].told("source/status", "tasks"), what="the source has a task")
        killed = next(one for one in workers if one.id == task["worker_id"])
        (left,) = [one for one in workers if one is not killed]
        killed.process.kill()
        more = [f"line {number} after the kill" for number in range(50)]
        with source.open("a") as file:
            file.write("".join(f"{line}\n" for line in more))
        eventually(lambda: set(more) <= set(_read(sink)), what="the lines behind them, too")
        eventually(
            lambda: [one["worker_id"] for one in left.told("source/status", "tasks")] == [left.id],
            what="the other worker has the task",
        )
    policies = {
        kind: brokers.json(f"/config/topics/connect-{kind}s")["config"]["cleanup.policy"]
        for kind in ("config", "offset", "status")
    }
    assert policies == dict.fromkeys(policies, "compact")
    assert _sent(brokers.bootstrap, "piped") == [*LINES, *more]


def _read(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def _sent(bootstrap: str, topic: str) -> list[str]:
    """Every record of partition 0, which the source sends once if it goes on where it was."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        tp = KafkaPartition(topic, 0)
        consumer.assign([tp])
        consumer.seek_to_beginning()
        end = consumer.end_offsets([tp])[tp]
        found: list[str] = []
        while len(found) < end:
            found += [one.value.decode() for one in consumer.poll(1000).get(tp, ())]
        return found
    finally:
        consumer.close()
