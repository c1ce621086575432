"""Kafka's clients for Python: those that are installed take part in the demos.

Each produces to one partition and reads it, and each is a member of a group, which polls, reports what it
processes, and commits. A commit has metadata, the name of the member and the token of its assignment, so
ZooKeeper's log shows who committed what.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import metadata, util
from itertools import chain
from typing import Any, Final, NamedTuple

from zkgroup.clients import kafka_python
from zkgroup.demo.flight_data import TOPIC
from zkgroup.demo.processes import print_event

CALL_S: Final = 60.0
"""Longest wait of a client for its answers."""
POLL_S: Final = 0.2
HEARTBEAT_MS: Final = 500
COMMIT_S: Final = 5.0
"""Longest wait for the answer to a commit."""
COMMIT_EVERY_S: Final = 0.5
RECORDS_AT_ONCE: Final = 500


class ClientRecord(NamedTuple):
    """Key and value of a record."""

    key: bytes
    value: bytes


class LeftOut(NamedTuple):
    """A client or a tool that did not take part."""

    client: str
    reason: str


@dataclass(slots=True)
class ClientWork:
    """The work of a member: its settings, its progress, and when it commits."""

    client_id: str
    group: str
    bootstrap: str
    topic: str = TOPIC
    session_timeout_ms: int = 6_000
    take: Callable[[tuple[int, int], bytes, bytes, int], object] = field(init=False)
    """Gets each record: its partition and offset, key, value, and the token of the assignment."""
    is_over: Callable[[], bool] = field(init=False)
    """True when the member is to leave."""
    positions: dict[int, int] = field(default_factory=dict)
    """Partition to the offset of the next record."""
    _tokens: dict[int, int] = field(default_factory=dict)
    """Of the assignment of each partition."""
    _is_committed: bool = True
    _due_s: float = 0.0

    def settings(self) -> dict[str, Any]:
        """Settings that all clients have, by Java's names."""
        return {
            "client.id": self.client_id,
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": self.session_timeout_ms,
            "heartbeat.interval.ms": HEARTBEAT_MS,
        }

    def assigned(self, partitions: Collection[int]) -> None:
        """Begins a new assignment; its token is greater than those of all earlier ones of any member."""
        self.positions.clear()
        self._tokens = dict.fromkeys(partitions, _now_ms())

    def polls(self) -> Iterator[None]:
        """Yields for each poll, the last time when the member is to leave; a commit is due after that one."""
        while not self.is_over():
            yield
        self._is_committed, self._due_s = False, 0.0
        yield

    def process(self, partition: int, offset: int, key: bytes, value: bytes) -> None:
        """Passes a record on.

        Where no assignment is reported, a record that does not follow the one before begins a new one.
        """
        token = self._tokens.get(partition)
        if token is None or self.positions.get(partition, offset) != offset:
            token = self._tokens[partition] = _now_ms()
        self.take((partition, offset), key, value, token)
        self.positions[partition] = offset + 1
        self._is_committed = False

    def is_due(self) -> bool:
        """Returns whether the positions are to be committed now."""
        if self._is_committed or time.monotonic() < self._due_s:
            return False
        self._due_s, self._is_committed = time.monotonic() + COMMIT_EVERY_S, True
        return bool(self.positions)

    def committed(self) -> list[tuple[int, int, str]]:
        """What is committed: partition, position, and metadata, which name member and token."""
        found = list(self.positions.items())
        return [(n, at, f"{self.client_id} {self._tokens.get(n, 0)}") for n, at in found]

    @contextmanager
    def committing(self, *errors: type[Exception]) -> Iterator[None]:
        """Prints the error of a commit, which is due again."""
        try:
            yield
        except errors as error:
            self.not_committed(type(error).__name__)

    def not_committed(self, error: str) -> None:
        self._is_committed = False
        print_event("not_committed", error=error)


def _now_ms() -> int:
    """Milliseconds on the clock that all processes of a machine share."""
    return time.monotonic_ns() // 1_000_000


