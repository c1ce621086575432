"""Members of either kind as child processes that print what they do, and what a group of them delivered.

Both kinds print one JSON object a line: `starting`, `ready`, `message` (topic, partition, offset),
`rebalance`, `failed`, `stopped`; a Python member also `assigned`, `revoked`, `lost` and `commit`.
"""

from __future__ import annotations

import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from tests.long.interop.jars import compiled, kafka, kafka_jars
from tests.long.interop.processes import Events, Process, wait_until
from tests.long.interop.servers import VERSION

Kind = Literal["jvm", "python"]
HERE = Path(__file__).parent
COMMIT_MS = 500


def jvm_command(
    zookeeper: str, group: str, name: str, topic: str, threads: int, properties: Iterable[str]
) -> list[str]:
    classes = compiled(HERE / "GroupMember.java", f"{kafka_jars(VERSION)}/*")
    settings = ["auto.commit.enable=true", f"auto.commit.interval.ms={COMMIT_MS}", *properties]
    options = [word for setting in settings for word in ("--set", setting)]
    return kafka(
        VERSION, "GroupMember", zookeeper, group, name, f"{topic}:{threads}", *options, classes=classes
    )


def python_command(zookeeper: str, group: str, name: str, topic: str, threads: int) -> list[str]:
    return [
        sys.executable, "-m", "tests.long.interop.python_member",
        zookeeper, group, name, f"{topic}:{threads}",
        "--commit-ms", str(COMMIT_MS),
    ]  # fmt: skip


class Member:
    """One member of a group in a process of its own."""

    def __init__(
        self,
        kind: Kind,
        zookeeper: str,
        group: str,
        name: str,
        topic: str,
        folder: Path,
        *,
        threads: int = 1,
        properties: Iterable[str] = (),
    ) -> None:
        self.kind, self.name, self.id = kind, name, f"{group}_{name}"
        command = (
            jvm_command(zookeeper, group, name, topic, threads, properties)
            if kind == "jvm"
            else python_command(zookeeper, group, name, topic, threads)
        )
        self.process = Process(command, folder / f"{group}-{name}.log", pipe=True)
        self.events = Events(self.process)

    def wait_ready(self, timeout_s: float = 120.0) -> None:
        """Until the first rebalance is over."""

        def ready() -> bool:
            assert self.process.running, f"{self.id} ended: {self.process.tail()}"
            return bool(self.events.all("ready", "failed"))

        wait_until(ready, timeout_s, f"{self.id} is ready")
        self.assert_well()

    def leave(self, timeout_s: float = 90.0) -> None:
        """A clean leave by SIGTERM."""
        self.process.signal(signal.SIGTERM)
        assert self.process.wait(timeout_s) == 0, self.process.tail()
        self.events.join()
        self.assert_well()

    def kill(self) -> None:
        self.process.kill()
        self.events.join()

    def end(self) -> None:
        """However it is; a JVM member's own way out can take a rebalance."""
        if self.process.running:
            self.process.kill()
        self.process.end()
        self.events.join()

    def assert_well(self) -> None:
        """It never failed, and a JVM member never ran out of attempts."""
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
    """What a whole group delivered, members that have gone included."""

    def __init__(self) -> None:
        self.members: list[Member] = []

    def counts(self) -> Counter[tuple[int, int]]:
        """(partition, offset) -> how often it was delivered, by whomever."""
        return Counter((p, offset) for m in self.members for p, offset, _ in m.deliveries())

    def delivered(self) -> dict[int, int]:
        """Partition -> the offset after the highest one delivered."""
        after: dict[int, int] = {}
        for partition, offset in self.counts():
            after[partition] = max(offset + 1, after.get(partition, 0))
        return after

    def missing(self, ends: Mapping[int, int]) -> list[tuple[int, int]]:
        """What was written and not delivered yet."""
        seen = self.counts()
        return [(p, o) for p, end in sorted(ends.items()) for o in range(end) if (p, o) not in seen]

    def duplicates(self) -> dict[int, dict[int, int]]:
        """Partition -> offset -> surplus deliveries."""
        surplus: dict[int, dict[int, int]] = defaultdict(dict)
        for (partition, offset), count in sorted(self.counts().items()):
            if count > 1:
                surplus[partition][offset] = count - 1
        return dict(surplus)

    def wait_all(self, ends: Mapping[int, int], timeout_s: float = 90.0) -> None:
        def nothing_missing() -> bool:
            return not self.missing(ends)

        try:
            wait_until(nothing_missing, timeout_s, "every record is delivered")
        except AssertionError as late:
            raise AssertionError(f"{late}; missing {self.missing(ends)[:20]}") from late

    def assert_well(self) -> None:
        """No member failed, and no JVM member gave up."""
        for member in self.members:
            member.assert_well()
