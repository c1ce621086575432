"""kazoo's SetPartitioner as a member program (see `members`): members that split a set by locks.

    python -m tests.programs.benchmarks.set_partitioner zookeeper=... group=... topics=t0 session_ms=20000

It keeps no owner znodes that an observer could read, so each member prints what it holds as it changes:
`holds` with the number of partitions.
"""

from __future__ import annotations

import json
import threading

from kazoo.client import KazooClient
from kazoo.recipe.partitioner import SetPartitioner

from tests.programs.benchmarks.member_program import run, say, together

TIME_BOUNDARY_S = 1.0
"""How long the set of members must stand still. kazoo's default is 30 s."""


class Splitter:
    """One member: a session of its own and a thread that follows the partitioner's states."""

    def __init__(self, name: str, zookeeper: str, group: str, partitions: list[str], session_ms: int) -> None:
        self.name, self.rebalances = name, 0
        self._path, self._partitions = f"/split/{group}", partitions
        self._stop = threading.Event()
        self._client = KazooClient(zookeeper, timeout=session_ms / 1000)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._client.start(60)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(60)
        self._client.stop()
        self._client.close()

    def _run(self) -> None:
        changed = threading.Event()
        partitioner = SetPartitioner(
            self._client,
            self._path,
            self._partitions,
            identifier=self.name,
            time_boundary=TIME_BOUNDARY_S,
            state_change_event=changed,
        )
        while not self._stop.is_set():
            changed.clear()
            if partitioner.release:
                say("holds", member=self.name, partitions=0)
                partitioner.release_set()
            elif partitioner.acquired:
                self.rebalances += 1
                say("holds", member=self.name, partitions=len(list(partitioner)))
                while not changed.wait(0.05) and not self._stop.is_set():
                    pass
            elif partitioner.allocating:
                partitioner.wait_for_acquire(0.05)
            else:
                say("failed", member=self.name)
                return
        partitioner.finish()


class Program:
    """The commands of a member program."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options, self._members = options, dict[str, Splitter]()

    def add(self, names: list[str]) -> None:
        client = KazooClient(self._options["zookeeper"])
        client.start(60)
        topic = self._options["topics"]
        count = len(json.loads(client.get(f"/brokers/topics/{topic}")[0])["partitions"])
        client.stop()
        client.close()
        partitions = [f"{topic}-{p}" for p in range(count)]
        session_ms = int(self._options["session_ms"])
        for name in names:
            self._members[name] = Splitter(
                name, self._options["zookeeper"], self._options["group"], partitions, session_ms
            )
        together([self._members[name].start for name in names])

    def close(self, names: list[str]) -> None:
        together([self._members.pop(name).close for name in names])

    def status(self, _: list[str]) -> None:
        for name, member in self._members.items():
            say("member", member=name, rebalances=member.rebalances)

    def reset(self, _: list[str]) -> None:
        for member in self._members.values():
            member.rebalances = 0


if __name__ == "__main__":
    run(Program, silent=("reset",))
