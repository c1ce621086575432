"""The ports behind which lines are kept: the log of one replica, and the directory of a broker's logs.

All methods but `close` may raise `ReplicaStorageError`; a log that has raised it is closed and opened anew
before it is used again. What a log has taken in is there for the next process that opens it, after the death
of the process too where the place is a disk.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from zkgroup.broker.log.leader_epochs import LeaderEpochs
from zkgroup.model import TopicPartition
from zkgroup.wire.replica_host import LineBatch


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
