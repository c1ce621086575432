"""The fetched, delivered and processed records of each owned partition (Kafka's SubscriptionState).

`TopicPartitionState` exists as long as one claim of a partition; `SubscriptionState` has all of them under a
lock. Both are used by `Delivery`.

Records are delivered in the order of their offsets (rising, with gaps). The position to commit is the offset
after the last record of the unbroken run of acknowledged ones, counted in *delivery* order: nothing is
committed that was not acknowledged (Kafka's meaning: the next offset to consume). `AckTracker` computes it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence

from zkgroup.consumer.lease import ProcessedPositions
from zkgroup.errors import NotOwnerError
from zkgroup.model import LeaseGrant, TopicPartition
from zkgroup.sources.port import Record, SourceRecord


class AckTracker:
    """Delivered and acknowledged records of one partition, for one claim. Not thread-safe."""

    __slots__ = ("_acked", "_order", "next_offset", "position", "topic_partition", "unacked_max")

    def __init__(self, topic_partition: TopicPartition, start: int, unacked_max: int) -> None:
        self.topic_partition = topic_partition
        self.position = start
        """The position to commit: everything before this offset is processed."""
        self.next_offset = start
        """The lowest offset of the next record to deliver."""
        self.unacked_max = unacked_max
        self._order: OrderedDict[int, bool] = OrderedDict()  # cheap removal at the head
        self._acked = 0

    def delivered(self, offset: int) -> None:
        if offset < self.next_offset:
            raise ValueError(f"{self.topic_partition}: offset {offset} after {self.next_offset - 1}")
        self._order[offset] = False
        self.next_offset = offset + 1

    def is_waiting(self, offset: int) -> bool:
        """Returns whether a record was delivered and is not acknowledged."""
        return self._order.get(offset) is False

    def ack(self, offset: int) -> bool:
        """Acknowledges a delivered record; False (ignored) if it is not waiting for that."""
        if not self.is_waiting(offset):
            return False
        self._order[offset] = True
        self._acked += 1
        self._advance()
        return True

    def _advance(self) -> None:
        """Moves the position past the acknowledged records at the head of the delivery order."""
        while self._order:
            offset = next(iter(self._order))
            if not self._order[offset]:
                return
            del self._order[offset]
            self._acked -= 1
            self.position = offset + 1

    def seek(self, offset: int) -> None:
        """Starts anew from this offset; acknowledgements of earlier deliveries are ignored."""
        self._order.clear()
        self._acked = 0
        self.position = self.next_offset = offset

    @property
    def unacked(self) -> int:
        """Number of records delivered and not acknowledged."""
        return len(self._order) - self._acked

    @property
    def held(self) -> int:
        """Number of records stored: unacknowledged ones, and acknowledged ones behind them."""
        return len(self._order)

    @property
    def is_full(self) -> bool:
        """True if delivery waits until the oldest unacknowledged record is acknowledged (`max_unacked`): the
        acknowledged records behind it are stored until then."""
        return len(self._order) >= self.unacked_max


PositionEpoch = tuple[int, int]
"""Token of a claim, and number of position changes within it."""


class TopicPartitionState:
    """The buffer, the position and the flags of one claim."""

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
        """Offset of the next fetch; None until the reset policy has given one."""
        self.committed: int | None = start if known else None
        """The last known value of the offset znode."""
        self.epoch = 0
        """Number of position changes other than by delivery; records fetched before one are dropped."""
        self.started = False
        """True if `on_assigned` of this claim has returned."""
        self.stopped = False
        """True if the claim is being revoked."""
        self.paused = False
        self.settling = not known
        """True if the start position is not committed yet, so that nothing is delivered."""
        self.sought = 0
        """`epoch` of the last seek of the application or the reset policy; the first commit after it may go
        back. 0 if there was none, or if another client has changed the position since."""
        self.buffer: deque[SourceRecord] = deque()
        self.full = False
        """True if enough is buffered; the source is asked again when half of it is delivered."""

    @property
    def topic_partition(self) -> TopicPartition:
        return self.grant.topic_partition

    @property
    def identity(self) -> PositionEpoch:
        """Identifies this claim and its position epoch among all of the partition."""
        return (self.grant.token, self.epoch)

    def place(self, offset: int) -> dict[str, object]:
        """The fields of an offset of this claim, for the history."""
        topic, partition = self.topic_partition.topic, self.topic_partition.partition
        return {"topic": topic, "partition": partition, "offset": offset, "token": self.grant.token}

    @property
    def is_open(self) -> bool:
        """Returns whether a record may be delivered by this state; the lease is checked separately."""
        return (
            self.started
            and not self.stopped
            and not self.paused
            and not self.settling
            and not self.tracker.is_full
        )

    @property
    def wants(self) -> bool:
        """Returns whether the source should be asked for more."""
        return self.fetch_offset is not None and not self.stopped and not self.full

    @property
    def unresolved(self) -> bool:
        """Returns whether the reset policy must give the position."""
        return self.fetch_offset is None and not self.stopped

    def accept(self, records: Sequence[SourceRecord], buffered_max: int) -> None:
        """Buffers the records that were fetched from `fetch_offset`."""
        for record in records:
            if self.fetch_offset is not None and record.offset >= self.fetch_offset:
                self.buffer.append(record)
                self.fetch_offset = record.offset + 1
        self.full = len(self.buffer) >= buffered_max

    def reached_low_watermark(self, buffered_max: int) -> bool:
        """Returns whether so much was delivered that the source should be asked again; true once."""
        if not self.full or len(self.buffer) > buffered_max // 2:
            return False
        self.full = False
        return True

    def hand_out(self) -> Record:
        """Removes the next buffered record and returns it for delivery."""
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
        """Seeks for the application, which may also go back behind the committed offset."""
        self._jump(offset)
        self.settling = False
        self.sought = self.epoch

    def move(self, offset: int | None) -> None:
        """Takes over another client's offset; None if it is negative, so that the reset policy decides."""
        self._jump(offset)
        self.settling = offset is None
        self.committed = offset
        self.sought = 0

    def restart(self) -> None:
        """Makes the reset policy decide, which may go back: the source does not have the position, perhaps
        one of the policy itself, whose commit may be running."""
        self._jump(None)
        self.settling = True
        self.sought = self.epoch

    def begin_at(self, offset: int) -> None:
        """Takes the reset policy's position, which is committed before anything is delivered."""
        self._jump(offset)
        self.sought = self.epoch if self.committed is not None or self.sought else 0

    def _jump(self, offset: int | None) -> None:
        """Drops buffered and unacknowledged records; None: the position is unknown."""
        self.epoch += 1
        self.buffer.clear()
        self.full = False
        self.fetch_offset = offset
        self.tracker.seek(offset if offset is not None else self.tracker.position)

    def to_commit(self) -> int | None:
        """The processed position; None if it is committed."""
        if self.settling or self.tracker.position == self.committed:
            return None
        return self.tracker.position

    def was_committed(self, offset: int) -> None:
        self.committed = offset


