"""Real brokers of Kafka 0.8.2.2 that a controller of ours leads (recipes 14 and 15)."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPartition
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.integration.led_brokers import ask
from tests.interop.processes import Events, Process, wait_until
from tests.interop.servers import RealBroker, RealZooKeeper, tool
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

OURS = 100
"""Id of our controller."""


class OurController:
    """`zkgroup broker run --controller-only` as a process."""

    def __init__(self, address: str, log: Path) -> None:
        program = "from zkgroup_cli.main import main; main()"
        words = ["-z", address, "-v", "broker", "run", "--id", str(OURS), "--controller-only"]
        words += ["--set", "auto.leader.rebalance.enable=false"]
        words += ["--set", "zookeeper.session.timeout.ms=12s"]
        command = [sys.executable, "-c", program, *words, "--format", "ndjson"]
        self.process = Process(command, log, pipe=True)
        self.events = Events(self.process)

    def wait_elected(self, timeout_s: float = 120.0) -> dict[str, Any]:
        event = self.events.wait("controller", timeout_s)
        assert event is not None, self.process.tail()
        return event

    def end(self) -> None:
        self.process.end()
        self.events.join()

    def kill(self) -> None:
        self.process.kill()
        self.process.end()
        self.events.join()


@dataclass
class Led:
    """Three real brokers, our controller, and everybody's tools."""

    zookeeper: RealZooKeeper
    folder: Path
    chroot: str
    tree: KazooClient
    brokers: dict[int, RealBroker] = field(default_factory=dict)
    ours: list[OurController] = field(default_factory=list)

    @property
    def address(self) -> str:
        return self.zookeeper.address + self.chroot

    @property
    def pids(self) -> list[int]:
        """Of the processes that a test may have started anew."""
        return [each.process.pid for each in (*self.brokers.values(), *self.ours)]

    # --- who is there -------------------------------------------------------------------------------

    def start_controller(self) -> OurController:
        self.ours.append(OurController(self.address, self.folder / f"controller-{len(self.ours)}.log"))
        return self.ours[-1]

    def start_broker(self, number: int) -> RealBroker:
        """Again with the folder that it had, if any."""
        broker = RealBroker(
            self.zookeeper,
            self.folder / f"b{number}",
            number,
            self.chroot,
            controlled_shutdown_retry_backoff_ms=500,
            auto_leader_rebalance_enable="false",
            unclean_leader_election_enable="false",
            zookeeper_session_timeout_ms=12_000,
        )
        self.brokers[number] = broker
        return broker

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.stop()
        for one in self.ours:
            one.end()

    # --- what stands --------------------------------------------------------------------------------

    def json(self, path: str) -> Any:
        """What a znode holds; None where there is none."""
        try:
            return json.loads(self.tree.get(self.chroot + path)[0])
        except NoNodeError:
            return None

    @property
    def controller(self) -> int | None:
        found = self.json("/controller")
        return None if found is None else int(found["brokerid"])

    @property
    def epoch(self) -> int:
        return int(self.tree.get(f"{self.chroot}/controller_epoch")[0])

    def state(self, topic: str, partition: int) -> Any:
        return self.json(f"/brokers/topics/{topic}/partitions/{partition}/state")

    def leaders(self, topic: str, count: int) -> list[int | None]:
        found = [self.state(topic, number) for number in range(count)]
        return [None if state is None else state["leader"] for state in found]

    def in_sync(self, topic: str, count: int, size: int) -> bool:
        """Whether every partition has a leader, and so many replicas in sync."""
        found = [self.state(topic, number) for number in range(count)]
        return all(state and state["leader"] >= 0 and len(state["isr"]) == size for state in found)

    def wait_listed(self, *brokers: int) -> None:
        """Until every broker that runs names exactly these to its clients."""

        def listed() -> bool:
            answers = [
                ask(("127.0.0.1", one.port), MetadataRequest(()), MetadataResponse)
                for one in self.brokers.values()
                if one.process.running
            ]
            return all(each and {one.broker for one in each.brokers} == {*brokers} for each in answers)

        wait_until(listed, 90, f"every broker names {brokers}")

    # --- what is done -------------------------------------------------------------------------------

    def create(self, topic: str, partitions: int, replication: int) -> str:
        """With the real tool."""
        return self.tool("TopicCommand", "--create", "--topic", topic, "--partitions", str(partitions),
                         "--replication-factor", str(replication))  # fmt: skip

    def tool(self, main: str, *words: str) -> str:
        return tool(f"kafka.admin.{main}", "--zookeeper", self.address, *words)

    def described(self, topic: str) -> list[tuple[int, int, list[int], list[int]]]:
        """Partition, leader, replicas and ISR as the real TopicCommand tells them."""
        row = re.compile(r"Partition: (\d+)\s+Leader: (-?\d+)\s+Replicas: ([\d,]+)\s+Isr: ([\d,]*)")
        text = self.tool("TopicCommand", "--describe", "--topic", topic)
        return [
            (int(number), int(leader), _numbers(replicas), sorted(_numbers(isr)))
            for number, leader, replicas, isr in row.findall(text)
        ]

    def produce(self, topic: str, partitions: int, each: int, mark: str) -> None:
        """Acknowledged by every replica in sync, through whichever broker is up."""
        producer = KafkaProducer(
            bootstrap_servers=[one.address for one in self.brokers.values() if one.process.running],
            api_version=(0, 8, 2),
            acks="all",
            retries=20,
            enable_idempotence=False,
            request_timeout_ms=10_000,
            metadata_max_age_ms=1_000,
        )
        try:
            waiting = [
                producer.send(topic, f"{mark}-{number}-{count}".encode(), partition=number)
                for count in range(each)
                for number in range(partitions)
            ]
            for one in waiting:
                one.get(150)
        finally:
            producer.close(timeout=10)

    def consume(self, topic: str, partitions: int, count: int) -> set[str]:
        """Everything, from the beginning; so many records."""
        consumer = KafkaConsumer(
            bootstrap_servers=[one.address for one in self.brokers.values() if one.process.running],
            api_version=(0, 8, 2),
            group_id=None,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            metadata_max_age_ms=1_000,
        )
        found: set[str] = set()

        def all_there() -> bool:
            for records in consumer.poll(timeout_ms=500).values():
                found.update(record.value.decode() for record in records)
            return len(found) >= count

        try:
            consumer.assign([KafkaPartition(topic, number) for number in range(partitions)])
            wait_until(all_there, 150, f"{count} records of {topic}")
        finally:
            consumer.close()
        return found


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


