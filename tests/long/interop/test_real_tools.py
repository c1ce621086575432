"""Kafka's `--zookeeper` tools at brokers with a zkgroup controller: each operation and its effect."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.long.interop.conftest import fetched
from tests.long.interop.releases import EVERYTHING, NEWEST, OLDEST, has_zookeeper_tools, is_old, taking_part
from tests.long.interop.servers import RealZooKeeper
from tests.long.interop.toolbox import Toolbox
from tests.long.interop.tooled import BROKERS, Cluster, OurBrokers, RealBrokers, Tools
from tests.waiting import eventually
from tests.worlds.shell import Shell

RELEASES = taking_part(without=(NEWEST,))
LED = ("ours", OLDEST)
"""Whose brokers they are."""
RATE = "replication.throttled.rate"
DEAD = 9
"""A broker that was never there."""


@pytest.fixture(scope="module")
def led(
    request: pytest.FixtureRequest, real_zookeeper: RealZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Three brokers of one kind, for the tools of every release."""
    kind = str(request.param)
    folder = tmp_path_factory.mktemp(f"tools-{kind}")
    made: type[Cluster] = OurBrokers if kind == "ours" else RealBrokers
    cluster = made(real_zookeeper, folder, f"/tools-{kind}")
    try:
        cluster.start(*BROKERS)
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def tools(
    request: pytest.FixtureRequest, led: Cluster, box: Toolbox, tmp_path_factory: pytest.TempPathFactory
) -> Tools:
    fetched(str(request.param))
    return Tools(box, str(request.param), led, tmp_path_factory.mktemp("tools"))


def at(*releases: str) -> pytest.MarkDecorator:
    """Runs a test with tools of these releases at both kinds of brokers.

    Kafka's brokers have tools of their own release, and in the long form of all: what a tool writes is the
    same for either kind.
    """
    pairs = [
        (led, release)
        for led in LED
        for release in releases
        if EVERYTHING or led == "ours" or release == OLDEST
    ]
    return pytest.mark.parametrize(("led", "tools"), pairs, indirect=True, scope="module")  # each kind once


@at(*RELEASES)
def test_a_topic_is_created(tools: Tools) -> None:
    """Create, list, describe; an invalid request changes nothing."""
    cluster, topic = tools.cluster, tools.name("created")
    words = ("--create", "--topic", topic, "--partitions", "4", "--config", "retention.ms=99999")
    printed = tools.topic(*words, "--replication-factor", "2")
    assert (printed.code, "Created topic" in printed.text) == (0, True), printed
    rows = cluster.wait_served(topic, 4)
    assert [(leader, len(isr)) for _, leader, _, isr in rows] == [(row[2][0], 2) for row in rows]
    assert cluster.json(f"/config/topics/{topic}") == {"version": 1, "config": {"retention.ms": "99999"}}

    assert tools.described(topic) == rows
    overridden = tools.topic("--describe", "--topics-with-overrides").text
    assert [line for line in overridden.splitlines() if topic in line and "retention.ms=99999" in line]
    assert topic in tools.topic("--list").text.splitlines()
    assert tools.described(topic, "--under-replicated-partitions") == []

    before = cluster.tree.get(f"/brokers/topics/{topic}")
    assert "already exists" in tools.topic(*words, "--replication-factor", "3").text
    assert cluster.tree.get(f"/brokers/topics/{topic}") == before
    impossible = ("--create", "--topic", f"{topic}-not", "--partitions", "1", "--replication-factor", "5")
    assert "larger than available brokers" in tools.topic(*impossible).text
    assert cluster.replicas(f"{topic}-not") == {}


@at(*RELEASES)
def test_a_topic_grows(tools: Tools) -> None:
    """Old partitions are untouched, new ones are led, the configuration stays."""
    cluster, topic = tools.cluster, tools.name("grown")
    old = tools.create(topic, (1, 2), (2, 3))
    tools.topic("--alter", "--topic", topic, "--config", "retention.ms=99999")
    states = [f"/brokers/topics/{topic}/partitions/{number}/state" for number in (0, 1)]
    before = [cluster.tree.get(path)[1].mzxid for path in states]
    printed = tools.topic("--alter", "--topic", topic, "--partitions", "4")
    assert "Adding partitions succeeded!" in printed.text, printed
    rows = cluster.wait_served(topic, 4)
    assert rows[:2] == old
    assert [cluster.tree.get(path)[1].mzxid for path in states] == before
    assert tools.described(topic) == rows
    assert cluster.json(f"/config/topics/{topic}")["config"] == {"retention.ms": "99999"}

    fewer = tools.topic("--alter", "--topic", topic, "--partitions", "3")
    assert "can only be increased" in fewer.text.lower() or "is higher than" in fewer.text, fewer
    assert cluster.rows(topic) == rows


