"""zkgroup members on Kafka brokers in one process, with the commands and output lines of Members.java.

A line of the input, with tabs between the words, is `start ZOOKEEPER GROUP CONSUMER-ID TOPIC THREADS
COMMIT-MS SESSION-MS`, or `stop GROUP_CONSUMER-ID` for a clean leave. At the end of the input the process
ends, and no member leaves.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Sequence

from zkgroup import Consumer, GroupSettings, Lease, RebalanceListener, Record, TopicPartition
from zkgroup.sources import KafkaSource

_printing = threading.Lock()


def names(partitions: Sequence[TopicPartition]) -> list[list[object]]:
    return [[tp.topic, tp.partition] for tp in partitions]


class Reporting(RebalanceListener):
    """A member in its own thread, which prints its events."""

    def __init__(
        self,
        zookeeper: str,
        group: str,
        consumer_id: str,
        topic: str,
        threads: str,
        commit_ms: str,
        session_ms: str,
    ) -> None:
        self._id = f"{group}_{consumer_id}"
        self._say("starting")
        self.consumer = Consumer(
            zookeeper,
            group=group,
            topics={topic: int(threads)},
            source=KafkaSource(),
            settings=GroupSettings(
                consumer_id=consumer_id,
                auto_commit_interval_ms=int(commit_ms),
                session_timeout_ms=int(session_ms),
                auto_offset_reset="earliest",
                server_tick_ms=500,
            ),
            listener=self,
        )
        threading.Thread(target=self._read, name=self._id, daemon=True).start()

    def _read(self) -> None:
        try:
            with self.consumer:
                for record in self.consumer:
                    self._deliver(record)
        except Exception as error:
            self._say("failed", error=repr(error))
            raise
        self._say("stopped")

    def _say(self, event: str, **fields: object) -> None:
        line = {"member": self._id, "event": event, "at": int(time.time() * 1000), **fields}
        with _printing:
            print(json.dumps(line), flush=True)

    def _deliver(self, record: Record) -> None:
        self._say(
            "message",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            thread=record.thread,
            token=record.token,
            value=None if record.value is None else record.value.decode(),
        )

    def on_assigned(self, leases: Sequence[Lease]) -> None:
        owned = [[lease.topic, lease.partition, lease.thread, lease.token] for lease in leases]
        self._say("assigned", leases=owned)

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._say("revoked", partitions=names(partitions))

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._say("lost", partitions=names(partitions))

    def on_state(self, before: str, after: str, reason: str) -> None:
        self._say("state", before=before, after=after, reason=reason)
        if after == "stable" and before != "stable":
            self._say("ready")


def main() -> None:
    members: dict[str, Reporting] = {}
    for line in sys.stdin:
        command, *words = line.rstrip("\n").split("\t")
        if command == "start":
            members[f"{words[1]}_{words[2]}"] = Reporting(*words)
        else:
            members.pop(words[0]).consumer.stop()
    os._exit(0)


if __name__ == "__main__":
    main()
