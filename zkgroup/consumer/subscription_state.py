"""What a consumer has fetched, delivered and processed of each owned partition (Kafka's SubscriptionState).

`TopicPartitionState` lives as long as one claim of a partition; `SubscriptionState` holds all of them under
one lock. Both are used by `Delivery`. `DeliveryPort` is what a member's engine needs of a delivery; a member
that only holds leases has none.

Records are delivered in some order of offsets (rising, with gaps). The position to commit is the offset
after the last record of the unbroken run of acknowledged ones, counted in *delivery* order: nothing is ever
committed that was not acknowledged (Kafka's meaning: the next offset to consume). `AckTracker` computes it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from zkgroup.consumer.machine.events import Assign, FinishCommit, SeekTo
from zkgroup.consumer.sources.port import Record, SourceRecord
from zkgroup.errors import NotOwnerError
from zkgroup.model import LeaseGrant, TopicPartition


@dataclass(frozen=True, slots=True)
class ProcessedPositions:
    """How far partitions are processed, as far as that is news."""

    positions: Mapping[TopicPartition, int]
    seeks: Mapping[TopicPartition, int] = field(default_factory=dict)
    """As in `CommitRequested`."""
    last_move_id: int | None = None
    """`move_id` of the last `Assign` or `SeekTo` carried out before these were taken; None: all were."""


class DeliveryPort(Protocol):
    """What a member's engine tells the delivery."""

    def assigned(self, effect: Assign) -> None:
        """Granted; nothing is delivered before `started`."""
        ...

    def started(self, grants: Iterable[LeaseGrant]) -> None:
        """`on_assigned` has returned for these claims: deliver (a later claim waits for its own)."""
        ...

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        """Deliver nothing more of these; what is in the application's hands may be acknowledged."""
        ...

    def drain(
        self,
        partitions: Iterable[TopicPartition],
        until_ms: int,
        done: Callable[[ProcessedPositions], None],
    ) -> None:
        """Call `done` once all that was delivered is acknowledged, or at `until_ms`; with what to commit."""
        ...

    def ended(self, partitions: Iterable[TopicPartition]) -> None:
        """No longer owned: forget them."""
        ...

    def extended(self) -> None:
        """The lease runs longer: what it held back may be delivered."""
        ...

    def moved(self, move: SeekTo) -> None:
        """Drop what is buffered and go on from the offset given; negative: by the reset policy."""
        ...

    def committed(self, outcome: FinishCommit) -> None:
        """What became of a commit, whichever call asked for it."""
        ...

    def finished(self) -> None:
        """The member has ended: wake all that wait for records."""
        ...


class AckTracker:
    """Delivered and acknowledged records of one partition, for one claim. Not thread-safe."""

    __slots__ = ("_acked", "_order", "next_offset", "position", "topic_partition", "unacked_max")

    def __init__(self, topic_partition: TopicPartition, start: int, unacked_max: int) -> None:
        self.topic_partition = topic_partition
        self.position = start
        """Everything before this offset is processed: what a commit writes."""
        self.next_offset = start
        """Offset from which the next record is delivered."""
        self.unacked_max = unacked_max
        self._order: OrderedDict[int, bool] = OrderedDict()  # cheap removal at the head
        self._acked = 0

    def delivered(self, offset: int) -> None:
        """A record goes to the application."""
        if offset < self.next_offset:
            raise ValueError(f"{self.topic_partition}: offset {offset} after {self.next_offset - 1}")
        self._order[offset] = False
        self.next_offset = offset + 1

    def is_waiting(self, offset: int) -> bool:
        """Whether a record was delivered and is not acknowledged."""
        return self._order.get(offset) is False

    def ack(self, offset: int) -> bool:
        """Acknowledges a delivered record; False where it is none that waits for it (ignored)."""
        if not self.is_waiting(offset):
            return False
        self._order[offset] = True
        self._acked += 1
        self._advance()
        return True

    def _advance(self) -> None:
        """Moves the position over the acknowledged head of the delivery order."""
        while self._order:
            offset = next(iter(self._order))
            if not self._order[offset]:
                return
            del self._order[offset]
            self._acked -= 1
            self.position = offset + 1

    def seek(self, offset: int) -> None:
        """Starts anew from here; acknowledgements of what was delivered before are ignored."""
        self._order.clear()
        self._acked = 0
        self.position = self.next_offset = offset

    @property
    def unacked(self) -> int:
        """Number of records delivered and not acknowledged."""
        return len(self._order) - self._acked

    @property
    def held(self) -> int:
        """Number of records remembered: unacknowledged ones and acknowledged ones behind them."""
        return len(self._order)

    @property
    def is_full(self) -> bool:
        """True while nothing more is delivered until the oldest unacknowledged record is (`max_unacked`).

        Acknowledged records behind it count too: they must be remembered until it is.
        """
        return len(self._order) >= self.unacked_max

    def outstanding(self) -> Iterator[int]:
        """Offsets delivered and not acknowledged, in delivery order."""
        return (offset for offset, acked in self._order.items() if not acked)


