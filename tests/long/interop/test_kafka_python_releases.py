"""Several releases of kafka-python at zkgroup brokers.

It is that of this interpreter. With ZKGROUP_INTEROP_KAFKA_PYTHON, the Pythons of environments that have other
releases, separated by colons, also those.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.long.interop import client_programs
from tests.long.interop.client_programs import RECORDS, ClientProgram, new_topic, pythons
from tests.long.interop.tooled import OurBrokers
from tests.worlds.kafka_clients import CLIENTS

PYTHONS = pythons("ZKGROUP_INTEROP_KAFKA_PYTHON")


def version_of(python: str) -> str:
    return client_programs.version_of("kafka-python", python)


@pytest.fixture(params=PYTHONS, ids=version_of)
def kafka_python(request: pytest.FixtureRequest, tmp_path: Path) -> ClientProgram:
    return ClientProgram(str(request.param), "kafka_python_client.py", tmp_path)


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_what_kafka_python_sends_every_client_reads(
    brokers: OurBrokers, kafka_python: ClientProgram, compression: str
) -> None:
    """Keys, nulls, headers, timestamps and bytes that are no text."""
    bootstrap, tp = new_topic(brokers, 1, 2, 3)
    settings = () if compression == "none" else (f"compression_type={compression}",)
    offsets = kafka_python.send(bootstrap, tp, RECORDS, *settings)

    sent = dict(enumerate(RECORDS))
    assert offsets == list(range(len(RECORDS)))
    assert kafka_python.read(bootstrap, tp, 0, len(RECORDS)) == sent
    assert kafka_python.read(bootstrap, tp, 30, 10) == {n: RECORDS[n] for n in range(30, 40)}
    for client in CLIENTS.values():
        assert client.read(bootstrap, tp, 0, len(RECORDS)) == sent


@pytest.mark.parametrize("client", CLIENTS)
def test_what_others_send_kafka_python_reads(
    brokers: OurBrokers, kafka_python: ClientProgram, client: str
) -> None:
    """As sent."""
    bootstrap, tp = new_topic(brokers, 2, 3, 1)
    offsets = CLIENTS[client].send(bootstrap, tp, RECORDS, idempotent=True, compression="gzip")

    assert kafka_python.read(bootstrap, tp, 0, len(RECORDS)) == dict(zip(offsets, RECORDS, strict=True))
