"""Our command line on two real brokers of 0.8.2.2 and of 2.8.2, and what Kafka's own tools say of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.interop.jars import MissingToolError, kafka_jars
from tests.interop.processes import wait_until
from tests.interop.servers import RealBroker, RealZooKeeper, tool

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

RELEASES = ("0.8.2.2", "2.8.2")
REGISTERED = {"0.8.2.2": 1, "2.8.2": 5}
NOTIFIED = {"0.8.2.2": "bare", "2.8.2": "v2"}
SECOND_REFUSED = {
    "0.8.2.2": "Partition reassignment currently in progress",
    "2.8.2": "existing partition assignment",
}
MOVED = {"0.8.2.2": "completed successfully", "2.8.2": "is complete"}


@dataclass
class Operated:
    """Two real brokers, an operator with our commands, and Kafka's tools beside."""

    address: str
    brokers: tuple[RealBroker, RealBroker]
    folder: Path
    release: str

    @property
    def is_old(self) -> bool:
        return self.release == "0.8.2.2"

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One command of ours."""
        program = "from zkgroup_cli.main import main; main()"
        words = [sys.executable, "-c", program, "-z", self.address, *arguments]
        state = {"XDG_STATE_HOME": str(self.folder / "state"), "PATH": "/usr/bin:/bin"}
        return subprocess.run(words, capture_output=True, text=True, timeout=90, check=False, env=state)

    def json(self, *arguments: str, code: int = 0) -> Any:
        """Its document."""
        done = self.run(*arguments, "--format", "json")
        assert done.returncode == code, done
        return json.loads(done.stdout)

    def kafka(self, main: str, *arguments: str) -> str:
        """What one of Kafka's tools of the brokers' release prints."""
        words = ("--zookeeper", self.address, *arguments)
        return tool(f"kafka.admin.{main}", *words, version=self.release, fails=True)

    def described(self, topic: str) -> list[tuple[int, int, list[int], list[int]]]:
        """Partition, leader, replicas and ISR as Kafka's TopicCommand tells them; the ISR sorted."""
        row = re.compile(r"Partition: (\d+)\s+Leader: (-?\d+)\s+Replicas: ([\d,]+)\s+Isr: ([\d,]*)")
        text = self.kafka("TopicCommand", "--describe", "--topic", topic)
        return [
            (int(number), int(leader), _numbers(replicas), sorted(_numbers(isr)))
            for number, leader, replicas, isr in row.findall(text)
        ]

    def ours(self, topic: str) -> list[tuple[int, int, list[int], list[int]]]:
        """The same as our `topic describe` tells it."""
        (one,) = self.json("topic", "describe", topic)["topics"]
        return [
            (row["partition"], row["leader"], row["replicas"], sorted(row["isr"] or []))
            for row in one["partitions"]
        ]

    def wait_led(self, topic: str, count: int) -> None:
        """Until so many partitions have a leader."""

        def led() -> bool:
            rows = self.ours(topic)
            return len(rows) == count and all(row[1] is not None and row[1] > 0 for row in rows)

        wait_until(led, 60, f"{topic} has {count} leaders")

    def file(self, name: str, moves: dict[tuple[str, int], list[int]]) -> str:
        entries = [{"topic": t, "partition": p, "replicas": to} for (t, p), to in moves.items()]
        path = self.folder / name
        path.write_text(json.dumps({"version": 1, "partitions": entries}))
        return str(path)


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


@pytest.fixture(params=RELEASES)
def operated(
    request: pytest.FixtureRequest, real_zookeeper: RealZooKeeper, tmp_path: Path
) -> Iterator[Operated]:
    release = str(request.param)
    try:
        kafka_jars(release)
    except MissingToolError as missing:
        if os.environ.get("ZKGROUP_TEST_INTEROP") == "required":
            raise
        pytest.skip(f"no real Kafka: {missing}")
    chroot = f"/operated-{release}"
    more = {"auto_leader_rebalance_enable": "false"}
    started: list[RealBroker] = []
    try:
        started.extend(
            RealBroker(real_zookeeper, tmp_path / f"b{number}", number, chroot, release, **more)
            for number in (1, 2)
        )
        for broker in started:
            broker.wait_ready(120)
        yield Operated(real_zookeeper.address + chroot, (started[0], started[1]), tmp_path, release)
    finally:
        for broker in started:
            broker.stop()


def test_a_real_cluster_is_operated_and_its_own_tools_agree(operated: Operated) -> None:
    """controller items 37, 41 and 80: create, alter, reassign, elect, configure, delete."""
    _create_and_alter(operated)
    _configure(operated)
    moves = _move_while_the_target_sleeps(operated)
    _elect(operated, moves)
    _delete(operated)


