"""Members of zkgroup as a member program (see `members`): each with a session of its own.

python -m tests.programs.benchmarks.our_members zookeeper=... group=... topics=t0,t1 session_ms=20000
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping

from tests.programs.benchmarks.member_program import run, say, together
from zkgroup.consumer.sync import GroupMember
from zkgroup.errors import ZkGroupError
from zkgroup.settings import GroupSettings

START_TIMEOUT_S = 120.0


class Counting:
    """A HistorySink that only counts a member's operations."""

    NAMES = {  # noqa: RUF012 - a constant
        "rebalance.begin": "rebalances",
        "claim.invoke": "claims",
        "claim.fail": "claims_refused",
        "release.invoke": "releases",
        "lease.expired": "leases_expired",
        "lease.renew": "renewals",
    }

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def record(self, kind: str, fields: Mapping[str, object]) -> None:
        if kind in self.NAMES:
            self.counts[self.NAMES[kind]] += 1


class Program:
    """The commands of a member program."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._zookeeper, self._group = options["zookeeper"], options["group"]
        self._topics = options["topics"].split(",")
        self._session_ms = int(options["session_ms"])
        self._history = options.get("history") != "false"
        self._members: dict[str, GroupMember] = {}
        self._counters: dict[str, Counting] = {}

    def add(self, names: list[str]) -> None:
        for name in names:
            self._counters[name] = Counting()
            settings = GroupSettings(
                consumer_id=name,
                session_timeout_ms=self._session_ms,
                server_tick_ms=500,
                auto_commit_enable=False,
                group_history=self._history,
            )
            self._members[name] = GroupMember(
                self._zookeeper,
                group=self._group,
                topics=self._topics,
                settings=settings,
                history=self._counters[name],
            )
        together([lambda name=name: self._start(name) for name in names])  # type: ignore[misc]

    def _start(self, name: str) -> None:
        began, error = time.monotonic(), ""
        try:
            self._members[name].start()
            self._members[name].wait_until_assigned(START_TIMEOUT_S)
        except ZkGroupError as failure:
            error = repr(failure)
        say("started", member=f"{self._group}_{name}", ms=_since(began), error=error)

    def close(self, names: list[str]) -> None:
        def leave(name: str) -> None:
            began = time.monotonic()
            self._members.pop(name).close(30)
            say("closed", member=f"{self._group}_{name}", ms=_since(began))

        together([lambda name=name: leave(name) for name in names])  # type: ignore[misc]

    def commit(self, words: list[str]) -> None:
        name, base = words[0], int(words[1])
        member = self._members[name]
        offsets = {lease.topic_partition: base + lease.partition for lease in member.leases()}
        began = time.perf_counter()
        result = member.commit(offsets)
        us = round((time.perf_counter() - began) * 1e6)
        say("committed", member=f"{self._group}_{name}", partitions=len(result.committed), us=us)

    def status(self, _: list[str]) -> None:
        for name, member in self._members.items():
            counts = dict(self._counters[name].counts)
            say("member", member=f"{self._group}_{name}", owned=len(member.leases()), **counts)

    def reset(self, _: list[str]) -> None:
        for counting in self._counters.values():
            counting.counts.clear()


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


if __name__ == "__main__":
    run(Program, silent=("reset", "commit"))
