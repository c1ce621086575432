"""Kafka's clients for Python log in at brokers of zkgroup, by each mechanism; how each shows a refusal."""

from __future__ import annotations

import asyncio
import gc
import logging
import queue
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import KafkaError
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError

from tests.waiting import PATIENCE_S, eventually
from tests.worlds.kafka_clients import Aiokafka, ClientLogin, Confluent, KafkaPython, KafkaRecord
from tests.worlds.listening_brokers import ListeningBrokers
from zkgroup import Admin
from zkgroup.model import TopicPartition
from zkgroup.security.passwords import hash_password

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <(socket|ssl):ResourceWarning")

CLIENTS = {"kafka-python": KafkaPython, "confluent-kafka": Confluent, "aiokafka": Aiokafka}
LOGINS = (
    ClientLogin("PLAIN", "alice", "alice-secret"),
    ClientLogin("PLAIN", "in-file", "geheim"),
    ClientLogin("SCRAM-SHA-256", "olga", "a b"),
    ClientLogin("SCRAM-SHA-512", "olga", "a b c"),
)
WRONG = ClientLogin("SCRAM-SHA-512", "olga", "wrong")
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
RECORDS = [KafkaRecord(b"one", b"k"), KafkaRecord(b"two")]


@pytest.fixture(autouse=True)
def _collected(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """kafka-python 3.0 leaves sockets of refused connections to the collector, and its logs keep them."""
    caplog.set_level(logging.CRITICAL, "kafka")
    yield
    gc.collect()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ListeningBrokers]:
    """Three brokers with a listener for clients that log in; users are made before they run."""
    file = tmp_path / "users"
    file.write_text(f"in-file:{hash_password('geheim', b'salt')}\n", encoding="utf-8")
    properties = {
        "listeners": "OUT://127.0.0.1:0,IN://127.0.0.1:0",
        "listener.security.protocol.map": "OUT:SASL_PLAINTEXT,IN:PLAINTEXT",
        "inter.broker.listener.name": "IN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.out.plain.sasl.jaas.config": f'{MODULE} required user_alice="alice-secret";',
        "sasl.plain.users.file": str(file),
        "connection.failed.authentication.delay.ms": "1",
    }
    brokers = ListeningBrokers(lambda broker: properties)
    admin = Admin(client=brokers.zookeeper.client("admin"), undo_folder=tmp_path)
    for mechanism, user, password, *_ in LOGINS:
        if mechanism is not None and mechanism != "PLAIN":
            admin.add_user(user, password, mechanism=mechanism)
    with brokers:
        yield brokers
    admin.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_records_are_sent_and_read_by_clients_that_log_in(cluster: ListeningBrokers, client: str) -> None:
    """By PLAIN with users of the JAAS entry and of the file, and by both SCRAMs; then read again."""
    address = cluster.address(1, "OUT")
    for number, login in enumerate(LOGINS):
        tp = TopicPartition(f"{client}-{number}", 0)
        one = CLIENTS[client](login)

        offsets = one.send(address, tp, RECORDS)

        assert (login, offsets) == (login, [0, 1])
        assert (login, one.read(address, tp, 0, 2)) == (login, dict(enumerate(RECORDS)))


def test_known_users_log_in_while_zookeeper_is_away(cluster: ListeningBrokers) -> None:
    """By what the broker read last; a password that changes meanwhile counts once ZooKeeper is back."""
    login = LOGINS[-1]
    tp, client = TopicPartition("away", 0), Aiokafka(login)
    address = cluster.address(1, "OUT")
    assert client.send(address, tp, RECORDS) == [0, 1]

    for number in cluster.brokers:
        cluster.zookeeper.cut(f"broker-{number}", hold=True)

    assert client.send(address, tp, RECORDS) == [2, 3]
    for number in cluster.brokers:
        cluster.zookeeper.resume(f"broker-{number}")


def test_kafka_python_logs_a_refusal_and_gives_up(cluster: ListeningBrokers) -> None:
    """Its constructor raises a timeout: 3.0.12 tries again until then."""
    with pytest.raises(KafkaTimeoutError, match="Unable to bootstrap"):
        KafkaProducer(
            bootstrap_servers=cluster.address(1, "OUT"), bootstrap_timeout_ms=300, **WRONG.of_python
        )


def test_confluent_kafka_calls_back_with_the_text(cluster: ListeningBrokers) -> None:
    """The error callback gets Kafka's text; sending goes on until the message times out."""
    errors: queue.SimpleQueue[KafkaError] = queue.SimpleQueue()
    producer = ConfluentProducer(
        {
            "bootstrap.servers": cluster.address(1, "OUT"),
            "error_cb": errors.put,
            "logger": logging.getLogger("confluent"),
            **WRONG.of_librdkafka,
        }
    )

    def refusal() -> KafkaError | None:
        producer.poll(0.01)
        return None if errors.empty() else errors.get()

    error = eventually(refusal)
    assert error is not None
    assert error.code() == KafkaError._AUTHENTICATION
    assert "invalid credentials with SASL mechanism SCRAM-SHA-512" in error.str()


def test_aiokafka_raises_at_once(cluster: ListeningBrokers) -> None:
    """`start` raises that it cannot connect; the reason is in its log."""

    async def start() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.address(1, "OUT"), **WRONG.of_python)
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(KafkaConnectionError, match="Unable to bootstrap"):
        asyncio.run(asyncio.wait_for(start(), PATIENCE_S))


def test_a_password_changes_while_brokers_run(cluster: ListeningBrokers, tmp_path: Path) -> None:
    """The next login needs the new one at every broker; brokers follow ZooKeeper."""
    admin = Admin(client=cluster.zookeeper.client("changer"), undo_folder=tmp_path)
    for password in ("first", "second"):
        admin.add_user("changing", password, mechanism="SCRAM-SHA-256")
        tp = TopicPartition("changing", 0)
        client = Aiokafka(ClientLogin("SCRAM-SHA-256", "changing", password))

        def sent(client: Aiokafka = client, tp: TopicPartition = tp) -> list[int] | None:
            try:
                return client.send(cluster.address(2, "OUT"), tp, RECORDS)
            except KafkaConnectionError:
                return None

        assert eventually(sent)
    admin.close()