def _create_and_alter(operated: Operated) -> None:
    brokers = operated.json("broker", "list")["brokers"]
    assert [(row["broker"], row["version"], row["kind"]) for row in brokers] == [
        (1, REGISTERED[operated.release], "kafka"),
        (2, REGISTERED[operated.release], "kafka"),
    ]
    wait_until(lambda: operated.run("controller", "describe").returncode == 0, 30, "a controller")
    assert operated.json("controller", "describe")["kind"] == "kafka"
    operated.json(
        "topic", "create", "moved", "--replica-assignment", "1,1,1,1", "--config", "retention.ms=99999"
    )
    operated.wait_led("moved", 4)
    operated.json("topic", "alter", "moved", "--partitions", "6", "--assignment-compat", "0.8", "--execute")
    operated.wait_led("moved", 6)
    assert operated.described("moved") == operated.ours("moved")
    text = operated.kafka("TopicCommand", "--describe", "--topic", "moved")
    assert re.search(r"PartitionCount: ?6\b", text), text
    assert re.search(r"Configs: ?retention.ms=99999", text), text
    operated.json("topic", "create", "moved", "--partitions", "1", "--if-not-exists")
    operated.json("topic", "create", "a.b", "--partitions", "1")
    collides = operated.run("topic", "create", "a_b", "--partitions", "1")
    assert (collides.returncode, "collides" in collides.stderr) == (6, True)


def _configure(operated: Operated) -> None:
    done = operated.json(
        "config", "alter", "--topic", "moved", "--add-config", "max.message.bytes=2000",
        "--delete-config", "retention.ms", "--execute",
    )  # fmt: skip
    assert done["notification"] == NOTIFIED[operated.release]
    text = operated.kafka("TopicCommand", "--describe", "--topic", "moved")
    assert re.search(r"Configs: ?max.message.bytes=2000", text), text

    def refused() -> bool:
        with operated.brokers[0].producer() as producer:
            try:
                producer.send("moved", 0, "x" * 5000)
            except Exception as error:  # noqa: BLE001 - kafka-python's own classes
                return "MessageSizeTooLarge" in type(error).__name__ or "TooLarge" in str(error)
        return False

    wait_until(refused, 60, "the broker applies the limit that it was told of")


def _move_while_the_target_sleeps(operated: Operated) -> dict[tuple[str, int], list[int]]:
    """Every partition to broker 2 first, broker 1 second; 2 stops for a moment, so that it takes time."""
    moves = {("moved", number): [2, 1] for number in range(6)}
    file = operated.file("moves.json", moves)
    second = operated.file("second.json", {("moved", 0): [1]})
    with operated.brokers[0].producer() as producer:
        producer.fill("moved", 6, 20)
    throttle = ("--throttle", "10MB")
    throttled = operated.run("reassign", "execute", "--reassignment-json-file", file, *throttle)
    if operated.is_old:
        assert (throttled.returncode, "0.10.1 ignore it" in throttled.stderr) == (2, True)
        throttle = ()  # type: ignore[assignment]

    operated.brokers[1].process.signal(signal.SIGSTOP)
    try:
        operated.json("reassign", "execute", "--reassignment-json-file", file, *throttle, "--execute")
        ours = operated.run("reassign", "execute", "--reassignment-json-file", second, "--execute")
        theirs = operated.kafka("ReassignPartitionsCommand", "--reassignment-json-file", second, "--execute")
        cancelled = operated.run("reassign", "cancel", "--execute")
        running = operated.json("reassign", "verify", "--reassignment-json-file", file, code=3)
    finally:
        operated.brokers[1].process.signal(signal.SIGCONT)
    assert (ours.returncode, "runs already" in ours.stderr) == (6, True)
    assert SECOND_REFUSED[operated.release] in theirs, theirs
    assert (cancelled.returncode, "real controller" in cancelled.stderr) == (2, True)
    assert "in_progress" in {row["status"] for row in running["reassignments"]}

    words = ("reassign", "verify", "--reassignment-json-file", file, "--wait", "--timeout", "90s")
    waited = operated.run(*words, "--clear-throttle", "--execute")
    assert waited.returncode == 0, waited
    verified = operated.kafka("ReassignPartitionsCommand", "--reassignment-json-file", file, "--verify")
    assert verified.count(MOVED[operated.release]) == 6, verified
    assert operated.json("reassign", "list")["reassignments"] == []
    throttles = operated.json("config", "describe", "--entity-type", "brokers")["configs"]
    assert [row["configs"] for row in throttles] == ([] if operated.is_old else [{}, {}])
    return moves


def _elect(operated: Operated, moves: dict[tuple[str, int], list[int]]) -> None:
    def in_sync() -> bool:
        return all(row[3] == [1, 2] for row in operated.ours("moved"))

    wait_until(in_sync, 60, "both replicas are in sync")
    shown = operated.json("elect", "preferred")
    wanted = [row["partition"] for row in shown["partitions"] if row["outcome"] == "elects"]
    assert wanted
    done = operated.json("elect", "preferred", "--execute", "--wait")
    assert done["converged"]
    assert operated.described("moved") == [(number, 2, [2, 1], [1, 2]) for number in range(len(moves))]


def _delete(operated: Operated) -> None:
    for name in ("moved", "a.b"):
        done = operated.run("topic", "delete", name, "--execute")
        assert (done.returncode, "delete.topic.enable=true" in done.stderr) == (0, operated.is_old), done
    wait_until(
        lambda: operated.json("topic", "list")["topics"] == [], 60, "the controller has deleted the topics"
    )
    assert operated.kafka("TopicCommand", "--list").strip() == ""
