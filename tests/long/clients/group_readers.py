"""Members of consumer groups, of each of Kafka's clients: each polls and commits on a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final, Self

from tests.waiting import joined
from zkgroup.model import TopicPartition

POLL_S: Final = 0.1
LONG_POLL_S: Final = 1.0
HEARTBEAT_MS: Final = 100
"""A member notices a rebalance with its next heartbeat."""
SESSION_MS: Final = 30_000


class GroupReader(ABC):
    """One member that reads topics with `range`, commits what it has read, and leaves at the end.

    Its errors are raised by `close`.
    """

    def __init__(self, servers: str, group: str, topics: Iterable[str] = ("t",)) -> None:
        self.servers, self.group, self.topics = servers, group, list(topics)
        self.records: list[tuple[TopicPartition, int]] = []
        self.assigned: frozenset[TopicPartition] = frozenset()
        self.assignments = 0
        """How often it was assigned partitions."""
        self.committed: dict[TopicPartition, int] = {}
        self._owed: set[TopicPartition] = set()
        """Of what was read, partitions whose offset is not committed: a refused commit is made again."""
        self._stops = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._guarded, name=f"{type(self).__name__}-{group}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leaves the group. Idempotent."""
        self._stops.set()
        joined(self._thread)
        if self._error is not None:
            raise self._error

    @property
    def error(self) -> BaseException | None:
        """What has ended the member; `close` raises it."""
        return self._error

    def _guarded(self) -> None:
        try:
            self.run()
        except BaseException as error:  # noqa: BLE001  # raised by `close`
            self._error = error

    def _took(self, partitions: Iterable[Any]) -> None:
        self.assigned = frozenset(TopicPartition(each.topic, each.partition) for each in partitions)
        self._owed.clear()  # what is not committed by now is read again
        self.assignments += 1

    def _read(self, topic: str, partition: int, offset: int) -> None:
        tp = TopicPartition(topic, partition)
        self.records.append((tp, offset))
        self.committed[tp] = offset + 1
        self._owed.add(tp)

    @abstractmethod
    def run(self) -> None:
        """Polls and commits until `_stops` is set, then leaves."""


class KafkaPythonReader(GroupReader):
    """A member of kafka-python, which joins to the end, and reads its committed offsets, within one poll.

    3.0.12 drops the answer to SyncGroup if the timeout of a poll ends at that moment: the member sends no
    heartbeats and gets no partitions, until its session has expired and longer. And it keeps a late answer to
    OffsetFetch for the next assignment of these partitions, whose offsets may be others by then.
    """

    def run(self) -> None:
        from kafka import ConsumerRebalanceListener, KafkaConsumer
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        from kafka.errors import KafkaConnectionError, KafkaError

        took = self._took

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_revoked(self, revoked: Any) -> None: ...

            def on_partitions_assigned(self, assigned: Any) -> None:
                took(assigned)

        consumer = KafkaConsumer(
            bootstrap_servers=self.servers,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=HEARTBEAT_MS,
            session_timeout_ms=SESSION_MS,
            metadata_max_age_ms=1000,
            partition_assignment_strategy=[RangePartitionAssignor],
        )
        coordinator = consumer._coordinator
        join, refresh = coordinator.ensure_active_group, coordinator.refresh_committed_offsets_if_needed
        coordinator.ensure_active_group = lambda timeout_ms=None: join()
        coordinator.refresh_committed_offsets_if_needed = lambda timeout_ms=None: refresh()
        consumer.subscribe(self.topics, listener=Listener())
        try:
            while not self._stops.is_set():
                try:
                    polled = consumer.poll(LONG_POLL_S * 1000)
                except KafkaConnectionError:
                    continue  # it asked a broker that has just been killed for metadata
                for records in polled.values():
                    for record in records:
                        self._read(record.topic, record.partition, record.offset)
                if self._owed:
                    try:
                        consumer.commit()
                    except KafkaError:
                        continue  # a rebalance has begun, or the coordinator moves
                    self._owed.clear()
        finally:
            consumer.close(autocommit=False)


class ConfluentReader(GroupReader):
    """A member of confluent-kafka."""

    def run(self) -> None:
        from confluent_kafka import Consumer, KafkaException
        from confluent_kafka import TopicPartition as Committed

        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "session.timeout.ms": SESSION_MS,
                "partition.assignment.strategy": "range",
                "topic.metadata.refresh.interval.ms": 1000,
            }
        )
        consumer.subscribe(self.topics, on_assign=lambda _, partitions: self._took(partitions))
        while not self._stops.is_set():
            message = consumer.poll(POLL_S)
            if message is not None and message.error() is None:
                self._read(message.topic(), message.partition(), message.offset())
            if self._owed:
                offsets = [Committed(*tp, self.committed[tp]) for tp in self._owed]
                try:
                    consumer.commit(offsets=offsets, asynchronous=False)
                except KafkaException:
                    continue  # as above
                self._owed.clear()
        consumer.close()


class AiokafkaReader(GroupReader):
    """A member of aiokafka."""

    has_default_strategy = False
    """Whether it has aiokafka's own strategy, `roundrobin`."""

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor
        from aiokafka.errors import KafkaError

        from tests.worlds.kafka_clients import stop_aiokafka

        took = self._took

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            async def on_partitions_revoked(self, revoked: Any) -> None: ...

            async def on_partitions_assigned(self, assigned: Any) -> None:
                took(assigned)

        strategy = {"partition_assignment_strategy": [RangePartitionAssignor]}
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.servers,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=HEARTBEAT_MS,
            session_timeout_ms=SESSION_MS,
            metadata_max_age_ms=1000,
            **({} if self.has_default_strategy else strategy),
        )
        consumer.subscribe(self.topics, listener=Listener())
        await consumer.start()
        try:
            while not self._stops.is_set():
                polled = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
                for records in polled.values():
                    for record in records:
                        self._read(record.topic, record.partition, record.offset)
                if self._owed:
                    try:
                        await consumer.commit()
                    except KafkaError:
                        continue  # as above
                    self._owed.clear()
        finally:
            await stop_aiokafka(consumer)


class DefaultAiokafkaReader(AiokafkaReader):
    """A member of aiokafka that names no strategy."""

    has_default_strategy = True


READERS: Final[dict[str, type[GroupReader]]] = {
    "kafka-python": KafkaPythonReader,
    "confluent-kafka": ConfluentReader,
    "aiokafka": AiokafkaReader,
}
