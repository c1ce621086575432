"""The records of a simulated cluster, and the source through which a consumer reads them without waiting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from zkgroup.consumer.sources.port import Bounds, RecordSource, SourceRecord
from zkgroup.errors import OffsetOutOfRangeError, SourceUnavailableError
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Sleeper
from zkgroup.testing.clock import FakeClock

T = TypeVar("T")

RECORDS_AT_FIRST = 3
TURN_MS = 4000
"""So late a fetcher that waits has its turn by the clock alone; whatever comes rings."""


class Log:
    """Partitions whose records are their own offsets. Shared by the sources of all members."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self._ends: dict[TopicPartition, int] = {}
        self._earliest: dict[TopicPartition, int] = {}
        self._unavailable_until: dict[TopicPartition, int] = {}
        self.sources: list[SteppedSource] = []

    def end(self, tp: TopicPartition) -> int:
        return self._ends.get(tp, RECORDS_AT_FIRST)

    def append(self, tp: TopicPartition, count: int = 1) -> None:
        """So many records more."""
        self._ends[tp] = self.end(tp) + count
        for source in self.sources:
            source.wake()

    def earliest(self, tp: TopicPartition) -> int:
        return self._earliest.get(tp, 0)

    def drop(self, tp: TopicPartition) -> None:
        """One more record comes, and all are deleted, as by retention."""
        self.append(tp)
        self._earliest[tp] = self.end(tp)

    def fail(self, tp: TopicPartition, until_ms: int) -> None:
        """Nothing of this partition can be had for a while."""
        self._unavailable_until[tp] = until_ms

    def mend(self) -> None:
        """All partitions can be had."""
        self._unavailable_until.clear()

    def check(self, tp: TopicPartition) -> None:
        """Raises `SourceUnavailableError`."""
        if self.clock.now_ms() < self._unavailable_until.get(tp, 0):
            raise SourceUnavailableError(f"{tp} has no leader")


class _NoSleep(Sleeper):
    """Notes how long a thread would sleep."""

    until_ms: int | None = None

    def sleep(
        self,
        until_ms: int | None,
        wait: Callable[[float], T],
        wake: Callable[[], None],
        has_news: Callable[[], object] | None = None,
    ) -> T:
        del wake
        if not (has_news or self._usual_news)():
            self.until_ms = until_ms + TURN_MS if until_ms is not None else None
        return wait(0)


class SteppedSource(RecordSource):
    """One consumer's; where the default `poll` would wait, it returns."""

    poll_interval_s = 1.0
    is_rung = False
    """A `poll` that waits would be woken now."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._sleeper = _NoSleep(log.clock, "source", lambda: False)
        log.sources.append(self)

    def wait_with(self, sleeper: Sleeper) -> None:
        del sleeper
        super().wait_with(self._sleeper)

    def slept_until(self) -> int | None:
        """Until when the last `poll` would have waited; None where it did not. Asked once."""
        until_ms, self._sleeper.until_ms = self._sleeper.until_ms, None
        return until_ms

    def wake(self) -> None:
        self.is_rung = True
        super().wake()

    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        self._log.check(topic_partition)
        return Bounds(self._log.earliest(topic_partition), self._log.end(topic_partition))

    def read(self, topic_partition: TopicPartition, offset: int, max_records: int) -> Sequence[SourceRecord]:
        self._log.check(topic_partition)
        end = self._log.end(topic_partition)
        if not self._log.earliest(topic_partition) <= offset <= end:
            raise OffsetOutOfRangeError(topic_partition, offset)
        topic, partition = topic_partition.topic, topic_partition.partition
        return [
            SourceRecord(topic, partition, at, b"") for at in range(offset, min(end, offset + max_records))
        ]

    def close(self) -> None:
        if self in self._log.sources:
            self._log.sources.remove(self)
        super().close()
