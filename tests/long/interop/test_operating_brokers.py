"""zkgroup's command line on two Kafka brokers, compared with the Kafka tools of that release."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.long.interop.conftest import fetched
from tests.long.interop.releases import has_zookeeper_tools, is_old, rows_of, taking_part
from tests.long.interop.servers import RealBroker, RealZooKeeper
from tests.long.interop.toolbox import Toolbox
from tests.waiting import PATIENCE_S, eventually
from tests.worlds.shell import Ran, Shell
from zkgroup.clients.addresses import BrokerAddress
from zkgroup.clients.log_dirs import NOT_SERVED, read_replica_sizes
from zkgroup.model import TopicPartition

REGISTERED = {"0.8.2.2": 1, "1.1.1": 4, "2.8.2": 5, "3.9.1": 5}
SECOND_REFUSED = ("currently in progress", "existing assignment", "existing partition assignment")
MOVED = ("completed successfully", "is complete")
NEW_HOMES = {
    "TopicCommand": "org.apache.kafka.tools.TopicCommand",
    "ReassignPartitionsCommand": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
}


@dataclass
class Operated:
    """Two Kafka brokers, an operator with zkgroup's commands, and Kafka's tools."""

    address: str
    brokers: tuple[RealBroker, RealBroker]
    folder: Path
    release: str
    box: Toolbox

    @property
    def is_old(self) -> bool:
        return is_old(self.release)

    def run(self, *arguments: str) -> Ran:
        """Runs a zkgroup command."""
        return Shell(self.folder, self.address).run(*arguments)

    def json(self, *arguments: str, code: int = 0) -> Any:
        """The JSON document of a command."""
        return Shell(self.folder, self.address).json(*arguments, code=code)

    def kafka(self, main: str, *arguments: str) -> str:
        """The output of one of Kafka's tools of the brokers' release."""
        if has_zookeeper_tools(self.release):
            words = (f"kafka.admin.{main}", "--zookeeper", self.address)
        else:
            words = (NEW_HOMES[main], "--bootstrap-server", self.brokers[0].address)
        return self.box.run(self.release, *words, *arguments).text

    def described(self, topic: str) -> list[tuple[int, int, list[int], list[int]]]:
        """Partition, leader, replicas and ISR as Kafka's TopicCommand prints them; the ISR sorted."""
        return rows_of(self.kafka("TopicCommand", "--describe", "--topic", topic))

    def ours(self, topic: str) -> list[tuple[int, int, list[int], list[int]]]:
        """The same rows from `zkgroup topic describe`."""
        (one,) = self.json("topic", "describe", topic)["topics"]
        return [
            (row["partition"], row["leader"], row["replicas"], sorted(row["isr"] or []))
            for row in one["partitions"]
        ]

    def create(self, topic: str, assignment: str, *more: str) -> None:
        """Creates a topic; returns when every partition is led by its first replica and all are in sync."""
        waits = ("--wait", "--timeout", f"{PATIENCE_S:g}s")
        assert self.json("topic", "create", topic, "--replica-assignment", assignment, *more, *waits)[
            "converged"
        ]
        replicas = [[int(number) for number in each.split(":")] for each in assignment.split(",")]
        rows = [(number, each[0], each, sorted(each)) for number, each in enumerate(replicas)]
        eventually(lambda: self.ours(topic) == rows, what=f"{topic} is led")

    def file(self, name: str, moves: dict[tuple[str, int], list[int]]) -> str:
        entries = [{"topic": t, "partition": p, "replicas": to} for (t, p), to in moves.items()]
        path = self.folder / name
        path.write_text(json.dumps({"version": 1, "partitions": entries}))
        return str(path)

    def sizes(self, tp: TopicPartition) -> list[int | str]:
        """The bytes of a partition at both brokers, or why one does not say them."""
        addresses = {}
        for number, one in enumerate(self.brokers, 1):
            host, _, port = one.address.rpartition(":")
            addresses[number] = BrokerAddress(host, int(port), negotiates=not self.is_old)
        return list(read_replica_sizes(addresses, [(tp, 1), (tp, 2)], 10_000).values())

    def moved(self, file: str) -> int:
        """How many partitions of a file Kafka's `--verify` calls moved."""
        text = self.kafka("ReassignPartitionsCommand", "--reassignment-json-file", file, "--verify")
        return sum(text.count(words) for words in MOVED)


