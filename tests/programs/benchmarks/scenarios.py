"""The events of a group on a fresh server: start, join, leave, crash, rolling restart, idleness."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from tests.programs.benchmarks.members import Members
from tests.programs.benchmarks.observer import Observer, Window
from tests.programs.benchmarks.server import BenchServer
from tests.programs.benchmarks.sides import Side
from tests.worlds.other_clients import kazoo_on


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _znodes(topics: int, partitions: int) -> Iterator[tuple[str, bytes]]:
    """Path and data of every znode, parents before children; `partitions` of each topic."""
    yield from ((path, b"") for path in ("/consumers", "/brokers", "/brokers/ids", "/brokers/topics"))
    broker = {"jmx_port": -1, "timestamp": "1400000000000", "host": "127.0.0.1", "version": 1, "port": 9}
    yield "/brokers/ids/1", _json(broker)
    for topic in range(topics):
        assignment = {str(p): [1] for p in range(partitions)}
        yield f"/brokers/topics/t{topic}", _json({"version": 1, "partitions": assignment})


def lay_out(address: str, topics: int, partitions: int) -> list[str]:
    """Writes the smallest tree that members of 0.8.2.2 need on a fresh server; the names of the topics.

    The broker names a port on which no process listens: JVM members register, rebalance and claim, find no
    leader and fetch nothing. Members do not read state znodes.
    """
    with kazoo_on(address) as client:
        for path, data in _znodes(topics, partitions):
            client.create(path, data)
    return [f"t{topic}" for topic in range(topics)]


LAST = "z00000"
"""The member that joins and leaves: its id sorts last, so that few partitions move."""
Result = dict[str, Any]
STUCK_S = 60.0
"""A hundred JVM members compute for half a minute without a change before they claim."""


class Bench:
    """One server, one tree, and the members of one side."""

    GROUP = "bench"

    def __init__(self, side: Side, *, members: int, partitions: int, separate: bool = False) -> None:
        self._side, self._count, self._partitions, self._separate = side, members, partitions, separate
        self._log = Path(tempfile.mkstemp(prefix=f"zkgroup-bench-{side.name}-", suffix=".log")[1])

    def __enter__(self) -> Self:
        self.server = BenchServer()
        self.server.__enter__()
        try:
            self.topics = lay_out(self.server.address, 1, self._partitions)
            command = self._side.command(self.server.address, self.GROUP, self.topics)
            self.members = Members(command, self._log, separate=self._separate)
        except BaseException:
            self.server.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.members.stop()
        finally:
            self.server.__exit__()
            self._log.unlink(missing_ok=True)


class GroupBench(Bench):
    """The scenarios of a group, with an observer of it."""

    def __init__(self, side: Side, *, calm_s: float = 3.0, **sizes: Any) -> None:
        """`calm_s`: how long heartbeats are counted before an event and quiet is awaited after it."""
        super().__init__(side, **sizes)
        self._calm_s = calm_s

    def __enter__(self) -> Self:
        super().__enter__()
        self.observer = Observer(self.GROUP, self.server.transaction_logs)
        return self

    def start(self) -> Result:
        """Starts all members at once in an empty group."""
        names = [f"m{number:05d}" for number in range(self._count)]
        self.members.prepare(names)
        return self._measure(
            "start", lambda: self.members.add(names), lambda w: w.registrations >= len(names)
        )

    def join(self) -> Result:
        """Starts one more member, whose id sorts last."""
        self.members.prepare([LAST])
        return self._measure("join", lambda: self.members.add([LAST]), lambda w: w.registrations >= 1)

    def leave(self) -> Result:
        """Closes that member cleanly."""
        return self._measure("leave", lambda: self.members.close([LAST]), lambda w: w.departures >= 1)

    def crash(self) -> Result:
        """Kills the member a third down the list with SIGKILL; the time runs from the end of its session."""
        victim = self.members.names[len(self.members.names) // 3]
        return self._measure("crash", lambda: self.members.kill(victim), lambda w: w.departures >= 1)

    def refill(self) -> None:
        """Starts a new member in place of one that crashed; not measured."""
        newcomer = f"{max(self.members.names)}x"
        window = self.observer.window()
        self.members.prepare([newcomer])
        self.members.add([newcomer])
        self.observer.follow(window, settle_s=self._calm_s)

    def rolling(self, count: int = 3) -> Result:
        """Closes and restarts the first few members, one after another."""
        names = self.members.names[:count]

        def roll() -> None:
            for name in names:
                self.members.close([name])
                self.members.wait("done", 60, "close")
                self.members.add([name])
                self.members.wait("done", 120, "add")

        worker = threading.Thread(target=roll, name="rolling restart")
        result = self._measure(
            "rolling", worker.start, lambda w: not worker.is_alive() and w.registrations >= count
        )
        worker.join(10)
        return result

    def commit(self, base: int) -> Result:
        """The first member commits a new position of every partition that it owns."""
        name = self.members.names[0]
        meter = self.server.meter(self.members.pids)
        self.members.tell(name, "commit", name, str(base))
        answer = self.members.wait("committed", 120)[-1]
        cost = meter.stop()
        return {
            "scenario": "commit",
            "side": self._side.name,
            "partitions": answer["partitions"],
            "seconds": answer["us"] / 1e6,
            "packets": cost.packets,
            "members_cpu_s": cost.client_cpu_s,
            "server_cpu_s": cost.server_cpu_s,
        }

    def idle(self, seconds: float) -> Result:
        """Measures the load of members without any event."""
        self.observer.catch_up()
        writes = sum(self.observer.source.writes.values())
        meter = self.server.meter(self.members.pids)
        threading.Event().wait(seconds)
        cost = meter.stop()
        self.observer.catch_up()
        return {
            "scenario": "idle",
            "side": self._side.name,
            "seconds": round(cost.seconds, 2),
            "members": len(self.members.names),
            "session_ms": self._side.session_ms,
            "packets_per_s": round(cost.packets / cost.seconds, 2),
            "writes_per_s": round((sum(self.observer.source.writes.values()) - writes) / cost.seconds, 3),
            "server_cpu_ms_per_s": round(1000 * (cost.server_cpu_s or 0) / cost.seconds, 2),
            "members_cpu_ms_per_s": round(1000 * (cost.client_cpu_s or 0) / cost.seconds, 2),
            "members_mb": round(self.members.memory_mb(), 1),
        }

    def _idle_rate(self) -> float:
        """Packets a second without any event: heartbeats."""
        meter = self.server.meter()
        threading.Event().wait(self._calm_s)
        cost = meter.stop()
        return cost.packets / cost.seconds

    def _measure(self, scenario: str, act: Callable[[], None], complete: Callable[[Window], bool]) -> Result:
        idle = self._idle_rate()
        self.members.send("reset")
        window = self.observer.window()
        wall_ms, members_cpu = time.time() * 1000, self.members.cpu()
        meter = self.server.meter()
        act()
        self.observer.follow(window, settle_s=self._calm_s, stuck_s=STUCK_S, complete=complete)
        cost = meter.stop()
        report = window.report()
        began = window.trigger
        return report | {
            "scenario": scenario,
            "side": self._side.name,
            "N": self._count,
            "P": self._partitions,
            "separate": self._separate,
            "command_to_trigger_s": round((began - wall_ms) / 1000, 3) if began else None,
            "packets": cost.packets,
            "packets_net": round(cost.packets - idle * cost.seconds),
            "idle_packets_per_s": round(idle, 1),
            "server_cpu_s": round(cost.server_cpu_s or 0, 2),
            "members_cpu_s": round(self.members.cpu() - members_cpu, 2),
            "counters": self.members.counters(),
        }
