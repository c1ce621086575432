"""How a controller takes over a cluster of many partitions: zkgroup's, and brokers of Kafka.

Each is alone on a server of its own and is elected again whenever `/controller` is deleted. Its brokers do
not answer.
"""

from __future__ import annotations

import queue
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Self

from kazoo.client import KazooClient

from tests.long.interop.jars import kafka
from tests.long.interop.processes import tethered
from tests.programs.benchmarks.cluster_tree import ClusterTree
from tests.programs.benchmarks.commands import zkgroup
from tests.programs.benchmarks.server import BenchServer, cpu_seconds, resident_mb
from tests.programs.benchmarks.transaction_log import Change, LogSource
from tests.waiting import eventually
from zkgroup.zookeeper.embedded.server import ReservedPort

OURS = "zkgroup"
READY = {OURS: r'"event": ?"controller"', "kafka": r"[Rr]eady to serve as the new controller"}
READY_S = 300.0
QUIET_S = 2.0
"""Without a write of a state: then all elections are over."""

LOG4J = """\
log4j.rootLogger=WARN, A
log4j.appender.A=org.apache.log4j.ConsoleAppender
log4j.appender.A.layout=org.apache.log4j.PatternLayout
log4j.appender.A.layout.ConversionPattern=%d %c{1} %m%n
log4j.logger.kafka.controller=INFO
log4j.logger.kafka.controller.RequestSendThread=OFF
log4j.logger.state.change.logger=OFF
log4j.logger.org.apache.kafka.clients.NetworkClient=OFF
"""


class TakeOver(NamedTuple):
    """One take-over. Seconds run from the loss of the former controller, by the server's clock."""

    ready_s: float
    """Until it reports that it is the active controller."""
    elected_to_ready_s: float
    last_state_s: float | None
    """Until the last state was written; None without any."""
    states: int
    """States written."""
    packets: int
    """Until it was ready; until the last state was written where any was."""
    controller_cpu_s: float
    server_cpu_s: float


