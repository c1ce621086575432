"""Kafka's `--bootstrap-server` tools at zkgroup brokers: each operation and its effect."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.long.interop.conftest import fetched
from tests.long.interop.jars import java, kafka_jars, tools_jars
from tests.long.interop.releases import NEWEST, rows_of
from tests.long.interop.toolbox import Printed, Toolbox
from tests.long.interop.tooled import BROKERS, OurBrokers, Row
from tests.waiting import PATIENCE_S, eventually
from tests.worlds.kafka_clients import CLIENTS
from zkgroup.model import TopicPartition

RELEASES = ("2.8.2", NEWEST)
MAINS = {
    "topics": ("kafka.admin.TopicCommand", "org.apache.kafka.tools.TopicCommand"),
    "configs": ("kafka.admin.ConfigCommand", "kafka.admin.ConfigCommand"),
    "offsets": ("kafka.tools.GetOffsetShell", "org.apache.kafka.tools.GetOffsetShell"),
    "reassign": (
        "kafka.admin.ReassignPartitionsCommand",
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    ),
    "elections": ("kafka.admin.LeaderElectionCommand", "org.apache.kafka.tools.LeaderElectionCommand"),
    "producer": ("kafka.tools.ConsoleProducer", "kafka.tools.ConsoleProducer"),
    "consumer": ("kafka.tools.ConsoleConsumer", "org.apache.kafka.tools.consumer.ConsoleConsumer"),
    "dump": ("kafka.tools.DumpLogSegments", "kafka.tools.DumpLogSegments"),
    "verifiable producer": (
        "org.apache.kafka.tools.VerifiableProducer",
        "org.apache.kafka.tools.VerifiableProducer",
    ),
}
"""The class of each tool in 2.8.2 and in 3.9.1."""


@dataclass(frozen=True)
class ServedTools:
    """The tools of one release, which know only the brokers."""

    box: Toolbox
    release: str
    cluster: OurBrokers
    folder: Path

    @property
    def bootstrap(self) -> str:
        ports = [self.cluster.json(f"/brokers/ids/{broker}")["port"] for broker in BROKERS]
        return ",".join(f"127.0.0.1:{port}" for port in ports)

    def name(self, topic: str) -> str:
        """A topic name of this release's own."""
        return f"{topic}-{self.release.replace('.', '')}"

    def run(self, tool: str, *words: str) -> Printed:
        main = MAINS[tool][RELEASES.index(self.release)]
        printed = self.box.run(self.release, main, *self._at(tool), *words)
        assert printed.code == 0, printed.text
        return printed

    def _at(self, tool: str) -> tuple[str, ...]:
        if tool == "dump":
            return ()
        is_older = tool == "offsets" and self.release != NEWEST
        return "--broker-list" if is_older else "--bootstrap-server", self.bootstrap

    def refused(self, tool: str, *words: str) -> str:
        """What a tool prints that cannot do what it is asked for."""
        main = MAINS[tool][RELEASES.index(self.release)]
        return self.box.run(self.release, main, "--bootstrap-server", self.bootstrap, *words).text

    def shown(self, *words: str, until: Callable[[str], object]) -> str:
        """What kafka-topics prints once that is so: brokers get the controller's metadata one by one."""
        return eventually(lambda: self.refused("topics", *words), until)

    def piped(self, tool: str, *words: str, stdin: bytes) -> bytes:
        """The output of a tool in a JVM of its own, which reads its standard input."""
        folder = kafka_jars(self.release)
        main = MAINS[tool][RELEASES.index(self.release)]
        more = tools_jars(self.release) if tool == "verifiable producer" else folder
        command = java(f"{folder}/*:{more}/*", main, heap_mb=128, log=folder / "log4j.properties")
        done = subprocess.run(
            [*command, "--bootstrap-server", self.bootstrap, *words],
            input=stdin,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")[-4000:]
        return done.stdout

    def create(self, topic: str, *replicas: tuple[int, ...]) -> list[Row]:
        assigned = ",".join(":".join(map(str, each)) for each in replicas)
        self.run("topics", "--create", "--topic", topic, "--replica-assignment", assigned)
        return self.cluster.wait_served(topic, len(replicas))

    def produce(self, topic: str, count: int) -> None:
        lines = "".join(f"key{number}\tvalue {number}\n" for number in range(count))
        words = ("--topic", topic, "--property", "parse.key=true", "--compression-codec", "zstd")
        self.piped("producer", *words, stdin=lines.encode())

    def file(self, name: str, document: object) -> str:
        path = self.folder / name
        path.write_text(json.dumps(document), encoding="utf-8")
        return str(path)


@pytest.fixture(params=RELEASES)
def tools(request: pytest.FixtureRequest, brokers: OurBrokers, box: Toolbox, tmp_path: Path) -> ServedTools:
    fetched(str(request.param))
    return ServedTools(box, str(request.param), brokers, tmp_path)


def test_topics_are_created_described_altered_and_deleted(tools: ServedTools) -> None:
    """kafka-topics: an answer comes after its effect in ZooKeeper, and refusals name their reason."""
    topic = tools.name("made")
    tools.run(
        "topics",
        "--create",
        "--topic",
        topic,
        "--partitions",
        "3",
        "--replication-factor",
        "2",
        "--config",
        "retention.ms=99999",
    )
    describe = ("--describe", "--topic", topic)
    described = tools.shown(*describe, until=lambda text: len(rows_of(text)) == 3)

    assert [len(row[2]) for row in rows_of(described)] == [2, 2, 2]
    assert re.search(r"Configs:.*retention\.ms=99999", described)
    tools.shown("--list", until=lambda text: topic in text.split())
    assert "already exists" in tools.refused(
        "topics", "--create", "--topic", topic, "--partitions", "1", "--replication-factor", "1"
    )
    assert (
        "replication factor"
        in tools.refused(
            "topics", "--create", "--topic", f"{topic}-not", "--partitions", "1", "--replication-factor", "5"
        ).lower()
    )
    tools.run("topics", "--alter", "--topic", topic, "--partitions", "5")
    tools.shown(*describe, until=lambda text: len(rows_of(text)) == 5)
    tools.run("topics", "--delete", "--topic", topic)
    assert tools.cluster.replicas(topic) == {}
    tools.shown("--list", until=lambda text: topic not in text.split())


def test_configs_are_set_shown_and_removed(tools: ServedTools) -> None:
    """kafka-configs of topics and brokers; `--all` shows the defaults."""
    topic = tools.name("configured")
    tools.create(topic, (1, 2))
    entity = ("--entity-type", "topics", "--entity-name", topic)
    tools.run("configs", "--alter", *entity, "--add-config", "retention.ms=5000,max.message.bytes=2000")
    tools.run("configs", "--alter", *entity, "--delete-config", "max.message.bytes")
    shown = tools.run("configs", "--describe", *entity).text

    assert tools.cluster.json(f"/config/topics/{topic}")["config"] == {"retention.ms": "5000"}
    assert re.search(r"retention\.ms=5000\b.*DYNAMIC_TOPIC_CONFIG:retention\.ms=5000", shown)
    assert "max.message.bytes" not in shown
    assert "segment.bytes=" in tools.run("configs", "--describe", "--all", *entity).text
    eventually(
        lambda: tools.cluster.received(f"topics/{topic}", {"retention.ms": "5000"}),
        what="every broker has applied the configuration",
    )
    broker = ("--entity-type", "brokers", "--entity-name", "2")
    tools.run("configs", "--alter", *broker, "--add-config", "leader.replication.throttled.rate=12345")
    assert "leader.replication.throttled.rate=12345" in tools.run("configs", "--describe", *broker).text
    tools.run("configs", "--alter", *broker, "--delete-config", "leader.replication.throttled.rate")
    assert tools.cluster.json("/config/brokers/2")["config"] == {}


def test_records_of_the_console_producer_reach_the_console_consumer(tools: ServedTools) -> None:
    """Keys and values, compressed with zstd; kafka-get-offsets shows where the logs end."""
    topic = tools.name("spoken")
    tools.create(topic, (1, 2, 3))
    tools.produce(topic, 500)

    words = ("--topic", topic, "--partition", "0", "--offset", "100", "--max-messages", "400")
    text = tools.run(
        "consumer", *words, "--property", "print.key=true", "--property", "print.offset=true"
    ).text

    found = [line.split("\t") for line in text.splitlines() if "\t" in line]
    assert [line[-2:] for line in found] == [[f"key{n}", f"value {n}"] for n in range(100, 500)]
    assert [line[0] for line in found] == [f"Offset:{n}" for n in range(100, 500)]
    assert f"{topic}:0:500" in tools.run("offsets", "--topic", topic, "--time", "-1").text
    assert f"{topic}:0:0" in tools.run("offsets", "--topic", topic, "--time", "-2").text
    log = tools.cluster.file(1, topic, 0) / "00000000000000000000.log"
    dumped = tools.run("dump", "--files", str(log)).text
    assert {one.lower() for one in re.findall(r"compresscodec: (\w+)", dumped)} == {"zstd"}
    assert sum(int(one) for one in re.findall(r"count: (\d+)", dumped)) == 500


def test_every_record_of_the_verifiable_producer_is_at_its_offset(tools: ServedTools) -> None:
    """kafka-verifiable-producer: each acknowledgement that it prints, and each record once, in order."""
    fetched(tools.release, tools_jars)
    topic = tools.name("verified")
    tools.create(topic, (1, 2, 3))
    words = ("--topic", topic, "--max-messages", "2000", "--acks", "-1", "--value-prefix", "7")
    printed = tools.piped("verifiable producer", *words, stdin=b"").decode()
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    acknowledged = {one["offset"]: one["value"] for one in events if one["name"] == "producer_send_success"}
    read = CLIENTS["confluent-kafka"].read(tools.bootstrap, TopicPartition(topic, 0), 0, 2000)

    assert [one["name"] for one in events if not one["name"].startswith("producer_send")] == [
        "startup_complete",
        "shutdown_complete",
        "tool_data",
    ]
    assert (events[-1]["sent"], events[-1]["acked"]) == (2000, 2000)
    assert acknowledged == {number: f"7.{number}" for number in range(2000)}
    assert {offset: one.value for offset, one in read.items()} == {
        number: b"7.%d" % number for number in range(2000)
    }


def test_partitions_are_reassigned_with_a_throttle_and_back(tools: ServedTools) -> None:
    """kafka-reassign-partitions: execute, list, verify, cancel."""
    topic = tools.name("moved")
    tools.create(topic, (1, 2))
    tools.produce(topic, 200)
    moves = tools.file("moves.json", _moves(topic, [3, 1]))
    words = ("--reassignment-json-file", moves)

    begun = tools.run("reassign", "--execute", *words, "--throttle", "10000000").text
    assert "Successfully started" in begun, begun
    eventually(lambda: tools.cluster.replicas(topic) == {0: [3, 1]}, what="the replicas have moved")
    rows = tools.cluster.wait_served(topic, 1)
    verified = tools.run("reassign", "--verify", *words).text
    assert "is complete" in verified, verified
    assert [sorted(row[3]) for row in rows] == [[1, 3]]
    assert tools.cluster.json(f"/config/topics/{topic}")["config"] == {}
    assert "No partition reassignments found" in tools.run("reassign", "--list").text
    refused = tools.refused("reassign", "--cancel", *words)
    assert "None of the specified partition reassignments are active" in refused or "cancel" in refused


def test_a_preferred_leader_leads_again(tools: ServedTools) -> None:
    """kafka-leader-election: elected, not needed, and unknown."""
    topic = tools.name("led")
    tools.create(topic, (1, 2), (2, 1))
    moved = tools.file("moves.json", _moves(topic, [2, 1]))
    tools.run("reassign", "--execute", "--reassignment-json-file", moved)
    eventually(
        lambda: tools.cluster.replicas(topic)[0] == [2, 1], what="the order of the replicas is changed"
    )
    tools.cluster.wait_served(topic, 2)

    words = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    first = tools.run("elections", *words).text
    again = tools.run("elections", *words).text

    assert "Successfully completed leader election" in first, first
    assert "Valid replica already elected" in again, again
    assert tools.cluster.rows(topic)[0][1] == 2


def _moves(topic: str, replicas: list[int]) -> dict[str, object]:
    return {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": replicas}]}
