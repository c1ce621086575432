"""Kafka's clients at brokers that hold them to quotas: they get what they may, and others lose nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from typing import Any

from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.waiting import PATIENCE_S, eventually, joined, outcome
from tests.worlds.kafka_clients import ClientLogin
from zkgroup.testing import ClusterSecurity, KafkaCluster
from zkgroup.znodes.config import ConfigEntity, EntityConfig

RATE = 50_000
"""Bytes a second."""
WINDOWS_S, SETTLED_S = 33, 5
"""Three times all windows are measured, from this time behind the first burst, which is between two."""
RECORD = b"x" * 1_000
FILLED = 4_000
"""Records of the partition that consumers read: more than they may have in that time."""
USERS = ("ulla", "carl", "bob")
LOGINS = {user: ClientLogin("PLAIN", user, f"{user}-secret") for user in USERS}
HELD = {
    "user": ("ulla", "any", ConfigEntity.user("ulla")),
    "client id": ("carl", "held", ConfigEntity.of_client("held")),
    "user and client id": ("bob", "app", ConfigEntity.user_client("bob", "app")),
}
"""The user and the client id of clients with a quota of each kind; bob's other clients have none."""


def limit(cluster: KafkaCluster, entity: ConfigEntity, **settings: float) -> None:
    """Sets quotas before the cluster starts."""
    numbers = {name: str(value) for name, value in settings.items()}
    cluster.zookeeper.put(entity.config_path, EntityConfig(numbers).encode())


class Counted:
    """A client on a thread of its own, and when it got how many bytes."""

    def __init__(self, name: str, run: Callable[..., None], *arguments: Any) -> None:
        self.name = name
        self.seen: list[tuple[float, int]] = []
        self.stop = threading.Event()
        self._errors: list[Exception] = []
        self._thread = threading.Thread(target=self._run, args=(run, *arguments), name=name)
        self._thread.start()

    def _run(self, run: Callable[..., None], *arguments: Any) -> None:
        try:
            run(self, *arguments)
        except Exception as error:  # noqa: BLE001  # the test shows it
            self._errors.append(error)

    def got(self, size: int) -> None:
        """Counts some bytes."""
        self.seen.append((time.monotonic(), size))

    def is_measured(self) -> bool:
        """Whether it was there for the time that is measured."""
        assert not self._errors, (self.name, self._errors)
        return bool(self.seen) and self.seen[-1][0] > self.seen[0][0] + SETTLED_S + WINDOWS_S

    def rate(self) -> float:
        """Bytes a second over whole windows, from between two bursts."""
        begin_s = self.seen[0][0] + SETTLED_S
        return sum(size for at, size in self.seen if begin_s < at <= begin_s + WINDOWS_S) / WINDOWS_S

    def calls_a_second(self, begin: int) -> float:
        """How often it got something a second, without the first so many times."""
        seen = self.seen[begin:]
        return (len(seen) - 1) / (seen[-1][0] - seen[0][0])

    def end(self) -> None:
        """Ends it."""
        self.stop.set()
        joined(self._thread)


def python_producer(
    of: Counted, bootstrap: str, user: str, client_id: str, partition: int, ahead: int
) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        client_id=client_id,
        batch_size=16_384,
        linger_ms=20 if ahead > 1 else 0,
        request_timeout_ms=60_000,
        **LOGINS[user].of_kafka_python,
    )
    while not of.stop.is_set():
        sent = [producer.send("made", RECORD, partition=partition) for _ in range(ahead)]
        for each in sent:
            each.add_callback(lambda _: of.got(len(RECORD)))
        for each in sent:
            each.get(PATIENCE_S)
    producer.close()


def python_consumer(
    of: Counted, bootstrap: str, user: str, client_id: str, topic: str, partition: int
) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        client_id=client_id,
        auto_offset_reset="earliest",
        **LOGINS[user].of_kafka_python,
    )
    consumer.assign([TopicPartition(topic, partition)])
    while not of.stop.is_set():
        for records in consumer.poll(200).values():
            of.got(sum(len(each.value) for each in records))
    consumer.close()