@contextmanager
def ruled(real_zookeeper: RealZooKeeper, folder: Path, chroot: str) -> Iterator[Led]:
    """Our controller rules before the first broker comes."""
    tree = KazooClient(real_zookeeper.address, timeout=60)
    tree.start(60)
    tree.create(chroot)
    world = Led(real_zookeeper, folder, chroot, tree)
    try:
        world.start_controller().wait_elected()
        started = [world.start_broker(number) for number in (1, 2, 3)]
        for broker in started:
            broker.wait_ready(120)
        yield world
    finally:
        world.close()
        tree.stop()
        tree.close()


@pytest.fixture(scope="module")
def led(real_zookeeper: RealZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Led]:
    """For the tests that leave our controller where it is, and all brokers up."""
    with ruled(real_zookeeper, tmp_path_factory.mktemp("led"), "/led") as world:
        yield world


def test_topics_are_led_through_a_lost_broker_and_its_return(led: Led) -> None:
    """Controller items 50 and 62; issue 4, 2 (a): created by the real tool, written and read."""
    led.create("orders", 4, 2)
    wait_until(lambda: led.in_sync("orders", 4, 2), 90, "all partitions are led")
    rows = led.described("orders")
    assert [leader for _, leader, _, _ in rows] == [replicas[0] for _, _, replicas, _ in rows]
    assert all(isr == sorted(replicas) for _, _, replicas, isr in rows)
    led.produce("orders", 4, 25, "first")
    assert len(led.consume("orders", 4, 100)) == 100

    gone = led.brokers[1]
    gone.stop()
    wait_until(lambda: 1 not in led.leaders("orders", 4), 150, "broker 1 leads nothing")
    assert None not in led.leaders("orders", 4)
    led.wait_listed(2, 3)
    led.produce("orders", 4, 25, "second")

    led.start_broker(1).wait_ready(120)
    wait_until(lambda: led.in_sync("orders", 4, 2), 150, "broker 1 is in sync again")
    led.wait_listed(1, 2, 3)
    led.produce("orders", 4, 25, "third")
    assert len(led.consume("orders", 4, 300)) == 300
    assert (led.controller, led.epoch) == (OURS, 1)


