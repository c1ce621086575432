"""Kafka's clients for Python with one set of methods: those that are installed take part in the demos.

Each produces to one partition and reads it, and each is a member of a group, which polls, reports what it
processes, and commits. A commit has metadata, the name of the member and the token of its assignment, so
ZooKeeper's log shows who committed what.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import metadata, util
from itertools import chain
from typing import Any, Final, NamedTuple

from zkgroup.clients import kafka_python
from zkgroup.demo.flight_data import TOPIC, ProcessedFile
from zkgroup.demo.processes import Stopping, print_event
from zkgroup.errors import SourceError

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


class PolledRecord(NamedTuple):
    """A record as a consumer got it: fields that the records of kafka-python and aiokafka have."""

    partition: int
    offset: int
    key: bytes
    value: bytes


@dataclass(slots=True)
class ClientWork:
    """The work of a member: it writes a line for each record, and decides when to commit."""

    client_id: str
    group: str
    bootstrap: str
    topic: str = TOPIC
    session_timeout_ms: int = 6_000
    output: ProcessedFile = field(init=False)
    stopping: Stopping = field(init=False)
    positions: dict[int, int] = field(default_factory=dict)
    """Partition to the offset of the next record."""
    _tokens: dict[int, int] = field(default_factory=dict)
    """Of the assignment of each partition."""
    _is_committed: bool = True
    _committed_s: float = 0.0

    def assigned(self, partitions: Collection[int]) -> None:
        """Begins a new assignment; its token is greater than those of all earlier ones of any member."""
        self.positions.clear()
        self._tokens = dict.fromkeys(partitions, _now_ms())

    def process(self, partition: int, offset: int, value: bytes) -> None:
        """Writes one line to the member's own file.

        Where no assignment is reported, a record that does not follow the one before begins a new one.
        """
        token = self._tokens.get(partition)
        if token is None or self.positions.get(partition, offset) != offset:
            token = self._tokens[partition] = _now_ms()
        self.output.write(partition, offset, value, token)
        self.positions[partition] = offset + 1
        self._is_committed = False

    def is_due(self) -> bool:
        """Returns whether the positions are to be committed now."""
        if self._is_committed or time.monotonic() - self._committed_s < COMMIT_EVERY_S:
            return False
        self._committed_s, self._is_committed = time.monotonic(), True
        return bool(self.positions)

    def metadata(self, partition: int) -> str:
        """Of a commit: member and token."""
        return f"{self.client_id} {self._tokens.get(partition, 0)}"

    def not_committed(self, error: str) -> None:
        """Prints the error of a commit, which is due again."""
        self._is_committed = False
        print_event("not_committed", error=error)


def _now_ms() -> int:
    """Milliseconds on the clock that all processes of a machine share."""
    return time.monotonic_ns() // 1_000_000


def member_settings(work: ClientWork) -> dict[str, Any]:
    """Settings of a member that all clients have, by Java's names."""
    return {
        "client.id": work.client_id,
        "group.id": work.group,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": work.session_timeout_ms,
        "heartbeat.interval.ms": HEARTBEAT_MS,
    }


def _settings_of(work: ClientWork, assignor: object) -> dict[str, Any]:
    """The settings as kafka-python and aiokafka name them."""
    own = {"metadata.max.age.ms": 5_000, "partition.assignment.strategy": [assignor]}
    own |= {"bootstrap.servers": work.bootstrap.split(","), "enable.auto.commit": False}
    return {name.replace(".", "_"): value for name, value in (member_settings(work) | own).items()}


def _listener(kind: Any, work: ClientWork, commit: Callable[..., Coroutine[Any, Any, None]]) -> Any:
    """A listener for kafka-python and aiokafka: it awaits its commit before the partitions go."""

    class Listener(kind):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Any) -> None:
            if work.positions:
                await commit()
            work.assigned(())

        async def on_partitions_assigned(self, assigned: Any) -> None:
            work.assigned([each.partition for each in assigned])

    return Listener()