PositionEpoch = tuple[int, int]
"""Token of a claim, and number of jumps within it."""


class TopicPartitionState:
    """Buffer, position and switches of one claim."""

    __slots__ = (
        "buffer",
        "committed",
        "epoch",
        "fetch_offset",
        "full",
        "grant",
        "paused",
        "settling",
        "sought",
        "started",
        "stopped",
        "tracker",
    )

    def __init__(self, grant: LeaseGrant, unacked_max: int) -> None:
        known = grant.offset is not None and grant.offset >= 0
        start = grant.offset if grant.offset is not None and known else 0
        self.grant = grant
        self.tracker = AckTracker(grant.topic_partition, start, unacked_max)
        self.fetch_offset: int | None = start if known else None
        """Offset that the source is asked for next; None until the reset policy has given one."""
        self.committed: int | None = start if known else None
        """Value of the offset znode as far as this member knows."""
        self.epoch = 0
        """Counts the jumps of the position: what was fetched before one is dropped."""
        self.started = False
        """`on_assigned` of this claim has returned."""
        self.stopped = False
        """Being revoked."""
        self.paused = False
        """By the application."""
        self.settling = not known
        """The start position is not committed yet: nothing is delivered."""
        self.sought = 0
        """`epoch` since the last jump of the application's own, or of its reset policy's; 0: there was none,
        or another client moved the position since. The first commit after it may go back."""
        self.buffer: deque[SourceRecord] = deque()
        self.full = False
        """Enough is buffered; the source is asked again when half of it is gone."""

    @property
    def topic_partition(self) -> TopicPartition:
        return self.grant.topic_partition

    @property
    def identity(self) -> PositionEpoch:
        """Tells this claim, and this stretch without a jump, from every other one of the partition."""
        return (self.grant.token, self.epoch)

    def place(self, offset: int) -> dict[str, object]:
        """This offset of this claim, for the history."""
        topic, partition = self.topic_partition.topic, self.topic_partition.partition
        return {"topic": topic, "partition": partition, "offset": offset, "token": self.grant.token}

    @property
    def is_open(self) -> bool:
        """Whether a record may be handed out, as far as this flow knows (the lease is checked apart)."""
        return (
            self.started
            and not self.stopped
            and not self.paused
            and not self.settling
            and not self.tracker.is_full
        )

    @property
    def wants(self) -> bool:
        """Whether the source should be asked for more."""
        return self.fetch_offset is not None and not self.stopped and not self.full

    @property
    def unresolved(self) -> bool:
        """Whether the reset policy must give the position."""
        return self.fetch_offset is None and not self.stopped

    def accept(self, records: Sequence[SourceRecord], buffered_max: int) -> None:
        """Buffers what the source gave for `fetch_offset`."""
        for record in records:
            if self.fetch_offset is not None and record.offset >= self.fetch_offset:
                self.buffer.append(record)
                self.fetch_offset = record.offset + 1
        self.full = len(self.buffer) >= buffered_max

    def reached_low_watermark(self, buffered_max: int) -> bool:
        """True once when so much has been handed out that the source should be asked again."""
        if not self.full or len(self.buffer) > buffered_max // 2:
            return False
        self.full = False
        return True

    def hand_out(self) -> Record:
        """The next buffered record, from now on the application's."""
        read = self.buffer.popleft()
        self.tracker.delivered(read.offset)
        return Record(
            topic=read.topic,
            partition=read.partition,
            offset=read.offset,
            key=read.key,
            value=read.value,
            timestamp_ms=read.timestamp_ms,
            headers=read.headers,
            thread=self.grant.thread,
            token=self.grant.token,
        )

    def seek(self, offset: int) -> None:
        """The application goes on from here; it alone may go back behind what is committed."""
        self._jump(offset)
        self.settling = False
        self.sought = self.epoch

    def move(self, offset: int | None) -> None:
        """Another client's offset is obeyed; None: it says that there is none, so the policy decides."""
        self._jump(offset)
        self.settling = offset is None
        self.committed = offset
        self.sought = 0

    def restart(self) -> None:
        """The source does not have the position: the reset policy decides, and may lead back.

        Also where the position came from the policy itself: its commit may be on its way."""
        self._jump(None)
        self.settling = True
        self.sought = self.epoch

    def begin_at(self, offset: int) -> None:
        """The reset policy's position, which is committed before anything is delivered."""
        self._jump(offset)
        self.sought = self.epoch if self.committed is not None or self.sought else 0

    def _jump(self, offset: int | None) -> None:
        """Drops what is buffered and in hand; None: the position is not known."""
        self.epoch += 1
        self.buffer.clear()
        self.full = False
        self.fetch_offset = offset
        self.tracker.seek(offset if offset is not None else self.tracker.position)

    def to_commit(self) -> int | None:
        """The processed position where it is news, else None."""
        if self.settling or self.tracker.position == self.committed:
            return None
        return self.tracker.position

    def was_committed(self, offset: int) -> None:
        self.committed = offset


