"""librdkafka of several releases of confluent-kafka at zkgroup brokers.

It is that of this interpreter. With ZKGROUP_INTEROP_LIBRDKAFKA, the Python of an environment that has another
confluent-kafka, also that one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.long.interop import client_programs
from tests.long.interop.client_programs import RECORDS, ClientProgram, acknowledgement, new_topic, pythons
from tests.long.interop.releases import EVERYTHING
from tests.long.interop.tooled import OurBrokers
from tests.waiting import PATIENCE_S, eventually
from tests.worlds.kafka_clients import CLIENTS, KafkaRecord

PYTHONS = pythons("ZKGROUP_INTEROP_LIBRDKAFKA")


def version_of(python: str) -> str:
    return client_programs.version_of("librdkafka", python)


@pytest.fixture(params=PYTHONS, ids=version_of)
def librdkafka(request: pytest.FixtureRequest, tmp_path: Path) -> ClientProgram:
    return ClientProgram(str(request.param), "librdkafka_client.py", tmp_path)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_librdkafka_sends_every_client_reads(
    brokers: OurBrokers, librdkafka: ClientProgram, compression: str
) -> None:
    """Keys, nulls, headers, timestamps and bytes that are no text; idempotent where it is compressed."""
    bootstrap, tp = new_topic(brokers, 1, 2, 3)
    idempotent = str(compression != "none").lower()
    settings = (f"compression.type={compression}", f"enable.idempotence={idempotent}")
    offsets = librdkafka.send(bootstrap, tp, RECORDS, *settings)

    sent = dict(enumerate(RECORDS))
    assert offsets == list(range(len(RECORDS)))
    assert librdkafka.read(bootstrap, tp, 0, len(RECORDS)) == sent
    assert librdkafka.read(bootstrap, tp, 30, 10) == {n: RECORDS[n] for n in range(30, 40)}
    for client in CLIENTS.values():
        assert client.read(bootstrap, tp, 0, len(RECORDS)) == sent


@pytest.mark.parametrize("client", CLIENTS)
def test_what_others_send_librdkafka_reads(
    brokers: OurBrokers, librdkafka: ClientProgram, client: str
) -> None:
    """As sent."""
    bootstrap, tp = new_topic(brokers, 2, 3, 1)
    offsets = CLIENTS[client].send(bootstrap, tp, RECORDS, idempotent=True, compression="gzip")

    assert librdkafka.read(bootstrap, tp, 0, len(RECORDS)) == dict(zip(offsets, RECORDS, strict=True))


@pytest.mark.parametrize("idempotent", [True, False] if EVERYTHING else [True])
def test_no_record_that_librdkafka_sent_is_lost_with_its_leader(
    brokers: OurBrokers, librdkafka: ClientProgram, idempotent: bool
) -> None:
    """The process of the leader is killed while a producer with acks=all sends; it tries again.

    Every record is at the offset of its acknowledgement; one of an idempotent producer is there only once.
    """
    bootstrap, tp = new_topic(brokers, 1, 2, 3)
    records = [KafkaRecord(b"value %d" % number) for number in range(20_000)]
    leader = brokers.rows(tp.topic)[0][1]
    with librdkafka.sending(
        bootstrap, tp, records, f"enable.idempotence={str(idempotent).lower()}"
    ) as producer:
        assert producer.stdout is not None
        lines = [producer.stdout.readline() for _ in range(2000)]
        brokers.kill(leader)
        lines += producer.stdout.readlines()
        assert producer.wait(PATIENCE_S) == 0
    try:
        offsets = dict(map(acknowledgement, lines))
        acknowledged = {offsets[number]: record for number, record in enumerate(records)}
        assert len(acknowledged) == 20_000
        end = max(acknowledged) + 1
        assert end == 20_000 or not idempotent
        found = librdkafka.read(bootstrap, tp, 0, end)
        assert {offset: found[offset] for offset in acknowledged} == acknowledged
    finally:
        brokers.start(leader)
        eventually(
            lambda: brokers.rows(tp.topic)[0][3] == [1, 2, 3], what="the killed broker is in sync again"
        )
