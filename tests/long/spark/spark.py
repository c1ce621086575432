"""One Spark session for the whole test run, since its start takes up to a minute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.worlds.audit_folders import HEALTHY, INCIDENTS, folder

NAMES = (*HEALTHY, INCIDENTS)


@dataclass
class Running:
    """The session with its JVM, its Python workers and the sockets to them."""

    session: Any
    jvm: Any

    def pids(self) -> set[int]:
        """The pids of the JVM and of all processes below it, now."""
        return _below(self.jvm.pid)

    @property
    def socket_inodes(self) -> set[str]:
        """The inodes of the sockets to the JVM. Each request may open one; accumulators open one more."""
        context = self.session.sparkContext
        gateway, accumulators = context._gateway.gateway_parameters.port, context._accumulatorServer
        return _connections(gateway, accumulators.server_address[1])


@pytest.fixture(scope="session")
def running_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The session, started with the first test that needs it and stopped at the end of the run."""
    from pyspark import SparkContext

    from zkgroup.audit.spark import session

    place = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.driver.memory": "1g",
        # Little data: what is compiled for it costs more than it gives.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(place / "local"),
        "spark.sql.warehouse.dir": str(place / "warehouse"),
    }
    with session.session("local[2]", settings) as running:
        gateway = running.sparkContext._gateway
        yield Running(running, gateway.proc)
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)
    SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture
def spark(running_spark: Running) -> Any:
    """The session of the run."""
    return running_spark.session


@pytest.fixture(scope="session")
def audited(running_spark: Running, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All golden folders as ensembles of their own, audited in one job; `output` is the results' folder."""
    from zkgroup.audit.spark.job import run

    output = tmp_path_factory.mktemp("output")
    inputs = [f"{name}={folder(name)}" for name in NAMES]
    found = run(running_spark.session, inputs, str(output))
    return {"output": output, **{each.ensemble: each for each in found}}


def _below(pid: int) -> set[int]:
    found, parents = (
        {pid},
        {int(each.name): _parent(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()},
    )
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _parent(name: str) -> int:
    try:
        return int(Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _connections(to: int, at: int) -> set[str]:
    """The inodes of this process's TCP sockets to the port `to` or at the port `at`."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/self/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[2].endswith(f":{to:04X}") or fields[1].endswith(f":{at:04X}"):
                found.add(fields[9])
    return found
