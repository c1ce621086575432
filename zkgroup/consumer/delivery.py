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
from zkgroup.consumer.outbox import Outbox
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
        self._outbox = Outbox(lambda kind, fields: self.host.note_delivery(kind, fields))
        self.feeding = Feeding(
            self._flows,
            lambda: self.host,
            buffered_max=self._buffered_max,
            outbox=self._outbox if records_noted else None,
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
        self._outbox.send()  # before the member records that the ownership ends

    def drain(
        self, partitions: Iterable[TopicPartition], until_ms: int, done: Callable[[Processed], None]
    ) -> None:
        wanted = frozenset(partitions)

        def finish() -> None:
            with self._flows.lock:
                if not self._drains.take(number):
                    return
                processed = self._flows.news(wanted if self._auto_commit else ())
            self._outbox.send()  # before a commit covers it
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
        self._outbox.send()
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
        self._outbox.send()
        for finish in drained:
            finish()

    def take(self, max_records: int) -> list[Record]:
        """Up to so many records, partition by partition in turn, each started within the lease."""
        records: list[Record] = []
        with self._flows.lock:
            flows = list(self._flows.by_partition.values())
        for flow in flows:
            while taken := self._take_from(flow, max_records - len(records)):
                records += taken
                self._outbox.send()
            if len(records) >= max_records:
                break
        return records

    def _take_from(self, flow: Flow, max_records: int) -> list[Record]:
        """The next records of one partition: a single one where each start is recorded, at its time."""
        records: list[Record] = []
        token, board = flow.grant.token, self.host.board
        with self._flows.lock:
            if self._flows.find(flow.topic_partition) is not flow or not flow.is_open:
                return records
            holdings = board.current
            for _ in range(min(1, max_records) if self._records_noted else max_records):
                if not flow.buffer or flow.tracker.is_full:
                    break
                if not holdings.may_deliver(flow.topic_partition, token, board.now_ms()):
                    break
                records.append(flow.hand_out())
                if self._records_noted:
                    self._note("deliver.start", records[-1], until_ms=holdings.until_ms)
            if records:
                self._flows.put_last(flow)
            hungry = flow.got_hungry(self._buffered_max)
            if self._auto_ack:
                self._in_hand.extend(records)
        if hungry:
            self._wake_fetcher()
        return records

    def ack(self, record: Record) -> bool:
        """Marks a record as processed; False (and counted) when its partition is gone."""
        with self._flows.lock:
            acked = self._ack(record)
            drained = self._drains.ready(self._flows.are_drained)
        self._outbox.send()
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
        self._outbox.add(kind, {**fields, "token": record.token, **more})

    def to_commit(self) -> Processed:
        """What is processed and not committed yet."""
        with self._flows.lock:
            news = self._flows.news(self._flows.by_partition)
        self._outbox.send()
        return news

    def as_given(self, offsets: Positions) -> Processed:
        """Offsets that the application itself names; they may go back where it has sought back."""
        with self._flows.lock:
            given = Processed(dict(offsets), self._flows.seeks(offsets), self._flows.last_move_id)
        self._outbox.send()
        return given

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
                self._outbox.add("seek", flow.place(offset))
            self._in_hand = [r for r in self._in_hand if r.topic_partition != topic_partition]
        self._outbox.send()
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
