"""A member of a group that reads the records from their brokers: `python -m tests.programs.chaos.reader`."""

from __future__ import annotations

import signal
import sys
from types import FrameType

from zkgroup import Consumer, GroupSettings
from zkgroup.history import HistoryFile
from zkgroup.sources import BrokerSource

GROUP = "readers"
GRACE_MS = 10_000
"""Longer than a session and the start of a process."""


def main(address: str, name: str, topic: str, history: str, session_ms: int, tick_ms: int) -> None:
    """Reads and acknowledges until SIGTERM."""
    settings = GroupSettings(
        consumer_id=name,
        restart_grace_ms=GRACE_MS,
        session_timeout_ms=session_ms,
        server_tick_ms=tick_ms,
        connection_timeout_ms=60_000,
        auto_commit_interval_ms=300,
    )
    sink = HistoryFile(history)
    consumer = Consumer(
        address, group=GROUP, topics=[topic], source=BrokerSource(), settings=settings, history=sink
    )

    def stop(number: int, frame: FrameType | None) -> None:
        consumer.stop()

    signal.signal(signal.SIGTERM, stop)
    with consumer:
        for record in consumer:
            consumer.ack(record)


if __name__ == "__main__":
    address, name, topic, history, session_ms, tick_ms = sys.argv[1:]
    main(address, name, topic, history, int(session_ms), int(tick_ms))
