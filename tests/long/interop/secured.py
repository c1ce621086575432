"""Kafka's clients at listeners that demand something: each creates a topic, sends, and reads in a group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AiokafkaTopic
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as ConfluentTopic
from kafka import KafkaAdminClient, KafkaConsumer

from tests.long.interop.served_tools import MAINS
from tests.long.interop.served_tools import RELEASES as JAVA
from tests.long.interop.test_java_clients import JavaClient
from tests.long.interop.toolbox import Toolbox
from tests.waiting import PATIENCE_S, waiting
from tests.worlds.kafka_clients import (
    Aiokafka,
    ClientLogin,
    Confluent,
    KafkaPython,
    KafkaRecord,
    stop_aiokafka,
)
from zkgroup.model import TopicPartition

COUNT: Final = 20
REPLICAS: Final = 3
RECORDS: Final = [KafkaRecord(b"value %d" % number) for number in range(COUNT)]
VALUES: Final = sorted(one.value or b"" for one in RECORDS)


@dataclass(frozen=True)
class Visit:
    """One client at one listener."""

    bootstrap: str
    login: ClientLogin
    topic: str


def kafka_python(visit: Visit) -> list[bytes]:
    """The values that a group has read."""
    options = visit.login.of_kafka_python
    admin = KafkaAdminClient(bootstrap_servers=visit.bootstrap, **options)
    try:
        admin.create_topics({visit.topic: {"num_partitions": 1, "replication_factor": REPLICAS}})
    finally:
        admin.close()
    KafkaPython(visit.login).send(visit.bootstrap, TopicPartition(visit.topic, 0), RECORDS)
    consumer = KafkaConsumer(
        visit.topic,
        bootstrap_servers=visit.bootstrap,
        group_id=visit.topic,
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE_S * 1000,
        **options,
    )
    try:
        return [next(consumer).value for _ in RECORDS]
    finally:
        consumer.close()


def confluent_kafka(visit: Visit) -> list[bytes]:
    """The same."""
    options = {"bootstrap.servers": visit.bootstrap, **visit.login.of_librdkafka}
    admin = AdminClient(options)
    made = admin.create_topics([ConfluentTopic(visit.topic, 1, REPLICAS)])
    with waiting():
        made[visit.topic].result(PATIENCE_S)
    Confluent(visit.login).send(visit.bootstrap, TopicPartition(visit.topic, 0), RECORDS)
    consumer = ConfluentConsumer({**options, "group.id": visit.topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([visit.topic])
        found: list[bytes] = []
        while len(found) < COUNT:
            with waiting():
                one = consumer.poll(PATIENCE_S)
            assert one is not None, found
            assert one.error() is None, one.error()
            found.append(one.value() or b"")
        return found
    finally:
        consumer.close()


def aiokafka(visit: Visit) -> list[bytes]:
    """The same."""
    options = visit.login.of_aiokafka

    async def create() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=visit.bootstrap, **options)
        await admin.start()
        try:
            await admin.create_topics([AiokafkaTopic(visit.topic, 1, REPLICAS)])
        finally:
            await admin.close()

    async def read() -> list[bytes]:
        consumer = AIOKafkaConsumer(
            visit.topic,
            bootstrap_servers=visit.bootstrap,
            group_id=visit.topic,
            auto_offset_reset="earliest",
            **options,
        )
        await consumer.start()
        try:
            return [(await consumer.getone()).value for _ in RECORDS]
        finally:
            await stop_aiokafka(consumer)

    with waiting():
        asyncio.run(asyncio.wait_for(create(), PATIENCE_S))
        Aiokafka(visit.login).send(visit.bootstrap, TopicPartition(visit.topic, 0), RECORDS)
        return asyncio.run(asyncio.wait_for(read(), PATIENCE_S))


PYTHON: Final[dict[str, Callable[[Visit], list[bytes]]]] = {
    "kafka-python": kafka_python,
    "confluent-kafka": confluent_kafka,
    "aiokafka": aiokafka,
}
CLIENTS: Final = (*PYTHON, *(f"Java {release}" for release in JAVA))


@dataclass(frozen=True)
class JavaTools:
    """kafka-topics, the producer and kafka-console-consumer of one release."""

    box: Toolbox
    release: str
    folder: Path

    def visited(self, visit: Visit) -> list[bytes]:
        """The values that a group has read."""
        at = ("--bootstrap-server", visit.bootstrap)
        config = self._config(visit.login)
        created = ("--create", "--topic", visit.topic, "--partitions", "1", "--replication-factor", "3")
        self._run("topics", *at, "--command-config", config, *created)
        settings = tuple(f"{name}={value}" for name, value in visit.login.of_java.items())
        producer = JavaClient(self.box, self.release, self.folder, settings)
        producer.send(visit.bootstrap, TopicPartition(visit.topic, 0), RECORDS)
        group = ("--group", visit.topic, "--from-beginning", "--max-messages", str(COUNT))
        printed = self._run("consumer", *at, "--consumer.config", config, "--topic", visit.topic, *group)
        return [line.encode() for line in printed.splitlines() if line.startswith("value ")]

    def _run(self, tool: str, *words: str) -> str:
        # With the classes of the producer, in one class loader with it: Java has one OAUTHBEARER a JVM.
        classes = JavaClient(self.box, self.release, self.folder).classes()
        printed = self.box.run(self.release, MAINS[tool][JAVA.index(self.release)], *words, classes=classes)
        assert printed.code == 0, printed.text
        return printed.text

    def _config(self, login: ClientLogin) -> str:
        path = self.folder / "client.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in login.of_java.items()))
        return str(path)
