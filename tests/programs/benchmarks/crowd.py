"""Hundreds of members in one process: does the group converge, or does its work make expiries?

    python -m tests.programs.benchmarks.crowd                          300 members, a session each
    python -m tests.programs.benchmarks.crowd --members 1000 --shared 50 --partitions 2000
    python -m tests.programs.benchmarks.crowd --members 50 --shared 50 --processes 20 --partitions 2000

One line every few seconds, and a last one: packets, claims, releases and expiries so far, the states of the
members, and how many partitions none of them owns. Exit code 3 when the group has not converged in time.
Counts and not seconds are comparable: the process has one core for all its threads, and shares it.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from zkgroup.consumer.machine.events import MemberState
from zkgroup.consumer.sync import GroupMember
from zkgroup.errors import ZkGroupError
from zkgroup.settings import GroupSettings
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.embedded import EmbeddedZooKeeper

GROUP, TOPIC = "crowd", "t0"
COUNTED = {
    "claim.invoke": "claims",
    "claim.fail": "claims refused",
    "release.invoke": "releases",
    "registered": "registrations",
    "lease.expired": "leases ended",
    "rebalance.begin": "rebalances",
}
CONNECT_MS = 300_000
PASSED_ON = ("members", "shared", "partitions", "session-ms", "seconds", "every")
"""The options of one of several processes."""


class Counting:
    """A HistorySink that counts for all members; what a race loses does not matter."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def record(self, kind: str, fields: Mapping[str, object]) -> None:
        if kind in COUNTED:
            self.counts[COUNTED[kind]] += 1


