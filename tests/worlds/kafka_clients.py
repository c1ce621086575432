"""Kafka's clients for Python with one set of methods: send records to a cluster, and read partitions."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.abc import AbstractTokenProvider as AiokafkaTokens
from confluent_kafka import OFFSET_END
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaPythonPartition
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokens

from tests.waiting import PATIENCE_S, waiting
from tests.worlds.tokens import of_client
from zkgroup.model import TopicPartition

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class KafkaRecord:
    """A record as a client sends or reads it."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int = 1_700_000_000_000


class ClientLogin(NamedTuple):
    """How a client gets in: by which mechanism and as whom, by TLS where it trusts an authority."""

    mechanism: str | None = None
    user: str = ""
    password: str = ""
    trust_store: Path | None = None
    key_store: Path | None = None
    token_file: Path | None = None
    """Of the mechanism OAUTHBEARER; each login reads it."""

    @property
    def protocol(self) -> str:
        """Of the listener."""
        transport = "PLAINTEXT" if self.trust_store is None else "SSL"
        return transport if self.mechanism is None else f"SASL_{transport}"

    @property
    def of_kafka_python(self) -> dict[str, Any]:
        """The options of kafka-python."""
        token_file = self.token_file
        if token_file is None:
            return self.of_python

        class FileToken(KafkaPythonTokens):  # type: ignore[misc]
            def token(self) -> str:
                return token_file.read_text().strip()

        return self.of_python | {"sasl_oauth_token_provider": FileToken()}

    @property
    def of_aiokafka(self) -> dict[str, Any]:
        """Those of aiokafka."""
        token_file = self.token_file
        if token_file is None:
            return self.of_python

        class FileToken(AiokafkaTokens):  # type: ignore[misc]
            async def token(self) -> str:
                return token_file.read_text().strip()

        return self.of_python | {"sasl_oauth_token_provider": FileToken()}

    @property
    def of_python(self) -> dict[str, Any]:
        """Those of both, for a user or none."""
        found: dict[str, Any] = {"security_protocol": self.protocol}
        if self.token_file is not None:
            found["sasl_mechanism"] = self.mechanism
        elif self.mechanism is not None:
            names = ("sasl_mechanism", "sasl_plain_username", "sasl_plain_password")
            found |= dict(zip(names, self[:3], strict=True))
        if self.trust_store is not None:
            context = found["ssl_context"] = ssl.create_default_context(cafile=self.trust_store)
            if self.key_store is not None:
                context.load_cert_chain(self.key_store)
        return found

    @property
    def of_librdkafka(self) -> dict[str, Any]:
        """Those of confluent-kafka."""
        found: dict[str, Any] = {"security.protocol": self.protocol}
        if (token_file := self.token_file) is not None:
            found["sasl.mechanism"] = self.mechanism
            found["oauth_cb"] = lambda _: (token_file.read_text().strip(), time.time() + 3600)
        elif self.mechanism is not None:
            found |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.user,
                "sasl.password": self.password,
            }
        if self.trust_store is not None:
            found["ssl.ca.location"] = str(self.trust_store)
        if self.key_store is not None:
            files = ("ssl.certificate.location", "ssl.key.location")
            found |= dict.fromkeys(files, str(self.key_store))
        return found

    @property
    def of_java(self) -> dict[str, str]:
        """Those of Java's clients, as a properties file has them."""
        found = {"security.protocol": self.protocol}
        for kind, file in (("truststore", self.trust_store), ("keystore", self.key_store)):
            if file is not None:
                found |= {f"ssl.{kind}.type": "PEM", f"ssl.{kind}.location": str(file)}
        if self.token_file is not None:
            found |= of_client(self.token_file, self.protocol)
        elif self.mechanism is not None:
            kind = "plain.Plain" if self.mechanism == "PLAIN" else "scram.Scram"
            module = f"org.apache.kafka.common.security.{kind}LoginModule"
            jaas = f'{module} required username="{self.user}" password="{self.password}";'
            found |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": jaas}
        return found


PLAIN_LISTENER = ClientLogin()


