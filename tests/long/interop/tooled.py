"""Clusters with a zkgroup controller, operated by Kafka's tools: zkgroup brokers, and Kafka 0.8.2.2's."""

from __future__ import annotations

import json
import signal
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.long.interop.processes import Process
from tests.long.interop.releases import OLDEST, rows_of
from tests.long.interop.servers import RealBroker, RealZooKeeper
from tests.long.interop.toolbox import Printed, Toolbox
from tests.waiting import PATIENCE_S, eventually
from tests.worlds.led_brokers import ask
from tests.worlds.shell import Shell
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse

BROKERS = (1, 2, 3)
Row = tuple[int, int, list[int], list[int]]
"""Partition, leader, replicas, ISR sorted."""


class Cluster(ABC):
    """Brokers 1 to 3 below a chroot of their own."""

    def __init__(self, zookeeper: RealZooKeeper, folder: Path, chroot: str) -> None:
        self.folder = folder
        self.zookeeper = zookeeper
        self.chroot = chroot
        self.address = zookeeper.address + chroot
        root = KazooClient(zookeeper.address, timeout=60)
        root.start(PATIENCE_S)
        root.create(chroot)
        root.stop()
        root.close()
        self.tree = KazooClient(self.address, timeout=60)
        """The znodes as a third party sees them."""
        self.tree.start(PATIENCE_S)

    def close(self) -> None:
        self.tree.stop()
        self.tree.close()

    @property
    @abstractmethod
    def pids(self) -> list[int]:
        """The pids of the processes that continue after a test."""

    @property
    def socket_inodes(self) -> list[str]:
        """The inodes of the sockets to these processes."""
        return []

    @abstractmethod
    def start(self, *brokers: int) -> None:
        """Starts brokers, each with its former folder, if any; returns when all are registered."""

    @abstractmethod
    def process(self, broker: int) -> Process: ...

    @abstractmethod
    def file(self, broker: int, topic: str, partition: int) -> Path:
        """A file of a partition in a broker's folder."""

    @abstractmethod
    def write(self, topic: str, partitions: int, each: int) -> None:
        """Writes this many acknowledged messages to every partition."""

    def received(self, entity: str, overrides: dict[str, str]) -> bool:
        """Whether every broker has applied this last change of a configuration; true if they print none."""
        return True

    def end(self, broker: int) -> None:
        """Stops the processes cleanly: leaderships are handed over, the sessions are closed."""
        self.process(broker).signal(signal.SIGTERM)
        self.process(broker).wait()

    def json(self, path: str) -> Any:
        """The JSON data of a znode; None where there is no such znode."""
        try:
            return json.loads(self.tree.get(path)[0])
        except NoNodeError:
            return None

    def replicas(self, topic: str) -> dict[int, list[int]]:
        """The replicas by partition; empty for a topic that does not exist."""
        found = self.json(f"/brokers/topics/{topic}") or {"partitions": {}}
        return {int(partition): replicas for partition, replicas in sorted(found["partitions"].items())}

    def rows(self, topic: str) -> list[Row]:
        """The rows from ZooKeeper; partitions without a state are left out."""
        found = []
        for partition, replicas in sorted(self.replicas(topic).items()):
            state = self.json(f"/brokers/topics/{topic}/partitions/{partition}/state")
            if state is not None:
                found.append((partition, state["leader"], replicas, sorted(state["isr"])))
        return found

    def served(self, broker: int, topic: str) -> list[Row]:
        """The rows from a broker's answer to clients; None where it does not answer."""
        port = self.json(f"/brokers/ids/{broker}")["port"]
        answer = ask(("127.0.0.1", port), MetadataRequest.of(topic), MetadataResponse)
        if answer is None or answer.topics[0].error:
            return []
        return sorted(
            (one.partition, one.leader, list(one.replicas), sorted(one.isr))
            for one in answer.topics[0].partitions
        )

    def wait_served(self, topic: str, count: int) -> list[Row]:
        """Waits until this many partitions are led, all replicas are in sync, and every broker reports it."""

        def whole() -> list[Row]:
            rows = self.rows(topic)
            well = all(leader >= 0 and isr == sorted(replicas) for _, leader, replicas, isr in rows)
            alike = all(self.agrees(rows, self.served(broker, topic)) for broker in BROKERS)
            return rows if len(rows) == count and well and alike else []

        return eventually(whole, what=f"every broker serves {count} whole partitions of {topic}")

    def agrees(self, rows: list[Row], served: list[Row]) -> bool:
        """Whether a broker's answer equals ZooKeeper's rows."""
        return served == rows

    def holders(self, topic: str, partition: int) -> set[int]:
        """The brokers that have files of a partition."""
        return {broker for broker in BROKERS if self.file(broker, topic, partition).exists()}

    def notifications(self) -> list[Any]:
        """The notifications of changed configurations, the oldest first."""
        names = sorted(self.tree.get_children("/config/changes"))
        return [self.json(f"/config/changes/{name}") for name in names]


