"""Kafka's clients for Python over TLS: with and without certificates, and with each login."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worlds.certificates import Authority
from tests.worlds.kafka_clients import Aiokafka, ClientLogin, Confluent, KafkaPython, KafkaRecord
from tests.worlds.listening_brokers import ListeningBrokers
from zkgroup import Admin
from zkgroup.model import TopicPartition

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <(socket|ssl):ResourceWarning")

CLIENTS = {"kafka-python": KafkaPython, "confluent-kafka": Confluent, "aiokafka": Aiokafka}
PLAIN = ClientLogin("PLAIN", "alice", "alice-secret")
SCRAMS = ClientLogin("SCRAM-SHA-256", "olga", "a b"), ClientLogin("SCRAM-SHA-512", "olga", "a b c")
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
RECORDS = [KafkaRecord(b"one", b"k"), KafkaRecord(b"two")]


@pytest.fixture
def authority(tmp_path: Path) -> Iterator[Authority]:
    yield Authority(tmp_path)
    gc.collect()  # kafka-python leaves sockets to the collector


@pytest.fixture
def cluster(authority: Authority, tmp_path: Path) -> Iterator[ListeningBrokers]:
    """Three brokers with a listener for certificates, one for anybody, and one for logins."""

    def properties(broker: int) -> dict[str, str]:
        return {
            "listeners": "SHOWN://127.0.0.1:0,OPEN://127.0.0.1:0,USERS://127.0.0.1:0",
            "listener.security.protocol.map": "SHOWN:SSL,OPEN:SSL,USERS:SASL_SSL",
            "inter.broker.listener.name": "SHOWN",
            "listener.name.shown.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.users.plain.sasl.jaas.config": f'{MODULE} required user_alice="alice-secret";',
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.key_store(f"broker-{broker}")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.trust_store),
        }

    brokers = ListeningBrokers(properties)
    admin = Admin(client=brokers.zookeeper.client("admin"), undo_folder=tmp_path)
    for login in SCRAMS:
        admin.add_user(login.user, login.password, mechanism=str(login.mechanism))
    with brokers:
        yield brokers
    admin.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_records_are_sent_and_read_over_tls(
    cluster: ListeningBrokers, authority: Authority, client: str
) -> None:
    """With a certificate, without one, and by PLAIN and both SCRAMs; then read again."""
    trust, key_store = authority.trust_store, authority.key_store("client", common_name="alice")
    ways = (
        ("SHOWN", ClientLogin(trust_store=trust, key_store=key_store)),
        ("OPEN", ClientLogin(trust_store=trust)),
        *(("USERS", login._replace(trust_store=trust)) for login in (PLAIN, *SCRAMS)),
    )
    for number, (listener, login) in enumerate(ways):
        tp, address = TopicPartition(f"{client}-{number}", 0), cluster.address(1, listener)
        one = CLIENTS[client](login)

        assert (listener, one.send(address, tp, RECORDS)) == (listener, [0, 1])
        assert (listener, one.read(address, tp, 0, 2)) == (listener, dict(enumerate(RECORDS)))
