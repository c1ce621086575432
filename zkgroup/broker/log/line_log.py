"""Logs as ports, and logs in memory.

A log keeps the lines of one replica; a `LogDir` keeps the logs of one broker.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from typing import Protocol

from zkgroup.broker.log.leader_epochs import LeaderEpochs
from zkgroup.errors import ReplicaStorageError
from zkgroup.model import TopicPartition
from zkgroup.wire.replica_host import HEAD_BYTES, LineBatch, end_of


class LineLog(Protocol):
    """The lines of one replica, in batches without gaps from offset 0."""

    @property
    def end_offset(self) -> int:
        """Offset that the next line will get."""
        ...

    @property
    def epochs(self) -> LeaderEpochs: ...

    @property
    def kept_high_watermark(self) -> int | None:
        """What was kept last; None in a log that was made without one."""
        ...

    def keep_high_watermark(self, offset: int) -> None: ...

    def begin_epoch(self, leader_epoch: int) -> None:
        """Marks the end as the start of a term. Not earlier than any mark."""
        ...

    def append(self, batch: LineBatch) -> None:
        """Takes in a batch that begins at the end, of the latest epoch or a later one, which it begins."""
        ...

    def read(self, offset: int, end: int, max_bytes: int) -> tuple[LineBatch, ...]:
        """Batches from the one that holds `offset`, as long as they end at or below `end`.

        At least one where there is one, else as many as fit `max_bytes`, each with its `HEAD_BYTES`.
        """
        ...

    def cut(self, offset: int) -> None:
        """Removes the lines from an offset on, and those before it in the same batch."""
        ...

    def close(self) -> None: ...


class LogDir(Protocol):
    """The directory of a broker's logs: `DiskLogDir` or `MemoryLogDir`."""

    @property
    def folder_id(self) -> str | None:
        """The uuid of the folder; None in memory, which no later process can find again."""
        ...

    def partitions(self) -> Collection[TopicPartition]:
        """Those that have a log here."""
        ...

    def open(self, topic_partition: TopicPartition) -> LineLog | None:
        """The log of a replica, at its last whole batch; None where there is none."""
        ...

    def create(self, topic_partition: TopicPartition, high_watermark: int | None) -> LineLog:
        """A new, empty log, with the high watermark that it keeps."""
        ...

    def delete(self, topic_partition: TopicPartition) -> None:
        """Removes a log that is closed; without effect where there is none."""
        ...

    def close(self) -> None: ...


class MemoryLog:
    """A `LineLog` in memory."""

    def __init__(self, high_watermark: int | None) -> None:
        self._batches: list[LineBatch] = []
        self._epochs = LeaderEpochs()
        self._high_watermark = high_watermark

    @property
    def end_offset(self) -> int:
        return end_of(self._batches[-1]) if self._batches else 0

    @property
    def epochs(self) -> LeaderEpochs:
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


class MemoryLogDir:
    """A `LogDir` in memory. It can outlive its manager, as a folder outlives the process of its broker."""

    def __init__(self) -> None:
        self._logs: dict[TopicPartition, MemoryLog] = {}
        self._broken: set[TopicPartition] = set()

    @property
    def folder_id(self) -> str | None:
        return None

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

    def break_log(self, topic_partition: TopicPartition, broken: bool = True) -> None:
        """Opening, making and deleting this log fails from now on, as on a disk that has gone bad."""
        (self._broken.add if broken else self._broken.discard)(topic_partition)

    def _check(self, topic_partition: TopicPartition) -> None:
        if topic_partition in self._broken:
            raise ReplicaStorageError(f"the log of {topic_partition} is broken")