def _offsets(kafka: Any, work: ClientWork, *epoch: int) -> dict[Any, Any]:
    """The positions as kafka-python and aiokafka commit them."""
    entry, tp = kafka.structs.OffsetAndMetadata, kafka.TopicPartition
    return {tp(work.topic, n): entry(at, work.metadata(n), *epoch) for n, at in list(work.positions.items())}


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


class _KafkaPython:
    def __init__(self, work: ClientWork) -> None:
        self._kafka = kafka = kafka_python.load("zkgroup demo")
        from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        self._work = work
        settings = _settings_of(work, RangePartitionAssignor)
        self._consumer = kafka.KafkaConsumer(**settings, **kafka_python.connecting())
        listener = _listener(AsyncConsumerRebalanceListener, work, self._commit)
        self._consumer.subscribe([work.topic], listener=listener)

    def poll(self) -> Iterable[Any]:
        try:
            polled = self._consumer.poll(POLL_S * 1000, max_records=RECORDS_AT_ONCE)
        except self._kafka.errors.KafkaConnectionError:
            return []  # of its request for metadata, to a broker that has just been killed
        return chain.from_iterable(polled.values())

    def commit(self) -> None:
        try:
            offsets = _offsets(self._kafka, self._work, -1)
            self._consumer.commit(offsets, timeout_ms=COMMIT_S * 1000)
        except self._kafka.errors.KafkaError as error:
            self._work.not_committed(type(error).__name__)

    async def _commit(self) -> None:
        """For a listener: kafka-python calls it on the thread that has to send its commit."""
        try:
            await self._consumer.commit_async(_offsets(self._kafka, self._work, -1))
        except self._kafka.errors.KafkaError as error:
            self._work.not_committed(type(error).__name__)

    def close(self) -> None:
        self._consumer.close(autocommit=False)


def _produce_confluent_kafka(bootstrap: str, topic: str, records: Sequence[ClientRecord]) -> list[int]:
    """librdkafka, with gzip."""
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5, "compression.type": "gzip"}
    producer = Producer({**settings, "enable.idempotence": True})
    answers: list[tuple[object, Any]] = []
    """Error and message of each record; those of a partition come in its order."""
    for one in records:
        producer.produce(topic, one.value, one.key, 0, on_delivery=lambda *answer: answers.append(answer))
    unanswered = producer.flush(CALL_S)
    errors = [str(error) for error, _ in answers if error is not None]
    if unanswered or errors:
        count = len(answers) - len(errors)
        raise SourceError(f"{count} of {len(records)} acknowledged; {', '.join(errors[:1])}")
    return [message.offset() for _, message in answers]


class _ConfluentKafka:
    def __init__(self, work: ClientWork) -> None:
        from confluent_kafka import Consumer

        self._work = work
        own = {
            "bootstrap.servers": work.bootstrap,
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 5_000,
            "reconnect.backoff.max.ms": 500,
            "partition.assignment.strategy": "range",
            "log_level": 0,
        }
        self._consumer = Consumer(member_settings(work) | own)

        def assigned(_: object, partitions: Iterable[Any]) -> None:
            work.assigned([each.partition for each in partitions])

        def revoked(_: object, partitions: object) -> None:
            if work.positions:
                self.commit()
            work.assigned(())

        self._consumer.subscribe([work.topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)

    def poll(self) -> Iterable[PolledRecord]:
        found = [one for one in self._consumer.consume(RECORDS_AT_ONCE, POLL_S) if one.error() is None]
        return [PolledRecord(one.partition(), one.offset(), one.key(), one.value()) for one in found]

    def commit(self) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        work = self._work
        offsets = [
            TopicPartition(work.topic, n, at, work.metadata(n)) for n, at in list(work.positions.items())
        ]
        try:
            stored = self._consumer.commit(offsets=offsets, asynchronous=False)
            errors = [one.error for one in stored if one.error is not None]
        except KafkaException as error:
            errors = [error.args[0]]
        for name in {one.name() for one in errors}:
            work.not_committed(name)

    def close(self) -> None:
        self._consumer.close()


def _produce_aiokafka(bootstrap: str, topic: str, records: Sequence[ClientRecord]) -> list[int]:
    """With gzip, in an event loop of its own."""
    from aiokafka import AIOKafkaProducer

    async def produce() -> list[int]:
        settings = {"enable_idempotence": True, "compression_type": "gzip", "linger_ms": 5}
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, **settings) as producer:
            sent = [await producer.send(topic, one.value, one.key, 0) for one in records]
            return [one.offset for one in await asyncio.gather(*sent)]

    return asyncio.run(asyncio.wait_for(produce(), CALL_S))