@pytest.fixture(scope="module", params=taking_part())
def operated(
    request: pytest.FixtureRequest,
    real_zookeeper: RealZooKeeper,
    box: Toolbox,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Operated]:
    """One pair of brokers for all tests of a release; each test has topics of its own."""
    release = str(request.param)
    fetched(release)
    folder = tmp_path_factory.mktemp(f"operated-{release}")
    chroot = f"/operated-{release}"
    more = {"auto_leader_rebalance_enable": "false"}
    started: list[RealBroker] = []
    try:
        started.extend(
            RealBroker(real_zookeeper, folder / f"b{number}", number, chroot, release, **more)
            for number in (1, 2)
        )
        for broker in started:
            broker.wait_ready()
        operated = Operated(real_zookeeper.address + chroot, (started[0], started[1]), folder, release, box)
        eventually(lambda: operated.run("controller", "describe").code == 0, what="a controller")
        yield operated
    finally:
        for broker in started:
            broker.stop()


def test_topics_are_created_and_grow(operated: Operated) -> None:
    """Create, list, describe, alter; collisions are refused."""
    brokers = operated.json("broker", "list")["brokers"]
    assert [(row["broker"], row["version"], row["kind"]) for row in brokers] == [
        (1, REGISTERED[operated.release], "kafka"),
        (2, REGISTERED[operated.release], "kafka"),
    ]
    assert operated.json("controller", "describe")["kind"] == "kafka"
    operated.create("made", "1:2,2:1", "--config", "retention.ms=99999")
    operated.json("topic", "alter", "made", "--partitions", "4", "--assignment-compat", "0.8", "--execute")

    def grown() -> bool:
        rows = operated.ours("made")
        return len(rows) == 4 and all(row[3] == [1, 2] for row in rows)

    eventually(grown, what="four partitions are in sync")
    eventually(lambda: operated.described("made") == operated.ours("made"), what="both tools say the same")
    text = operated.kafka("TopicCommand", "--describe", "--topic", "made")
    assert re.search(r"PartitionCount: ?4\b", text), text
    assert re.search(r"Configs: ?retention.ms=99999", text), text
    operated.json("topic", "create", "made", "--partitions", "1", "--if-not-exists")
    assert len(operated.ours("made")) == 4
    operated.json("topic", "create", "a.b", "--partitions", "1")
    collides = operated.run("topic", "create", "a_b", "--partitions", "1")
    assert (collides.code, "collides" in collides.err) == (6, True)
    eventually(
        lambda: {"made", "a.b"} <= set(operated.kafka("TopicCommand", "--list").split()),
        what="Kafka's tool lists both: the broker that it asks may learn it a moment later",
    )


def test_brokers_apply_a_configuration(operated: Operated) -> None:
    """Set and removed, with notifications as the brokers of each release need them."""
    operated.create("configured", "1,1", "--config", "retention.ms=99999")
    done = operated.json(
        "config", "alter", "--topic", "configured", "--add-config", "max.message.bytes=2000",
        "--delete-config", "retention.ms", "--execute",
    )  # fmt: skip
    assert done["notification"] == ("bare" if operated.is_old else "v2")

    def described() -> bool:
        text = operated.kafka("TopicCommand", "--describe", "--topic", "configured")
        return re.search(r"Configs: ?max.message.bytes=2000", text) is not None

    eventually(
        described, what="Kafka's tool prints the same: the broker that it asks may learn it a moment later"
    )

    def refused() -> bool:
        with operated.brokers[0].producer() as producer:
            try:
                producer.send("configured", 0, "x" * 5000)
            except Exception as error:  # noqa: BLE001 - kafka-python's own classes
                return "MessageSizeTooLarge" in type(error).__name__ or "TooLarge" in str(error)
        return False

    eventually(refused, what="the broker applies the new limit")


def test_records_are_produced_and_read_back(operated: Operated) -> None:
    """`zkgroup produce` with keys, `consume --source brokers`, and the log ends of every replica."""
    operated.create("produced", "1:2,2:1")
    records = [{"key": f"k{number % 7}", "value": f"value {number}"} for number in range(300)]
    lines = "".join(f"{json.dumps(record)}\n" for record in records)
    produced = Shell(operated.folder, operated.address).json(
        "produce", "produced", "--input-format", "json", stdin=lines
    )
    assert (produced["acknowledged"], produced["failed"]) == (300, 0)

    words = (
        "--source",
        "brokers",
        "--set",
        "auto_offset_reset=earliest",
        "--exit-at-end",
        "--format",
        "ndjson",
    )
    consumed = operated.run("consume", "reader", "--topic", "produced", *words)
    assert consumed.code == 0, consumed.err
    read = [event for line in consumed.out.splitlines() if "value" in (event := json.loads(line))]
    assert sorted((one["key"], one["value"]) for one in read) == sorted(
        (one["key"], one["value"]) for one in records
    )

    def ends() -> list[dict[int, tuple[int, int]]]:
        (topic,) = operated.json("topic", "describe", "produced", "--replicas")["topics"]
        return [
            {end["broker"]: (end["log_end_offset"], end["high_watermark"]) for end in one["logs"]}
            for one in topic["partitions"]
        ]

    found = eventually(ends, lambda read: all(len(set(one.values())) == 1 and len(one) == 2 for one in read))
    assert sum(next(iter(one.values()))[0] for one in found) == 300