class Crowd:
    """The members, their clients and what they count."""

    def __init__(self, address: str, options: argparse.Namespace) -> None:
        self.partitions: int = options.partitions
        self.counting = Counting()
        self.clients: list[ZooKeeperClient] = []
        settings = GroupSettings(
            session_timeout_ms=options.session_ms,
            connection_timeout_ms=CONNECT_MS,
            server_tick_ms=500,
            auto_commit_enable=False,
        )
        self.members = [
            GroupMember(
                address if not options.shared else None,
                client=self._client(address, number, options) if options.shared else None,
                group=GROUP,
                topics=[TOPIC],
                settings=settings,
                history=self.counting,
            )
            for number in range(options.members)
        ]

    def _client(self, address: str, number: int, options: argparse.Namespace) -> ZooKeeperClient:
        if number % options.shared == 0:
            settings = ClientSettings(session_timeout_ms=options.session_ms)
            self.clients.append(ZooKeeperClient(address, settings))
        return self.clients[-1]

    def start(self) -> None:
        for member in self.members:
            try:
                member.start()
            except ZkGroupError as error:
                print(f"not started: {error}", file=sys.stderr, flush=True)

    def line(self, began: float) -> dict[str, object]:
        """What has happened so far, and what is so now."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        states = Counter(member.state.value for member in self.members)
        owned = sum(len(self._owned(member)) for member in self.members)
        clients = self.clients or [
            member._engine_made.store for member in self.members if member._engine_made
        ]  # type: ignore[misc]
        return {
            "s": round(time.monotonic() - began, 1),
            "cpu_s": round(used.ru_utime + used.ru_stime, 1),
            "packets": sum(client.packets for client in clients),
            **self.counting.counts,
            "incarnations": sum(client._incarnation for client in clients),
            "states": dict(states),
            "unowned": self.partitions - owned,
        }

    def _owned(self, member: GroupMember) -> Mapping[object, object]:
        engine = member._engine_made
        return engine.lease_table.current.grants if engine is not None else {}

    def has_converged(self) -> bool:
        return (
            all(member.state is MemberState.STABLE for member in self.members)
            and sum(len(self._owned(member)) for member in self.members) == self.partitions
        )

    def close(self) -> None:
        for client in self.clients or [m._engine_made.store for m in self.members if m._engine_made]:  # type: ignore[misc]
            client.close(0)


class Crowds:
    """Processes with a crowd each; what they have printed last, added up."""

    def __init__(self, address: str, options: argparse.Namespace) -> None:
        self.partitions: int = options.partitions
        self._latest: dict[int, dict[str, Any]] = {}
        self._all_began: float | None = None
        """When the last process had its members."""
        own = [f"--{name}={getattr(options, name.replace('-', '_'))}" for name in PASSED_ON]
        command = [sys.executable, "-m", __spec__.name, f"--address={address}", *own]
        self._children = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(options.processes)
        ]

    def start(self) -> None:
        for number, child in enumerate(self._children):
            threading.Thread(target=self._read, args=(number, child), daemon=True).start()

    def _read(self, number: int, child: subprocess.Popen[str]) -> None:
        assert child.stdout is not None
        for line in child.stdout:
            self._latest[number] = json.loads(line)
            if len(self._latest) == len(self._children):
                self._all_began = self._all_began or time.monotonic()

    def line(self, began: float) -> dict[str, object]:
        found: Counter[str] = Counter()
        states: Counter[str] = Counter()
        for latest in list(self._latest.values()):
            states.update(latest["states"])
            found.update({name: value for name, value in latest.items() if isinstance(value, int)})
        unowned = self.partitions * (1 - len(self._latest)) + found.pop("unowned", 0)
        now = time.monotonic()
        return {
            "s": round(now - began, 1),
            "s_with_all": self._all_began and round(now - self._all_began, 1),
            **found,
            "states": dict(states),
            "unowned": unowned,
        }

    def has_converged(self) -> bool:
        line = self.line(0.0)
        return line["unowned"] == 0 and set(line["states"]) == {"stable"}  # type: ignore[call-overload]

    def close(self) -> None:
        for child in self._children:
            child.kill()
            child.wait()


def watched(crowd: Crowd | Crowds, options: argparse.Namespace) -> bool:
    """Prints what happens until the group has converged, or the time is over; whether it has."""
    began = time.monotonic()
    threading.Thread(target=crowd.start, daemon=True).start()
    next_line, stable_since = 0.0, None
    while (passed := time.monotonic() - began) < options.seconds:
        if passed >= next_line:
            print(json.dumps(crowd.line(began)), flush=True)
            next_line += options.every
        stable_since = (stable_since or passed) if crowd.has_converged() else None
        if stable_since is not None and passed - stable_since >= options.calm:
            break
        time.sleep(0.25)
    verdict = {**crowd.line(began), "converged_s": stable_since and round(stable_since, 1)}
    print(json.dumps(verdict), flush=True)
    return stable_since is not None


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--members", type=int, default=300)
    parser.add_argument("--shared", type=int, default=0, metavar="N", help="members of one client")
    parser.add_argument("--partitions", type=int, default=600)
    parser.add_argument("--session-ms", type=int, default=6000)
    parser.add_argument("--seconds", type=float, default=120.0, help="most time to converge in")
    parser.add_argument("--calm", type=float, default=3.0, help="seconds for which it must stay converged")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two lines")
    parser.add_argument("--processes", type=int, default=0, help="so many processes, each with all members")
    parser.add_argument("--address", default=None, help="of a server that runs; for --processes")
    parser.add_argument("--port", type=int, default=None, help="client port of the server")
    options = parser.parse_args()
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    logging.getLogger("zkgroup").setLevel(logging.ERROR)
    if options.address is not None:
        return 0 if watched(Crowd(options.address, options), options) else 3
    from tests.programs.benchmarks.scenarios import lay_out  # here: a process of members needs none of it

    config = {"maxClientCnxns": "0", "maxSessionTimeout": "60000"}
    with EmbeddedZooKeeper(1, options.port, config=config, fsync=False) as server:
        (topic,) = lay_out(server.address, 1, options.partitions)
        assert topic == TOPIC
        crowd = (Crowds if options.processes else Crowd)(server.address, options)
        try:
            return 0 if watched(crowd, options) else 3
        finally:
            crowd.close()


if __name__ == "__main__":
    sys.exit(main())
