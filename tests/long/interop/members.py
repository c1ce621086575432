"""Members of either kind, many in one process that prints their events, and the deliveries of a group.

Both kinds print one JSON object a line, with `member`: `starting`, `ready`, `message` (topic, partition,
offset), `failed`, `stopped`; JVM members also `rebalance` and `log`, zkgroup members `assigned`, `revoked`,
`lost` and `state`.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from tests.long.interop.jars import compiled, kafka, kafka_jars
from tests.long.interop.processes import Events, Process, Reader
from tests.long.interop.servers import VERSION
from tests.waiting import eventually

Kind = Literal["jvm", "python"]
HERE = Path(__file__).parent
COMMIT_MS = 500
SESSION_MS = 60_000
"""So long that no session ends by itself, even on a slow machine."""


def _command(kind: Kind) -> list[str]:
    if kind == "python":
        return [sys.executable, "-m", "tests.long.interop.python_members"]
    classes = compiled(HERE / "Members.java", f"{kafka_jars(VERSION)}/*")
    return kafka(VERSION, "Members", classes=classes)


class Host:
    """A process with members of one kind, which start and leave by lines of its input."""

    def __init__(self, kind: Kind, log: Path) -> None:
        self.kind = kind
        self.process = Process(_command(kind), log, pipe=True, commands=True)
        self._members: dict[str, Events] = {}
        """Empty where the kinds of events cannot be distinguished."""
        self._adding = threading.Lock()
        self._reader = Reader(self.process, lambda line: self._events_of(line["member"]).add(line))

    def _events_of(self, member: str) -> Events:
        with self._adding:
            return self._members.setdefault(member, Events())

    @property
    def pids(self) -> list[int]:
        return [self.process.pid]

    def start(
        self, zookeeper: str, group: str, name: str, topic: str, threads: int, more: Iterable[str]
    ) -> Events:
        """Starts a member; its events."""
        events = self._events_of(f"{group}_{name}")
        self.process.tell("start", zookeeper, group, name, topic, str(threads), *more)
        return events

    def stop(self, member: str) -> None:
        """Sends the command to leave."""
        self.process.tell("stop", member)

    def kill(self) -> None:
        """Kills the process with all its members."""
        self.process.kill()
        self.end()

    def end(self) -> None:
        """Ends the process, whatever its members do."""
        if self.process.running:
            self.process.kill()
        self.process.end()
        self._reader.join()


class Member:
    """One member of a group."""

    def __init__(
        self, host: Host, zookeeper: str, group: str, name: str, topic: str, threads: int = 1
    ) -> None:
        self.kind, self.name, self.id = host.kind, name, f"{group}_{name}"
        self.host = host
        self._left = False
        if self.kind == "jvm":
            more = (f"auto.commit.interval.ms={COMMIT_MS}", f"zookeeper.session.timeout.ms={SESSION_MS}")
        else:
            more = (str(COMMIT_MS), str(SESSION_MS))
        self.events = host.start(zookeeper, group, name, topic, threads, more)

    def wait_ready(self) -> None:
        """Waits until the first rebalance is over."""

        def ready() -> bool:
            assert self.host.process.running, f"{self.id} ended: {self.host.process.tail()}"
            return bool(self.events.all("ready", "failed"))

        eventually(ready, what=f"{self.id} is ready")
        self.assert_well()

    def leave(self) -> None:
        """Leaves the group cleanly."""
        self.end()
        self.events.wait("stopped")
        self.assert_well()

    def kill(self) -> None:
        """Kills the member with its process, in which it is alone."""
        self._left = True
        self.host.kill()

    def end(self) -> None:
        """Sends the command to leave; a JVM member's leave can take a rebalance."""
        if not self._left:
            self._left = True
            self.host.stop(self.id)

    def assert_well(self) -> None:
        """Checks that the member never failed, and that a JVM member never ran out of attempts."""
        assert not self.events.all("failed"), self.events.all("failed")
        gave_up = [
            line
            for line in self.events.all("log")
            if "ConsumerRebalanceFailedException" in f"{line.get('text')}{line.get('error')}"
        ]
        assert not gave_up, gave_up

    def deliveries(self) -> list[tuple[int, int, int]]:
        """(partition, offset, at ms) of every record delivered, in order."""
        return [(m["partition"], m["offset"], m["at"]) for m in self.events.all("message")]


class Ledger:
    """The deliveries of a whole group, including members that have left."""

    def __init__(self) -> None:
        self.members: list[Member] = []

    def counts(self) -> Counter[tuple[int, int]]:
        """(partition, offset) -> how often it was delivered, by any member."""
        return Counter((p, offset) for m in self.members for p, offset, _ in m.deliveries())

    def delivered(self) -> dict[int, int]:
        """Partition -> the offset after the highest one delivered."""
        after: dict[int, int] = {}
        for partition, offset in self.counts():
            after[partition] = max(offset + 1, after.get(partition, 0))
        return after

    def missing(self, ends: Mapping[int, int]) -> list[tuple[int, int]]:
        """The records that were written and are not delivered yet."""
        seen = self.counts()
        return [(p, o) for p, end in sorted(ends.items()) for o in range(end) if (p, o) not in seen]

    def duplicates(self) -> dict[int, dict[int, int]]:
        """Partition -> offset -> surplus deliveries."""
        surplus: dict[int, dict[int, int]] = defaultdict(dict)
        for (partition, offset), count in sorted(self.counts().items()):
            if count > 1:
                surplus[partition][offset] = count - 1
        return dict(surplus)

    def wait_all(self, ends: Mapping[int, int]) -> None:
        """Waits until every record is delivered."""
        eventually(lambda: self.missing(ends), lambda missing: not missing, what="none is missing")

    def assert_well(self) -> None:
        """Checks that no member failed, and that no JVM member gave up."""
        for member in self.members:
            member.assert_well()
