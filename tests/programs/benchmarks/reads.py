"""Reads of one client: kazoo's, the Java client's bulk reads, and zkgroup's."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from tests.long.interop.jars import compiled
from tests.programs.benchmarks.server import BenchServer, Cost
from tests.worlds.other_clients import kazoo_on
from zkgroup.model.requests import Outcome, Read, ReadDone
from zkgroup.zookeeper import ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.embedded.java import find_jars, find_java

PREFIX = "/bulk/n"
DATA = b"x" * 60
"""About the size of an owner znode or an offset with its Stat; registrations are some 100 bytes."""
JAVA_BATCH = 1000
Act = Callable[[], None]


def lay_out(address: str, count: int) -> list[str]:
    """Writes the znodes to read; their paths."""
    with kazoo_on(address) as client:
        paths = [f"{PREFIX}{number}" for number in range(count)]
        client.create("/bulk")
        for first in range(0, count, 500):
            transaction = client.transaction()
            for path in paths[first : first + 500]:
                transaction.create(path, DATA)
            transaction.commit()
    return paths


@contextlib.contextmanager
def kazoo_reads(address: str, paths: list[str]) -> Iterator[Act]:
    """Reads with kazoo: all reads are sent without waiting, then all answers are awaited."""
    with kazoo_on(address) as client:

        def act() -> None:
            answers = [client.get_async(path) for path in paths]
            for answer in answers:
                data, _ = answer.get(timeout=120)
                assert data == DATA

        yield act


@contextlib.contextmanager
def our_single_reads(address: str, paths: list[str]) -> Iterator[Act]:
    """Reads with zkgroup: one Read a znode, all submitted, then all outcomes awaited."""
    with ZooKeeperClient(address) as client:
        session = client.wait_connected(30)

        def act() -> None:
            done = threading.Event()
            outcomes: list[Outcome] = []

            def on_outcome(outcome: Outcome) -> None:
                outcomes.append(outcome)
                if len(outcomes) == len(paths):
                    done.set()

            for path in paths:
                client.submit(Read(path), incarnation=session.incarnation, on_outcome=on_outcome)
            assert done.wait(120)
            assert all(isinstance(o, ReadDone) and o.znode and o.znode.data == DATA for o in outcomes)

        yield act


@contextlib.contextmanager
def our_bulk_reads(address: str, paths: list[str]) -> Iterator[Act]:
    """Reads with zkgroup: `read_many` of all znodes."""
    with ZooKeeperClient(address) as client:
        blocking = Blocking(client)
        blocking.wait_connected()

        def act() -> None:
            found = blocking.read_many(paths)
            assert all(znode is not None and znode.data == DATA for znode in found.values())
            assert len(found) == len(paths)

        yield act
        blocking.close()


@contextlib.contextmanager
def bulk_read_of(address: str, paths: list[str]) -> Iterator[Act]:
    """Reads with zkgroup: `read_many` of znodes that all exist, with any data."""
    with ZooKeeperClient(address) as client:
        blocking = Blocking(client)
        blocking.wait_connected()

        def act() -> None:
            found = blocking.read_many(paths)
            assert None not in found.values()
            assert len(found) == len(paths)

        yield act
        blocking.close()


def measure(
    server: BenchServer, sides: Mapping[str, AbstractContextManager[Act]], repeats: int
) -> dict[str, list[Cost]]:
    """Runs the sides in turn, `repeats` times after one warm-up each."""
    costs: dict[str, list[Cost]] = {name: [] for name in sides}
    with contextlib.ExitStack() as stack:
        acts = {name: stack.enter_context(side) for name, side in sides.items()}
        for act in acts.values():
            act()
        for _ in range(repeats):
            for name, act in acts.items():
                meter = server.meter([os.getpid()])
                act()
                costs[name].append(meter.stop())
    return costs


def java_bulk_reads(server: BenchServer, count: int, repeats: int, mode: str) -> list[Cost]:
    """The Java client's multi of getData, "plain" or "pipelined", once its JVM is warm."""
    server_jars = find_jars()
    netty = sorted(server_jars[0].parent.glob("netty-*.jar"))  # on the client's class path, not the server's
    jars = os.pathsep.join(str(jar) for jar in (*server_jars, *netty))
    classes = compiled(Path(__file__).parent / "BulkReads.java", jars)
    warm_up = 6
    command = [
        find_java(), "-Xmx512m", "-Dlog4j2.simplelogLevel=ERROR", "-cp", f"{classes}{os.pathsep}{jars}",
        "BulkReads", server.address, PREFIX, str(count), str(JAVA_BATCH), str(repeats + warm_up), mode,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    seconds = json.loads(done.stdout)["seconds"][warm_up:]
    return [Cost(value, -(-count // JAVA_BATCH), None, None) for value in seconds]
