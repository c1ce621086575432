"""Quotas at a broker's port: the answers are those of Kafka 2.8.2."""

from __future__ import annotations

import logging
import socket
from typing import Any
from urllib.parse import unquote

import pytest

from tests.waiting import PATIENCE_S
from tests.worlds.recorded_logins import QUOTAS, Exchange, conversations
from tests.worlds.running_brokers import ask
from tests.worlds.wire_requests import REQUESTS
from zkgroup.runtime.logs import PEERS
from zkgroup.testing import KafkaCluster
from zkgroup.wire.messages import Api, decode_response
from zkgroup.wire.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    QuotaAlteration,
    QuotaEntityPart,
    QuotaOperation,
)
from zkgroup.znodes.config import EntityConfig

OTHERS = {f"user={user}": 42 for user in "cghij."} | {"ip=::1": 0}
"""Owners of which another error is expected here. Of `c`, a credential, and the path `.` Kafka answers -1. It
takes a request_percentage of -0.5, NaN and infinity (`g`, `h`, `i`), and a producer_byte_rate of NaN as 0."""
NO_HOST = " is not a valid IP"


def _owner(entity: Any) -> str:
    return ",".join(sorted(f"{part.entity_type}={part.entity_name}" for part in entity))


def _answer(exchange: Exchange, frame: bytes) -> Any:
    key, version = exchange.api
    return decode_response(REQUESTS[key].RESPONSE, frame[4:], version=version)[1]


def _altered(exchange: Exchange, frame: bytes) -> dict[str, Any]:
    """Owner to error and text."""
    found = {}
    for row in _answer(exchange, frame).entries:
        text = unquote(row.error_message or "")
        head, is_host, _ = text.partition(NO_HOST)
        found[_owner(row.entity)] = row.error, head + is_host or text
    return found


def _described(exchange: Exchange, frame: bytes) -> tuple[int, str | None, dict[str, Any] | None]:
    answer = _answer(exchange, frame)
    if answer.error == -1:
        return 42, None, None
    if answer.entries is None:
        return answer.error, answer.error_message, None
    rows = {_owner(row.entity): {one.key: one.value for one in row.values} for row in answer.entries}
    return answer.error, None, {owner: values for owner, values in rows.items() if owner not in OTHERS}


def test_quotas_are_described_and_altered_as_by_kafka(kafka_cluster: KafkaCluster) -> None:
    """Each recorded conversation: errors, texts and values, but for what is refused here."""
    host, _, port = kafka_cluster.address(1).rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        stream = connection.makefile("rb")
        for case in conversations(QUOTAS):
            for exchange in case.exchanges:
                connection.sendall(exchange.sent)
                size = stream.read(4)
                answer = size + stream.read(int.from_bytes(size, "big"))
                assert exchange.came is not None
                if exchange.api[0] == Api.ALTER_CLIENT_QUOTAS:
                    altered, expected = _altered(exchange, answer), _altered(exchange, exchange.came)
                    for owner in OTHERS.keys() & altered.keys():
                        assert altered.pop(owner)[0] == OTHERS[owner] != expected.pop(owner)[0]
                    assert altered == expected, case.case
                else:
                    error, text, rows = _described(exchange, answer)
                    expected_error, expected_text, expected_rows = _described(exchange, exchange.came)
                    assert (error, rows) == (expected_error, expected_rows), case.case
                    assert expected_text in (None, text)

    znode = kafka_cluster.zookeeper.find("/config/clients/<default>")
    assert znode is not None
    overrides = EntityConfig.decode(znode.path, znode.data).overrides
    assert overrides == {"controller_mutation_rate": "20000000.0", "request_percentage": "200.0"}


def test_a_number_that_cannot_be_read_is_an_error_that_names_its_znode(kafka_cluster: KafkaCluster) -> None:
    """Not -1, at which librdkafka waits for ever."""
    path = "/config/clients/app"
    kafka_cluster.zookeeper.put(path, EntityConfig({"producer_byte_rate": "much"}).encode())
    port = int(kafka_cluster.address(1).rpartition(":")[2])

    answer = ask(
        port,
        DescribeClientQuotasRequest(components=(), strict=False),
        DescribeClientQuotasResponse,
        version=1,
    )

    assert (answer.error, answer.entries) == (40, None)
    assert answer.error_message == f"{path}: expected a number for producer_byte_rate, found 'much'"


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