class KafkaClient(Protocol):
    """One of Kafka's clients. `bootstrap` are the addresses of a cluster."""

    def send(
        self, bootstrap: str, tp: TopicPartition, records: Iterable[KafkaRecord], **options: Any
    ) -> list[int]:
        """Sends records and waits for all answers; returns their offsets.

        Options: `idempotent` (with acks=all), `compression`.
        """
        ...

    def read(self, bootstrap: str, tp: TopicPartition, offset: int, count: int) -> dict[int, KafkaRecord]:
        """So many records from an offset on, by their offsets."""
        ...

    def offset_for(self, bootstrap: str, tp: TopicPartition, timestamp_ms: int) -> int | None:
        """The offset of the first record that is not older than a time; None if all are older."""
        ...


class KafkaPython:
    """kafka-python."""

    def __init__(self, login: ClientLogin = PLAIN_LISTENER) -> None:
        self._login: dict[str, Any] = login.of_kafka_python

    def send(
        self,
        bootstrap: str,
        tp: TopicPartition,
        records: Iterable[KafkaRecord],
        *,
        idempotent: bool = False,
        compression: str | None = None,
    ) -> list[int]:
        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all",
            enable_idempotence=idempotent,
            compression_type=compression,
            linger_ms=1,
            **self._login,
        )
        try:
            sent = [
                producer.send(
                    tp.topic,
                    record.value,
                    record.key,
                    list(record.headers),
                    tp.partition,
                    record.timestamp_ms,
                )
                for record in records
            ]
            with waiting():
                return [one.get(PATIENCE_S).offset for one in sent]
        finally:
            producer.close(timeout=PATIENCE_S)

    def read(self, bootstrap: str, tp: TopicPartition, offset: int, count: int) -> dict[int, KafkaRecord]:
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            enable_auto_commit=False,
            consumer_timeout_ms=PATIENCE_S * 1000,
            **self._login,
        )
        try:
            consumer.assign([KafkaPythonPartition(*tp)])
            consumer.seek(KafkaPythonPartition(*tp), offset)
            found: dict[int, KafkaRecord] = {}
            with waiting():
                for one in consumer:
                    headers = tuple(one.headers)
                    found[one.offset] = KafkaRecord(one.value, one.key, headers, one.timestamp)
                    if len(found) == count:
                        break
            return found
        finally:
            consumer.close()

    def offset_for(self, bootstrap: str, tp: TopicPartition, timestamp_ms: int) -> int | None:
        partition = KafkaPythonPartition(*tp)
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, **self._login)
        try:
            with waiting():
                found = consumer.offsets_for_times({partition: timestamp_ms})[partition]
            return None if found is None else int(found.offset)
        finally:
            consumer.close()


class Confluent:
    """confluent-kafka, with librdkafka."""

    def __init__(self, login: ClientLogin = PLAIN_LISTENER) -> None:
        self._login: dict[str, Any] = login.of_librdkafka

    def send(
        self,
        bootstrap: str,
        tp: TopicPartition,
        records: Iterable[KafkaRecord],
        *,
        idempotent: bool = False,
        compression: str | None = None,
    ) -> list[int]:
        producer = ConfluentProducer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": idempotent,
                "compression.type": compression or "none",
                "linger.ms": 1,
                "topic.metadata.refresh.fast.interval.ms": 50,
                "reconnect.backoff.max.ms": 500,
                **self._login,
            }
        )
        offsets: dict[int, int] = {}
        errors: list[object] = []

        def answered(number: int, error: object, message: Any) -> None:
            if error is not None:
                errors.append(error)
            else:
                offsets[number] = message.offset()

        for number, record in enumerate(records):
            producer.produce(
                tp.topic,
                record.value,
                record.key,
                tp.partition,
                on_delivery=lambda error, message, number=number: answered(number, error, message),
                timestamp=record.timestamp_ms,
                headers=list(record.headers),
            )
            producer.poll(0)
        with waiting():
            assert producer.flush(PATIENCE_S) == 0
        assert errors == [], errors
        return [offsets[number] for number in range(len(offsets))]

    def read(self, bootstrap: str, tp: TopicPartition, offset: int, count: int) -> dict[int, KafkaRecord]:
        consumer = ConfluentConsumer(
            {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, **self._login}
        )
        try:
            consumer.assign([ConfluentPartition(*tp, offset)])
            found: dict[int, KafkaRecord] = {}
            while len(found) < count:
                with waiting():
                    one = consumer.poll(PATIENCE_S)
                assert one is not None, f"{len(found)} of {count} records"
                assert one.error() is None, one.error()
                headers = tuple(one.headers() or ())
                found[one.offset()] = KafkaRecord(one.value(), one.key(), headers, one.timestamp()[1])
            return found
        finally:
            consumer.close()

    def offset_for(self, bootstrap: str, tp: TopicPartition, timestamp_ms: int) -> int | None:
        consumer = ConfluentConsumer({"bootstrap.servers": bootstrap, "group.id": "none", **self._login})
        try:
            with waiting():
                [found] = consumer.offsets_for_times([ConfluentPartition(*tp, timestamp_ms)], PATIENCE_S)
            assert found.error is None, found.error
            return None if found.offset == OFFSET_END else int(found.offset)
        finally:
            consumer.close()


