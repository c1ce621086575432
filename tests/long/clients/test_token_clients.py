"""Kafka's clients for Python and zkgroup's own log in by tokens at brokers that log in so to each other."""

from __future__ import annotations

import asyncio
import gc
import logging
import queue
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError
from confluent_kafka import Producer as ConfluentProducer

from tests.waiting import eventually
from tests.wired.interop.test_sasl_clients import CLIENTS, RECORDS
from tests.worlds.kafka_clients import ClientLogin
from tests.worlds.listening_brokers import ListeningBrokers
from tests.worlds.tokens import Issuer, of_client
from zkgroup.errors import BrokerAuthenticationError
from zkgroup.model import TopicPartition
from zkgroup.security.client import ClientSecurity
from zkgroup.wire.client import BrokerClient
from zkgroup.wire.metadata import ApiVersionsRequest, ApiVersionsResponse

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer(tmp_path)


@pytest.fixture
def cluster(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> Iterator[ListeningBrokers]:
    """Three brokers with one listener."""
    caplog.set_level(logging.CRITICAL, "kafka")
    among = of_client(issuer.token_file("broker"))
    properties = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "connection.failed.authentication.delay.ms": "1",
        **issuer.of_broker("SASL_PLAINTEXT"),
        "sasl.oauthbearer.token.endpoint.url": among["sasl.oauthbearer.token.endpoint.url"],
    }
    with ListeningBrokers(lambda broker: properties) as brokers:
        yield brokers
    gc.collect()  # kafka-python 3.0 leaves sockets of refused connections to it


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_log_in_by_tokens(cluster: ListeningBrokers, issuer: Issuer, client: str) -> None:
    """They send to a topic with three replicas, and read."""
    login = ClientLogin("OAUTHBEARER", token_file=issuer.token_file())
    one, tp = CLIENTS[client](login), TopicPartition(client, 0)
    address = cluster.address(1, "SASL_PLAINTEXT")

    assert one.send(address, tp, RECORDS) == [0, 1]
    assert one.read(address, tp, 0, 2) == dict(enumerate(RECORDS))


def asked(address: str, token_file: Path) -> object:
    """The answer of a broker to zkgroup's own client."""

    async def ask() -> object:
        host, _, port = address.rpartition(":")
        security = ClientSecurity.of(of_client(token_file))
        client = BrokerClient(host, int(port), client_id="me", timeout_ms=30_000, security=security)
        try:
            return await client.ask(ApiVersionsRequest(), ApiVersionsResponse)
        finally:
            await client.close()

    return asyncio.run(ask())


def test_a_token_of_a_former_key_is_refused(
    cluster: ListeningBrokers, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    """Once the file of keys has changed. The client's error names the file, the broker's line the reason."""
    file, address = issuer.token_file(), cluster.address(1, "SASL_PLAINTEXT")
    assert isinstance(asked(address, file), ApiVersionsResponse)
    caplog.set_level(logging.WARNING, "zkgroup.broker")
    issuer.rotate()

    with pytest.raises(BrokerAuthenticationError) as refused:
        asked(address, file)

    assert str(refused.value) == (
        f"broker {address}: authentication failed (OAUTHBEARER): token in {file}: the broker answers 58 "
        "(sasl authentication failed)"
    )
    assert '{"status":"invalid_token"}: it is not signed by one of the keys' in caplog.text
    assert file.read_text().strip() not in caplog.text

    errors: queue.SimpleQueue[KafkaError] = queue.SimpleQueue()
    login = ClientLogin("OAUTHBEARER", token_file=file)
    producer = ConfluentProducer(
        {
            "bootstrap.servers": address,
            "error_cb": errors.put,
            "logger": logging.getLogger("confluent"),
            **login.of_librdkafka,
        }
    )

    def refusal() -> KafkaError | None:
        producer.poll(0.01)
        return None if errors.empty() else errors.get()

    error = eventually(refusal)
    assert error is not None
    assert error.code() == KafkaError._AUTHENTICATION
    assert "it is not signed by one of the keys" in error.str()
