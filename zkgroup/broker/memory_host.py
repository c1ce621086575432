"""Lines kept in memory: for tests and simulation, and for a broker that is given no folder."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from itertools import count

from zkgroup.broker.replica_host import ReplicaHost
from zkgroup.broker.replication.epochs import Epochs
from zkgroup.broker.replication.hosting import HostedReplicas
from zkgroup.errors import ReplicaStorageError
from zkgroup.model import TopicPartition
from zkgroup.wire.line_batches import HEAD_BYTES, end_of
from zkgroup.wire.replica_host import FetchLinesRequest, LineBatch

_places = count(1)


class MemoryLog:
    """A `LineLog` in memory."""

    def __init__(self, high_watermark: int | None) -> None:
        self._batches: list[LineBatch] = []
        self._epochs = Epochs()
        self._high_watermark = high_watermark

    @property
    def end_offset(self) -> int:
        return end_of(self._batches[-1]) if self._batches else 0

    @property
    def epochs(self) -> Epochs:
        return self._epochs

    @property
    def kept_high_watermark(self) -> int | None:
        return self._high_watermark

    def keep_high_watermark(self, offset: int) -> None:
        self._high_watermark = offset

    def begin_epoch(self, leader_epoch: int) -> None:
        self._epochs = self._epochs.begin(leader_epoch, self.end_offset)

    def append(self, batch: LineBatch) -> None:
        self.begin_epoch(batch.leader_epoch)
        self._batches.append(batch)

    def read(self, offset: int, end: int, max_bytes: int) -> tuple[LineBatch, ...]:
        found: list[LineBatch] = []
        size = 0
        for batch in self._batches[self._index(offset) :]:
            size += HEAD_BYTES + len(batch.lines)
            if end_of(batch) > end or (found and size > max_bytes):
                break
            found.append(batch)
        return tuple(found)

    def cut(self, offset: int) -> None:
        del self._batches[self._index(offset) :]
        self._epochs = self._epochs.cut(self.end_offset)

    def close(self) -> None: ...

    def _index(self, offset: int) -> int:
        """Of the batch that holds the line, or of the one after the last."""
        return bisect_right(self._batches, offset, key=end_of)


class MemoryPlace:
    """A `LogPlace` in memory. It can outlive its host, as a folder outlives the process of its broker."""

    def __init__(self) -> None:
        self._logs: dict[TopicPartition, MemoryLog] = {}
        self._broken: set[TopicPartition] = set()
        self._number = next(_places)

    @property
    def incarnation(self) -> str:
        return f"memory-{self._number}"

    def partitions(self) -> Collection[TopicPartition]:
        return tuple(sorted(self._logs))

    def open(self, topic_partition: TopicPartition) -> MemoryLog | None:
        self._check(topic_partition)
        return self._logs.get(topic_partition)

    def create(self, topic_partition: TopicPartition, high_watermark: int | None) -> MemoryLog:
        self._check(topic_partition)
        return self._logs.setdefault(topic_partition, MemoryLog(high_watermark))

    def delete(self, topic_partition: TopicPartition) -> None:
        self._check(topic_partition)
        self._logs.pop(topic_partition, None)

    def close(self) -> None: ...

    def lose(self) -> None:
        """What a new disk does: no partition is here any more. Close the host before."""
        self._logs.clear()
        self._number = next(_places)

    def break_log(self, topic_partition: TopicPartition, broken: bool = True) -> None:
        """Opening, making and deleting this log fails from now on, as on a disk that has gone bad."""
        (self._broken.add if broken else self._broken.discard)(topic_partition)

    def _check(self, topic_partition: TopicPartition) -> None:
        if topic_partition in self._broken:
            raise ReplicaStorageError(f"the log of {topic_partition} is broken")


class MemoryReplicaHost(HostedReplicas):
    """A `ReplicaHost` in memory, whose followers catch up when the script says so."""

    def __init__(self, broker: int, place: MemoryPlace | None = None) -> None:
        """`place`: what a former host of this broker left behind; a new, empty one by default."""
        super().__init__(broker, place or MemoryPlace())
        self._held: set[TopicPartition] = set()

    def hold(self, topic_partition: TopicPartition) -> None:
        """As a follower this replica asks for nothing from now on, so it falls behind."""
        self._held.add(topic_partition)

    def release(self, topic_partition: TopicPartition) -> None:
        """It asks again."""
        self._held.discard(topic_partition)

    def next_fetch(
        self, topic_partition: TopicPartition, *, broker_epoch: int, max_bytes: int, max_wait_ms: int
    ) -> FetchLinesRequest | None:
        if topic_partition in self._held:
            return None
        return super().next_fetch(
            topic_partition, broker_epoch=broker_epoch, max_bytes=max_bytes, max_wait_ms=max_wait_ms
        )

    def catch_up(
        self,
        leader: ReplicaHost,
        topic_partition: TopicPartition,
        *,
        until: int | None = None,
        broker_epoch: int = 0,
    ) -> bool:
        """Fetches from a leader's host, batch by batch: up to its end, or until `until` lines are here.

        The leader knows afterwards how far this follower has come. Returns whether it came that far.
        """
        return replicate(leader, self, topic_partition, until=until, broker_epoch=broker_epoch)


def replicate(
    leader: ReplicaHost,
    follower: ReplicaHost,
    topic_partition: TopicPartition,
    *,
    until: int | None = None,
    broker_epoch: int = 0,
) -> bool:
    """What a follower's fetches do, without a network in between; see `MemoryReplicaHost.catch_up`."""
    while True:
        request = follower.next_fetch(topic_partition, broker_epoch=broker_epoch, max_bytes=1, max_wait_ms=0)
        if request is None:
            return False
        response = leader.fetch(request)
        if until is not None and request.offset >= until and response.diverging is None:
            return response.error == 0
        if not follower.take(request, response):
            return False
        if response.diverging is None and request.offset >= response.log_end_offset:
            return until is None