async def stop_aiokafka(consumer: AIOKafkaConsumer) -> None:
    """Stops a consumer, also one whose fetch has just failed.

    There `stop` of 0.14.0 ends with CancelledError, and leaves its connections open.
    """
    try:
        await consumer.stop()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise  # it was meant for the caller
        pending = list(consumer._fetcher._pending_tasks)
        for each in pending:
            each.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        await consumer._client.close()


class Aiokafka:
    """aiokafka, on an event loop for each call."""

    def __init__(self, login: ClientLogin = PLAIN_LISTENER) -> None:
        self._login: dict[str, Any] = login.of_aiokafka

    def send(
        self,
        bootstrap: str,
        tp: TopicPartition,
        records: Iterable[KafkaRecord],
        *,
        idempotent: bool = False,
        compression: str | None = None,
    ) -> list[int]:
        async def send() -> list[int]:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                acks="all",
                enable_idempotence=idempotent,
                compression_type=compression,
                linger_ms=1,
                **self._login,
            )
            await producer.start()
            try:
                sent = [
                    await producer.send(
                        tp.topic,
                        record.value,
                        record.key,
                        tp.partition,
                        record.timestamp_ms,
                        list(record.headers),
                    )
                    for record in records
                ]
                return [one.offset for one in await asyncio.gather(*sent)]
            finally:
                await producer.stop()

        with waiting():
            return asyncio.run(asyncio.wait_for(send(), PATIENCE_S))

    def read(self, bootstrap: str, tp: TopicPartition, offset: int, count: int) -> dict[int, KafkaRecord]:
        async def read() -> dict[int, KafkaRecord]:
            consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, **self._login)
            await consumer.start()
            try:
                consumer.assign([AiokafkaPartition(*tp)])
                consumer.seek(AiokafkaPartition(*tp), offset)
                found: dict[int, KafkaRecord] = {}
                while len(found) < count:
                    one = await consumer.getone()
                    found[one.offset] = KafkaRecord(one.value, one.key, tuple(one.headers), one.timestamp)
                return found
            finally:
                await stop_aiokafka(consumer)

        with waiting():
            return asyncio.run(asyncio.wait_for(read(), PATIENCE_S))

    def offset_for(self, bootstrap: str, tp: TopicPartition, timestamp_ms: int) -> int | None:
        async def find() -> int | None:
            partition = AiokafkaPartition(*tp)
            consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, **self._login)
            await consumer.start()
            try:
                found = (await consumer.offsets_for_times({partition: timestamp_ms}))[partition]
                return None if found is None else int(found.offset)
            finally:
                await stop_aiokafka(consumer)

        with waiting():
            return asyncio.run(asyncio.wait_for(find(), PATIENCE_S))


CLIENTS: dict[str, KafkaClient] = {
    "kafka-python": KafkaPython(),
    "confluent-kafka": Confluent(),
    "aiokafka": Aiokafka(),
}
