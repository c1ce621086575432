"""The clients for Python of `zkgroup demo brokers`, at a cluster in this process."""

from __future__ import annotations

import logging

import pytest

from zkgroup.demo.kafka_clients import ClientRecord, python_clients
from zkgroup.testing import KafkaCluster

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


def test_every_client_reads_what_each_has_produced(
    kafka_cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Each returns the offsets of its records, and all read the same."""
    caplog.set_level(logging.CRITICAL)
    kafka_cluster.create_topic("t")
    clients = [one for one in python_clients() if not one.reason]
    log: dict[int, ClientRecord] = {}
    for client in clients:
        records = [ClientRecord(client.name.encode(), b"value %d" % number) for number in range(40)]
        offsets = client.produce(kafka_cluster.bootstrap_servers, "t", records)
        assert offsets is not None
        log.update(zip(offsets, records, strict=True))
    read = [client.read(kafka_cluster.bootstrap_servers, "t", len(log)) for client in clients]

    assert [client.name for client in clients] == ["kafka-python", "confluent-kafka", "aiokafka"]
    assert sorted(log) == list(range(120))
    assert read == [log] * 3
