"""A member of ours on real brokers that prints what it does, line for line as GroupMember.java does.

    python -m tests.long.interop.python_member ZOOKEEPER GROUP CONSUMER-ID TOPIC:THREADS... [--commit-ms N]

SIGTERM and SIGINT leave cleanly and exit 0.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Sequence

from zkgroup import Consumer, GroupSettings, Lease, RebalanceListener, Record, TopicPartition
from zkgroup.consumer.sources import KafkaSource

_printing = threading.Lock()


def say(event: str, **fields: object) -> None:
    with _printing:
        print(json.dumps({"event": event, "at": int(time.time() * 1000), **fields}), flush=True)


def names(partitions: Sequence[TopicPartition]) -> list[list[object]]:
    return [[tp.topic, tp.partition] for tp in partitions]


class Reporter(RebalanceListener):
    """Prints each change of what the member owns."""

    def on_assigned(self, leases: Sequence[Lease]) -> None:
        owned = [[lease.topic, lease.partition, lease.thread, lease.token] for lease in leases]
        say("assigned", leases=owned)

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        say("revoked", partitions=names(partitions))

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        say("lost", partitions=names(partitions))

    def on_state(self, before: str, after: str, reason: str) -> None:
        say("state", before=before, after=after, reason=reason)
        if after == "stable" and before != "stable":
            say("ready")


def deliver(record: Record) -> None:
    say(
        "message",
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        thread=record.thread,
        token=record.token,
        value=None if record.value is None else record.value.decode(),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("zookeeper")
    parser.add_argument("group")
    parser.add_argument("consumer_id")
    parser.add_argument("what", nargs="+", metavar="TOPIC:THREADS")
    parser.add_argument("--commit-ms", type=int, default=500)
    options = parser.parse_args()
    topics = {topic: int(threads) for topic, _, threads in (word.rpartition(":") for word in options.what)}
    settings = GroupSettings(
        consumer_id=options.consumer_id,
        auto_commit_interval_ms=options.commit_ms,
        auto_offset_reset="earliest",
        server_tick_ms=500,
    )
    say("starting", group=options.group)
    consumer = Consumer(
        options.zookeeper,
        group=options.group,
        topics=topics,
        source=KafkaSource(),
        settings=settings,
        listener=Reporter(),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: consumer.stop())
    with consumer:
        for record in consumer:
            deliver(record)
    say("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
