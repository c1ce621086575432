"""A member of the day's group: reads endless numbers and acknowledges each, until SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType
from typing import Final

from zkgroup import Consumer, GroupSettings, RecordSource, TopicPartition
from zkgroup.history import HistoryFile
from zkgroup.sources.port import Bounds, SourceRecord

GROUP: Final = "day"
TOPICS: Final = ("orders", "payments")
THREADS: Final = {"orders": 2, "payments": 1}
"""So that partitions also move between threads of one member."""
SESSION_MS: Final = 4_000
TICK_MS: Final = 500
COMMIT_EVERY_MS: Final = 200
RECORD_EVERY_S: Final = 0.05
_END: Final = 1 << 40


class Numbers(RecordSource):
    """A source whose partitions each hold all numbers, each at its own offset."""

    def bounds(self, topic_partition: TopicPartition) -> Bounds:
        return Bounds(0, _END)

    def read(self, topic_partition: TopicPartition, offset: int, max_records: int) -> Sequence[SourceRecord]:
        topic, partition = topic_partition
        return [SourceRecord(topic, partition, offset + n, b"%d" % (offset + n)) for n in range(5)]


def main(address: str, name: str, history: str) -> None:
    """Reads and acknowledges until SIGTERM; ends when its standard input is closed."""
    threading.Thread(target=_die_with_the_parent, daemon=True).start()
    settings = GroupSettings(
        consumer_id=name,
        session_timeout_ms=SESSION_MS,
        server_tick_ms=TICK_MS,
        connection_timeout_ms=60_000,
        auto_commit_interval_ms=COMMIT_EVERY_MS,
    )
    sink = HistoryFile(history)
    consumer = Consumer(
        address, group=GROUP, topics=THREADS, source=Numbers(), settings=settings, history=sink
    )

    def stop(number: int, frame: FrameType | None) -> None:
        consumer.stop()

    signal.signal(signal.SIGTERM, stop)
    with consumer:
        for record in consumer:
            time.sleep(RECORD_EVERY_S)
            consumer.ack(record)


def _die_with_the_parent() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
