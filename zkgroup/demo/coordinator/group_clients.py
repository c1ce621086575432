"""Kafka's clients as members of the demo's group: each polls, reports what it processes, and commits.

A commit has metadata, the name of the member and the token of its assignment, so ZooKeeper's log shows who
committed what. Java's console consumer commits by itself, without metadata.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from zkgroup.clients import kafka_python
from zkgroup.demo.brokers.kafka_tools import SMALL_JVM
from zkgroup.demo.flight_data import TOPIC

POLL_S: Final = 0.2
HEARTBEAT_MS: Final = 500
COMMIT_S: Final = 5.0
"""Longest wait for the answer to a commit."""
RECORDS_AT_ONCE: Final = 500
JAVA: Final = "java"


class MemberWork(Protocol):
    """What a client works for: it reports its partitions and records, and asks what to commit."""

    group: str
    client_id: str
    bootstrap: str
    session_timeout_ms: int

    @property
    def is_stopping(self) -> bool:
        """Whether the client is to leave."""

    def assigned(self, partitions: Collection[int]) -> None:
        """These partitions were assigned, and no others."""

    def revoked(self) -> None:
        """No partition is assigned any more."""

    def process(self, partition: int, offset: int, value: bytes | None) -> None:
        """Processes a record of an assigned partition."""

    def due(self) -> Mapping[int, int]:
        """What is to be committed now: partition to next offset; empty until it is time."""

    def positions(self) -> Mapping[int, int]:
        """Partition to next offset, of all that is assigned and was read."""

    @property
    def metadata(self) -> str:
        """Of each commit."""

    def committed(self, offsets: Mapping[int, int]) -> None:
        """The coordinator has acknowledged a commit."""

    def not_committed(self, error: str) -> None:
        """A commit has failed."""


def run_kafka_python(work: MemberWork) -> None:
    """A member of kafka-python."""
    kafka = kafka_python.load("zkgroup demo coordinator")
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=work.bootstrap.split(","),
        client_id=work.client_id,
        group_id=work.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=work.session_timeout_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        metadata_max_age_ms=5_000,
        reconnect_backoff_max_ms=500,
        partition_assignment_strategy=[RangePartitionAssignor],
        **kafka_python.connecting(),
    )

    def commit(positions: Mapping[int, int]) -> None:
        if not positions:
            return
        try:
            consumer.commit(_kafka_python_offsets(work, positions), timeout_ms=COMMIT_S * 1000)
        except kafka.errors.KafkaError as error:
            work.not_committed(type(error).__name__)
        else:
            work.committed(positions)

    consumer.subscribe([TOPIC], listener=_kafka_python_listener(work, consumer))
    while not work.is_stopping:
        try:
            polled = consumer.poll(POLL_S * 1000, max_records=RECORDS_AT_ONCE)
        except kafka.errors.KafkaConnectionError:
            continue  # of its request for metadata, to a broker that has just been killed
        for records in polled.values():
            for one in records:
                work.process(one.partition, one.offset, one.value)
        commit(work.due())
    commit(work.positions())
    consumer.close(autocommit=False)


def _kafka_python_offsets(work: MemberWork, positions: Mapping[int, int]) -> dict[Any, Any]:
    from kafka.structs import OffsetAndMetadata, TopicPartition

    return {
        TopicPartition(TOPIC, number): OffsetAndMetadata(offset, work.metadata, -1)
        for number, offset in positions.items()
    }


def _kafka_python_listener(work: MemberWork, consumer: Any) -> object:
    """Awaits its commit: kafka-python calls listeners on the thread that has to send it."""
    from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
    from kafka.errors import KafkaError

    class Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Any) -> None:
            if positions := work.positions():
                try:
                    await consumer.commit_async(_kafka_python_offsets(work, positions))
                except KafkaError as error:
                    work.not_committed(type(error).__name__)
            work.revoked()

        async def on_partitions_assigned(self, assigned: Any) -> None:
            work.assigned([each.partition for each in assigned])

    return Listener()


def run_confluent_kafka(work: MemberWork) -> None:
    """A member of confluent-kafka, with librdkafka."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": work.bootstrap,
            "client.id": work.client_id,
            "group.id": work.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": work.session_timeout_ms,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "topic.metadata.refresh.interval.ms": 5_000,
            "reconnect.backoff.max.ms": 500,
            "partition.assignment.strategy": "range",
            "log_level": 0,
        }
    )

    def commit(positions: Mapping[int, int]) -> None:
        if not positions:
            return
        offsets = [
            TopicPartition(TOPIC, number, offset, work.metadata) for number, offset in positions.items()
        ]
        try:
            stored = consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            work.not_committed(error.args[0].name())
            return
        work.committed({one.partition: one.offset for one in stored if one.error is None})
        for name in {one.error.name() for one in stored if one.error is not None}:
            work.not_committed(name)

    def revoked(_: object, partitions: object) -> None:
        commit(work.positions())
        work.revoked()

    def assigned(_: object, partitions: Iterable[Any]) -> None:
        work.assigned([each.partition for each in partitions])

    consumer.subscribe([TOPIC], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    while not work.is_stopping:
        for one in consumer.consume(RECORDS_AT_ONCE, POLL_S):
            if one.error() is None:
                work.process(one.partition(), one.offset(), one.value())
        commit(work.due())
    commit(work.positions())
    consumer.close()


def run_aiokafka(work: MemberWork) -> None:
    """A member of aiokafka."""
    asyncio.run(_run_aiokafka(work))


async def _run_aiokafka(work: MemberWork) -> None:
    from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.errors import KafkaError
    from aiokafka.structs import OffsetAndMetadata

    consumer = AIOKafkaConsumer(
        bootstrap_servers=work.bootstrap,
        client_id=work.client_id,
        group_id=work.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=work.session_timeout_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        metadata_max_age_ms=5_000,
        partition_assignment_strategy=[RangePartitionAssignor],
    )

    async def commit(positions: Mapping[int, int]) -> None:
        if not positions:
            return
        offsets = {
            TopicPartition(TOPIC, number): OffsetAndMetadata(offset, work.metadata)
            for number, offset in positions.items()
        }
        try:
            await asyncio.wait_for(consumer.commit(offsets), COMMIT_S)
        except (KafkaError, TimeoutError) as error:
            work.not_committed(type(error).__name__)
        else:
            work.committed(positions)

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Any) -> None:
            await commit(work.positions())
            work.revoked()

        async def on_partitions_assigned(self, assigned: Any) -> None:
            work.assigned([each.partition for each in assigned])

    consumer.subscribe([TOPIC], listener=Listener())
    await consumer.start()
    try:
        while not work.is_stopping:
            polled = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=RECORDS_AT_ONCE)
            for records in polled.values():
                for one in records:
                    work.process(one.partition, one.offset, one.value)
            await commit(work.due())
        await commit(work.positions())
    finally:
        await consumer.stop()