def test_the_real_tools_move_elect_and_delete(led: Led) -> None:
    """Controller items 37, 54 and 58: each real tool asks, our controller does it with real brokers."""
    words = ("--create", "--topic", "moved", "--replica-assignment", "1:2,2:3,3:1")
    led.tool("TopicCommand", *words)
    wait_until(lambda: led.in_sync("moved", 3, 2), 90, "all partitions are led")
    led.produce("moved", 3, 20, "first")

    targets = {0: [3, 2], 1: [1, 3], 2: [2, 1]}
    entries = [{"topic": "moved", "partition": p, "replicas": to} for p, to in targets.items()]
    file = led.folder / "moves.json"
    file.write_text(json.dumps({"version": 1, "partitions": entries}))
    tool_words = ("ReassignPartitionsCommand", "--reassignment-json-file", str(file))
    assert "Successfully started" in led.tool(*tool_words, "--execute")
    wait_until(lambda: led.json("/admin/reassign_partitions") is None, 150, "the moves are done")
    assert led.tool(*tool_words, "--verify").count("completed successfully") == 3
    assert led.json("/brokers/topics/moved")["partitions"] == {str(p): to for p, to in targets.items()}
    wait_until(lambda: led.in_sync("moved", 3, 2), 90, "the targets are in sync")
    led.produce("moved", 3, 20, "second")
    assert len(led.consume("moved", 3, 120)) == 120

    led.brokers[3].stop()
    wait_until(lambda: 3 not in led.leaders("moved", 3), 150, "broker 3 leads nothing")
    led.start_broker(3).wait_ready(120)
    wait_until(lambda: led.in_sync("moved", 3, 2), 150, "broker 3 is in sync again")
    assert led.leaders("moved", 3)[0] == 2
    led.tool("PreferredReplicaLeaderElectionCommand")
    wait_until(lambda: led.leaders("moved", 3) == [3, 1, 2], 90, "every preferred replica leads")
    wait_until(lambda: led.json("/admin/preferred_replica_election") is None, 90, "the request is gone")

    led.tool("TopicCommand", "--delete", "--topic", "moved")
    wait_until(lambda: not led.tree.exists(f"{led.chroot}/brokers/topics/moved"), 150, "the topic is gone")
    marked = f"{led.chroot}/admin/delete_topics"
    wait_until(lambda: led.tree.get_children(marked) == [], 90, "the marker is gone")
    wait_until(lambda: not any(led.folder.glob("b*/logs/moved-*")), 90, "the files are gone")
    assert (led.controller, led.epoch) == (OURS, 1)


def test_a_real_broker_stops_under_our_controller(led: Led) -> None:
    """Controller item 60: before it goes it leads nothing and is in no ISR, and it complains of nothing."""
    led.create("clicks", 6, 2)
    wait_until(lambda: led.in_sync("clicks", 6, 2), 90, "all partitions are led")
    led.produce("clicks", 6, 10, "first")
    stopping = led.brokers[2]
    stopping.process.signal(signal.SIGTERM)
    stopping.process.wait(150)
    isrs = [led.state("clicks", number)["isr"] for number in range(6)]
    assert all(isr and 2 not in isr for isr in isrs), isrs
    assert -1 not in led.leaders("clicks", 6)
    led.wait_listed(1, 3)
    assert "controlled shutdown" not in stopping.process.log.read_text(errors="replace").lower()
    led.produce("clicks", 6, 10, "second")
    assert len(led.consume("clicks", 6, 120)) == 120

    led.start_broker(2).wait_ready(120)
    wait_until(lambda: led.in_sync("clicks", 6, 2), 150, "broker 2 is in sync again")


