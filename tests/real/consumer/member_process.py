"""A consumer as a process of its own, for tests that kill or stop it.

    python -m tests.real.consumer.member_process ADDRESS FOLDER CONSUMER_ID SESSION_TIMEOUT_MS

One line of JSON for each thing that happens. Ends cleanly when its standard input closes.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Sequence

from zkgroup.consumer.callbacks import RebalanceListener
from zkgroup.consumer.lease import Lease
from zkgroup.consumer.sync import Consumer
from zkgroup.model import TopicPartition
from zkgroup.settings import GroupSettings
from zkgroup.sources.files import FileSource


def say(event: str, **fields: object) -> None:
    """One write, so that lines of two threads do not mix."""
    os.write(1, (json.dumps({"event": event, **fields}) + "\n").encode())


class Telling(RebalanceListener):
    def on_assigned(self, leases: Sequence[Lease]) -> None:
        say("assigned", partitions=[lease.partition for lease in leases])

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        say("revoked", partitions=[tp.partition for tp in partitions])

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        say("lost", partitions=[tp.partition for tp in partitions])


def main(address: str, folder: str, consumer_id: str, session_timeout_ms: str) -> None:
    settings = GroupSettings(
        consumer_id=consumer_id,
        session_timeout_ms=int(session_timeout_ms),
        server_tick_ms=500,
        auto_commit_interval_ms=50,
        initial_rebalance_delay_ms=0,
    )
    with Consumer(
        address,
        group="g",
        topics=["orders"],
        source=FileSource(folder),
        settings=settings,
        listener=Telling(),
    ) as consumer:
        threading.Thread(target=lambda: (sys.stdin.read(), consumer.stop()), daemon=True).start()
        for record in consumer:
            say("record", partition=record.partition, offset=record.offset, token=record.token)
    say("closed")


if __name__ == "__main__":
    main(*sys.argv[1:])