@at(*RELEASES)
def test_the_configuration_of_a_topic_changes(tools: Tools) -> None:
    """Set and removed by TopicCommand, and zkgroup brokers apply it."""
    cluster, topic = tools.cluster, tools.name("altered")
    tools.create(topic, (1, 2))
    entity, path = f"topics/{topic}", f"/config/topics/{topic}"
    steps = [
        (("--config", "max.message.bytes=2000"), {"max.message.bytes": "2000"}),
        (("--config", "retention.ms=5"), {"max.message.bytes": "2000", "retention.ms": "5"}),
        (("--delete-config", "max.message.bytes"), {"retention.ms": "5"}),
    ]
    for words, expected in steps:
        printed = tools.topic("--alter", "--topic", topic, *words)
        assert "Updated config for topic" in printed.text, printed
        assert cluster.json(path) == {"version": 1, "config": expected}
        eventually(partial(cluster.received, entity, expected), what=f"brokers apply {expected}")
    notified = topic if is_old(tools.release) else {"version": 2, "entity_path": entity}
    assert cluster.notifications()[-1] == notified
    assert "retention.ms=5" in tools.topic("--describe", "--topic", topic).text


@at(*(release for release in RELEASES if not is_old(release)))
def test_entities_are_configured(tools: Tools) -> None:
    """ConfigCommand for each kind of entity, beside zkgroup config; zkgroup brokers apply theirs."""
    cluster, topic = tools.cluster, tools.name("configured")
    tools.create(topic, (1, 2))
    entities = [
        (f"topics/{topic}", ("retention.ms", "5"), ("cleanup.policy", "compact")),
        ("brokers/1", (f"leader.{RATE}", "10"), (f"follower.{RATE}", "9")),
        ("clients/c", ("producer_byte_rate", "10"), ("consumer_byte_rate", "9")),
        ("users/<default>", ("producer_byte_rate", "10"), ("consumer_byte_rate", "9")),
        ("users/u/clients/<default>", ("producer_byte_rate", "10"), ("request_percentage", "1e3")),
    ]  # fmt: skip
    for entity, gone, kept in entities:
        kind, *names = entity.split("/")
        words = ["--entity-type", kind, *_named(names[0])]
        ours = [*words, *(["--client-default"] if names[1:] else [])]
        words += ["--entity-type", "clients", *_named(names[2])] if names[1:] else []
        both = ",".join(f"{key}={value}" for key, value in (gone, kept))
        for change in (("--add-config", both), ("--delete-config", gone[0])):
            printed = tools.run("ConfigCommand", "--alter", *words, *change)
            assert "ompleted updating config" in printed.text.replace("U", "u"), printed
        assert cluster.json(f"/config/{entity}") == {"version": 1, "config": dict([kept])}
        (row,) = Shell(cluster.folder, cluster.address).json("config", "describe", *ours)["configs"]
        assert (row["entity_type"], row["configs"]) == (kind, dict([kept]))
        described = tools.run("ConfigCommand", "--describe", *words)
        assert described.text.splitlines()[-1].endswith(f"are {kept[0]}={kept[1]}"), described
        assert cluster.notifications()[-1] == {"version": 2, "entity_path": entity}
        if kind in ("topics", "brokers"):
            eventually(partial(cluster.received, entity, dict([kept])), what=f"brokers apply {kept}")
        tools.run("ConfigCommand", "--alter", *words, "--delete-config", kept[0])
        assert cluster.json(f"/config/{entity}") == {"version": 1, "config": {}}
    if tools.release == "2.8.2":  # addresses came with 2.8
        words, rate = ["--entity-type", "ips", "--entity-name", "10.0.0.1"], "connection_creation_rate=5"
        tools.run("ConfigCommand", "--alter", *words, "--add-config", rate)
        (row,) = Shell(cluster.folder, cluster.address).json("config", "describe", *words)["configs"]
        assert (row["entity"], row["configs"]) == ("10.0.0.1", {"connection_creation_rate": "5"})
        described = tools.run("ConfigCommand", "--describe", *words)
        assert described.text.splitlines()[-1].endswith(f"are {rate}"), described


