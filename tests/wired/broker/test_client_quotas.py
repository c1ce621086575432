"""Quotas at a broker's port: what cannot be read, and the line of a change."""

from __future__ import annotations

import logging

import pytest

from tests.worlds.running_brokers import ask
from zkgroup.runtime.logs import PEERS
from zkgroup.testing import KafkaCluster
from zkgroup.wire.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    QuotaAlteration,
    QuotaEntityPart,
    QuotaFilterComponent,
    QuotaOperation,
)
from zkgroup.znodes.config import EntityConfig


def test_a_number_that_cannot_be_read_is_an_error_that_names_its_znode(kafka_cluster: KafkaCluster) -> None:
    """Not -1, at which librdkafka waits for ever. Of a filter that names its owner nothing else is read."""
    path = "/config/clients/app"
    kafka_cluster.zookeeper.put(path, EntityConfig({"producer_byte_rate": "much"}).encode())
    kafka_cluster.zookeeper.put("/config/clients/other", EntityConfig({"producer_byte_rate": "1"}).encode())
    port = int(kafka_cluster.address(1).rpartition(":")[2])
    named = QuotaFilterComponent(entity_type="client-id", match_type=0, match="other")

    every, other = (
        ask(port, DescribeClientQuotasRequest(components=one, strict=True), DescribeClientQuotasResponse)
        for one in ((QuotaFilterComponent(entity_type="client-id", match_type=2),), (named,))
    )

    assert (every.error, every.entries) == (40, None)
    assert every.error_message == f"{path}: expected a number for producer_byte_rate, found 'much'"
    assert [len(one.values) for one in other.entries or ()] == [1]


def test_a_change_is_a_line_that_says_who_made_it(
    kafka_cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where no authorizer is set; what is only checked, or asked for, is none."""
    port = int(kafka_cluster.address(1).rpartition(":")[2])
    owner = (QuotaEntityPart(entity_type="client-id", entity_name="app"),)
    quota = QuotaOperation(key="producer_byte_rate", value=5.0, remove=False)
    change = QuotaAlteration(entity=owner, operations=(quota,))
    PEERS.forget()

    with caplog.at_level(logging.INFO, "zkgroup.authorizer"):
        for validate_only in (True, False):
            request = AlterClientQuotasRequest(entries=(change,), validate_only=validate_only)
            ask(port, request, AlterClientQuotasResponse, version=1)

    (line,) = (one.message for one in caplog.records if one.name == "zkgroup.authorizer")
    assert line == (
        'Principal = "User:ANONYMOUS" is Allowed Operation = AlterConfigs from host = 127.0.0.1 on resource '
        '= Cluster:LITERAL:"kafka-cluster" for request = ALTER_CLIENT_QUOTAS with listener = PLAINTEXT: '
        'client-id "app": changed quotas'
    )
