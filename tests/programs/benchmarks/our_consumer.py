"""One zkgroup consumer on a source that always has records, which reports how long its partitions paused.

    python -m tests.programs.benchmarks.our_consumer zookeeper=... group=... topics=t0 session_ms=6000

Commands as in `members`, for the one member of this process, and

    window   forget the pauses so far
    pauses   `pauses`: for each partition owned now the longest pause in ms, pauses at its ends included, and
             how much of that pause one thread of this process was ready to run and had no core
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.programs.benchmarks.core_waits import CoreWaits, longest_wait_ns
from tests.programs.benchmarks.member_program import run, say
from zkgroup import Consumer, GroupSettings, RecordSource, TopicPartition
from zkgroup.errors import MemberClosedError
from zkgroup.sources.port import Bounds, SourceRecord

TICK_MS = 5
"""Every partition has a new record this often."""
AT_ONCE = 20
"""Records of a partition in one read: what a dead member left behind must not fill every batch."""


class TickingSource(RecordSource):
    """A source whose every partition gets one record every TICK_MS, without end."""

    poll_interval_s = TICK_MS / 1000

    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        return Bounds(0, time.monotonic_ns() // (TICK_MS * 1_000_000))

    def read(self, topic_partition: TopicPartition, offset: int, max_records: int) -> Sequence[SourceRecord]:
        end = min(self.bounds(topic_partition).end, offset + min(max_records, AT_ONCE))
        topic, partition = topic_partition.topic, topic_partition.partition
        return [SourceRecord(topic, partition, number, b"tick") for number in range(offset, end)]


class Pause(NamedTuple):
    """How long a partition had no record delivered."""

    ns: int
    waited_ns: int
    """Of it a thread of this process waited for a core."""


class Pauses:
    """The longest pause of each partition since the window began. For any thread."""

    def __init__(self, waits: CoreWaits) -> None:
        self._lock = threading.Lock()
        self._waits = waits
        self._began_ns = time.monotonic_ns()
        self._last: dict[TopicPartition, tuple[int, Mapping[str, int]]] = {}
        self._longest: dict[TopicPartition, Pause] = {}

    def delivered(self, partitions: Sequence[TopicPartition]) -> None:
        with self._lock:
            here = time.monotonic_ns(), self._waits.read()
            for partition in partitions:
                if partition in self._last:
                    self._longest[partition] = self._longer(partition, here)
                self._last[partition] = here

    def begin(self) -> None:
        with self._lock:
            self._began_ns = time.monotonic_ns()
            self._longest.clear()

    def longest(self, owned: Sequence[TopicPartition]) -> dict[str, tuple[float, float]]:
        """Partition to milliseconds of its longest pause, and of its wait for a core."""
        with self._lock:
            here = time.monotonic_ns(), self._waits.read()
            longest = {partition: self._longer(partition, here) for partition in owned}
        return {
            str(partition): (round(pause.ns / 1e6, 2), round(pause.waited_ns / 1e6, 2))
            for partition, pause in longest.items()
        }

    def _longer(self, partition: TopicPartition, here: tuple[int, Mapping[str, int]]) -> Pause:
        """The pause that ends here, or the longest so far."""
        now, waits = here
        since, waits_then = self._last.get(partition, (0, waits))
        ns = now - max(since, self._began_ns)
        pause = Pause(ns, min(ns, longest_wait_ns(waits_then, waits)))
        return max(pause, self._longest.get(partition, pause))


class Program:
    """The commands of a member program, for one member."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options
        self._pauses = Pauses(CoreWaits())
        self._consumer: Consumer | None = None

    def add(self, names: list[str]) -> None:
        settings = GroupSettings(
            consumer_id=names[0],
            session_timeout_ms=int(self._options["session_ms"]),
            server_tick_ms=500,
            auto_commit_interval_ms=1000,
            auto_offset_reset="latest",
        )
        self._consumer = Consumer(
            self._options["zookeeper"],
            group=self._options["group"],
            topics=self._options["topics"].split(","),
            source=TickingSource(),
            settings=settings,
        )
        self._consumer.start()
        self._consumer.wait_until_assigned(60)
        threading.Thread(target=self._deliver, args=(self._consumer,), name="deliver", daemon=True).start()

    def _deliver(self, consumer: Consumer) -> None:
        with contextlib.suppress(MemberClosedError):
            while True:
                self._pauses.delivered(list(consumer.poll(timeout_s=0.02)))

    def close(self, _: list[str]) -> None:
        assert self._consumer is not None
        self._consumer.close(30)
        self._consumer = None

    def reset(self, _: list[str]) -> None:
        """Does nothing: this program has no counters."""

    def status(self, _: list[str]) -> None:
        """Does nothing: this program has no counters."""

    def window(self, _: list[str]) -> None:
        self._pauses.begin()

    def pauses(self, _: list[str]) -> None:
        leases = self._consumer.leases() if self._consumer is not None else ()
        owned = [lease.topic_partition for lease in leases]
        say("pauses", longest_ms=self._pauses.longest(owned))


if __name__ == "__main__":
    run(Program, silent=("reset", "window"))
