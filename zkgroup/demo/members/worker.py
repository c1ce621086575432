"""One member of the demo's group: a process that reads flights and writes one line for each.

    python -m zkgroup.demo.members.worker

The first line of its standard input holds its settings. It ends on SIGTERM, or when its standard input
closes, after a clean leave. Events go to standard output, one JSON object a line.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType
from typing import BinaryIO

from zkgroup import (
    BrokerSource,
    Consumer,
    FileSource,
    GroupSettings,
    Lease,
    RebalanceListener,
    Record,
    TopicPartition,
)
from zkgroup.consumer.machine.events import MemberState
from zkgroup.demo.flight_data import TOPIC, Processed, airport_and_delay, encode_line
from zkgroup.demo.members.process import MemberProcessSettings, decode_settings
from zkgroup.history import HistoryFile

PROGRESS_EVERY_S = 0.2
PAUSE_EVERY = 10
"""Records between two pauses: one sleep a record would be dominated by the sleep's own cost."""


class MemberEventPrinter(RebalanceListener):
    """Writes what happens to the member to standard output."""

    def on_state(self, before: MemberState, after: MemberState, reason: str) -> None:
        """The member's state changed."""
        print_event("state", before=before.value, after=after.value, reason=reason)

    def on_assigned(self, leases: Sequence[Lease]) -> None:
        """These partitions came."""
        print_event("assigned", partitions=[lease.partition for lease in leases])

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """These go to another member."""
        print_event("revoked", partitions=[one.partition for one in partitions])

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """These are gone without notice."""
        print_event("lost", partitions=[one.partition for one in partitions])


def print_event(event: str, **fields: object) -> None:
    """One event, in one write, so that lines of two threads never mix."""
    line = json.dumps({"event": event, **fields}) + "\n"
    os.write(sys.stdout.fileno(), line.encode())


def process(record: Record, output: BinaryIO) -> None:
    """The work: one line in the member's own file, in one write."""
    assert record.value is not None
    airport, delay = airport_and_delay(record.value)
    output.write(encode_line(Processed(record.partition, record.offset, airport, delay, record.token)))


def settings(orders: MemberProcessSettings) -> GroupSettings:
    """Short times, so that there is something to see within a minute."""
    return GroupSettings(
        consumer_id=orders.name,
        session_timeout_ms=orders.session_timeout_ms,
        server_tick_ms=orders.server_tick_ms,
        auto_commit_interval_ms=500,
    )


def consume(consumer: Consumer, output: BinaryIO, records_per_s: int) -> int:
    """Processes records until the consumer is stopped; returns how many."""
    processed = 0
    told_s = time.monotonic()
    for record in consumer:
        process(record, output)
        processed += 1
        if processed % PAUSE_EVERY == 0:
            time.sleep(PAUSE_EVERY / records_per_s)
        if time.monotonic() - told_s > PROGRESS_EVERY_S:
            told_s = time.monotonic()
            print_event("progress", processed=processed)
    return processed


def run(orders: MemberProcessSettings) -> None:
    """Joins the group and works until it is told to stop."""
    history = HistoryFile(orders.history)
    consumer = Consumer(
        orders.zookeeper,
        group=orders.group,
        topics=[TOPIC],
        source=BrokerSource() if orders.source is None else FileSource(orders.source),
        settings=settings(orders),
        listener=MemberEventPrinter(),
        history=history,
        connection=orders.connection,
    )

    def stop(number: int, frame: FrameType | None) -> None:
        consumer.stop()

    signal.signal(signal.SIGTERM, stop)
    threading.Thread(target=_stop_at_end_of_input, args=(consumer,), daemon=True).start()
    with open(orders.output, "ab", buffering=0) as output, consumer:  # noqa: PTH123
        processed = consume(consumer, output, orders.records_per_s)
        print_event("progress", processed=processed)


def _stop_at_end_of_input(consumer: Consumer) -> None:
    """The demo holds the other end of our standard input; when the demo is killed it closes."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    consumer.stop()


if __name__ == "__main__":
    run(decode_settings(sys.stdin.buffer.readline()))
