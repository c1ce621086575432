"""`MemorySource`: records in memory, for tests and experiments."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Mapping, Sequence

from zkgroup.errors import OffsetOutOfRangeError
from zkgroup.model import TopicPartition
from zkgroup.sources.port import Bounds, Headers, RecordSource, SourceRecord


class MemorySource(RecordSource):
    """`RecordSource` with partitions as lists. Several consumers may share one instance; thread-safe."""

    poll_interval_s = 3600.0  # `append` and `wake` end the wait

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logs: dict[TopicPartition, list[SourceRecord]] = {}
        self._earliest: dict[TopicPartition, int] = {}

    def append(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        *,
        key: bytes | None = None,
        offset: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> int:
        """Adds a record and returns its offset: the next one, or the given higher one for a gap."""
        with self._lock:
            log = self._logs.setdefault(TopicPartition(topic, partition), [])
            following = log[-1].offset + 1 if log else 0
            if offset is None:
                offset = following
            if offset < following:
                raise ValueError(f"offset {offset} after {following - 1}")
            log.append(SourceRecord(topic, partition, offset, value, key, timestamp_ms, headers))
        self.wake()
        return offset

    def drop_before(self, topic_partition: TopicPartition, offset: int) -> None:
        """Deletes the records before an offset, as retention does."""
        with self._lock:
            log = self._logs.setdefault(topic_partition, [])
            self._logs[topic_partition] = [record for record in log if record.offset >= offset]
            self._earliest[topic_partition] = offset

    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        with self._lock:
            log = self._logs.get(topic_partition, [])
            earliest = self._earliest.get(topic_partition, 0)
            return Bounds(earliest, max(earliest, log[-1].offset + 1 if log else 0))

    def offsets_at(self, partitions: Sequence[TopicPartition], time_ms: int) -> Mapping[TopicPartition, int]:
        """See `RecordSource`; records without a time are skipped."""
        ends = self.log_ends(partitions)
        with self._lock:
            return {
                tp: next(
                    (r.offset for r in self._logs.get(tp, []) if (r.timestamp_ms or -1) >= time_ms), ends[tp]
                )
                for tp in partitions
            }

    def read(self, topic_partition: TopicPartition, offset: int, max_records: int) -> Sequence[SourceRecord]:
        earliest, end = self.bounds(topic_partition)
        if not earliest <= offset <= end:
            raise OffsetOutOfRangeError(topic_partition, offset)
        with self._lock:
            log = self._logs.get(topic_partition, [])
            first = bisect_left(log, offset, key=lambda record: record.offset)
            return log[first : first + max_records]