def _named(name: str) -> list[str]:
    return ["--entity-default"] if name == "<default>" else ["--entity-name", name]


STARTED = "uccessfully started"
COMPLETED = ("completed successfully", "is complete")
REFUSED = ("currently in progress", "existing assignment", "existing partition assignment")


def completed(text: str) -> int:
    """How many partitions `--verify` calls moved."""
    return sum(text.count(words) for words in COMPLETED)


@at(*RELEASES)
def test_partitions_are_moved(tools: Tools) -> None:
    """Generate, execute, a second one refused, verify."""
    cluster, topic = tools.cluster, tools.name("moved")
    before = tools.create(topic, (1, 2), (2, 1), (1, 2), (2, 1))
    cluster.write(topic, 4, 5)
    wanted = tools.file("topics.json", {"version": 1, "topics": [{"topic": topic}]})
    generate = ("--topics-to-move-json-file", wanted, "--broker-list", "2,3", "--generate")
    proposal = tools.run("ReassignPartitionsCommand", *generate)
    current, proposed = (json.loads(line) for line in proposal.text.splitlines() if line.startswith("{"))
    assert placed(current) == {partition: replicas for partition, _, replicas, _ in before}
    target = placed(proposed)
    assert {frozenset(replicas) for replicas in target.values()} == {frozenset((2, 3))}

    file = tools.moves("moves.json", topic, target)
    other = tools.moves("other.json", topic, {0: [1]})
    cluster.process(3).pause()
    try:
        executed = tools.run("ReassignPartitionsCommand", "--reassignment-json-file", file, "--execute")
        second = tools.run("ReassignPartitionsCommand", "--reassignment-json-file", other, "--execute")
        running = tools.run("ReassignPartitionsCommand", "--reassignment-json-file", file, "--verify")
    finally:
        cluster.process(3).signal(signal.SIGCONT)
    assert STARTED in executed.text, executed
    assert any(words in second.text for words in REFUSED), second
    assert "still in progress" in running.text, running

    eventually(lambda: cluster.json("/admin/reassign_partitions") is None, what="the request is gone")
    verified = tools.run("ReassignPartitionsCommand", "--reassignment-json-file", file, "--verify")
    assert completed(verified.text) == 4, verified
    rows = cluster.wait_served(topic, 4)
    assert {partition: replicas for partition, _, replicas, _ in rows} == target
    assert tools.described(topic) == rows
    eventually(
        lambda: all(cluster.holders(topic, partition) == {2, 3} for partition in target),
        what="broker 1 keeps nothing of the topic",
    )
    cluster.write(topic, 4, 5)


def placed(document: dict[str, Any]) -> dict[int, list[int]]:
    """Replicas by partition in a file of the reassignment tool."""
    return {entry["partition"]: entry["replicas"] for entry in document["partitions"]}


@at(*(release for release in RELEASES if not is_old(release)))
def test_a_throttle_comes_with_a_move_and_goes(tools: Tools) -> None:
    """Rates and lists are set during the move, and `--verify` removes them."""
    cluster, topic = tools.cluster, tools.name("throttled")
    tools.create(topic, (1, 2), (2, 3))
    file = tools.moves("moves.json", topic, {0: [2, 3], 1: [3, 1]})
    words = ("--reassignment-json-file", file)
    limit = ("--throttle", "10000000")
    executed = tools.run("ReassignPartitionsCommand", *words, "--execute", *limit)
    assert STARTED in executed.text, executed
    assert "throttle limit was set to 10000000 B/s" in executed.text, executed
    rates = {f"{side}.{RATE}": "10000000" for side in ("leader", "follower")}
    assert [cluster.json(f"/config/brokers/{broker}")["config"] for broker in BROKERS] == [rates] * 3
    lists = cluster.json(f"/config/topics/{topic}")["config"]
    sides = [lists[f"{side}.replication.throttled.replicas"].split(",") for side in ("leader", "follower")]
    assert list(map(sorted, sides)) == [["0:1", "0:2", "1:2", "1:3"], ["0:3", "1:1"]]
    eventually(lambda: cluster.received("brokers/1", rates), what="brokers apply the rates")

    eventually(lambda: cluster.json("/admin/reassign_partitions") is None, what="the request is gone")
    verified = tools.run("ReassignPartitionsCommand", *words, "--verify")
    assert completed(verified.text) == 2, verified
    assert [cluster.json(f"/config/brokers/{broker}")["config"] for broker in BROKERS] == [{}] * 3
    assert cluster.json(f"/config/topics/{topic}")["config"] == {}
    eventually(lambda: cluster.received("brokers/1", {}), what="brokers no longer apply the rates")
    rows = cluster.wait_served(topic, 2)
    assert [replicas for _, _, replicas, _ in rows] == [[2, 3], [3, 1]]


