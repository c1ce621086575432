"""Brokers as processes at fixed ports, on one ZooKeeper server; coordinators are killed and paused."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.long.interop.processes import Process
from tests.waiting import eventually
from tests.worlds.led_brokers import ask
from zkgroup.errors import ZkGroupError
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse
from zkgroup.znodes.brokers import PartitionState, Topic, broker_ids_path
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.embedded.server import ReservedPort

IDS: Final = (1, 2, 3)
SLOTS: Final = 4
SESSION_MS: Final = 4_000
SETTINGS: Final = {
    "zookeeper.session.timeout.ms": f"{SESSION_MS}ms",
    "zookeeper.connection.timeout.ms": "60s",
    "offsets.topic.num.partitions": str(SLOTS),
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "500ms",
    "leader.imbalance.check.interval.seconds": "10s",
}
ENTRY: Final = ("-c", "from zkgroup_cli.app import main; main()")
"""What Python is started with to be a broker."""


class CoordinatorBrokers:
    """Some brokers and a client of their ZooKeeper server."""

    def __init__(
        self, address: str, home: Path, entry: Sequence[str] = ENTRY, ids: Sequence[int] = IDS
    ) -> None:
        self.address, self._home, self._entry = address, home, entry
        self._held = {broker: ReservedPort() for broker in ids}
        self._processes: dict[int, Process] = {}
        self._ended: set[int] = set()
        """Brokers that are meant not to run."""
        self.client = ZooKeeperClient(address, ClientSettings(session_timeout_ms=30_000))
        self.zk = Blocking(self.client)

    def __enter__(self) -> Self:
        self.zk.wait_connected()
        for broker in self._held:
            self.start(broker)
        eventually(self._are_registered, what="the brokers register", ignoring=(ZkGroupError,))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            process.kill()
        self.client.close()
        for held in self._held.values():
            held.release()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [("127.0.0.1", held.number) for held in self._held.values()]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{held.number}" for held in self._held.values())

    def _are_registered(self) -> bool:
        self.died()
        return len(self.zk.list_many([broker_ids_path()])[broker_ids_path()] or ()) == len(self._held)

    def create_topic(self, topic: str, partitions: int) -> None:
        """Creates a topic whose partitions have one replica each, and waits until every broker knows it."""
        replicas = {number: (min(self._held) + number % len(self._held),) for number in range(partitions)}
        self.zk.multi(
            Create(TopicConfig.path(topic), TopicConfig().encode()),
            Create(Topic.path(topic), Topic(replicas).encode()),
        )
        for at in self.addresses:
            eventually(lambda at=at: self._knows(at, topic, partitions), what="topic")  # type: ignore[misc]

    @staticmethod
    def _knows(at: tuple[str, int], topic: str, partitions: int) -> bool:
        try:
            answer = ask(at, MetadataRequest.of(topic), MetadataResponse)
        except OSError:
            return False
        found = [each for one in (answer.topics if answer else ()) for each in one.partitions]
        return len([each for each in found if each.leader > 0]) == partitions

    def start(self, broker: int) -> None:
        words = ["broker", "run", "--id", str(broker), "--data", str(self._home / f"data-{broker}")]
        words += ["--host", "127.0.0.1", "--port", str(self._held[broker].number), "--format", "ndjson"]
        words += [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
        words = ["-z", self.address, *words]
        log = self._home / f"broker-{broker}.log"
        if self._entry == ENTRY:
            self._processes[broker] = Process(words, log, is_zkgroup=True)
        else:
            self._processes[broker] = Process([sys.executable, *self._entry, *words], log)
        self._ended.discard(broker)

    def kill(self, broker: int) -> None:
        self._ended.add(broker)
        self._processes[broker].kill()

    def pause(self, broker: int) -> None:
        self._processes[broker].pause()

    def resume(self, broker: int) -> None:
        self._processes[broker].signal(signal.SIGCONT)

    def died(self) -> None:
        """Raises AssertionError where a broker has ended by itself."""
        for broker, process in self._processes.items():
            assert broker in self._ended or process.running, f"broker {broker} ended: {process.tail()}"

    def coordinator(self, slot: int) -> int:
        """The broker that leads a slot, by the partition's state; 0 where none does."""
        found = self.zk.find(PartitionState.path(TopicPartition(OFFSETS_TOPIC, slot)))
        if found is None:
            return 0
        leader = PartitionState.decode(found.path, found.data).leader
        return leader if leader in IDS else 0
