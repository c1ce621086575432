"""Kafka's `--bootstrap-server` tools at zkgroup brokers: each operation and its effect."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.long.interop.conftest import fetched
from tests.long.interop.jars import tools_jars
from tests.long.interop.releases import rows_of
from tests.long.interop.served_tools import RELEASES, ServedTools
from tests.long.interop.toolbox import Toolbox
from tests.long.interop.tooled import OurBrokers
from tests.waiting import eventually
from tests.worlds.kafka_clients import CLIENTS
from tests.worlds.shell import Shell
from zkgroup.model import TopicPartition


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


QUOTA_OWNERS = (
    (("users", "al ice/{r}"), None, "users/al%20ice%2F{r}"),
    (("users", None), None, "users/<default>"),
    (("clients", "app-{r}"), None, "clients/app-{r}"),
    (("clients", None), None, "clients/<default>"),
    (("users", "bob-{r}"), "app", "users/bob-{r}/clients/app"),
    (("users", "bob-{r}"), "", "users/bob-{r}/clients/<default>"),
    (("ips", "127.0.0.{r}"), None, "ips/127.0.0.{r}"),
    (("ips", None), None, "ips/<default>"),
)
"""Kind and name (None: the default) of an owner, the client id of a user (empty: the default), its znode."""


def test_quotas_are_set_shown_and_removed(tools: ServedTools) -> None:
    """kafka-configs of each kind of owner, beside zkgroup config: each shows what the other has set."""
    ours = Shell(tools.folder, tools.cluster.address)
    short = str(RELEASES.index(tools.release) + 2)
    for (kind, plain), client, entity in QUOTA_OWNERS:
        name = plain and plain.format(r=short)
        path = f"/config/{entity.format(r=short)}"
        theirs, words = _of_owner(kind, name, client), _of_owner(kind, name, client, is_ours=True)
        values = {"producer_byte_rate": "1024", "request_percentage": "150.5"}
        more = "consumer_byte_rate=2048"
        if kind == "ips":
            values, more = {"connection_creation_rate": "5"}, "connection_creation_rate=7"
        added = ",".join("=".join(pair) for pair in values.items())
        tools.run("configs", "--alter", *theirs, "--add-config", added)
        assert tools.cluster.json(path) == {"version": 1, "config": values}
        assert ours.json("config", "describe", *words)["configs"][0]["configs"] == values

        ours.json("config", "alter", *words, "--set", more, "--execute")
        shown = tools.run("configs", "--describe", *theirs).text
        values |= dict([more.split("=")])
        for key, value in values.items():
            assert f"{key}={float(value)}" in shown, shown

        tools.run("configs", "--alter", *theirs, "--delete-config", ",".join(values))
        assert tools.cluster.json(path) == {"version": 1, "config": {}}
    refused = tools.refused(
        "configs", "--alter", *_of_owner("users", "eve", None), "--add-config", "producer_byte_rate=-5"
    )
    assert "producer_byte_rate must be a LONG value" in refused
    assert tools.cluster.json("/config/users/eve") is None


def _of_owner(kind: str, name: str | None, client: str | None, *, is_ours: bool = False) -> list[str]:
    """The options that name an owner of quotas, of kafka-configs or of zkgroup."""
    words = ["--entity-type", kind, *(("--entity-name", name) if name else ("--entity-default",))]
    if client is not None and is_ours:
        words += ["--client", client] if client else ["--client-default"]
    elif client is not None:
        words += [
            "--entity-type",
            "clients",
            *(("--entity-name", client) if client else ["--entity-default"]),
        ]
    return words


def test_records_of_the_console_producer_reach_the_console_consumer(tools: ServedTools) -> None:
    """Keys and values, compressed with zstd; kafka-get-offsets shows where the logs end, and
    kafka-delete-records moves where they start."""
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
    below = {"partitions": [{"topic": topic, "partition": 0, "offset": 123}], "version": 1}
    deleted = tools.run("delete records", "--offset-json-file", tools.file("below.json", below)).text
    assert re.search(rf"{topic}-0\s+low_watermark: 123", deleted)
    assert f"{topic}:0:123" in tools.run("offsets", "--topic", topic, "--time", "-2").text


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