class SubscriptionState:
    """The states of all owned partitions. Every method and field is used with `lock` taken."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.by_partition: dict[TopicPartition, TopicPartitionState] = {}
        self.last_seek_id = 0
        """`seek_id` of the last `Assign` or `SeekTo` performed."""

    def find(self, topic_partition: TopicPartition) -> TopicPartitionState | None:
        return self.by_partition.get(topic_partition)

    def of(self, partitions: Iterable[TopicPartition]) -> list[TopicPartitionState]:
        """The states of the owned partitions among these."""
        return [state for tp in partitions if (state := self.by_partition.get(tp)) is not None]

    def owned(self, topic_partition: TopicPartition) -> TopicPartitionState:
        """The state of an owned partition. Raises `NotOwnerError`."""
        state = self.by_partition.get(topic_partition)
        if state is None:
            raise NotOwnerError(f"{topic_partition} is not owned by this member")
        return state

    def put_last(self, state: TopicPartitionState) -> None:
        """Moves a partition behind the others for the next delivery."""
        self.by_partition[state.topic_partition] = self.by_partition.pop(state.topic_partition)

    def are_drained(self, partitions: Iterable[TopicPartition]) -> bool:
        """Returns whether all delivered records of these partitions are acknowledged."""
        return all(state.tracker.unacked == 0 for state in self.of(partitions))

    def news(self, partitions: Iterable[TopicPartition]) -> ProcessedPositions:
        """The positions of these partitions that are processed and not committed yet."""
        states = self.of(partitions)
        positions = {state.topic_partition: at for state in states if (at := state.to_commit()) is not None}
        return ProcessedPositions(positions, self.seeks(positions), self.last_seek_id)

    def seeks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The partitions with a seek, each with the number of its last seek."""
        return {state.topic_partition: state.sought for state in self.of(partitions) if state.sought}


class PendingRevocations:
    """Revocations that wait for acknowledgements; each is finished once. Guarded by its user's lock."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[frozenset[TopicPartition], Callable[[], None]]] = {}
        self._last = 0
        self._closed = False

    def add(self, partitions: frozenset[TopicPartition], finish: Callable[[], None]) -> int:
        self._last += 1
        self._waiting[self._last] = (partitions, finish)
        return self._last

    def take(self, number: int) -> bool:
        """Removes one; False if it was finished already."""
        return self._waiting.pop(number, None) is not None

    @property
    def is_closed(self) -> bool:
        """Returns whether revocations finish at once, as no acknowledgement comes any more."""
        return self._closed

    def ready(self, is_drained: Callable[[Iterable[TopicPartition]], bool]) -> list[Callable[[], None]]:
        """The functions that finish revocations which need not wait any longer."""
        return [finish for partitions, finish in self._waiting.values() if is_drained(partitions)]

    def close(self) -> list[Callable[[], None]]:
        """The functions that finish all revocations; later ones do not wait until `reopen`."""
        self._closed = True
        return [finish for _, finish in self._waiting.values()]

    def reopen(self) -> None:
        self._closed = False
