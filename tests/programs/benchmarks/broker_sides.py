"""Brokers to measure: `zkgroup broker run` and Kafka 2.8.2, as processes with folders of their own.

Kafka has its defaults: a heap of 1 GiB, both compilers, three network threads and eight request threads.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from kazoo.client import KazooClient

from tests.long.interop.jars import MissingToolError, java, kafka_jars
from tests.long.interop.processes import Process
from tests.programs.benchmarks.process_tree import usage
from tests.programs.benchmarks.server import BenchServer, resident_mb
from tests.waiting import eventually
from tests.worlds.prefork import servers
from zkgroup.zookeeper.embedded.server import ReservedPort

OURS = "zkgroup"
UNFORCED = "zkgroup, forceSync=no"
KAFKA = "Kafka 2.8.2"
RELEASE = "2.8.2"
PROGRAM = "from zkgroup_cli.entry import main; main()"
HEAP_MB = 1024
SETTINGS = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "max.connections": "10000",
    "log.retention.ms": "-1",
}
"""Of both sides; all others are the defaults."""


class BrokerSide(ABC):
    """A ZooKeeper server and some brokers of one side. It ends all of them."""

    name: str
    SESSION_MS = 18_000
    FORCED: bool = True
    """Whether the ZooKeeper server forces its log to the disk, which is ZooKeeper's default."""

    def __init__(self, brokers: int, settings: Mapping[str, str] | None = None) -> None:
        """settings: of the brokers, besides `SETTINGS`."""
        self.ids = range(1, brokers + 1)
        self.settings = {**SETTINGS, **(settings or {})}
        self.folder = Path(tempfile.mkdtemp(prefix="zkgroup-bench-brokers-"))
        self._held = {broker: ReservedPort() for broker in self.ids}
        self.ports = {broker: held.number for broker, held in self._held.items()}
        self._running: dict[int, Process] = {}
        self._starts = 0

    def __enter__(self) -> Self:
        self._zookeeper = BenchServer(forced=self.FORCED)
        self._zookeeper.__enter__()
        self.zookeeper = self._zookeeper.address
        self._tree = KazooClient(self.zookeeper, timeout=60)
        try:
            self._tree.start(60)
            self.start()
            self.wait_registered()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.kill()
        self._tree.stop()
        self._tree.close()
        self._zookeeper.__exit__()
        for held in self._held.values():
            held.release()
        shutil.rmtree(self.folder, ignore_errors=True)

    @abstractmethod
    def launch(self, broker: int, log: Path) -> Process:
        """Starts one broker."""

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._running.values()]

    def start(self) -> None:
        """Starts all brokers."""
        self._starts += 1
        for broker in self.ids:
            log = self.folder / f"broker-{broker}-{self._starts}.log"
            self._running[broker] = self.launch(broker, log)

    def wait_registered(self) -> None:
        """Waits until every broker is registered."""
        eventually(lambda: self.registered() == {str(broker) for broker in self.ids}, what="brokers register")

    def registered(self) -> set[str]:
        for process in self._running.values():
            assert process.running, process.tail()
        if self._tree.exists("/brokers/ids") is None:
            return set()
        return set(self._tree.get_children("/brokers/ids"))

    def stop(self, *, clean: bool) -> None:
        """Ends all brokers, by SIGTERM or SIGKILL, and waits for the end of their sessions."""
        for process in self._running.values():
            process.end() if clean else process.kill()
        self._running.clear()
        eventually(lambda: not self.registered(), what="the sessions of the brokers end")

    def zookeeper_cpu_s(self) -> float:
        """CPU seconds of the ZooKeeper server so far."""
        return self._zookeeper.cpu()

    def compiler_cpu_s(self) -> float:
        """Of these, those of its JIT compilers."""
        return self._zookeeper.compiler_cpu()

    def cpu_s(self) -> float:
        """CPU seconds of the brokers so far."""
        return sum(usage(pid).cpu_s for pid in self.pids)

    def packets(self) -> int:
        """Packets that the ZooKeeper server has received so far."""
        return self._zookeeper.packets()

    def writes(self) -> int:
        """Transactions of the ZooKeeper server so far, also refused ones and sessions."""
        return self._zookeeper.last_zxid() & 0xFFFFFFFF

    def put(self, path: str, data: bytes) -> None:
        """Creates a znode, as an operator."""
        self._tree.create(path, data)

    def exists(self, path: str) -> bool:
        return self._tree.exists(path) is not None

    def read(self, path: str) -> tuple[bytes, float]:
        """The data of a znode, and the wall time in seconds at which it was last set."""
        data, stat = self._tree.get(path)
        return data, stat.mtime / 1000

    def memory_mb(self) -> float:
        """Resident memory of the brokers, in MiB."""
        return sum(resident_mb(pid) for pid in self.pids)

    def data(self, broker: int) -> Path:
        return self.folder / f"data-{broker}"

    def config(self, broker: int, settings: Mapping[str, object]) -> Path:
        """A file with these settings, and with one plain listener where they have none."""
        listeners = {"listeners": f"PLAINTEXT://127.0.0.1:{self.ports[broker]}"}
        path = self.folder / f"server-{broker}.properties"
        path.touch(0o600)
        path.write_text("".join(f"{name}={value}\n" for name, value in {**listeners, **settings}.items()))
        return path

    def listener(self, name: str) -> tuple[str, int]:
        """Host and port of a listener of the first broker, as it is registered."""
        data, _ = self.read(f"/brokers/ids/{self.ids[0]}")
        (found,) = (one for one in json.loads(data)["endpoints"] if one.startswith(f"{name}://"))
        host, _, port = found.removeprefix(f"{name}://").rpartition(":")
        return host, int(port)