class OurBrokers(Cluster):
    """`zkgroup broker run` as processes with folders; one of them is the controller."""

    def __init__(self, zookeeper: RealZooKeeper, folder: Path, chroot: str) -> None:
        super().__init__(zookeeper, folder, chroot)
        self._started: list[Process] = []
        self._running: dict[int, Process] = {}

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._running.values()]

    @property
    def socket_inodes(self) -> list[str]:
        return [inode for process in self._running.values() for inode in process.socket_inodes]

    def start(self, *brokers: int) -> None:
        for broker in brokers:
            words = ["-z", self.address, "broker", "run", "--id", str(broker), "--format", "ndjson"]
            words += ["--data", str(self.folder / f"b{broker}")]
            words += ["--set", "auto.leader.rebalance.enable=false"]
            words += ["--set", "zookeeper.session.timeout.ms=60s", "--set", "replica.lag.time.max.ms=60s"]
            words += ["--set", "isr_notice_quiet_ms=200ms", "--set", "isr_notice_every_ms=100ms"]
            words += ["--set", "group.initial.rebalance.delay.ms=0"]
            words += ["--set", "group.min.session.timeout.ms=100"]
            words += ["--set", "log.retention.ms=-1"]  # records of tests have timestamps of the past
            log = self.folder / f"b{broker}-{len(self._started)}.log"
            self._running[broker] = Process(words, log, is_zkgroup=True)
            self._started.append(self._running[broker])
        for broker in brokers:
            _wait_for(self._running[broker], "registered")

    def process(self, broker: int) -> Process:
        return self._running[broker]

    @property
    def bootstrap(self) -> str:
        """The addresses of the brokers, for clients."""
        ports = [self.json(f"/brokers/ids/{broker}")["port"] for broker in BROKERS]
        return ",".join(f"127.0.0.1:{port}" for port in ports)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Offsets by partition in ZooKeeper, where the consumers of Kafka 0.8 have them too."""
        parent = f"/consumers/{group}/offsets/{topic}"
        try:
            names = self.tree.get_children(parent)
        except NoNodeError:
            return {}
        return {int(name): int(self.tree.get(f"{parent}/{name}")[0]) for name in names}

    def create(self, topic: str, *replicas: tuple[int, ...]) -> list[Row]:
        """Creates a topic with these replicas of its partitions; the rows that are served then."""
        assigned = ",".join(":".join(map(str, each)) for each in replicas)
        words = ("topic", "create", topic, "--replica-assignment", assigned)
        Shell(self.folder, self.address).json(*words)
        return self.wait_served(topic, len(replicas))

    def kill(self, broker: int) -> None:
        """Kills a broker's process, and ends its session, as the server does after its timeout."""
        session = self.tree.get(f"/brokers/ids/{broker}")[1].ephemeralOwner
        self.process(broker).kill()
        self.zookeeper.end_session(session)

    def file(self, broker: int, topic: str, partition: int) -> Path:
        return self.folder / f"b{broker}" / f"{topic}-{partition}"

    def write(self, topic: str, partitions: int, each: int) -> None:
        lines = "".join(f"{number}\n" for number in range(partitions * each))
        document = Shell(self.folder, self.address).json("produce", topic, stdin=lines)
        assert document["acknowledged"] == partitions * each, document

    def received(self, entity: str, overrides: dict[str, str]) -> bool:
        heard = [
            [one["overrides"] for one in _events(process, "config") if one["entity"] == entity][-1:]
            for process in self._running.values()
        ]
        return heard == [[overrides]] * len(heard)

    def close(self) -> None:
        for process in self._started:
            process.kill()
        super().close()


@contextmanager
def running_brokers(zookeeper: RealZooKeeper, folder: Path, chroot: str) -> Iterator[OurBrokers]:
    """The three brokers, registered."""
    cluster = OurBrokers(zookeeper, folder, chroot)
    try:
        cluster.start(*BROKERS)
        yield cluster
    finally:
        cluster.close()