def test_partitions_are_moved(operated: Operated) -> None:
    """Every partition moves to broker 2, which is paused for a moment."""
    operated.create("moved", "1,1,1")
    moves = {("moved", number): [2, 1] for number in range(3)}
    file = operated.file("moves.json", moves)
    second = operated.file("second.json", {("moved", 0): [1]})
    with operated.brokers[0].producer() as producer:
        producer.fill("moved", 3, 20)
    throttle: tuple[str, ...] = ("--throttle", "10MB")
    if operated.is_old:
        throttled = operated.run("reassign", "execute", "--reassignment-json-file", file, *throttle)
        assert (throttled.code, "0.10.1 ignore it" in throttled.err) == (2, True)
        throttle = ()

    operated.brokers[1].process.pause()
    try:
        operated.json("reassign", "execute", "--reassignment-json-file", file, *throttle, "--execute")
        ours = operated.run("reassign", "execute", "--reassignment-json-file", second, "--execute")
        theirs = None
        if has_zookeeper_tools(operated.release):  # later ones ask brokers, of which one sleeps
            words = ("--reassignment-json-file", second, "--execute")
            theirs = operated.kafka("ReassignPartitionsCommand", *words)
        cancelled = operated.run("reassign", "cancel", "--execute")
        running = operated.json("reassign", "verify", "--reassignment-json-file", file, code=3)
    finally:
        operated.brokers[1].process.signal(signal.SIGCONT)
    assert (ours.code, "runs already" in ours.err) == (6, True)
    assert theirs is None or any(words in theirs for words in SECOND_REFUSED), theirs
    assert (cancelled.code, "is a Kafka controller" in cancelled.err) == (2, True)
    assert "in_progress" in {row["status"] for row in running["reassignments"]}

    verify = (
        "reassign",
        "verify",
        "--reassignment-json-file",
        file,
        "--wait",
        "--timeout",
        f"{PATIENCE_S:g}s",
    )
    waited = operated.run(*verify, "--clear-throttle", "--execute")
    assert waited.code == 0, waited
    eventually(lambda: operated.moved(file) == 3, what="their tool says the same")
    assert operated.json("reassign", "list")["reassignments"] == []
    assert operated.json("config", "describe", "--entity-type", "brokers")["configs"] == []
    sizes = operated.sizes(TopicPartition("moved", 0))
    if int(operated.release.partition(".")[0]) == 0:
        assert sizes == [NOT_SERVED, NOT_SERVED]
    else:
        assert isinstance(sizes[0], int)
        assert sizes[0] == sizes[1] > 0


def test_preferred_replicas_are_elected(operated: Operated) -> None:
    """Another replica becomes the first of the list, and is elected."""
    operated.create("elected", "1:2,1:2")
    file = operated.file("elected.json", {("elected", number): [2, 1] for number in range(2)})
    operated.json("reassign", "execute", "--reassignment-json-file", file, "--execute")
    waited = operated.run(
        "reassign", "verify", "--reassignment-json-file", file, "--wait", "--timeout", f"{PATIENCE_S:g}s"
    )
    assert waited.code == 0, waited
    assert [row[1:3] for row in operated.ours("elected")] == [(1, [2, 1])] * 2
    shown = operated.json("elect", "preferred")["partitions"]
    wanted = [row["partition"] for row in shown if row["topic"] == "elected" and row["outcome"] == "elects"]
    assert wanted == [0, 1]
    assert operated.json("elect", "preferred", "--topic", "elected", "--execute", "--wait")["converged"]
    rows = [(number, 2, [2, 1], [1, 2]) for number in range(2)]
    eventually(lambda: operated.described("elected") == rows, what="their tool says the same")


def test_topics_are_deleted(operated: Operated) -> None:
    """Kafka's controller deletes them; zkgroup reports the prerequisites first."""
    operated.create("deleted", "1:2,2:1")
    done = operated.run("topic", "delete", "deleted", "--execute", "--wait", "--timeout", f"{PATIENCE_S:g}s")
    may_be_off = REGISTERED[operated.release] < 5
    assert (done.code, "delete.topic.enable=true" in done.err) == (0, may_be_off), done

    assert "deleted" not in [row["topic"] for row in operated.json("topic", "list")["topics"]]

    def told_gone() -> bool:
        return "deleted" not in operated.kafka("TopicCommand", "--list").split()

    eventually(told_gone, what="their tool says the same")
