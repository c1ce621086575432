"""A delivery without its member: what the member would do is done by the test, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from zkgroup.consumer.delivery import Delivery
from zkgroup.consumer.lease import LeaseTable, ProcessedPositions
from zkgroup.consumer.machine.events import Assign, FinishCommit
from zkgroup.errors import CommitRefusedError, CommitResult
from zkgroup.model import LeaseGrant, TopicPartition
from zkgroup.sources.port import Record, SourceRecord
from zkgroup.testing.clock import FakeClock

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
LEASE_MS = 4000


class Host:
    """The member's side: a clock, a lease board, tasks that run when the test says so, commits to answer."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.lease_table = LeaseTable(self.clock)
        self.lease_table.extend(self.clock.now_ms() + LEASE_MS)
        self.tasks: list[Callable[[], None]] = []
        self.timers: dict[str, tuple[int, Callable[[], None]]] = {}
        self.commits: list[tuple[ProcessedPositions, Future[CommitResult]]] = []
        self.notes: list[tuple[str, int]] = []
        self.delivery: Delivery | None = None

    def call_soon(self, task: Callable[[], None]) -> None:
        self.tasks.append(task)

    def call_at(self, name: str, at_ms: int, task: Callable[[], None]) -> None:
        self.timers[name] = (at_ms, task)

    def begin_commit(self, processed: ProcessedPositions, future: Future[CommitResult]) -> None:
        self.commits.append((processed, future))

    def note_delivery(self, kind: str, fields: Mapping[str, object]) -> None:
        assert self.delivery is not None
        self.delivery.position(A)  # a sink may ask the consumer: no lock is held
        offset = fields["offset"]
        assert isinstance(offset, int)
        self.notes.append((kind, offset))

    def run(self) -> None:
        while self.tasks:
            self.tasks.pop(0)()

    def advance(self, ms: int) -> None:
        self.clock.advance(ms)
        for name, (at_ms, task) in list(self.timers.items()):
            if at_ms <= self.clock.now_ms():
                del self.timers[name]
                task()
        self.run()

    def answer(
        self, refused: Mapping[TopicPartition, CommitRefusedError] | None = None
    ) -> ProcessedPositions:
        """Ends the oldest commit, as the member's thread does."""
        processed, future = self.commits.pop(0)
        refused = refused or {}
        committed = {tp: offset for tp, offset in processed.positions.items() if tp not in refused}
        assert self.delivery is not None
        self.delivery.committed(FinishCommit(1, committed, refused))
        future.set_result(CommitResult(committed, refused))
        return processed


class Rig:
    """A delivery with its host, and short words for what happens to it."""

    def __init__(self, *, auto_ack: bool = True, unacked_max: int = 100, noted: bool = False) -> None:
        self.host = Host()
        self.wakes: list[str] = []
        self.delivery = Delivery(
            auto_ack=auto_ack,
            auto_commit=True,
            unacked_max=unacked_max,
            chunks_max=2,
            records_noted=noted,
            wake_fetcher=lambda: self.wakes.append("fetcher"),
            wake_application=lambda: self.wakes.append("application"),
        )
        self.host.delivery = self.delivery
        self.delivery.attach(self.host)

    def own(
        self, tp: TopicPartition = A, offset: int | None = 0, token: int = 7, start: bool = True
    ) -> LeaseGrant:
        grant = LeaseGrant(topic_partition=tp, thread=0, token=token, offset=offset)
        self.host.lease_table.grant([grant], token)
        self.delivery.assigned(Assign((grant,), token))
        if start:
            self.delivery.started([grant])
        return grant

    def feed(self, count: int, tp: TopicPartition = A) -> None:
        """The source gives the next so many records."""
        order = self.delivery.fetch_buffer.order()
        first = order.positions[tp]
        self.delivery.fetch_buffer.accept(order, records(tp, range(first, first + count)))

    def take(self, count: int = 100) -> list[Record]:
        self.delivery.begin_poll()
        return self.delivery.take(count)

    def offsets(self, count: int = 100) -> list[int]:
        return [record.offset for record in self.take(count)]


def records(tp: TopicPartition, offsets: Sequence[int] | range) -> list[SourceRecord]:
    return [SourceRecord(tp.topic, tp.partition, offset, b"%d" % offset) for offset in offsets]
