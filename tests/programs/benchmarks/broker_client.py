"""A client of brokers, for measurements: librdkafka, the same for all sides, in a process of its own.

    python -m tests.programs.benchmarks.broker_client BROKERS ORDER...

It performs one order (a function of this module with arguments NAME=NUMBER) and prints one JSON line.
BROKERS is HOST:PORT,... or, by TLS, HOST:PORT,...;FILE with the authorities to trust.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

WAIT_S = 60.0
AT_ONCE = 10_000
QUEUED = {"queue.buffering.max.messages": 500_000, "queue.buffering.max.kbytes": 262_144}
Figures = dict[str, float]


def ask(brokers: str, order: str, topic: str, **numbers: int) -> Figures:
    """Performs an order in a process of its own."""
    words = [brokers, order, topic, *(f"{name}={number}" for name, number in numbers.items())]
    command = [sys.executable, "-m", "tests.programs.benchmarks.broker_client", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=600)
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return found


def _reached(brokers: str) -> dict[str, Any]:
    """The settings of a client."""
    where, _, trusted = brokers.partition(";")
    tls = {"security.protocol": "SSL", "ssl.ca.location": trusted} if trusted else {}
    return {"bootstrap.servers": where, **tls}


def create(brokers: str, topic: str, partitions: int = 1, replicas: int = 1) -> Figures:
    """Creates a topic and waits until every partition is led and every replica is in sync."""
    admin = AdminClient(_reached(brokers))
    _await(lambda: admin.list_topics(timeout=WAIT_S).controller_id > 0, "controller")
    made = admin.create_topics([NewTopic(topic, partitions, replicas)], request_timeout=4 * WAIT_S)
    made[topic].result(4 * WAIT_S)
    _await(lambda: _is_whole(admin, topic, partitions, replicas), f"leaders of {topic}")
    return {}


def _is_whole(admin: AdminClient, topic: str, partitions: int, replicas: int) -> bool:
    found = admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions.values()
    whole = [one for one in found if one.leader > 0 and len(one.isrs) == replicas]
    return len(whole) == partitions


def _await(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + 4 * WAIT_S
    while not condition():
        assert time.monotonic() < until, f"no {what}"
        time.sleep(0.1)  # nothing tells a client of a change


def produce(
    brokers: str,
    topic: str,
    partitions: int = 1,
    records: int = 1,
    size: int = 100,
    acks: int = 1,
    linger: int = 5,
    batch: int = 1_000_000,
    run: int = 64,
) -> Figures:
    """Produces records, `run` for a partition at a time, and waits for all acknowledgements."""
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    settings: dict[str, Any] = {**_reached(brokers), "acks": acks, "linger.ms": linger, **QUEUED}
    producer = Producer({**settings, "batch.size": batch, "on_delivery": delivered})
    producer.list_topics(topic, timeout=WAIT_S)
    value = (bytes(range(256)) * (size // 256 + 1))[:size]
    cpu, began = time.process_time(), time.perf_counter()
    for number in range(records):
        _send(producer, topic, value, number // run % partitions)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(4 * WAIT_S)
    seconds = time.perf_counter() - began
    assert not left, f"{left} records are not acknowledged"
    assert not failed, failed[0]
    return {"seconds": seconds, "client_cpu_s": time.process_time() - cpu, "records": records}


def _send(producer: Producer, topic: str, value: bytes, partition: int) -> None:
    while True:
        try:
            producer.produce(topic, value, partition=partition)
        except BufferError:
            producer.poll(0.1)
        else:
            return


def latency(brokers: str, topic: str, records: int = 500, size: int = 100) -> Figures:
    """Produces one record after the other with acks=all, each once the one before is acknowledged."""
    producer = Producer({**_reached(brokers), "acks": -1, "linger.ms": 0})
    took: list[float] = []
    for _ in range(records):
        began = time.perf_counter()
        producer.produce(topic, b"x" * size, partition=0)
        assert not producer.flush(WAIT_S)
        took.append(time.perf_counter() - began)
    took = sorted(took[len(took) // 5 :])
    p50, p99 = statistics.median(took), took[len(took) * 99 // 100]
    return {"p50_ms": 1000 * p50, "p99_ms": 1000 * p99, "seconds": sum(took), "records": len(took)}


def fetch(brokers: str, topic: str, partitions: int = 1, records: int = 1, each: int = 1_048_576) -> Figures:
    """Consumes a topic from its start to its end; the time runs from the first record on."""
    consumer = Consumer(
        {
            **_reached(brokers),
            "group.id": "bench",
            "enable.auto.commit": False,
            "max.partition.fetch.bytes": each,
            "queued.min.messages": 100_000,
            "queued.max.messages.kbytes": 262_144,
            "fetch.queue.backoff.ms": 5,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    first = consumer.consume(1, WAIT_S)
    assert len(first) == 1, "no record came"
    found, size = 1, 0
    cpu, began = time.process_time(), time.perf_counter()
    while found < records:
        some = consumer.consume(min(AT_ONCE, records - found), 1.0)
        assert time.perf_counter() - began < 4 * WAIT_S, f"{found} of {records} came"
        for message in some:
            value = message.value()
            assert value is not None, message.error()
            size += len(value)
        found += len(some)
    seconds = time.perf_counter() - began
    consumer.close()
    return {"seconds": seconds, "client_cpu_s": time.process_time() - cpu, "bytes": size, "records": found}


ORDERS: dict[str, Callable[..., Figures]] = {
    "create": create,
    "produce": produce,
    "latency": latency,
    "fetch": fetch,
}


def main() -> None:
    brokers, order, topic, *words = sys.argv[1:]
    numbers = {name: int(number) for name, _, number in (word.partition("=") for word in words)}
    print(json.dumps(ORDERS[order](brokers, topic, **numbers)))


if __name__ == "__main__":
    main()
