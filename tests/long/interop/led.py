"""Brokers of Kafka 0.8.2.2 and a zkgroup controller, which a test kills and starts again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPartition
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.long.interop.processes import Events, Process, Reader
from tests.long.interop.servers import VERSION, RealBroker, RealZooKeeper
from tests.long.interop.toolbox import Toolbox
from tests.waiting import PATIENCE_S, eventually
from tests.worlds.led_brokers import ask
from tests.worlds.shell import Shell
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse

OURS = 100
"""Id of our controller."""


class OurController:
    """`zkgroup broker run --controller-only` as a process."""

    def __init__(self, address: str, log: Path) -> None:
        words = ["-z", address, "-v", "broker", "run", "--id", str(OURS), "--controller-only"]
        words += ["--set", "auto.leader.rebalance.enable=false"]
        words += ["--set", "zookeeper.session.timeout.ms=60s"]
        self.process = Process([*words, "--format", "ndjson"], log, pipe=True, is_zkgroup=True)
        self.events = Events()
        self._reader = Reader(self.process, self.events.add)

    def wait_elected(self) -> dict[str, Any]:
        return self.events.wait("controller")

    def end(self) -> None:
        self.process.end()
        self._reader.join()

    def kill(self) -> None:
        self.process.kill()
        self.end()


@dataclass
class Led:
    """Kafka brokers, a zkgroup controller, and the tools of both."""

    zookeeper: RealZooKeeper
    box: Toolbox
    folder: Path
    chroot: str
    tree: KazooClient
    brokers: dict[int, RealBroker] = field(default_factory=dict)
    controllers: list[OurController] = field(default_factory=list)

    @property
    def address(self) -> str:
        return self.zookeeper.address + self.chroot

    @property
    def pids(self) -> list[int]:
        """The pids of the processes that a test may have started anew."""
        return [each.process.pid for each in (*self.brokers.values(), *self.controllers)]

    def start_controller(self) -> OurController:
        self.controllers.append(
            OurController(self.address, self.folder / f"controller-{len(self.controllers)}.log")
        )
        return self.controllers[-1]

    def start_broker(self, number: int) -> RealBroker:
        """Starts a broker, with its former folder, if any."""
        broker = RealBroker(
            self.zookeeper,
            self.folder / f"b{number}",
            number,
            self.chroot,
            controlled_shutdown_retry_backoff_ms=500,
            auto_leader_rebalance_enable="false",
            unclean_leader_election_enable="false",
        )
        self.brokers[number] = broker
        return broker

    def crash(self, number: int) -> None:
        """Kills a broker with SIGKILL and ends its session."""
        self._with_session_of(f"/brokers/ids/{number}", self.brokers[number].stop)

    def crash_controller(self) -> None:
        """Kills the zkgroup controller, which is active, with SIGKILL and ends its session."""
        self._with_session_of("/controller", self.controllers[-1].kill)

    def _with_session_of(self, path: str, kill: Callable[[], None]) -> None:
        stat = self.tree.get(self.chroot + path)[1]
        kill()
        self.zookeeper.end_session(stat.ephemeralOwner)

    def close(self) -> None:
        for broker in self.brokers.values():
            broker.stop()
        for one in self.controllers:
            one.end()

    def json(self, path: str) -> Any:
        """The JSON data of a znode; None where there is no such znode."""
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
        """Whether every partition has a leader, and this many replicas in sync."""
        found = [self.state(topic, number) for number in range(count)]
        return all(state and state["leader"] >= 0 and len(state["isr"]) == size for state in found)

    def wait_listed(self, *brokers: int) -> None:
        """Waits until every broker that runs lists exactly these brokers to its clients."""

        def listed() -> bool:
            answers = [
                ask(("127.0.0.1", one.port), MetadataRequest.of(), MetadataResponse)
                for one in self.brokers.values()
                if one.process.running
            ]
            return all(each and {one.broker for one in each.brokers} == {*brokers} for each in answers)

        eventually(listed, what=f"every broker names {brokers}")

    def is_whole(self, topic: str) -> bool:
        """Whether every partition has a leader, and all its replicas in sync."""
        replicas = (self.json(f"/brokers/topics/{topic}") or {"partitions": {}})["partitions"]
        found = [(self.state(topic, int(number)), each) for number, each in replicas.items()]
        return bool(found) and all(
            state and state["leader"] >= 0 and sorted(state["isr"]) == sorted(each) for state, each in found
        )

    def lines(self, broker: int, topic: str, partition: int) -> bytes | None:
        """The log of a replica on the disk; None where there is no folder."""
        folder = self.folder / f"b{broker}" / "logs" / f"{topic}-{partition}"
        return (
            b"".join(each.read_bytes() for each in sorted(folder.glob("*.log"))) if folder.exists() else None
        )

    def create(self, topic: str, partitions: int, replication: int) -> str:
        """Creates a topic with Kafka's tool."""
        return self.tool("TopicCommand", "--create", "--topic", topic, "--partitions", str(partitions),
                         "--replication-factor", str(replication))  # fmt: skip

    def run(self, *words: str) -> str:
        """Runs a zkgroup command, which must succeed; its output."""
        ran = Shell(self.folder, self.address).run(*words)
        assert ran.code == 0, ran
        return ran.out

    def tool(self, main: str, *words: str) -> str:
        return self.box.run(VERSION, f"kafka.admin.{main}", "--zookeeper", self.address, *words).text

    def described(self, topic: str) -> list[tuple[int, int, list[int], list[int]]]:
        """Partition, leader, replicas and ISR, as Kafka's TopicCommand prints them."""
        row = re.compile(r"Partition: (\d+)\s+Leader: (-?\d+)\s+Replicas: ([\d,]+)\s+Isr: ([\d,]*)")
        text = self.tool("TopicCommand", "--describe", "--topic", topic)
        return [
            (int(number), int(leader), _numbers(replicas), sorted(_numbers(isr)))
            for number, leader, replicas, isr in row.findall(text)
        ]

    def produce(self, topic: str, partitions: int, each: int, mark: str) -> None:
        """Produces records through any running broker, acknowledged by every replica in sync."""
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
                one.get(PATIENCE_S)
        finally:
            producer.close(timeout=PATIENCE_S)

    def consume(self, topic: str, partitions: int, count: int) -> set[str]:
        """Consumes everything from the beginning, this many records."""
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
            eventually(all_there, what=f"{count} records of {topic}")
        finally:
            consumer.close()
        return found


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",") if part]


@contextmanager
def loaded_cluster(
    real_zookeeper: RealZooKeeper, box: Toolbox, folder: Path, chroot: str, brokers: Sequence[int]
) -> Iterator[Led]:
    """The zkgroup controller is active before the first broker starts."""
    tree = KazooClient(real_zookeeper.address, timeout=60)
    tree.start(PATIENCE_S)
    tree.create(chroot)
    world = Led(real_zookeeper, box, folder, chroot, tree)
    try:
        world.start_controller().wait_elected()
        started = [world.start_broker(number) for number in brokers]
        for broker in started:
            broker.wait_ready()
        yield world
    finally:
        world.close()
        tree.stop()
        tree.close()