def confluent_producer(of: Counted, bootstrap: str, user: str, client_id: str, partition: int) -> None:
    settings = {"batch.size": 16_384, "linger.ms": 20, "socket.timeout.ms": 60_000}
    identity = {"bootstrap.servers": bootstrap, "client.id": client_id, **LOGINS[user].of_librdkafka}
    producer = ConfluentProducer(identity | settings)
    while not of.stop.is_set():
        for _ in range(50):
            producer.produce(
                "made", RECORD, partition=partition, callback=lambda error, _: error or of.got(len(RECORD))
            )
        producer.flush(PATIENCE_S)


def confluent_consumer(
    of: Counted, bootstrap: str, user: str, client_id: str, topic: str, partition: int
) -> None:
    identity = {"bootstrap.servers": bootstrap, "client.id": client_id, **LOGINS[user].of_librdkafka}
    consumer = ConfluentConsumer(identity | {"group.id": "none", "enable.auto.commit": False})
    consumer.assign([ConfluentPartition(topic, partition, 0)])
    while not of.stop.is_set():
        if records := consumer.consume(500, 0.2):
            of.got(sum(len(each.value()) for each in records if each.error() is None))
    consumer.close()


def _start_held(bootstrap: str) -> Iterator[Counted]:
    """A producer and a consumer with each kind of quota; of both libraries both."""
    runs = {
        "user": (python_producer, confluent_consumer),
        "client id": (confluent_producer, python_consumer),
        "user and client id": (python_producer, python_consumer),
    }
    for number, (kind, (produce, consume)) in enumerate(runs.items(), 1):
        user, client_id, _ = HELD[kind]
        ahead = (50,) if produce is python_producer else ()
        yield Counted(f"producer, {kind}", produce, bootstrap, user, client_id, number, *ahead)
        yield Counted(f"consumer, {kind}", consume, bootstrap, user, client_id, "filled", 0)


def held_rates(bootstrap: str) -> dict[str, float]:
    """What held clients get, as a share of their rates.

    In a process of its own: producers of kafka-python take a quarter of a core each while they wait, and the
    interpreter of the brokers is not theirs.
    """
    held = []
    with ExitStack() as stack:
        for each in _start_held(bootstrap):
            held.append(each)
            stack.callback(each.end)
        eventually(lambda: all(each.is_measured() for each in held), what=lambda: str(_states(held)))
    return {each.name: each.rate() / RATE for each in held}


def test_clients_keep_their_rates_and_others_beside_them_lose_nothing() -> None:
    """Over three times all windows within 10 %. The free ones, which send and read record by record, are
    compared with the same before; that they share the cores with the others costs them some."""
    users = {user: login.password for user, login in LOGINS.items()}
    cluster = KafkaCluster(
        1, security=ClusterSecurity(protocol="SASL_PLAINTEXT", mechanism="PLAIN", users=users)
    )
    for _, _, entity in HELD.values():
        limit(cluster, entity, producer_byte_rate=RATE, consumer_byte_rate=RATE)
    with cluster, ExitStack() as stack:
        bootstrap = cluster.bootstrap_servers
        cluster.create_topic("made", partitions=4)
        cluster.create_topic("filled", partitions=1)
        filler = KafkaProducer(bootstrap_servers=bootstrap, **LOGINS["bob"].of_kafka_python)
        for each in [filler.send("filled", RECORD) for _ in range(FILLED)]:
            each.get(PATIENCE_S)
        filler.close()
        free = [
            Counted("free producer", python_producer, bootstrap, "bob", "free", 0, 1),
            Counted("free consumer", python_consumer, bootstrap, "bob", "free", "made", 0),
        ]
        for each in free:
            stack.callback(each.end)
        eventually(lambda: all(len(each.seen) > 300 for each in free), what=lambda: str(_states(free)))
        alone = [each.calls_a_second(0) for each in free]
        marks = [len(each.seen) for each in free]
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            rates = outcome(pool.submit(held_rates, bootstrap))
        beside = [each.calls_a_second(mark) for each, mark in zip(free, marks, strict=True)]

    assert all(0.9 <= rate <= 1.1 for rate in rates.values()), rates
    assert all(one >= before / 5 for one, before in zip(beside, alone, strict=True)), (alone, beside)


def _states(clients: list[Counted]) -> dict[str, int]:
    return {each.name: sum(size for _, size in each.seen) for each in clients}
