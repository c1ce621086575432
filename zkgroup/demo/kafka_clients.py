"""Kafka's clients for Python with one set of methods: those that are installed take part in the demos.

Each produces to one partition and reads it, and each is a member of a group, which polls, reports what it
processes, and commits. A commit has metadata, the name of the member and the token of its assignment, so
ZooKeeper's log shows who committed what.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata, util
from itertools import chain
from typing import Any, BinaryIO, Final, NamedTuple

from zkgroup.clients import kafka_python
from zkgroup.demo.flight_data import TOPIC, Processed, airport_and_delay, encode_line
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
    output: BinaryIO = field(init=False)
    stopping: Stopping = field(init=False)
    _next: dict[int, int] = field(default_factory=dict)
    _committed: Mapping[int, int] = field(default_factory=dict)
    _assigned: frozenset[int] = frozenset()
    _token: int = 0
    _tokens: dict[int, int] = field(default_factory=dict)
    """Of partitions whose assignment was not reported."""
    _processed: int = 0
    _committed_s: float = 0.0

    def assigned(self, partitions: Collection[int]) -> None:
        """Begins a new assignment; its token is greater than those of all earlier ones of any member."""
        self._token = _now_ms()
        self._assigned = frozenset(partitions)
        self._next.clear()
        self._committed = {}

    def revoked(self) -> None:
        self._assigned = frozenset()
        self._next.clear()

    def process(self, partition: int, offset: int, value: bytes) -> None:
        """Writes one line to the member's own file, in one write."""
        token = self._token
        if partition not in self._assigned:
            if self._next.get(partition) != offset:
                self._tokens[partition] = _now_ms()
            token = self._tokens[partition]
        self.output.write(encode_line(Processed(partition, offset, *airport_and_delay(value), token)))
        self._next[partition] = offset + 1
        self._processed += 1
        if self._processed % 50 == 1:
            self.report()

    def report(self) -> None:
        print_event("progress", processed=self._processed)

    def due(self) -> Mapping[int, int]:
        """The positions, at intervals, if they are not committed yet."""
        if time.monotonic() - self._committed_s < COMMIT_EVERY_S or self._next == self._committed:
            return {}
        self._committed_s, self._committed = time.monotonic(), self.positions()
        return self._committed

    def positions(self) -> Mapping[int, int]:
        """Every position, for the last commit before the partitions go."""
        return dict(self._next)

    @property
    def metadata(self) -> str:
        """Of each commit: member and token."""
        return f"{self.client_id} {self._token}"

    def not_committed(self, error: str) -> None:
        """Prints the error of a commit, which is due again."""
        self._committed = {}
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
            if positions := work.positions():
                await commit(positions)
            work.revoked()

        async def on_partitions_assigned(self, assigned: Any) -> None:
            work.assigned([each.partition for each in assigned])

    return Listener()


def _offsets(kafka: Any, work: ClientWork, positions: Mapping[int, int], *epoch: int) -> dict[Any, Any]:
    """The positions as kafka-python and aiokafka commit them."""
    entry, own = kafka.structs.OffsetAndMetadata, work.metadata
    return {kafka.TopicPartition(work.topic, n): entry(at, own, *epoch) for n, at in positions.items()}


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

    def commit(self, positions: Mapping[int, int]) -> None:
        try:
            offsets = _offsets(self._kafka, self._work, positions, -1)
            self._consumer.commit(offsets, timeout_ms=COMMIT_S * 1000)
        except self._kafka.errors.KafkaError as error:
            self._work.not_committed(type(error).__name__)

    async def _commit(self, positions: Mapping[int, int]) -> None:
        """For a listener: kafka-python calls it on the thread that has to send its commit."""
        try:
            await self._consumer.commit_async(_offsets(self._kafka, self._work, positions, -1))
        except self._kafka.errors.KafkaError as error:
            self._work.not_committed(type(error).__name__)

    def close(self) -> None:
        self._consumer.close(autocommit=False)


