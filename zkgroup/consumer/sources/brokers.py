"""`BrokerSource`: records from zkgroup brokers, as lines fetched from the leaders.

Lines are fetched below the high watermark of each partition, as these survive the loss of any one in-sync
replica. Fetches wait at the leaders until a line comes (long poll). Lines are never removed, so a partition
begins at offset 0.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence

from zkgroup.consumer.sources.port import Bounds, Cluster, RecordSource, SourceRecord
from zkgroup.errors import ConfigError, SourceUnavailableError
from zkgroup.lines.reader import LineReader
from zkgroup.metrics import GuardedMetrics, NoMetrics
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Clock, MetricsSink
from zkgroup.settings import GroupSettings

log = logging.getLogger("zkgroup.consumer")

ANSWER_TIMEOUT_S = 10.0
"""Seconds to find the leader of a partition and its bounds."""


class BrokerSource(RecordSource):
    """`RecordSource` over zkgroup brokers, for one consumer at a time: it has that consumer's positions.

    A second consumer gets `ConfigError` when it starts, as long as the first is not closed. Brokers come from
    `/brokers/ids`. If a leader is gone, the source searches for the next without limit, with a warning. If
    lines that were read are gone, because a replica outside the ISR was elected, the reset policy decides,
    with a warning. The end of a partition is its high watermark. With `metrics`, `zkgroup_lines_fetch_total`
    counts responses.
    """

    requires_brokers = True

    def __init__(self, *, metrics: MetricsSink | None = None, clock: Clock | None = None) -> None:
        """`clock`: measures waits for brokers; for tests whose brokers have it, by default the system's."""
        self._metrics = GuardedMetrics(metrics or NoMetrics())
        self._clock = clock
        self._lock = threading.Lock()
        self._group: str | None = None
        """The group of the consumer that uses the source now."""
        self._options: dict[str, object] = {}
        self._reader: LineReader | None = None

    def configure(self, settings: GroupSettings, group: str) -> None:
        with self._lock:
            if self._group is not None:
                raise ConfigError(
                    f"source: this BrokerSource is used by a consumer of group {self._group} already: "
                    "give each consumer one of its own"
                )
            self._group = group
        self._options = {
            "client_id": settings.client_id or group,
            "max_bytes": settings.fetch_message_max_bytes,
            "request_timeout_ms": settings.socket_timeout_ms,
        }

    def open(self, cluster: Cluster) -> None:
        options = {"count": self._note, "clock": self._clock, **self._options}
        self._reader = LineReader(cluster.brokers, **options)  # type: ignore[arg-type]

    def close(self) -> None:
        super().close()
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()
        with self._lock:
            self._group = None

    def wake(self) -> None:
        super().wake()
        reader = self._reader
        if reader is not None:
            reader.wake()

    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        """See `RecordSource`. Raises SourceUnavailableError if the leader does not respond in time."""
        reader = self._opened()
        ends = reader.ends([topic_partition], ANSWER_TIMEOUT_S)
        if topic_partition not in ends:
            raise SourceUnavailableError(f"the log end of {topic_partition} is unknown: {reader.trouble}")
        return Bounds(0, ends[topic_partition])

    def bounds_of(
        self, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> Mapping[TopicPartition, Bounds | SourceUnavailableError]:
        reader = self._opened()
        ends = reader.ends(partitions, timeout_s)
        return {
            tp: Bounds(0, ends[tp]) if tp in ends else SourceUnavailableError(reader.trouble)
            for tp in partitions
        }

    def log_ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._opened().ends(partitions, ANSWER_TIMEOUT_S, await_unknown=False)

    def read(self, topic_partition: TopicPartition, offset: int, max_records: int) -> Sequence[SourceRecord]:
        return self.poll({topic_partition: offset}, max_records, 1.0)

    def poll(
        self, positions: Mapping[TopicPartition, int], max_records: int, timeout_s: float
    ) -> Sequence[SourceRecord]:
        lines = self._opened().read(positions, max_records, timeout_s)
        return [SourceRecord(*line.topic_partition, line.offset, line.line) for line in lines]

    def _opened(self) -> LineReader:
        if self._reader is None:
            raise ConfigError("BrokerSource: expected a call after `open`, found no open consumer")
        return self._reader

    def _note(self, outcome: str) -> None:
        self._metrics.count("zkgroup_lines_fetch_total", {"outcome": outcome})
