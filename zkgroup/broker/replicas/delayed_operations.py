"""Operations that wait for other replicas: appends with acks=all, and deletions of records.

Sources: kafka/server/ReplicaManager.scala (`appendRecords`, `deleteRecords`), DelayedProduce.scala,
DelayedDeleteRecords.scala @2.8.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from zkgroup.broker.replica_view import AppendResult
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.replicas.min_insync import MinInsync
from zkgroup.model import TopicPartition
from zkgroup.wire.messages import ErrorCode
from zkgroup.wire.records import ACKS_ALL, HIGH_WATERMARK, NO_OFFSET
from zkgroup.wire.schema import Buffer


def append_records(
    host: ReplicaManager, records: Mapping[TopicPartition, Buffer], acks: int, min_insync: MinInsync | None
) -> dict[TopicPartition, AppendResult]:
    """Appends the records of each partition, and returns the results at once, as for acks=1.

    With acks=all and too few in-sync replicas a partition's error is 19, and nothing is appended to it.
    """
    results = {}
    for tp, batches in records.items():
        if acks == ACKS_ALL and (lack := lacks_replicas(host, tp, min_insync)) is not None:
            results[tp] = AppendResult(ErrorCode.NOT_ENOUGH_REPLICAS, message=lack)
        else:
            results[tp] = host.append(tp, batches)
    return results


def lacks_replicas(host: ReplicaManager, tp: TopicPartition, min_insync: MinInsync | None) -> str | None:
    """The reason why acks=all is refused: this replica leads, and too few replicas are in sync."""
    if min_insync is None or (counted := host.maximal_isr_size(tp)) is None:
        return None
    if not min_insync.lacks(tp, counted):
        return None
    return f"{tp}: fewer than {min_insync.wanted(tp.topic)} replicas are in sync"


class DelayedProduce:
    """Appends with acks=all that wait until the high watermarks have passed their records."""

    def __init__(
        self, results: Mapping[TopicPartition, AppendResult], min_insync: MinInsync | None = None
    ) -> None:
        """`results` are those of `append_records`; appends with an error do not wait."""
        self._min_insync = min_insync
        self.results = dict(results)
        """The result of each partition; `check` replaces those of appends that wait."""
        self.waiting = {tp for tp, result in results.items() if result.error is ErrorCode.NONE}
        """Partitions whose high watermark has not passed the records yet."""

    def check(self, host: ReplicaManager) -> bool:
        """Sets the results of the appends that no longer wait. Returns whether none waits.

        A new leader epoch of the same leader does not end a wait: the records are still in its log. If they
        may not be in its log any more, the error is 6. It is 20 if too few replicas are in sync at the end.
        """
        for tp in tuple(self.waiting):
            if (result := self._checked(host, tp, self.results[tp])) is not None:
                self.results[tp] = result
                self.waiting.discard(tp)
        return not self.waiting

    def _checked(self, host: ReplicaManager, tp: TopicPartition, result: AppendResult) -> AppendResult | None:
        reached = host.high_watermark(tp) if host.keeps(tp, result.leader_epoch, result.end_offset) else None
        if reached is None:
            error, message = (
                ErrorCode.NOT_LEADER_FOR_PARTITION,
                f"{tp}: this broker does not lead it any more",
            )
        elif reached < result.end_offset:
            return None
        elif (lack := lacks_replicas(host, tp, self._min_insync)) is not None:
            error, message = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, lack
        else:
            return result._replace(high_watermark=reached)
        return result._replace(error=error, high_watermark=-1, message=message)

    def time_out(self) -> None:
        """Ends the wait: the error of the appends that still wait is 7. Their records stay in the log."""
        for tp in self.waiting:
            message = f"{tp}: not replicated in time; the records are in the log of the leader"
            self.results[tp] = self.results[tp]._replace(error=ErrorCode.REQUEST_TIMED_OUT, message=message)
        self.waiting.clear()


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
