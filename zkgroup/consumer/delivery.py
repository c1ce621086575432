"""From the source to the application: buffers, acknowledgements, commits, the reset policy.

Three threads meet here, each briefly under one lock that is never held while ZooKeeper, the source or
the application's code is called: the member's own (assigns, stops, commits), the fetcher (fills
buffers) and the application's (takes, acknowledges). No record starts its delivery outside the lease.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from zkgroup.consumer.draining import Drains
from zkgroup.consumer.effects import Assign, FinishCommit, MoveTo
from zkgroup.consumer.feeding import DeliveryHost, Feeding, Positions
from zkgroup.consumer.flow import Flow
from zkgroup.consumer.flows import Flows
from zkgroup.consumer.lease import Holdings
from zkgroup.consumer.records import Record
from zkgroup.consumer.share import Processed
from zkgroup.model import LeaseGrant, TopicPartition

FETCH_RECORDS = 500
"""Most records of one partition asked of the source at once."""


class Delivery:
    """All flows of one consumer. Implements `Share`."""

    def __init__(
        self,
        *,
        auto_ack: bool,
        auto_commit: bool,
        unacked_max: int,
        chunks_max: int,
        records_noted: bool,
        wake_fetcher: Callable[[], None],
        wake_application: Callable[[], None],
    ) -> None:
        self._auto_ack = auto_ack
        self._auto_commit = auto_commit
        self._unacked_max = unacked_max
        self._buffered_max = FETCH_RECORDS * chunks_max
        self._records_noted = records_noted
        self._wake_fetcher = wake_fetcher
        self._wake_application = wake_application
        self._flows = Flows()
        self.feeding = Feeding(
            self._flows,
            lambda: self.host,
            buffered_max=self._buffered_max,
            jumps_noted=records_noted,
            wake_application=wake_application,
        )
        self._paused: set[TopicPartition] = set()
        self._in_hand: list[Record] = []
        self._drains = Drains()
        self._host: DeliveryHost | None = None
        self.acks_ignored = 0
        """Acknowledgements that came after the partition was gone."""

    def attach(self, host: DeliveryHost) -> None:
        """Connects the delivery with its member, before anything else is called."""
        self._host = host

    @property
    def host(self) -> DeliveryHost:
        assert self._host is not None, "attach() comes first"
        return self._host

    # --- Share: the member's thread ---------------------------------------------------------------

    def assigned(self, effect: Assign) -> None:
        with self._flows.lock:
            self._flows.last_move_id = max(self._flows.last_move_id, effect.move_id)
            for grant in effect.grants:
                flow = Flow(grant, self._unacked_max)
                flow.paused = grant.topic_partition in self._paused
                self._flows.by_partition[grant.topic_partition] = flow
        self._wake_fetcher()

    def started(self, grants: Iterable[LeaseGrant]) -> None:
        with self._flows.lock:
            for grant in grants:
                flow = self._flows.find(grant.topic_partition)
                if flow is not None and flow.grant.token == grant.token:
                    flow.started = True
        self._wake_application()

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        with self._flows.lock:
            for flow in self._flows.of(partitions):
                flow.stopped = True
                flow.buffer.clear()

    def drain(
        self, partitions: Iterable[TopicPartition], until_ms: int, done: Callable[[Processed], None]
    ) -> None:
        wanted = frozenset(partitions)

        def finish() -> None:
            with self._flows.lock:
                if not self._drains.take(number):
                    return
                processed = self._flows.news(wanted if self._auto_commit else ())
            done(processed)

        with self._flows.lock:
            number = self._drains.add(wanted, lambda: self.host.call_soon(finish))
            ready = self._drains.is_closed or self._flows.are_drained(wanted)
        if ready:
            finish()
        else:
            self.host.call_at(f"drain-{number}", until_ms, finish)

    def ended(self, partitions: Iterable[TopicPartition]) -> None:
        with self._flows.lock:
            for topic_partition in partitions:
                self._flows.by_partition.pop(topic_partition, None)
        self._wake_application()

    def extended(self) -> None:
        with self._flows.lock:
            waiting = any(flow.buffer for flow in self._flows.by_partition.values())
        if waiting:
            self._wake_application()

    def moved(self, move: MoveTo) -> None:
        with self._flows.lock:
            self._flows.last_move_id = move.move_id
            flow = self._flows.find(move.topic_partition)
            if flow is not None:
                flow.move(move.offset if move.offset >= 0 else None)
        self._wake_fetcher()

    def committed(self, outcome: FinishCommit) -> None:
        with self._flows.lock:
            for topic_partition, offset in outcome.committed.items():
                if (flow := self._flows.find(topic_partition)) is not None:
                    flow.was_committed(outcome.stands.get(topic_partition, offset))

    def finished(self) -> None:
        with self._flows.lock:
            self._flows.by_partition.clear()
        self._wake_application()
        self._wake_fetcher()

    # --- the application's threads ----------------------------------------------------------------

    def begin_poll(self) -> None:
        """In automatic mode, coming back for more says that what was handed out is processed."""
        with self._flows.lock:
            if self._auto_ack:
                for record in self._in_hand:
                    self._ack(record)
            self._in_hand.clear()
            drained = self._drains.ready(self._flows.are_drained)
        for finish in drained:
            finish()

    def take(self, max_records: int) -> list[Record]:
        """Up to so many records, partition by partition in turn, each started within the lease."""
        records: list[Record] = []
        hungry = False
        with self._flows.lock:
            holdings = self.host.board.current
            for flow in list(self._flows.by_partition.values()):
                if not flow.buffer or not flow.is_open:
                    continue
                self._take_from(flow, max_records, records, holdings)
                hungry |= flow.got_hungry(self._buffered_max)
                self._flows.put_last(flow)
                if len(records) >= max_records:
                    break
            if self._auto_ack:
                self._in_hand.extend(records)
        if hungry:
            self._wake_fetcher()
        return records

    def _take_from(self, flow: Flow, max_records: int, records: list[Record], holdings: Holdings) -> None:
        topic_partition, token, board = flow.topic_partition, flow.grant.token, self.host.board
        while flow.buffer and len(records) < max_records and not flow.tracker.is_full:
            if not holdings.may_deliver(topic_partition, token, board.now_ms()):
                return
            record = flow.hand_out()
            if self._records_noted:
                self._note("deliver.start", record, until_ms=holdings.until_ms)
            records.append(record)

    def ack(self, record: Record) -> bool:
        """Marks a record as processed; False (and counted) when its partition is gone."""
        with self._flows.lock:
            acked = self._ack(record)
            drained = self._drains.ready(self._flows.are_drained)
        for finish in drained:
            finish()
        return acked

    def _ack(self, record: Record) -> bool:
        flow = self._flows.find(record.topic_partition)
        if flow is None or flow.grant.token != record.token:
            self.acks_ignored += 1
            return False
        was_full = flow.tracker.is_full
        if flow.tracker.is_waiting(record.offset) and self._records_noted:
            self._note("deliver.end", record)  # before any commit can cover it
        flow.tracker.ack(record.offset)
        if was_full and not flow.tracker.is_full:
            self._wake_application()
        return True

    def _note(self, kind: str, record: Record, **more: object) -> None:
        fields = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
        self.host.note_delivery(kind, {**fields, "token": record.token, **more})

    def to_commit(self) -> Processed:
        """What is processed and not committed yet."""
        with self._flows.lock:
            return self._flows.news(self._flows.by_partition)

    def as_given(self, offsets: Positions) -> Processed:
        """Offsets that the application itself names; they may go back where it has sought back."""
        with self._flows.lock:
            return Processed(dict(offsets), self._flows.seeks(offsets), self._flows.last_move_id)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Delivers nothing of these until `resume`, also when they come back after a rebalance."""
        with self._flows.lock:
            self._paused.update(partitions)
            for flow in self._flows.of(partitions):
                flow.paused = True

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        with self._flows.lock:
            self._paused.difference_update(partitions)
            for flow in self._flows.of(partitions):
                flow.paused = False
        self._wake_application()

    @property
    def paused(self) -> frozenset[TopicPartition]:
        with self._flows.lock:
            return frozenset(self._paused)

    def seek(self, topic_partition: TopicPartition, offset: int) -> None:
        """Goes on from this offset; raises `NotOwnerError` where the partition is not owned."""
        with self._flows.lock:
            flow = self._flows.owned(topic_partition)
            flow.seek(offset)
            if self._records_noted:
                self.host.note_delivery("seek", flow.place(offset))
            self._in_hand = [r for r in self._in_hand if r.topic_partition != topic_partition]
        self._wake_fetcher()

    def position(self, topic_partition: TopicPartition) -> int | None:
        """Offset of the next record to be delivered; None until the reset policy has given one."""
        with self._flows.lock:
            flow = self._flows.owned(topic_partition)
            return flow.tracker.next_offset if flow.fetch_offset is not None else None

    def owned(self) -> tuple[TopicPartition, ...]:
        with self._flows.lock:
            return tuple(sorted(self._flows.by_partition))

    def stop_draining(self) -> None:
        """The application is leaving: nobody acknowledges any more, so no release waits for it."""
        with self._flows.lock:
            finishes = self._drains.close()
        for finish in finishes:
            finish()

    def resume_draining(self) -> None:
        """The application is back."""
        with self._flows.lock:
            self._drains.reopen()