class ControllerBench:
    """One server with a tree, and one controller program."""

    def __init__(self, side: str, tree: ClusterTree) -> None:
        """side: `OURS`, or a release of Kafka."""
        self._side, self._tree = side, tree
        self._folder = tempfile.TemporaryDirectory(prefix="zkgroup-bench-controller-")
        self._lines: queue.Queue[tuple[float, str]] = queue.Queue()
        self._asked = 0
        self._packets_quiet = 0

    def __enter__(self) -> Self:
        self.server = BenchServer(heap_mb=1024)
        self._port = ReservedPort()
        self.server.__enter__()
        self._laid_out = self._tree.laid_out(self.server.address)
        self._laid_out.__enter__()
        self._log = LogSource(self.server.transaction_logs)
        self._log.poll()
        self._process = subprocess.Popen(
            tethered(self._command()), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._reader = threading.Thread(target=self._read, name="controller's lines", daemon=True)
        self._reader.start()
        self._client = KazooClient(self.server.address, timeout=30)
        self._client.start(60)
        self._ready()
        self._quiet()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.stop()
        self._client.close()
        self._process.kill()
        self._process.wait(10)
        self._reader.join(10)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._laid_out.__exit__(None, None, None)
        self.server.__exit__()
        self._port.release()
        self._folder.cleanup()

    def take_over(self) -> TakeOver:
        """Deletes `/controller` and nothing else."""
        return self._measure(lambda: self._client.delete("/controller"))

    def take_over_with_loss(self, number: int) -> TakeOver:
        """Deletes `/controller` and one broker in one transaction; the broker comes back after it."""
        path, data = self._tree.broker(number)

        def lose() -> None:
            transaction = self._client.transaction()
            transaction.delete("/controller")  # first: else the one before deals with the broker
            transaction.delete(path)
            transaction.commit()

        result = self._measure(lose)
        self._client.create(path, data, ephemeral=True)
        self._quiet()
        return result

    @property
    def memory_mb(self) -> float:
        """Resident memory of the controller's process, in MiB."""
        return resident_mb(self._process.pid)

    def _measure(self, act: Callable[[], object]) -> TakeOver:
        self._log.poll()
        packets = self._packets()
        server_cpu, own_cpu = self.server.cpu(), cpu_seconds(self._process.pid)
        act()
        ready_at = self._ready()
        at_ready = self._packets() - packets - 1  # the deletion's own
        cpu = cpu_seconds(self._process.pid) - own_cpu
        changes = self._quiet()
        states = [change.ms for change in changes if change.path.endswith("/state")]
        (gone,) = (each.ms for each in changes if (each.path, each.kind) == ("/controller", "delete"))
        (elected,) = (each.ms for each in changes if (each.path, each.kind) == ("/controller", "create"))
        return TakeOver(
            ready_s=ready_at - gone / 1000,
            elected_to_ready_s=ready_at - elected / 1000,
            last_state_s=(max(states) - gone) / 1000 if states else None,
            states=len(states),
            packets=self._packets_quiet - packets - 1 if states else at_ready,
            controller_cpu_s=cpu if not states else cpu_seconds(self._process.pid) - own_cpu,
            server_cpu_s=self.server.cpu() - server_cpu,
        )

    def _quiet(self) -> list[Change]:
        """All changes until no state is written any more."""
        found: list[Change] = []
        last = time.monotonic()
        self._packets_quiet = self._packets()

        def still() -> bool:
            nonlocal last
            if new := self._log.poll():
                found.extend(new)
                last, self._packets_quiet = time.monotonic(), self._packets()
            return time.monotonic() - last > QUIET_S

        eventually(still, what="no state is written any more")
        return found

    def _packets(self) -> int:
        """Packets received so far, without those of this request and of the ones before it."""
        self._asked += 1
        return self.server.packets() - self._asked

    def _ready(self) -> float:
        """The wall time of the log line that reports it as ready."""
        pattern = READY.get(self._side, READY["kafka"])
        deadline = time.monotonic() + READY_S
        told: list[str] = []
        while time.monotonic() < deadline:
            try:
                at, line = self._lines.get(timeout=1.0)
            except queue.Empty:
                assert self._process.poll() is None, f"{self._side} ended: {told[-20:]}"
                continue
            told.append(line)
            if re.search(pattern, line):
                return at
        raise AssertionError(f"{self._side} was not ready within {READY_S:g} s: {told[-20:]}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put((time.time(), line.rstrip()))

    def _command(self) -> list[str]:
        if self._side == OURS:
            return zkgroup(
                "--zookeeper", self.server.address, "--format", "ndjson",
                "broker", "run", "--id", "0", "--controller-only", "--host", "127.0.0.1", "--port", "0",
            )  # fmt: skip
        folder = Path(self._folder.name)
        (folder / "log4j.properties").write_text(LOG4J)
        settings = {
            "broker.id": 0,
            "zookeeper.connect": self.server.address,
            "zookeeper.session.timeout.ms": 20_000,
            "log.dirs": folder / "logs",
            "log.index.size.max.bytes": 4096,
            **_listening(self._side, self._port.number),
        }
        config = folder / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        command = kafka(self._side, "kafka.Kafka", str(config), heap_mb=1024)
        command = [each for each in command if each not in _SMALL and not each.startswith("-Dlog4j")]
        return [command[0], f"-Dlog4j.configuration=file:{folder}/log4j.properties", *command[1:]]


_SMALL = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xss256k")
"""Options for many small JVMs; a broker that is timed is compiled fully."""


def _listening(version: str, port: int) -> dict[str, object]:
    if version.startswith("0.8"):
        return {"port": port, "host.name": "127.0.0.1", "controller.socket.timeout.ms": 3000}
    return {"listeners": f"PLAINTEXT://127.0.0.1:{port}", "offsets.topic.replication.factor": 1}
