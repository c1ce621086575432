"""A ZooKeeper server to measure on: with full JIT and forced log writes, unlike the embedded one."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.long.interop.processes import Process
from tests.long.interop.servers import four_letters, opens_sessions
from tests.waiting import eventually
from zkgroup.zookeeper.embedded.class_archive import archive_options
from zkgroup.zookeeper.embedded.java import find_jars, find_java
from zkgroup.zookeeper.embedded.server import ReservedPort

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far (proc(5), stat fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def compiler_seconds(pid: int) -> float:
    """Of these, the time of a JVM's compilers: it ends some time after a load has begun."""
    found = 0.0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # a thread that has ended
            name, _, fields = (thread / "stat").read_text().rpartition(")")
            if "Compiler" in name:
                found += sum(map(int, fields.split()[11:13])) / TICKS_PER_SECOND
    return found


def resident_mb(pid: int) -> float:
    """Resident memory of a process in MiB (proc(5), status)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))


@dataclass(frozen=True)
class Cost:
    """The cost of an operation: wall seconds, packets received, CPU seconds at both ends or None."""

    seconds: float
    packets: int
    client_cpu_s: float | None
    server_cpu_s: float | None


class Meter:
    """Measures from its creation to `stop()`; `clients` are the processes whose CPU counts."""

    def __init__(self, server: BenchServer, clients: Iterable[int]) -> None:
        self._server, self._clients = server, tuple(clients)
        self._packets, self._server_cpu = server.packets(), server.cpu()
        self._client_cpu = sum(map(cpu_seconds, self._clients))
        self._began = time.perf_counter()

    def stop(self) -> Cost:
        seconds = time.perf_counter() - self._began
        server_cpu = self._server.cpu() - self._server_cpu
        client_cpu = sum(map(cpu_seconds, self._clients)) - self._client_cpu
        return Cost(seconds, self._server.packets() - self._packets - 1, client_cpu, server_cpu)


class BenchServer:
    """A standalone server of the release that pyspark contains, with a data folder of its own.

    It writes each group of transactions to the disk before it answers them, unless `forced` is False.
    """

    starts_fast = False
    """For tests, which judge no seconds: it starts as an embedded server does, at half the CPU."""

    def __init__(self, *, heap_mb: int = 512, tick_ms: int = 500, forced: bool = True) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="zkgroup-bench-"))
        self.data = self._folder / "data"
        self._held = ReservedPort()
        self.port = self._held.number
        self.address = f"127.0.0.1:{self.port}"
        config = self._folder / "zoo.cfg"
        config.write_text(
            f"tickTime={tick_ms}\ndataDir={self.data}\nclientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            "maxClientCnxns=0\nmaxSessionTimeout=60000\nadmin.enableServer=false\n4lw.commands.whitelist=*\n"
        )
        classpath = os.pathsep.join(str(jar) for jar in find_jars())
        options = ["-Dzookeeper.globalOutstandingLimit=100000", "-Dlog4j2.simplelogLevel=ERROR"]
        options += [] if forced else ["-Dzookeeper.forceSync=no"]
        if self.starts_fast:
            options += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
            options += archive_options(find_java(), find_jars(), (), None)
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self._process = Process(
            [
                find_java(),
                f"-Xmx{heap_mb}m",
                "-XX:-UsePerfData",
                *options,
                "-cp",
                classpath,
                main,
                str(config),
            ],
            self._folder / "server.log",
        )

    def __enter__(self) -> Self:
        def ready() -> bool:
            assert self._process.running, self._process.tail()
            return opens_sessions(self.port)

        eventually(ready, what="the benchmark's server opens sessions")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._held.release()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def transaction_logs(self) -> Path:
        return self.data / "version-2"

    def packets(self) -> int:
        """Packets received so far, this request's own included."""
        rows = dict(
            line.split("\t", 1) for line in four_letters(self.port, "mntr").splitlines() if "\t" in line
        )
        return int(rows["zk_packets_received"])

    def last_zxid(self) -> int:
        """The zxid of the last transaction."""
        lines = four_letters(self.port, "srvr").splitlines()
        return next(int(line.split()[1], 16) for line in lines if line.startswith("Zxid:"))

    def cpu(self) -> float:
        return cpu_seconds(self._process.pid)

    def compiler_cpu(self) -> float:
        """Of that, the CPU of the JIT compilers."""
        return compiler_seconds(self._process.pid)

    def memory_mb(self) -> float:
        return resident_mb(self._process.pid)

    def meter(self, clients: Iterable[int] = ()) -> Meter:
        return Meter(self, clients)
