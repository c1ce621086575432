"""Kafka's clients for Python with one set of methods: those that are installed take part in the demos.

Each produces to one partition and reads it, and each is a member of a group, which polls, reports what it
processes, and commits. A commit has metadata, the name of the member and the token of its assignment, so
ZooKeeper's log shows who committed what.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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


class ClientWork:
    """The work of a member: it writes a line for each record, and decides when to commit."""

    def __init__(self, client_id: str, group: str, bootstrap: str, session_timeout_ms: int) -> None:
        self.client_id, self.group, self.bootstrap = client_id, group, bootstrap
        self.session_timeout_ms = session_timeout_ms
        self.output: BinaryIO
        self.stopping: Stopping
        self._next: dict[int, int] = {}
        self._committed: Mapping[int, int] = {}
        self._assigned: frozenset[int] = frozenset()
        self._token = 0
        self._tokens: dict[int, int] = {}
        """Of partitions whose assignment was not reported."""
        self._processed = 0
        self._committed_s = 0.0

    def assigned(self, partitions: Collection[int]) -> None:
        """Begins a new assignment; its token is greater than those of all earlier ones of any member."""
        self._token = _now_ms()
        self._assigned = frozenset(partitions)
        self._next.clear()
        self._committed = {}
        print_event("state", state="running")

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


class PythonClient:
    """A client for Python: its package, how it produces to partition 0 of a topic, and how it consumes."""

    def __init__(
        self,
        name: str,
        produce: Callable[[str, str, Sequence[ClientRecord]], list[int]],
        consumer: Callable[[str, str | ClientWork], Any],
    ) -> None:
        """
        Args:
            name: of its package.
            produce: produces with acks=all, and returns the offsets.
            consumer: reads a topic, or is a member; it has `poll`, `commit` and `close`.
        """
        self.name, self.produce, self._consumer = name, produce, consumer
        self.version = metadata.version(name)

    def read(self, bootstrap: str, topic: str, count: int) -> dict[int, ClientRecord]:
        """Reads so many records of partition 0, by their offsets."""
        consumer, until_s = self._consumer(bootstrap, topic), time.monotonic() + CALL_S
        found: dict[int, ClientRecord] = {}
        try:
            while len(found) < count and time.monotonic() < until_s:
                found |= {one.offset: ClientRecord(one.key, one.value) for one in consumer.poll()}
            return found
        finally:
            consumer.close()

    def run_member(self, work: ClientWork) -> None:
        """Consumes as a member until it is to leave."""
        consumer = self._consumer(work.bootstrap, work)
        try:
            while not work.stopping.is_requested:
                for one in consumer.poll():
                    work.process(one.partition, one.offset, one.value)
                consumer.commit(work.due())
            consumer.commit(work.positions())
        finally:
            consumer.close()


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
    def __init__(self, bootstrap: str, what: str | ClientWork) -> None:
        self._kafka = kafka = kafka_python.load("zkgroup demo")
        settings = {"bootstrap_servers": bootstrap.split(","), "enable_auto_commit": False}
        if isinstance(what, str):
            self._consumer = kafka.KafkaConsumer(**settings, **kafka_python.connecting())
            self._consumer.assign([kafka.TopicPartition(what, 0)])
            self._consumer.seek(kafka.TopicPartition(what, 0), 0)
            return
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        self._work = what
        self._consumer = kafka.KafkaConsumer(
            **settings, **_member_settings(what, RangePartitionAssignor), **kafka_python.connecting()
        )
        self._consumer.subscribe([TOPIC], listener=self._listener())

    def _listener(self) -> object:
        """Awaits its commit: kafka-python calls listeners on the thread that has to send it."""
        from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener

        work, consumer, offsets, kafka = self._work, self._consumer, self._offsets, self._kafka

        class Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]
            async def on_partitions_revoked(self, revoked: Any) -> None:
                if positions := work.positions():
                    try:
                        await consumer.commit_async(offsets(positions))
                    except kafka.errors.KafkaError as error:
                        work.not_committed(type(error).__name__)
                work.revoked()

            async def on_partitions_assigned(self, assigned: Any) -> None:
                work.assigned([each.partition for each in assigned])

        return Listener()

    def _offsets(self, positions: Mapping[int, int]) -> dict[Any, Any]:
        from kafka.structs import OffsetAndMetadata, TopicPartition

        return {
            TopicPartition(TOPIC, number): OffsetAndMetadata(offset, self._work.metadata, -1)
            for number, offset in positions.items()
        }

    def poll(self) -> Iterable[Any]:
        try:
            polled = self._consumer.poll(POLL_S * 1000, max_records=RECORDS_AT_ONCE)
        except self._kafka.errors.KafkaConnectionError:
            return []  # of its request for metadata, to a broker that has just been killed
        return chain.from_iterable(polled.values())

    def commit(self, positions: Mapping[int, int]) -> None:
        if not positions:
            return
        try:
            self._consumer.commit(self._offsets(positions), timeout_ms=COMMIT_S * 1000)
        except self._kafka.errors.KafkaError as error:
            self._work.not_committed(type(error).__name__)

    def close(self) -> None:
        self._consumer.close(autocommit=False)


def _member_settings(work: ClientWork, assignor: object) -> dict[str, object]:
    """Of kafka-python and aiokafka."""
    return {
        "client_id": work.client_id,
        "group_id": work.group,
        "auto_offset_reset": "earliest",
        "session_timeout_ms": work.session_timeout_ms,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "metadata_max_age_ms": 5_000,
        "partition_assignment_strategy": [assignor],
    }


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
    def __init__(self, bootstrap: str, what: str | ClientWork) -> None:
        from confluent_kafka import Consumer, TopicPartition

        # group.id has to be set. Where nothing is committed, no group is joined.
        settings = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}
        if isinstance(what, str):
            self._consumer = Consumer(settings)
            self._consumer.assign([TopicPartition(what, 0, 0)])
            return
        self._work = work = what
        settings |= {
            "client.id": work.client_id,
            "group.id": work.group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": work.session_timeout_ms,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "topic.metadata.refresh.interval.ms": 5_000,
            "reconnect.backoff.max.ms": 500,
            "partition.assignment.strategy": "range",
            "log_level": 0,
        }
        self._consumer = Consumer(settings)

        def assigned(_: object, partitions: Iterable[Any]) -> None:
            work.assigned([each.partition for each in partitions])

        def revoked(_: object, partitions: object) -> None:
            self.commit(work.positions())
            work.revoked()

        self._consumer.subscribe([TOPIC], on_assign=assigned, on_revoke=revoked, on_lost=revoked)

    def poll(self) -> Iterable[PolledRecord]:
        found = [one for one in self._consumer.consume(RECORDS_AT_ONCE, POLL_S) if one.error() is None]
        return [PolledRecord(one.partition(), one.offset(), one.key(), one.value()) for one in found]

    def commit(self, positions: Mapping[int, int]) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        if not positions:
            return
        own = self._work.metadata
        offsets = [TopicPartition(TOPIC, number, offset, own) for number, offset in positions.items()]
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

    def __init__(self, bootstrap: str, what: str | ClientWork) -> None:
        self._runner = asyncio.Runner()
        self._consumer: Any = self._runner.run(self._start(bootstrap, what))

    async def _start(self, bootstrap: str, what: str | ClientWork) -> object:
        from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor

        settings = {} if isinstance(what, str) else _member_settings(what, RangePartitionAssignor)
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, **settings)
        if isinstance(what, str):
            await consumer.start()
            consumer.assign([TopicPartition(what, 0)])
            consumer.seek(TopicPartition(what, 0), 0)
            return consumer
        self._work, self._consumer, work = what, consumer, what
        commit = self._commit

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            async def on_partitions_revoked(self, revoked: Any) -> None:
                await commit(work.positions())
                work.revoked()

            async def on_partitions_assigned(self, assigned: Any) -> None:
                work.assigned([each.partition for each in assigned])

        consumer.subscribe([TOPIC], listener=Listener())
        await consumer.start()
        return consumer

    def poll(self) -> Iterable[Any]:
        wait_ms = int(POLL_S * 1000)
        polled = self._runner.run(self._consumer.getmany(timeout_ms=wait_ms, max_records=RECORDS_AT_ONCE))
        return chain.from_iterable(polled.values())

    def commit(self, positions: Mapping[int, int]) -> None:
        self._runner.run(self._commit(positions))

    async def _commit(self, positions: Mapping[int, int]) -> None:
        from aiokafka import TopicPartition
        from aiokafka.errors import KafkaError
        from aiokafka.structs import OffsetAndMetadata

        if not positions:
            return
        own = self._work.metadata
        offsets = {TopicPartition(TOPIC, n): OffsetAndMetadata(at, own) for n, at in positions.items()}
        try:
            await asyncio.wait_for(self._consumer.commit(offsets), COMMIT_S)
        except (KafkaError, TimeoutError) as error:
            self._work.not_committed(type(error).__name__)

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


_CLIENTS: Final[Mapping[str, tuple[str, Any, Any]]] = {
    "kafka-python": ("kafka", _produce_kafka_python, _KafkaPython),
    "confluent-kafka": ("confluent_kafka", _produce_confluent_kafka, _ConfluentKafka),
    "aiokafka": ("aiokafka", _produce_aiokafka, _Aiokafka),
}
"""Package to its module, and how it produces and consumes."""


def installed() -> tuple[list[PythonClient], list[LeftOut]]:
    """The clients for Python that are installed, and the others. kafka-python is: the demos need it."""
    there = [name for name, (module, *_) in _CLIENTS.items() if util.find_spec(module) is not None]
    left_out = [LeftOut(name, f"not installed: pip install {name}") for name in _CLIENTS if name not in there]
    return [client_of(name) for name in there], left_out


def client_of(name: str) -> PythonClient:
    """The client of a package that is installed."""
    return PythonClient(name, *_CLIENTS[name][1:])