def _wait_for(process: Process, kind: str) -> None:
    """Waits for an event of the process; AssertionError with the end of its log when it ends before."""

    def printed() -> bool:
        assert process.running, process.tail()
        return bool(_events(process, kind))

    eventually(printed, what=f"{kind} in {process.log}")


def _events(process: Process, kind: str) -> list[dict[str, Any]]:
    """The events that a broker has printed; its log has its warnings too."""
    lines = process.log.read_text(errors="replace").splitlines(keepends=True)
    found = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]
    return [event for event in found if event["event"] == kind]


class RealBrokers(Cluster):
    """Three of Kafka 0.8.2.2, and `zkgroup broker run --controller-only`."""

    CONTROLLER = 100

    def __init__(self, zookeeper: RealZooKeeper, folder: Path, chroot: str) -> None:
        super().__init__(zookeeper, folder, chroot)
        self._running: dict[int, RealBroker] = {}
        words = ["-z", self.address, "broker", "run", "--id", str(self.CONTROLLER), "--controller-only"]
        words += ["--set", "auto.leader.rebalance.enable=false", "--format", "ndjson"]
        words += ["--set", "zookeeper.session.timeout.ms=60s"]
        self._controller = Process(words, folder / "controller.log", is_zkgroup=True)
        _wait_for(self._controller, "controller")

    @property
    def pids(self) -> list[int]:
        return [self._controller.pid, *(broker.process.pid for broker in self._running.values())]

    def start(self, *brokers: int) -> None:
        more = {"auto_leader_rebalance_enable": "false", "controlled_shutdown_retry_backoff_ms": 500}
        for broker in brokers:
            self._running[broker] = RealBroker(
                self.zookeeper, self.folder / f"b{broker}", broker, self.chroot, OLDEST, **more
            )
        for broker in brokers:
            self._running[broker].wait_ready()

    def agrees(self, rows: list[Row], served: list[Row]) -> bool:
        """Compares without the ISR: leaders of 0.8.2.2 notify no controller when it grows."""
        return [row[:3] for row in served] == [row[:3] for row in rows]

    def process(self, broker: int) -> Process:
        return self._running[broker].process

    def file(self, broker: int, topic: str, partition: int) -> Path:
        return self.folder / f"b{broker}" / "logs" / f"{topic}-{partition}"

    def write(self, topic: str, partitions: int, each: int) -> None:
        with self._running[1].producer() as producer:
            producer.fill(topic, partitions, each)

    def close(self) -> None:
        for broker in self._running.values():
            broker.stop()
        self._controller.end()
        super().close()


@dataclass(frozen=True)
class Tools:
    """The tools of one release at one cluster."""

    box: Toolbox
    release: str
    cluster: Cluster
    folder: Path

    def name(self, topic: str) -> str:
        """A topic name of this release's own."""
        return f"{topic}-{self.release.replace('.', '')}"

    def run(self, main: str, *words: str) -> Printed:
        """Runs one of the `kafka.admin` tools."""
        return self.box.run(self.release, f"kafka.admin.{main}", "--zookeeper", self.cluster.address, *words)

    def topic(self, *words: str) -> Printed:
        return self.run("TopicCommand", *words)

    def create(self, topic: str, *replicas: tuple[int, ...]) -> list[Row]:
        """Creates a topic with these replicas of its partitions; the rows that are served then."""
        assigned = ",".join(":".join(map(str, each)) for each in replicas)
        printed = self.topic("--create", "--topic", topic, "--replica-assignment", assigned)
        assert "Created topic" in printed.text, printed
        return self.cluster.wait_served(topic, len(replicas))

    def described(self, topic: str, *words: str) -> list[Row]:
        printed = self.topic("--describe", "--topic", topic, *words)
        assert printed.code == 0, printed
        return rows_of(printed.text)

    def file(self, name: str, document: object) -> str:
        path = self.folder / name
        path.write_text(json.dumps(document), encoding="utf-8")
        return str(path)

    def moves(self, name: str, topic: str, targets: dict[int, list[int]]) -> str:
        """Writes a file for the reassignment tool."""
        entries = [{"topic": topic, "partition": p, "replicas": to} for p, to in targets.items()]
        return self.file(name, {"version": 1, "partitions": entries})
