"""The checks of Kafka's clients in `zkgroup demo brokers`: each kind of fault fails its check."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from zkgroup.demo.brokers import kafka_clients
from zkgroup.demo.brokers.client_checks import (
    DUMPED,
    PRODUCED,
    READ,
    ClientEvidence,
    ClientRecord,
    ClientRun,
    LeftOut,
    SegmentDump,
    check_clients,
)

A1, A2, B1 = ClientRecord(b"a", b"1"), ClientRecord(b"a", b"2"), ClientRecord(b"b", b"1")
LOG = [A1, B1, A2]
ALL = dict(enumerate(LOG))


def batch(first: int, count: int, producer: int, is_valid: str = "true") -> str:
    last = first + count - 1
    return (
        f"baseOffset: {first} lastOffset: {last} count: {count} baseSequence: 0 lastSequence: {count - 1} "
        f"producerId: {producer} producerEpoch: 0 magic: 2 compresscodec: GZIP crc: 1 isvalid: {is_valid}"
    )


def record(offset: int, found: ClientRecord) -> str:
    return f"| offset: {offset} isValid: true key: {found.key.decode()} payload: {found.value.decode()}"


DUMP = SegmentDump(
    "broker 1's t-0/0.log",
    (
        "Dumping /tmp/t-0/0.log",
        "Starting offset: 0",
        batch(0, 1, 7),
        record(0, A1),
        batch(1, 1, 8),
        record(1, B1),
        batch(2, 1, 7),
        record(2, A2),
    ),
)

DISORDER = "not each record of {}, once and in order"
TORN = "Found 12 invalid bytes at the end of 0.log"


def evidence(
    a: dict[str, Any] | None = None, b: dict[str, Any] | None = None, **changes: Any
) -> ClientEvidence:
    """Evidence without faults, with changes of a run; `b` does not report offsets."""
    runs = (
        replace(ClientRun("a", "1.0", [A1, A2], offsets=[0, 2], read=ALL), **(a or {})),
        replace(ClientRun("b", "2.0", [B1], read=ALL), **(b or {})),
    )
    return replace(ClientEvidence(runs, (), {1: LOG, 2: LOG}, DUMP), **changes)


def failed(found: ClientEvidence) -> list[tuple[str, str]]:
    return [(check.statement, check.evidence) for check in check_clients(found) if not check.holds]


def test_right_run_passes_every_check() -> None:
    """Without Kafka's tools there is no check of the dump."""
    assert failed(evidence()) == []
    assert [check.statement for check in check_clients(evidence())] == [PRODUCED, READ, DUMPED]
    assert [check.statement for check in check_clients(evidence(dump=None))] == [PRODUCED, READ]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"a": {"offsets": [0, 1]}}, "broker 1: not a's at 1, broker 2: not a's at 1"),
        ({"a": {"offsets": [0]}}, "broker 1: a: 1 of 2 acknowledged, broker 2: a: 1 of 2 acknowledged"),
        ({"a": {"offsets": None}, "replicas": {1: [A2, B1, A1]}}, f"broker 1: {DISORDER.format('a')}"),
        ({"replicas": {1: LOG, 2: LOG[:2]}}, "broker 2: not a's at 2, broker 2 has 2 records of 3"),
        (
            {"replicas": {1: [*LOG, B1]}},
            f"broker 1: {DISORDER.format('b')}, broker 1 has 4 records of 3",
        ),
        ({"b": {"problem": "KafkaError: gone"}}, "b: KafkaError: gone"),
    ],
    ids=["elsewhere", "too few", "in another order", "cut off", "twice", "an error"],
)
def test_record_that_is_not_at_its_offset_is_named(changes: dict[str, Any], text: str) -> None:
    """On each replica, by the client that produced it."""
    assert (PRODUCED, text) in failed(evidence(**changes))


@pytest.mark.parametrize(
    ("read", "text"),
    [
        ({**ALL, 1: ClientRecord(b"b", b"x")}, "a differs at 1"),
        ({0: A1, 1: B1}, "a differs at 2"),
        ({**ALL, 3: B1}, "a differs at 3"),
        (None, "a read nothing"),
    ],
    ids=["another value", "too few", "too many", "nothing"],
)
def test_client_that_reads_other_records_is_named(read: Any, text: str) -> None:
    """Every client reads what the log has, also what the others produced."""
    assert failed(evidence(a={"read": read})) == [(READ, text)]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (DUMP.lines[:-1], "it differs at 2"),
        ((*DUMP.lines[:-1], record(2, B1)), "it differs at 2"),
        ((*DUMP.lines[:-2], batch(2, 1, 7, "false"), record(2, A2)), batch(2, 1, 7, "false")),
        ((*DUMP.lines, TORN), TORN),
        (("DumpLogSegments ended with 1",), "DumpLogSegments ended with 1, it differs at 0, 1, 2"),
    ],
    ids=["a record less", "another record", "invalid", "a torn end", "no dump"],
)
def test_fault_that_the_dump_tool_prints_is_named(lines: tuple[str, ...], text: str) -> None:
    """Batches that are not valid, lines that it prints for damaged segments alone, and other records."""
    assert failed(evidence(dump=SegmentDump("s", lines))) == [(DUMPED, text)]


def test_run_without_clients_or_without_records_proves_nothing() -> None:
    """No check holds of nothing."""
    empty = ClientEvidence((), (), {}, SegmentDump("s", ()))

    assert [statement for statement, _ in failed(empty)] == [PRODUCED, READ, DUMPED]


def test_dump_shows_the_first_batch_of_each_producer() -> None:
    """In the order of the log."""
    assert DUMP.first_batches == (batch(0, 1, 7), batch(1, 1, 8))
    assert len(DUMP.batches) == 3


def test_clients_that_are_not_installed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs them; the others take part, with their versions."""
    find = kafka_clients.util.find_spec
    monkeypatch.setattr(
        kafka_clients.util, "find_spec", lambda name: None if name == "confluent_kafka" else find(name)
    )
    clients, left_out = kafka_clients.installed()

    assert [client.name for client in clients] == ["kafka-python", "aiokafka"]
    assert all(client.version[0].isdigit() for client in clients)
    assert left_out == [LeftOut("confluent-kafka", "not installed: pip install confluent-kafka")]