Commit = Callable[[], Coroutine[Any, Any, None]]


def _settings_of(work: ClientWork, assignor: object) -> dict[str, Any]:
    """The settings as kafka-python and aiokafka name them."""
    own = {"metadata.max.age.ms": 5_000, "partition.assignment.strategy": [assignor]}
    own |= {"bootstrap.servers": work.bootstrap.split(","), "enable.auto.commit": False}
    return {name.replace(".", "_"): value for name, value in (work.settings() | own).items()}


def _listener(kind: Any, work: ClientWork, commit: Commit) -> Any:
    """A listener for kafka-python and aiokafka: it awaits its commit before the partitions go."""

    class Listener(kind):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Any) -> None:
            if work.positions:
                await commit()
            work.assigned(())

        async def on_partitions_assigned(self, assigned: Any) -> None:
            work.assigned([each.partition for each in assigned])

    return Listener()


def _process(work: ClientWork, polled: Any) -> None:
    """Processes what a poll of kafka-python or aiokafka has returned."""
    for one in chain.from_iterable(polled.values()):
        work.process(one.partition, one.offset, one.key, one.value)


def _offsets(kafka: Any, work: ClientWork, *epoch: int) -> dict[Any, Any]:
    """The positions as kafka-python and aiokafka commit them."""
    entry, tp = kafka.structs.OffsetAndMetadata, kafka.TopicPartition
    return {tp(work.topic, number): entry(at, text, *epoch) for number, at, text in work.committed()}


def _produce_kafka_python(bootstrap: str, topic: str, records: Sequence[ClientRecord]) -> list[int]:
    """Without compression."""
    kafka = kafka_python.load("zkgroup demo brokers")
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap.split(","), acks="all", linger_ms=5, **kafka_python.connecting()
    )
    try:
        sent = [producer.send(topic, one.value, one.key, partition=0) for one in records]
        return [one.get(CALL_S).offset for one in sent]
    finally:
        producer.close(timeout=CALL_S)


def _consume_kafka_python(work: ClientWork) -> None:
    kafka = kafka_python.load("zkgroup demo")
    from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    errors, settings = kafka.errors, _settings_of(work, RangePartitionAssignor)
    consumer = kafka.KafkaConsumer(**settings, **kafka_python.connecting())

    async def commit() -> None:
        """For the listener: it is called on the thread that has to send its commit."""
        with work.committing(errors.KafkaError):
            await consumer.commit_async(_offsets(kafka, work, -1))

    consumer.subscribe([work.topic], listener=_listener(AsyncConsumerRebalanceListener, work, commit))
    try:
        for _ in work.polls():
            with suppress(errors.KafkaConnectionError):  # of its request for metadata, to a dead broker
                _process(work, consumer.poll(POLL_S * 1000, max_records=RECORDS_AT_ONCE))
            if work.is_due():
                with work.committing(errors.KafkaError):
                    consumer.commit(_offsets(kafka, work, -1), timeout_ms=COMMIT_S * 1000)
    finally:
        consumer.close(autocommit=False)


def _produce_confluent_kafka(bootstrap: str, topic: str, records: Sequence[ClientRecord]) -> list[int]:
    """librdkafka, with gzip. An error of a record is raised by `flush`."""
    from confluent_kafka import KafkaException, Producer

    settings = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5, "compression.type": "gzip"}
    producer, offsets = Producer({**settings, "enable.idempotence": True}), list[int]()

    def answered(error: object, message: Any) -> None:
        """Those of a partition come in its order."""
        if error is not None:
            raise KafkaException(error)
        offsets.append(message.offset())

    for one in records:
        producer.produce(topic, one.value, one.key, 0, on_delivery=answered)
    producer.flush(CALL_S)
    return offsets


