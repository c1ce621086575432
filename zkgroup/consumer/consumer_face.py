"""What both faces of a consumer have beside polling: acknowledging, positions, pausing."""

from __future__ import annotations

from abc import abstractmethod

from zkgroup.consumer.consuming import ConsumingMember
from zkgroup.consumer.engine import MemberEngine
from zkgroup.consumer.face import Face
from zkgroup.consumer.opening import MemberOptions
from zkgroup.consumer.records import Record
from zkgroup.consumer.sources.port import RecordSource, checked_source
from zkgroup.consumer.worker import CallbackRunner
from zkgroup.model import TopicPartition


class ConsumerFace(Face):
    """Plain methods and properties; each may be used from any thread."""

    def __init__(self, options: MemberOptions, source: RecordSource) -> None:
        super().__init__(options)
        self._source = checked_source(source)
        self._consuming: ConsumingMember | None = None

    @abstractmethod
    def _wake(self) -> None:
        """There may be something new for whoever waits for records; from any thread."""

    def _put_together(self, runner: CallbackRunner) -> MemberEngine:
        self._consuming = ConsumingMember(self._options, self._source, runner, self._wake)
        return self._consuming.engine

    def _launch(self, engine: MemberEngine) -> None:
        assert self._consuming is not None
        self._consuming.start()

    def _begin_close(self, engine: MemberEngine, timeout_s: float) -> None:
        if self._consuming is not None:
            self._consuming.begin_close(timeout_s)

    @property
    def _member(self) -> ConsumingMember:
        """The member, where calls on it can succeed."""
        engine = self._engine
        assert self._consuming is not None, engine
        return self._consuming

    def ack(self, record: Record) -> None:
        """Says that a record is processed. Ignored and counted when its partition has been lost meanwhile."""
        self._member.ack(record)

    @property
    def acks_ignored(self) -> int:
        """Acknowledgements that came after their partition was lost."""
        return self._consuming.delivery.acks_ignored if self._consuming is not None else 0

    def position(self, topic_partition: TopicPartition) -> int | None:
        """Offset of the next record to be delivered; None until the reset policy has given one.

        Raises `NotOwnerError`.
        """
        return self._member.position(topic_partition)

    def pause(self, *partitions: TopicPartition) -> None:
        """Delivers nothing of these until `resume`, also when they come back after a rebalance."""
        self._member.pause(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Delivers these again."""
        self._member.resume(partitions)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """What `pause` stopped."""
        return self._member.delivery.paused