class SubscriptionState:
    """Owned partitions by name. Every method and field is used with `lock` held."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.by_partition: dict[TopicPartition, TopicPartitionState] = {}
        self.last_move_id = 0
        """`move_id` of the last `Assign` or `SeekTo` carried out."""

    def find(self, topic_partition: TopicPartition) -> TopicPartitionState | None:
        return self.by_partition.get(topic_partition)

    def of(self, partitions: Iterable[TopicPartition]) -> list[TopicPartitionState]:
        """The flows of those among these that are owned."""
        return [flow for tp in partitions if (flow := self.by_partition.get(tp)) is not None]

    def owned(self, topic_partition: TopicPartition) -> TopicPartitionState:
        """Raises `NotOwnerError`."""
        flow = self.by_partition.get(topic_partition)
        if flow is None:
            raise NotOwnerError(f"{topic_partition} is not owned by this member")
        return flow

    def put_last(self, flow: TopicPartitionState) -> None:
        """The others come before it next time."""
        self.by_partition[flow.topic_partition] = self.by_partition.pop(flow.topic_partition)

    def are_drained(self, partitions: Iterable[TopicPartition]) -> bool:
        """Nothing of these is in the application's hands."""
        return all(flow.tracker.unacked == 0 for flow in self.of(partitions))

    def news(self, partitions: Iterable[TopicPartition]) -> ProcessedPositions:
        """What of these is processed and not committed yet."""
        flows = self.of(partitions)
        positions = {flow.topic_partition: at for flow in flows if (at := flow.to_commit()) is not None}
        return ProcessedPositions(positions, self.seeks(positions), self.last_move_id)

    def seeks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Those among them that were sought, each with the number of its last seek."""
        return {flow.topic_partition: flow.sought for flow in self.of(partitions) if flow.sought}


class PendingRevocations:
    """The waiting ones; each is finished once. Guarded by its user's lock."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[frozenset[TopicPartition], Callable[[], None]]] = {}
        self._last = 0
        self._closed = False

    def add(self, partitions: frozenset[TopicPartition], finish: Callable[[], None]) -> int:
        self._last += 1
        self._waiting[self._last] = (partitions, finish)
        return self._last

    def take(self, number: int) -> bool:
        """Takes one off; False where it has been finished already."""
        return self._waiting.pop(number, None) is not None

    @property
    def is_closed(self) -> bool:
        """No acknowledgement comes any more: a drain is over as soon as it begins."""
        return self._closed

    def ready(self, is_drained: Callable[[Iterable[TopicPartition]], bool]) -> list[Callable[[], None]]:
        """What finishes those that need not wait any longer."""
        return [finish for partitions, finish in self._waiting.values() if is_drained(partitions)]

    def close(self) -> list[Callable[[], None]]:
        """What finishes all of them; none waits until `reopen`."""
        self._closed = True
        return [finish for _, finish in self._waiting.values()]

    def reopen(self) -> None:
        self._closed = False