class _Aiokafka:
    """Its event loop runs while it is called: a member calls it all the time."""

    def __init__(self, work: ClientWork) -> None:
        self._work = work
        self._runner = asyncio.Runner()
        self._consumer: Any = None
        self._runner.run(self._start())

    async def _start(self) -> None:
        from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor

        self._consumer = AIOKafkaConsumer(**_settings_of(self._work, RangePartitionAssignor))
        listener = _listener(ConsumerRebalanceListener, self._work, self._commit)
        self._consumer.subscribe([self._work.topic], listener=listener)
        await self._consumer.start()

    def poll(self) -> Iterable[Any]:
        wait_ms = int(POLL_S * 1000)
        polled = self._runner.run(self._consumer.getmany(timeout_ms=wait_ms, max_records=RECORDS_AT_ONCE))
        return chain.from_iterable(polled.values())

    def commit(self) -> None:
        self._runner.run(self._commit())

    async def _commit(self) -> None:
        import aiokafka

        try:
            await asyncio.wait_for(self._consumer.commit(_offsets(aiokafka, self._work)), COMMIT_S)
        except (aiokafka.errors.KafkaError, TimeoutError) as error:
            self._work.not_committed(type(error).__name__)

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


@dataclass(frozen=True, slots=True)
class PythonClient:
    """A client for Python."""

    name: str
    """Of its package."""
    module: str
    produce: Callable[[str, str, Sequence[ClientRecord]], list[int]]
    """Produces to partition 0 of a topic with acks=all, and returns the offsets."""
    consumer: Callable[[ClientWork], Any]
    """Makes a consumer with `poll`, `commit` and `close`."""

    @property
    def version(self) -> str:
        return metadata.version(self.name)

    @property
    def is_installed(self) -> bool:
        return util.find_spec(self.module) is not None

    def read(self, bootstrap: str, topic: str, count: int) -> dict[int, ClientRecord]:
        """Reads so many records of a topic of one partition, by their offsets, in a group of its own."""
        consumer = self.consumer(ClientWork(self.name, f"read-{self.name}", bootstrap, topic))
        until_s, found = time.monotonic() + CALL_S, dict[int, ClientRecord]()
        try:
            while len(found) < count and time.monotonic() < until_s:
                found |= {one.offset: ClientRecord(one.key, one.value) for one in consumer.poll()}
            return found
        finally:
            consumer.close()

    def run_member(self, work: ClientWork) -> None:
        """Consumes as a member until it is to leave."""
        consumer = self.consumer(work)
        try:
            while not work.stopping.is_requested:
                for one in consumer.poll():
                    work.process(one.partition, one.offset, one.value)
                if work.is_due():
                    consumer.commit()
            if work.positions:
                consumer.commit()
        finally:
            consumer.close()


CLIENTS: Final = (
    PythonClient("kafka-python", "kafka", _produce_kafka_python, _KafkaPython),
    PythonClient("confluent-kafka", "confluent_kafka", _produce_confluent_kafka, _ConfluentKafka),
    PythonClient("aiokafka", "aiokafka", _produce_aiokafka, _Aiokafka),
)