def _consume_confluent_kafka(work: ClientWork) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    own = {
        "bootstrap.servers": work.bootstrap,
        "enable.auto.commit": False,
        "topic.metadata.refresh.interval.ms": 5_000,
        "reconnect.backoff.max.ms": 500,
        "partition.assignment.strategy": "range",
        "log_level": 0,
    }

    def commit() -> None:
        offsets = [TopicPartition(work.topic, *one) for one in work.committed()]
        try:
            stored = consumer.commit(offsets=offsets, asynchronous=False)
            errors = [one.error for one in stored if one.error is not None]
        except KafkaException as error:
            errors = [error.args[0]]
        for name in {one.name() for one in errors}:
            work.not_committed(name)

    def assigned(_: object, partitions: Iterable[Any]) -> None:
        work.assigned([each.partition for each in partitions])

    def revoked(_: object, partitions: object) -> None:
        if work.positions:
            commit()
        work.assigned(())

    with closing(Consumer(work.settings() | own)) as consumer:
        consumer.subscribe([work.topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
        for _ in work.polls():
            for one in consumer.consume(RECORDS_AT_ONCE, POLL_S):
                if one.error() is None:
                    work.process(one.partition(), one.offset(), one.key(), one.value())
            if work.is_due():
                commit()


def _produce_aiokafka(bootstrap: str, topic: str, records: Sequence[ClientRecord]) -> list[int]:
    """With gzip, in an event loop of its own."""
    from aiokafka import AIOKafkaProducer

    async def produce() -> list[int]:
        settings = {"enable_idempotence": True, "compression_type": "gzip", "linger_ms": 5}
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, **settings) as producer:
            sent = [await producer.send(topic, one.value, one.key, 0) for one in records]
            return [one.offset for one in await asyncio.gather(*sent)]

    return asyncio.run(asyncio.wait_for(produce(), CALL_S))


def _consume_aiokafka(work: ClientWork) -> None:
    import aiokafka
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    async def consume() -> None:
        async def commit() -> None:
            with work.committing(aiokafka.errors.KafkaError, TimeoutError):
                await asyncio.wait_for(consumer.commit(_offsets(aiokafka, work)), COMMIT_S)

        consumer = aiokafka.AIOKafkaConsumer(**_settings_of(work, RangePartitionAssignor))
        listener = _listener(aiokafka.ConsumerRebalanceListener, work, commit)
        consumer.subscribe([work.topic], listener=listener)
        async with consumer:
            for _ in work.polls():
                wait_ms = int(POLL_S * 1000)
                _process(work, await consumer.getmany(timeout_ms=wait_ms, max_records=RECORDS_AT_ONCE))
                if work.is_due():
                    await commit()

    asyncio.run(consume())


@dataclass(frozen=True, slots=True)
class PythonClient:
    """A client for Python."""

    name: str
    """Of its package."""
    module: str
    produce: Callable[[str, str, Sequence[ClientRecord]], list[int]]
    """Produces to partition 0 of a topic with acks=all, and returns the offsets."""
    consume: Callable[[ClientWork], None]
    """Consumes as a member until it is to leave."""

    @property
    def version(self) -> str:
        return metadata.version(self.name)

    @property
    def reason(self) -> str:
        """The reason why it takes no part; empty if it does."""
        return "" if util.find_spec(self.module) else f"not installed: pip install {self.name}"

    def read(self, bootstrap: str, topic: str, count: int) -> dict[int, ClientRecord]:
        """Reads so many records of a topic of one partition, by their offsets, in a group of its own."""
        found, until_s = dict[int, ClientRecord](), time.monotonic() + CALL_S
        work = ClientWork(self.name, f"read-{self.name}", bootstrap, topic)
        work.take = lambda at, key, value, token: found.update({at[1]: ClientRecord(key, value)})
        work.is_over = lambda: len(found) >= count or time.monotonic() > until_s
        self.consume(work)
        return found


CLIENTS: Final = (
    PythonClient("kafka-python", "kafka", _produce_kafka_python, _consume_kafka_python),
    PythonClient("confluent-kafka", "confluent_kafka", _produce_confluent_kafka, _consume_confluent_kafka),
    PythonClient("aiokafka", "aiokafka", _produce_aiokafka, _consume_aiokafka),
)
