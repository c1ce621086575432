"""Deletions of records that wait until the followers have deleted theirs.

Source: kafka/server/ReplicaManager.scala (`deleteRecords`), kafka/server/DelayedDeleteRecords.scala @2.8.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import HIGH_WATERMARK, NO_OFFSET


class DeletedRecords(NamedTuple):
    """The result of a deletion."""

    error: ErrorCode
    low_watermark: int = NO_OFFSET
    """The smallest log start offset of the live replicas; -1 with an error other than 7."""


class DelayedDeleteRecords:
    """Deletes the records of leaders, and waits until no live replica has them."""

    def __init__(
        self, host: ReplicaManager, offsets: Mapping[TopicPartition, int], is_live: Callable[[int], bool]
    ) -> None:
        """Deletes below each offset, -1 for the high watermark. `is_live`: whether a broker is waited for."""
        self._is_live = is_live
        self.results: dict[TopicPartition, DeletedRecords] = {}
        """The result of each partition; `check` replaces those of deletions that wait."""
        self._waiting: dict[TopicPartition, int] = {}
        for tp, asked in offsets.items():
            error = host.delete_records(tp, asked)
            self.results[tp] = DeletedRecords(error)
            if error is ErrorCode.NONE:
                self._waiting[tp] = (host.high_watermark(tp) or 0) if asked == HIGH_WATERMARK else asked

    @property
    def waiting(self) -> frozenset[TopicPartition]:
        """The partitions whose followers have not deleted the records yet."""
        return frozenset(self._waiting)

    def check(self, host: ReplicaManager) -> bool:
        """Sets the results of the deletions that no longer wait. Returns whether none waits.

        The error is 6 if this broker does not lead any more; its followers may have the records.
        """
        for tp, offset in tuple(self._waiting.items()):
            low_watermark = host.low_watermark(tp, self._is_live)
            if low_watermark is None:
                self.results[tp] = DeletedRecords(ErrorCode.NOT_LEADER_FOR_PARTITION)
            elif low_watermark >= offset:
                self.results[tp] = DeletedRecords(ErrorCode.NONE, low_watermark)
            else:
                self.results[tp] = DeletedRecords(ErrorCode.REQUEST_TIMED_OUT, low_watermark)
                continue
            del self._waiting[tp]
        return not self._waiting