class OurBrokers(BrokerSide):
    """`zkgroup broker run`."""

    name = OURS

    def launch(self, broker: int, log: Path) -> Process:
        """As a user does, unless tests have a fork server, which has done the imports."""
        words = ["-z", self.zookeeper, "broker", "run", "--id", str(broker), "--format", "ndjson"]
        words += ["--data", str(self.data(broker)), "--config", str(self.config(broker, self.settings))]
        words += ["--set", f"zookeeper.session.timeout.ms={self.SESSION_MS}ms"]
        return Process(
            words if servers else [sys.executable, "-c", PROGRAM, *words], log, is_zkgroup=bool(servers)
        )


class UnforcedBrokers(OurBrokers):
    """`zkgroup broker run` on a ZooKeeper server that forces no write, as Kafka forces no commit."""

    name = UNFORCED
    FORCED = False


class KafkaBrokers(BrokerSide):
    """Brokers of Kafka 2.8.2."""

    name = KAFKA

    def launch(self, broker: int, log: Path) -> Process:
        settings = {
            **self.settings,
            "broker.id": broker,
            "zookeeper.connect": self.zookeeper,
            "zookeeper.session.timeout.ms": self.SESSION_MS,
            "log.dirs": self.data(broker),
            "log.cleaner.enable": "false",
        }
        config = self.config(broker, settings)
        jars = kafka_jars(RELEASE)
        settings_of_log = jars / "log4j.properties"
        command = java(f"{jars}/*", "kafka.Kafka", str(config), heap_mb=HEAP_MB, log=settings_of_log)
        small = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xss256k")
        return Process([word for word in command if word not in small], log)


SIDES: Mapping[str, type[BrokerSide]] = {KAFKA: KafkaBrokers, OURS: OurBrokers, UNFORCED: UnforcedBrokers}


def sides(*, short: bool = False) -> Sequence[str]:
    """The sides that are available here; the peer first."""
    if not short:
        with suppress(MissingToolError):
            kafka_jars(RELEASE)
            return (KAFKA, OURS)
    return (OURS,)


@contextmanager
def all_sides(
    names: Sequence[str], brokers: int, settings: Mapping[str, str] | None = None
) -> Iterator[dict[str, BrokerSide]]:
    """The sides, all started. Only one works at a time: an idle broker takes next to no CPU."""
    started: dict[str, BrokerSide] = {}
    try:
        for name in names:
            side = SIDES[name](brokers, settings)
            started[name] = side.__enter__()
        yield started
    finally:
        for side in started.values():
            side.__exit__()