def java_command(work: MemberWork, jars: Path) -> list[str]:
    """The command of Java's console consumer, which prints partition, offset and value of each record."""
    properties = {
        "client.id": work.client_id,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": "500",
        "session.timeout.ms": str(work.session_timeout_ms),
        "heartbeat.interval.ms": str(HEARTBEAT_MS),
        "metadata.max.age.ms": "5000",
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor",
    }
    words = ["java", *SMALL_JVM, "-cp", f"{jars}/*", "kafka.tools.ConsoleConsumer"]
    words += ["--bootstrap-server", work.bootstrap, "--topic", TOPIC, "--group", work.group]
    for name, value in properties.items():
        words += ["--consumer-property", f"{name}={value}"]
    return [*words, "--property", "print.partition=true", "--property", "print.offset=true"]


def run_java(work: MemberWork, jars: Path) -> None:
    """Java's console consumer: its output is read, and SIGTERM is passed on, on which it commits and leaves.

    It does not report assignments: a record that does not follow the one before begins a new one.
    """
    words = [sys.executable, "-m", "zkgroup.demo.tethered", os.devnull, *java_command(work, jars)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    errors: list[str] = []
    reader = threading.Thread(target=_read_errors, args=(process, errors), daemon=True)
    reader.start()
    watcher = threading.Thread(target=_terminate, args=(work, process), daemon=True)
    watcher.start()
    for line in process.stdout:
        partition, offset, value = line.rstrip(b"\n").split(b"\t", 2)
        number = int(partition.removeprefix(b"Partition:"))
        work.process(number, int(offset.removeprefix(b"Offset:")), value)
    process.wait()
    reader.join()
    if not work.is_stopping:
        raise RuntimeError(f"the console consumer ended with {process.returncode}: {''.join(errors[-1:])}")


def _read_errors(process: subprocess.Popen[bytes], errors: list[str]) -> None:
    assert process.stderr is not None
    errors.extend(line.decode(errors="replace").strip() for line in process.stderr)


def _terminate(work: MemberWork, process: subprocess.Popen[bytes]) -> None:
    """Passes SIGTERM on when the member is to leave."""
    ended = threading.Event()
    while process.poll() is None:
        if work.is_stopping:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            return
        ended.wait(POLL_S)


RUNNERS: Final[Mapping[str, Callable[[MemberWork], None]]] = {
    "kafka-python": run_kafka_python,
    "confluent-kafka": run_confluent_kafka,
    "aiokafka": run_aiokafka,
}
"""Package to the function that runs a member of it."""