def test_rule_goes_to_a_real_broker_and_comes_back(real_zookeeper: RealZooKeeper, tmp_path: Path) -> None:
    """Controller items 14 and 17: ours is killed, a real one carries on, ours takes over from it."""
    with ruled(real_zookeeper, tmp_path, "/taken-over") as led:
        _goes_to_a_real_broker(led)
        _comes_back(led)


def _goes_to_a_real_broker(led: Led) -> None:
    led.create("events", 3, 3)
    wait_until(lambda: led.in_sync("events", 3, 3), 90, "all partitions are led")
    led.ours[0].kill()
    wait_until(lambda: led.controller in (1, 2, 3), 150, "a real broker is elected")
    wait_until(lambda: led.epoch != 1, 150, "it has raised the epoch, which it does after its election")
    assert led.epoch == 2
    led.create("theirs", 2, 2)
    wait_until(lambda: led.in_sync("theirs", 2, 2), 90, "a real controller leads a new topic")
    assert {led.state("theirs", number)["controller_epoch"] for number in (0, 1)} == {2}
    led.produce("events", 3, 10, "under-theirs")


def _comes_back(led: Led) -> None:
    ours = led.start_controller()
    wait_until(lambda: led.tree.exists(f"{led.chroot}/zkgroup/controllers/{OURS}"), 150, "ours waits")
    assert not led.tree.exists(f"{led.chroot}/brokers/ids/{OURS}")
    ruler = led.controller
    assert ruler is not None
    others = sorted({1, 2, 3} - {ruler})
    for number in others:
        led.brokers[number].process.end(150)
    led.brokers[ruler].process.kill()
    event = ours.wait_elected()
    assert (led.controller, event["epoch"], event["partitions"]) == (OURS, 3, 5)
    wait_until(lambda: led.leaders("events", 3) == [-1, -1, -1], 90, "nobody is left who could lead")
    assert {tuple(led.state("events", number)["isr"]) for number in range(3)} == {(ruler,)}

    for number in (*others, ruler):
        led.start_broker(number)
    for broker in led.brokers.values():
        broker.wait_ready(120)
    wait_until(lambda: led.in_sync("events", 3, 3), 150, "events are in sync")
    wait_until(lambda: led.in_sync("theirs", 2, 2), 150, "theirs are in sync")
    epochs = {led.state(topic, 0)["controller_epoch"] for topic in ("events", "theirs")}
    assert epochs == {3}
    led.produce("events", 3, 10, "under-ours-again")
    assert len(led.consume("events", 3, 60)) == 60
    assert (led.controller, led.epoch) == (OURS, 3)


def test_an_unreadable_registration_changes_nothing(led: Led) -> None:
    """Recipes 13: it made real brokers elect each other hundreds of times; ours skips it."""
    text = b'{"jmx_port":-1,"timestamp":1396019241689,"host":"h","version":1,"port":9092}'
    led.tree.create(f"{led.chroot}/brokers/ids/9", text, ephemeral=True)
    led.tree.create(f"{led.chroot}/brokers/ids/8", b"{", ephemeral=True)
    words = ("--create", "--topic", "quiet", "--replica-assignment", "1:2,2:3")
    led.tool("TopicCommand", *words)
    wait_until(lambda: led.in_sync("quiet", 2, 2), 90, "all partitions are led")
    assert (led.controller, led.epoch) == (OURS, 1)
    assert [event["event"] for event in led.ours[0].events.all()] == ["waiting", "controller"]
    led.tree.delete(f"{led.chroot}/brokers/ids/8")
    led.tree.delete(f"{led.chroot}/brokers/ids/9")
    assert "/brokers/ids/8" in led.ours[0].process.tail(100)
    led.wait_listed(1, 2, 3)
    led.produce("quiet", 2, 5, "first")
    assert len(led.consume("quiet", 2, 10)) == 10