@at(*RELEASES)
def test_preferred_replicas_lead_again(tools: Tools) -> None:
    """After a broker's restart those in a file, or all, are elected."""
    cluster, topic = tools.cluster, tools.name("preferred")
    rows = tools.create(topic, (3, 1), (3, 2), (2, 3))
    cluster.end(3)
    gone = [(0, 1, [3, 1], [1]), (1, 2, [3, 2], [2]), (2, 2, [2, 3], [2])]
    eventually(lambda: cluster.rows(topic) == gone, what="broker 3 leads nothing and is in no ISR")
    assert tools.described(topic, "--under-replicated-partitions") == gone
    assert tools.described(topic, "--unavailable-partitions") == []
    cluster.start(3)
    back = [(number, leader, replicas, sorted(replicas)) for number, leader, replicas, _ in gone]
    assert cluster.wait_served(topic, 3) == back

    named = [{"topic": topic, "partition": 0}, {"topic": f"{topic}-unknown", "partition": 0}]
    file = tools.file("elect.json", {"version": 1, "partitions": named})
    printed = tools.run("PreferredReplicaLeaderElectionCommand", "--path-to-json-file", file)
    assert STARTED in printed.text, printed
    half = [rows[0], *back[1:]]
    eventually(lambda: cluster.rows(topic) == half, what="the named partition is led by its first replica")
    eventually(lambda: cluster.json("/admin/preferred_replica_election") is None, what="the request is gone")
    tools.run("PreferredReplicaLeaderElectionCommand")
    eventually(lambda: cluster.json("/admin/preferred_replica_election") is None, what="the request is gone")
    assert cluster.wait_served(topic, 3) == rows
    assert tools.described(topic) == rows


@at(*RELEASES)
def test_a_topic_is_deleted_and_made_again(tools: Tools) -> None:
    """Znodes, configuration and files go; a new topic has only its own."""
    cluster, topic = tools.cluster, tools.name("deleted")
    tools.create(topic, (1, 2), (2, 3))
    tools.topic("--alter", "--topic", topic, "--config", "retention.ms=5")
    cluster.write(topic, 2, 5)
    printed = tools.topic("--delete", "--topic", topic)
    assert "is marked for deletion" in printed.text, printed
    eventually(lambda: not cluster.tree.exists(f"/brokers/topics/{topic}"), what="the topic is gone")
    eventually(lambda: cluster.tree.get_children("/admin/delete_topics") == [], what="the marker is gone")
    assert not cluster.tree.exists(f"/config/topics/{topic}")
    eventually(
        lambda: not any(cluster.holders(topic, number) for number in (0, 1)), what="the files are gone"
    )
    assert topic not in tools.topic("--list").text.splitlines()
    unknown = tools.topic("--delete", "--topic", topic)
    assert "does not exist" in unknown.text, unknown
    assert cluster.tree.get_children("/admin/delete_topics") == []

    words = ("--create", "--topic", topic, "--replica-assignment", "3:1", "--config", "retention.ms=7")
    tools.topic(*words)
    assert cluster.wait_served(topic, 1) == [(0, 3, [3, 1], [1, 3])]
    assert cluster.json(f"/config/topics/{topic}")["config"] == {"retention.ms": "7"}


if EVERYTHING:

    @at(NEWEST)
    def test_a_broker_is_configured_while_it_does_not_run(tools: Tools) -> None:
        """The tool of 3.9.1 changes no running broker, and sees that zkgroup's runs; others change it."""
        assert not has_zookeeper_tools(tools.release)
        cluster = tools.cluster
        limit = f"leader.{RATE}=10"
        words = ("--entity-type", "brokers", "--alter", "--add-config", limit, "--entity-name")
        refused = tools.run("ConfigCommand", *words, "1")
        assert (refused.code, "broker 1 is running" in refused.text) == (1, True), refused
        before = cluster.json("/config/brokers/1")
        assert before in (None, {"version": 1, "config": {}})
        printed = tools.run("ConfigCommand", *words, str(DEAD))
        assert printed.code == 0, printed
        assert cluster.json(f"/config/brokers/{DEAD}")["config"] == {limit.split("=")[0]: "10"}
