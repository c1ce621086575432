"""Kafka's clients for Python with one set of methods: those that are installed take part in the demo."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from importlib import metadata, util
from typing import Any, Protocol

from zkgroup.clients import kafka_python
from zkgroup.demo.brokers.client_checks import ClientRecord, LeftOut
from zkgroup.errors import SourceError

CALL_S = 60.0
"""Longest wait of a client for its answers."""


class KafkaClient(Protocol):
    """A client that produces to partition 0 of a topic, and reads it from its beginning."""

    name: str
    version: str

    def produce(self, bootstrap: str, topic: str, records: Sequence[ClientRecord]) -> list[int] | None:
        """Produces with acks=all; returns the offsets, or None for a client that does not report them."""

    def read(self, bootstrap: str, topic: str, count: int) -> dict[int, ClientRecord]:
        """So many records by their offsets."""


def installed() -> tuple[list[KafkaClient], list[LeftOut]]:
    """The clients for Python that are installed, and the others. kafka-python is: the demo needs it."""
    clients: list[KafkaClient] = []
    left_out: list[LeftOut] = []
    for name, (module, make) in _CLIENTS.items():
        if util.find_spec(module) is None:
            left_out.append(LeftOut(name, f"not installed: pip install {name}"))
        else:
            clients.append(make(metadata.version(name)))
    return clients, left_out


class KafkaPython:
    """kafka-python, without compression."""

    name = "kafka-python"

    def __init__(self, version: str) -> None:
        self.version = version
        self._kafka = kafka_python.load("zkgroup demo brokers")

    def produce(self, bootstrap: str, topic: str, records: Sequence[ClientRecord]) -> list[int]:
        """See KafkaClient."""
        producer = self._kafka.KafkaProducer(
            bootstrap_servers=bootstrap.split(","), acks="all", linger_ms=5, **kafka_python.connecting()
        )
        try:
            sent = [producer.send(topic, one.value, one.key, partition=0) for one in records]
            return [one.get(CALL_S).offset for one in sent]
        finally:
            producer.close(timeout=CALL_S)

    def read(self, bootstrap: str, topic: str, count: int) -> dict[int, ClientRecord]:
        """See KafkaClient."""
        consumer = self._kafka.KafkaConsumer(
            bootstrap_servers=bootstrap.split(","),
            enable_auto_commit=False,
            consumer_timeout_ms=CALL_S * 1000,
            **kafka_python.connecting(),
        )
        try:
            partition = self._kafka.TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            found: dict[int, ClientRecord] = {}
            for one in consumer:
                found[one.offset] = ClientRecord(one.key, one.value)
                if len(found) >= count:
                    break
            return found
        finally:
            consumer.close()


class ConfluentKafka:
    """confluent-kafka with librdkafka, with gzip."""

    name = "confluent-kafka"

    def __init__(self, version: str) -> None:
        self.version = version

    def produce(self, bootstrap: str, topic: str, records: Sequence[ClientRecord]) -> list[int]:
        """See KafkaClient."""
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
            producer.produce(
                topic,
                one.value,
                one.key,
                0,
                on_delivery=partial(delivered, number),
            )
        if producer.flush(CALL_S) or errors:
            raise SourceError(f"{len(offsets)} of {len(records)} acknowledged; {', '.join(errors[:1])}")
        return [offsets[number] for number in range(len(records))]

    def read(self, bootstrap: str, topic: str, count: int) -> dict[int, ClientRecord]:
        """See KafkaClient."""
        from confluent_kafka import Consumer, TopicPartition

        # group.id has to be set. Nothing is committed, so no group is joined.
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            found: dict[int, ClientRecord] = {}
            while len(found) < count and (one := consumer.poll(CALL_S)) is not None:
                if one.error() is not None:
                    raise SourceError(str(one.error()))
                found[one.offset()] = ClientRecord(one.key(), one.value())
            return found
        finally:
            consumer.close()


class Aiokafka:
    """aiokafka, with gzip; each call has an event loop of its own."""

    name = "aiokafka"

    def __init__(self, version: str) -> None:
        self.version = version

    def produce(self, bootstrap: str, topic: str, records: Sequence[ClientRecord]) -> list[int]:
        """See KafkaClient."""
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

    def read(self, bootstrap: str, topic: str, count: int) -> dict[int, ClientRecord]:
        """See KafkaClient."""
        from aiokafka import AIOKafkaConsumer, TopicPartition

        async def read() -> dict[int, ClientRecord]:
            consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
            await consumer.start()
            try:
                consumer.assign([TopicPartition(topic, 0)])
                consumer.seek(TopicPartition(topic, 0), 0)
                found: dict[int, ClientRecord] = {}
                while len(found) < count:
                    one = await consumer.getone()
                    found[one.offset] = ClientRecord(one.key, one.value)
                return found
            finally:
                await consumer.stop()

        return asyncio.run(asyncio.wait_for(read(), CALL_S))


_CLIENTS: dict[str, tuple[str, Callable[[str], KafkaClient]]] = {
    "kafka-python": ("kafka", KafkaPython),
    "confluent-kafka": ("confluent_kafka", ConfluentKafka),
    "aiokafka": ("aiokafka", Aiokafka),
}
"""Package to its module and the class that uses it."""
