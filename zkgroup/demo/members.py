"""The ZooKeeper members of the demos: their process, and their group as ZooKeeper has it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zkgroup import Consumer, FileSource, Lease, RebalanceListener, TopicPartition
from zkgroup.consumer.machine.events import MemberState
from zkgroup.demo.flight_data import TOPIC, processed_line
from zkgroup.demo.processes import Stopping, print_event
from zkgroup.groups import reads
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.reader import snapshot_or_empty
from zkgroup.groups.verify import expected_ownership, group_state
from zkgroup.history import HistoryFile
from zkgroup.sources import BrokerSource

PAUSE_EVERY = 10  # records between two pauses: one sleep for each would cost too much


class MemberEventPrinter(RebalanceListener):
    """Prints the member's events to standard output."""

    def on_state(self, before: MemberState, after: MemberState, reason: str) -> None:
        print_event("state", state=after.value)

    def on_assigned(self, leases: Sequence[Lease]) -> None:
        print_event("assigned", partitions=[lease.partition for lease in leases])

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        print_event("revoked", partitions=[one.partition for one in partitions])

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        print_event("lost", partitions=[one.partition for one in partitions])


def serve(
    stopping: Stopping, source: str | None, output: str, history: str, records_per_s: int, **consuming: Any
) -> None:
    """Joins the group, and writes one line for each record to a file until it is to end.

    `source` is the folder of the topic's files, None for zkgroup's brokers; `consuming` is for the consumer.
    """
    consumer = Consumer(
        topics=[TOPIC],
        source=BrokerSource() if source is None else FileSource(source),
        listener=MemberEventPrinter(),
        history=HistoryFile(history),
        **consuming,
    )
    stopping.stop = consumer.stop
    if stopping.is_requested:
        return
    with consumer, Path(output).open("ab", buffering=0) as processed:
        for number, record in enumerate(consumer, 1):
            assert record.value is not None
            processed.write(processed_line(record.partition, record.offset, record.value, record.token))
            if number % PAUSE_EVERY == 0:
                time.sleep(PAUSE_EVERY / records_per_s)


@dataclass(frozen=True, slots=True)
class OwnedGroup:
    """The group as one read found it. Mappings: partition number to value, where there is one."""

    state: str = "empty"
    members: frozenset[str] = frozenset()
    owners: Mapping[int, str] = field(default_factory=dict)
    """Name of the member that owns the partition."""
    tokens: Mapping[int, int] = field(default_factory=dict)
    offsets: Mapping[int, int] = field(default_factory=dict)

    @property
    def committed(self) -> int:
        """Number of committed records."""
        return sum(offset for offset in self.offsets.values() if offset > 0)

    def of(self, name: str) -> list[int]:
        """The partitions that the member of this name owns."""
        return sorted(number for number, owner in self.owners.items() if owner == name)


def read_group(ensemble: Ensemble, group: str) -> OwnedGroup:
    """Reads members, owners, tokens and offsets of a group, which may not exist yet."""
    snapshot = snapshot_or_empty(ensemble, group)
    expected = expected_ownership(snapshot)
    state = group_state(snapshot, expected, now_ms=ensemble.clock.wall_ms())
    described = reads.describe_group(snapshot, expected, state)
    rows = [one for one in described.partitions if one.topic_partition.topic == TOPIC]
    numbered = {row.topic_partition.partition: row for row in rows}
    return OwnedGroup(
        state.value,
        frozenset(one.member.removeprefix(f"{group}_") for one in described.members),
        {n: row.member.removeprefix(f"{group}_") for n, row in numbered.items() if row.member is not None},
        {n: row.token for n, row in numbered.items() if row.token is not None},
        {n: row.offset for n, row in numbered.items() if row.offset is not None},
    )