def _produce_confluent_kafka(bootstrap: str, topic: str, records: Sequence[ClientRecord]) -> list[int]:
    """librdkafka, with gzip."""
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5, "compression.type": "gzip"}
    producer = Producer({**settings, "enable.idempotence": True})
    offsets: dict[int, int] = {}
    errors: list[str] = []

    def delivered(number: int, error: object, message: Any) -> None:
        if error is None:
            offsets[number] = message.offset()
        else:
            errors.append(str(error))

    for number, one in enumerate(records):
        producer.produce(topic, one.value, one.key, 0, on_delivery=partial(delivered, number))
    if producer.flush(CALL_S) or errors:
        raise SourceError(f"{len(offsets)} of {len(records)} acknowledged; {', '.join(errors[:1])}")
    return [offsets[number] for number in range(len(records))]


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
            if positions := work.positions():
                self.commit(positions)
            work.revoked()

        self._consumer.subscribe([work.topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)

    def poll(self) -> Iterable[PolledRecord]:
        found = [one for one in self._consumer.consume(RECORDS_AT_ONCE, POLL_S) if one.error() is None]
        return [PolledRecord(one.partition(), one.offset(), one.key(), one.value()) for one in found]

    def commit(self, positions: Mapping[int, int]) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        topic, own = self._work.topic, self._work.metadata
        offsets = [TopicPartition(topic, number, offset, own) for number, offset in positions.items()]
        try:
            stored = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            self._work.not_committed(error.args[0].name())
            return
        for name in {one.error.name() for one in stored if one.error is not None}:
            self._work.not_committed(name)

    def close(self) -> None:
        self._consumer.close()


def _produce_aiokafka(bootstrap: str, topic: str, records: Sequence[ClientRecord]) -> list[int]:
    """With gzip, in an event loop of its own."""
    from aiokafka import AIOKafkaProducer

    async def produce() -> list[int]:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=True, compression_type="gzip", linger_ms=5
        )
        await producer.start()
        try:
            sent = [await producer.send(topic, one.value, one.key, 0) for one in records]
            return [one.offset for one in await asyncio.gather(*sent)]
        finally:
            await producer.stop()

    return asyncio.run(asyncio.wait_for(produce(), CALL_S))


class _Aiokafka:
    """Its event loop runs while it is called: a member calls it all the time."""

    def __init__(self, work: ClientWork) -> None:
        self._work = work
        self._runner = asyncio.Runner()
        self._consumer: Any = self._runner.run(self._start())

    async def _start(self) -> object:
        from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor

        self._consumer = AIOKafkaConsumer(**_settings_of(self._work, RangePartitionAssignor))
        listener = _listener(ConsumerRebalanceListener, self._work, self._commit)
        self._consumer.subscribe([self._work.topic], listener=listener)
        await self._consumer.start()
        return self._consumer

    def poll(self) -> Iterable[Any]:
        wait_ms = int(POLL_S * 1000)
        polled = self._runner.run(self._consumer.getmany(timeout_ms=wait_ms, max_records=RECORDS_AT_ONCE))
        return chain.from_iterable(polled.values())

    def commit(self, positions: Mapping[int, int]) -> None:
        self._runner.run(self._commit(positions))

    async def _commit(self, positions: Mapping[int, int]) -> None:
        import aiokafka

        offsets = _offsets(aiokafka, self._work, positions)
        try:
            await asyncio.wait_for(self._consumer.commit(offsets), COMMIT_S)
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
                if due := work.due():
                    consumer.commit(due)
            if last := work.positions():
                consumer.commit(last)
        finally:
            consumer.close()


CLIENTS: Final = (
    PythonClient("kafka-python", "kafka", _produce_kafka_python, _KafkaPython),
    PythonClient("confluent-kafka", "confluent_kafka", _produce_confluent_kafka, _ConfluentKafka),
    PythonClient("aiokafka", "aiokafka", _produce_aiokafka, _Aiokafka),
)


def installed() -> tuple[list[PythonClient], list[LeftOut]]:
    """The clients that are installed, and the others. kafka-python is: the demos need it."""
    there = [one for one in CLIENTS if util.find_spec(one.module) is not None]
    left_out = [
        LeftOut(one.name, f"not installed: pip install {one.name}") for one in CLIENTS if one not in there
    ]
    return there, left_out
