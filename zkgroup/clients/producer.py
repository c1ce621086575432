"""`RecordProducer`: produces records through kafka-python, and reports the outcome of each.

kafka-python batches, retries and finds leaders. This module bootstraps it from the registrations, bounds its
memory, and distinguishes records that are surely not in the log from those whose outcome is unknown. Records
of a partition stay in order: one request to a broker is in flight.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal, Protocol

from zkgroup.clients import kafka_python
from zkgroup.errors import ConfigError, RecordsNotAppendedError, RecordsUnknownError, SourceUnavailableError
from zkgroup.model import TopicPartition
from zkgroup.security.client import PLAIN_ACCESS, BrokerAccess
from zkgroup.znodes.brokers import BrokerRegistration

RECORD_BYTES_MAX: Final = 16 * 1024 * 1024
"""Key, value and headers of one record; brokers take less by default (`message.max.bytes`)."""
BATCH_BYTES: Final = 256 * 1024
LINGER_MS: Final = 5
USER: Final = "zkgroup produce"
CLOSE_S: Final = 5.0
"""Longest wait for kafka-python's thread once the outcome of every record is known."""

Acks = Literal["0", "1", "all"]
"""The condition on which a record counts as appended, as Kafka's `acks`."""


class Outcome(Enum):
    """The outcome of one record."""

    ACKNOWLEDGED = "acknowledged"
    """It is in the log, at its offset."""
    SENT = "sent"
    """With acks=0; whether it arrived is unknown."""
    FAILED = "failed"
    """It is not in the log."""
    UNKNOWN = "unknown"
    """It was sent and not acknowledged: it may be in the log."""


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to be produced."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = ()
    timestamp_ms: int | None = None
    """Epoch milliseconds; None for the time of sending."""
    partition: int | None = None
    """None: by the hash of the key, as Kafka's producers choose; without a key in turn."""

    @property
    def size(self) -> int:
        """Bytes of key, value and headers."""
        headers = sum(len(name) + len(value) for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers


@dataclass(frozen=True, slots=True)
class DeliveryReport:
    """The outcome of one record."""

    number: int
    """Of the record, from 0, in the order of `send`."""
    partition: int
    outcome: Outcome
    offset: int = -1
    """-1 unless acknowledged."""
    may_be_repeated: bool = False
    """Acknowledged, and perhaps in the log once more: an answer was lost, without idempotence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """Names are Kafka's where Kafka has the setting."""

    acks: Acks = "all"
    """With `all` the producer is idempotent if the brokers know that (0.11 and later)."""
    delivery_timeout_ms: int = 120_000
    """From the first record of a batch until it is given up."""
    request_timeout_ms: int = 30_000
    """For the response to a request; then it is sent again."""
    buffer_memory: int = 32 * 1024 * 1024
    """Bytes of records without an outcome; beyond them `send` waits."""
    client_id: str = "zkgroup-producer"

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        for name in ("delivery_timeout_ms", "request_timeout_ms", "buffer_memory"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: expected at least 1, found {getattr(self, name)}")


class BrokersAndTopics(Protocol):
    """The brokers and topics in ZooKeeper."""

    def brokers(self) -> Mapping[int, BrokerRegistration]: ...

    def partitions(self, topic: str) -> Sequence[int]: ...


class RecordProducer:
    """Produces to one topic. For one thread; `on_delivery` is called on kafka-python's.

    After the first record that is not acknowledged no more are accepted. Records that were accepted before
    have an outcome at the latest after `delivery_timeout_ms`.
    """

    def __init__(
        self,
        cluster: BrokersAndTopics,
        topic: str,
        on_delivery: Callable[[DeliveryReport], None],
        settings: ProducerSettings | None = None,
        access: BrokerAccess = PLAIN_ACCESS,
    ) -> None:
        """Connects.

        Raises:
            ConfigError: kafka-python is not installed; several listeners of a broker fit `access`.
            BrokerAuthenticationError: the brokers refuse the login.
            SourceUnavailableError: no broker is registered, or none answers within `delivery_timeout_ms`.
            SourceError: the brokers refuse.
        """
        self._settings = settings or ProducerSettings()
        self._topic = topic
        self._on_delivery = on_delivery
        self._partitions = sorted(cluster.partitions(topic))
        self._turn = 0
        self._count = 0
        self._lock = threading.Condition()
        self._buffered = 0
        """Bytes of records without an outcome."""
        self._error: RecordsNotAppendedError | None = None
        self._attempts = Attempts()
        registered = cluster.brokers().values()
        found = kafka_python.addresses_of(registered, access)
        self._addresses = [str(address) for address in found]
        self._brokers = ",".join(self._addresses)
        self._security = access.security
        if self._security is not None:
            kafka_python.check_login(found)
        self._kafka = kafka_python.load(USER)
        protocol = kafka_python.protocol_of(registered)
        self._producer: Any = kafka_python.asked(lambda: self._connect(protocol), self._brokers, USER)
        self._protocol: tuple[int, ...] = self._producer.config["api_version"]
        self._is_idempotent = bool(self._producer.config["enable_idempotence"])

    def send(self, record: NewRecord) -> None:
        """Accepts a record; waits while too many have no outcome.

        Raises:
            ConfigError: the brokers cannot keep such a record; it is not accepted, others may follow.
            RecordsNotAppendedError: a record was not acknowledged before.
            SourceUnavailableError, SourceError: the topic's partitions cannot be asked for.
        """
        self._check(record)
        size = record.size
        with self._lock:
            self._lock.wait_for(lambda: self._error or self._has_room(size))
            self.check()
            self._buffered += size
        number, self._count = self._count, self._count + 1
        partition = self._partition_of(record)
        try:
            future = self._send(record, partition)
        except BaseException:
            self._release(size)
            raise
        future.add_callback(self._acknowledged, number, size)
        future.add_errback(self._failed, number, size, partition)

    def check(self) -> None:
        """Raises RecordsNotAppendedError if a record was not acknowledged."""
        if self._error is not None:
            raise self._error

    def flush(self) -> None:
        """Waits for the outcome of every record. Raises RecordsNotAppendedError."""
        self._producer.flush()
        with self._lock:
            self._lock.wait_for(lambda: not self._buffered)
        self.check()

    def close(self) -> None:
        """Gives up records without an outcome, which become failed or unknown; again does nothing."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        # `KafkaProducer.close` of 3.0.12 raises, without closing, while records have no outcome
        sender = producer._sender
        sender.force_close()
        sender.join(CLOSE_S)
        producer.close(timeout=0)

    def _connect(self, protocol: tuple[int, ...] | None) -> Any:
        timeout_ms = self._settings.delivery_timeout_ms
        linger_ms = min(LINGER_MS, timeout_ms // 2)
        options = dict(kafka_python.connecting())
        options["kafka_client"] = self._attempts.client(options.get("kafka_client"))
        if protocol is not None:
            options["api_version"] = protocol
        if self._security is not None:
            options |= self._security.kafka_python_options()
        if self._settings.acks != "all":
            options["enable_idempotence"] = False
        return self._kafka.KafkaProducer(
            bootstrap_servers=self._addresses,
            client_id=self._settings.client_id,
            acks="all" if self._settings.acks == "all" else int(self._settings.acks),
            linger_ms=linger_ms,
            batch_size=BATCH_BYTES,
            max_request_size=RECORD_BYTES_MAX + BATCH_BYTES,
            max_in_flight_requests_per_connection=1,
            delivery_timeout_ms=timeout_ms,
            request_timeout_ms=min(self._settings.request_timeout_ms, timeout_ms - linger_ms),
            max_block_ms=timeout_ms,
            bootstrap_timeout_ms=timeout_ms,
            reconnect_backoff_max_ms=1000,
            allow_auto_create_topics=False,
            metrics_enabled=False,
            **options,
        )

    def _send(self, record: NewRecord, partition: int) -> Any:
        try:
            return self._producer.send(
                self._topic,
                value=record.value,
                key=record.key,
                headers=list(record.headers),
                partition=partition,
                timestamp_ms=record.timestamp_ms,
            )
        except ValueError as error:  # a partition that is new, while the brokers' metadata is old
            raise SourceUnavailableError(f"{self._topic}: {error}") from error
        except self._kafka.errors.KafkaError as error:
            raise kafka_python.translated(error, self._brokers, USER) from error

    def _check(self, record: NewRecord) -> None:
        """Raises ConfigError for a record that these brokers cannot keep."""
        if record.value is None and record.key is None:
            raise ConfigError("expected a value or a key, found neither")
        if record.size > RECORD_BYTES_MAX:
            raise ConfigError(f"expected at most {RECORD_BYTES_MAX} bytes, found {record.size}")
        if record.headers and self._protocol < (0, 11):
            raise ConfigError("expected no headers: Kafka keeps them from 0.11 on")
        if record.timestamp_ms is not None and self._protocol < (0, 10):
            raise ConfigError("expected no timestamp: Kafka keeps it from 0.10 on")
        if record.partition is not None and record.partition not in self._partitions:
            raise ConfigError(f"expected a partition of topic {self._topic}, found {record.partition}")

    def _partition_of(self, record: NewRecord) -> int:
        if record.partition is not None:
            return record.partition
        if record.key is not None:
            return partition_of_key(record.key, self._partitions)
        self._turn += 1
        return self._partitions[(self._turn - 1) % len(self._partitions)]

    def _acknowledged(self, number: int, size: int, found: Any) -> None:
        if self._settings.acks == "0":
            delivery = DeliveryReport(number, found.partition, Outcome.SENT)
        else:
            again = not self._is_idempotent and found.partition in self._attempts.repeated
            delivery = DeliveryReport(number, found.partition, Outcome.ACKNOWLEDGED, found.offset, again)
        self._on_delivery(delivery)
        self._release(size)

    def _failed(self, number: int, size: int, partition: int, error: Exception) -> None:
        is_open = partition in self._attempts.unresolved
        outcome = Outcome.UNKNOWN if is_open else Outcome.FAILED
        kind = RecordsUnknownError if is_open else RecordsNotAppendedError
        with self._lock:
            if self._error is None:
                at = TopicPartition(self._topic, partition)
                self._error = kind(at, kafka_python.text_of(error))
        self._on_delivery(DeliveryReport(number, partition, outcome))
        self._release(size)

    def _has_room(self, size: int) -> bool:
        return not self._buffered or self._buffered + size <= self._settings.buffer_memory

    def _release(self, size: int) -> None:
        with self._lock:
            self._buffered -= size
            self._lock.notify_all()


def partition_of_key(key: bytes, partitions: Sequence[int]) -> int:
    """The partition that Kafka's producers choose for a key, out of all of a topic in ascending order."""
    from kafka.partitioner.default import murmur2

    number: int = murmur2(key) & 0x7FFFFFFF
    return partitions[number % len(partitions)]


class Attempts:
    """The partitions that have produce requests without a certain outcome. On kafka-python's thread.

    One batch of a partition is in flight at a time, so what is unresolved belongs to its oldest batch.
    """

    def __init__(self) -> None:
        self.unresolved: set[int] = set()
        """A request was sent, and its records may be in the log without an acknowledgement."""
        self.repeated: set[int] = set()
        """The last request was acknowledged after one with an unknown outcome."""

    def client(self, base: Any = None) -> type:
        """kafka-python's network client, or `base`, which reports the requests that it sends."""
        from kafka.net.compat import KafkaNetClient
        from kafka.protocol.producer import ProduceRequest

        attempts = self

        class ReportingClient(base or KafkaNetClient):  # type: ignore[misc]
            def send(self, node_id: object, request: Any, **options: object) -> Any:
                if not isinstance(request, ProduceRequest):
                    return super().send(node_id, request, **options)
                before = attempts.sent(
                    {each.index for topic in request.topic_data for each in topic.partition_data}
                )
                future = super().send(node_id, request, **options)
                return future.add_callback(attempts.answered, before)

        return ReportingClient

    def sent(self, partitions: AbstractSet[int]) -> AbstractSet[int]:
        """Takes in a request for these partitions; those of them that were unresolved before."""
        before = self.unresolved & partitions
        self.unresolved |= partitions
        return before

    def answered(self, before: AbstractSet[int], response: Any) -> None:
        """Takes in the response to a request; `before`: partitions that were unresolved when it was sent."""
        for topic in response.responses if response else ():
            for each in topic.partition_responses:
                partition, code = each.index, each.error_code
                if code == NONE or (
                    code not in AMBIGUOUS and each.base_offset < 0 and partition not in before
                ):
                    self.unresolved.discard(partition)
                if code == NONE:
                    (self.repeated.add if partition in before else self.repeated.discard)(partition)


NONE: Final = 0
AMBIGUOUS: Final = frozenset({-1, 7, 20, 56})
"""Error codes that do not exclude that the records are in the log: unknown, request timed out, not enough
replicas after the append, storage. With another one the offset says whether they were appended."""
