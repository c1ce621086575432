"""The source's side of a delivery: what to fetch, what came, and where to start without an offset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from zkgroup.consumer.flow import Flow, Identity
from zkgroup.consumer.flows import Flows
from zkgroup.consumer.lease import LeaseBoard
from zkgroup.consumer.outbox import Outbox
from zkgroup.consumer.records import SourceRecord
from zkgroup.consumer.share import Processed
from zkgroup.errors import CommitResult
from zkgroup.model import TopicPartition

RETRY_MS = 200
"""Pause before a start position that could not be committed is committed again."""

Positions = Mapping[TopicPartition, int]


class DeliveryHost(Protocol):
    """What the delivery needs of the member's engine; `MemberEngine` has it all."""

    board: LeaseBoard

    def call_soon(self, task: Callable[[], None]) -> None:
        """Run a task on the member's thread; from any thread."""
        ...

    def call_at(self, name: str, at_ms: int, task: Callable[[], None]) -> None:
        """Run a task on the member's thread at this time, instead of an earlier one of this name."""
        ...

    def begin_commit(self, processed: Processed, future: Future[CommitResult]) -> None:
        """Order a commit; only on the member's thread."""
        ...

    def note_delivery(self, kind: str, fields: Mapping[str, object]) -> None:
        """Record `start` (the reset policy's), `deliver.start`, `deliver.end` or `seek`; only called when
        there is a history."""
        ...


@dataclass(frozen=True, slots=True)
class FetchOrder:
    """What the fetcher should do next."""

    unresolved: Mapping[TopicPartition, Identity]
    """Partitions whose start the reset policy gives."""
    positions: Positions
    identities: Mapping[TopicPartition, Identity]
    """Of the partitions in `positions`: an answer for another claim, or from before a jump, is dropped."""


class Feeding:
    """Used by the fetcher's thread; start positions are committed on the member's."""

    def __init__(
        self,
        flows: Flows,
        host: Callable[[], DeliveryHost],
        *,
        buffered_max: int,
        outbox: Outbox | None,
        wake_application: Callable[[], None],
    ) -> None:
        self._flows = flows
        self._host = host
        self._buffered_max = buffered_max
        self._outbox = outbox
        self._wake_application = wake_application
        self._retries = 0

    def order(self) -> FetchOrder:
        """What to fetch now; empty where there is nothing to do until `wake_fetcher`."""
        with self._flows.lock:
            flows = self._flows.by_partition
            unresolved = {tp: flow.identity for tp, flow in flows.items() if flow.unresolved}
            wanted = {tp: flow for tp, flow in flows.items() if flow.wants}
            positions = {
                tp: flow.fetch_offset for tp, flow in wanted.items() if flow.fetch_offset is not None
            }
            identities = {tp: flow.identity for tp, flow in wanted.items()}
        return FetchOrder(unresolved, positions, identities)

    def accept(self, order: FetchOrder, records: Sequence[SourceRecord]) -> None:
        """Buffers what was fetched, except for partitions that have gone or jumped meanwhile."""
        by_partition: dict[TopicPartition, list[SourceRecord]] = {}
        for record in records:
            by_partition.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        with self._flows.lock:
            for topic_partition, fetched in by_partition.items():
                flow = self._flows.find(topic_partition)
                if flow is None or flow.stopped:
                    continue
                if order.identities.get(topic_partition) == flow.identity:
                    flow.accept(fetched, self._buffered_max)
        if records:
            self._wake_application()

    def out_of_range(self, topic_partition: TopicPartition, order: FetchOrder) -> None:
        """The source does not have the position: the reset policy gives another one."""
        with self._flows.lock:
            flow = self._flows.find(topic_partition)
            if flow is None or order.identities.get(topic_partition) != flow.identity:
                return
            flow.restart()

    def resolved(self, order: FetchOrder, starts: Positions) -> None:
        """The reset policy has spoken; each start is committed before its first record is delivered."""
        with self._flows.lock:
            fresh: dict[TopicPartition, Identity] = {}
            for topic_partition, offset in starts.items():
                flow = self._flows.find(topic_partition)
                if flow is None or flow.identity != order.unresolved.get(topic_partition):
                    continue
                flow.begin_at(offset)
                if self._outbox is not None:
                    self._outbox.add("seek" if flow.sought else "start", flow.place(offset))
                fresh[topic_partition] = flow.identity
        if self._outbox is not None:
            self._outbox.send()
        if fresh:
            self._host().call_soon(lambda: self._commit_starts(fresh))

    def _commit_starts(self, wanted: Mapping[TopicPartition, Identity]) -> None:
        with self._flows.lock:
            flows = [flow for _, flow in self._settling(wanted)]
            positions = {flow.topic_partition: flow.tracker.position for flow in flows}
            processed = Processed(positions, self._flows.seeks(positions), self._flows.last_move_id)
        if positions:
            future: Future[CommitResult] = Future()
            future.add_done_callback(lambda done: self._starts_committed(done, wanted))
            self._host().begin_commit(processed, future)

    def _starts_committed(
        self, done: Future[CommitResult], wanted: Mapping[TopicPartition, Identity]
    ) -> None:
        """On the member's thread, inside the effect that ended the commit."""
        if done.exception() is not None:
            return  # the member has ended
        result = done.result()
        with self._flows.lock:
            for topic_partition, flow in self._settling(wanted):
                if topic_partition in result.committed:
                    flow.settling = False
            left = {tp: flow.identity for tp, flow in self._settling(wanted)}
        self._wake_application()
        if left:
            self._retries += 1  # each batch has a timer of its own: batches may share partitions
            name = f"start-{self._retries}"
            at_ms = self._host().board.now_ms() + RETRY_MS
            self._host().call_at(name, at_ms, lambda: self._commit_starts(left))

    def _settling(self, wanted: Mapping[TopicPartition, Identity]) -> list[tuple[TopicPartition, Flow]]:
        return [
            (tp, flow)
            for tp, flow in self._flows.by_partition.items()
            if flow.settling and not flow.stopped and flow.identity == wanted.get(tp)
        ]
