"""The findings about brokers and controllers on what real Kafka left behind, to the zxid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.worlds.audit_folders import HEALTHY, INCIDENTS, findings, source
from tests.worlds.golden_data import data_of, lines
from tests.worlds.plain_findings import find
from tests.worlds.record_by_record import events_of
from tests.worlds.screened_findings import events_in
from zkgroup.audit.events import Event
from zkgroup.audit.findings import RULES
from zkgroup.audit.points_in_time import PointInTime
from zkgroup.audit.rules import Finding
from zkgroup.zkfiles.records import Operation, Transaction, TransactionType

NAMES = [rule.name for rule in RULES]
OURS = RULES[NAMES.index("controller_election") : NAMES.index("stuck_topic_deletion") + 1]


def found(name: str, folder: str = INCIDENTS) -> list[Finding]:
    return [each for each in findings(folder) if each.finding == name]


def test_a_storm_behind_a_registration_that_no_jvm_can_read() -> None:
    """The recorded storm, 54 elections in 2 s, is one warning that names `/brokers/ids/8`."""
    (storm,) = [each for each in found("controller_election") if each.severity == "warning"]

    assert (storm.from_zxid, storm.to_zxid) == (0x16F, 0x224)
    assert storm.detail == "a storm of 54 elections in 2.0 s; no JVM can read /brokers/ids/8"


def test_each_controller_that_was_deleted_by_hand_gave_one_election() -> None:
    """The five controllers that one session deleted are five rows, from election to deletion.

    The election after the last one begins the storm.
    """
    by_hand = [
        (each.from_zxid, each.to_zxid)
        for each in found("controller_election")
        if "deleted by session 0x1a1fb66fa0f0001" in each.detail
    ]

    assert by_hand == [(0x138, 0x144), (0x159, 0x15E), (0x15F, 0x162), (0x163, 0x166), (0x167, 0x16E)]


def test_a_replaced_controller_that_still_writes_is_found() -> None:
    """Its first write, the state of a new topic; the usurper never raises the epoch."""
    errors = [each for each in found("deposed_controller_write") if each.severity == "error"]
    (silent,) = found("controller_epoch_gap")

    assert [(each.topic, each.partition, each.from_zxid, each.session) for each in errors] == [
        ("k1", 0, 0x157, 0x1A1FB66FA0F0002)
    ]
    assert (silent.severity, silent.from_zxid, silent.to_zxid) == ("warning", 0x14C, 0x158)


def test_requests_that_no_controller_finished() -> None:
    """One without entries, which a hand took off, and one that the next controller dropped."""
    assert [
        (each.topic, each.from_zxid, each.to_zxid, each.detail) for each in found("stuck_reassignment")
    ] == [
        (
            None,
            0x122,
            0x123,
            "the request names no partition, and Kafka 0.8.2.2 never removes such a one; stood for 2.0 s",
        ),
        ("mv", 0x133, 0x13C, "given up: asked for [3], left at [3, 2]"),
    ]
    assert [each.from_zxid for each in found("deposed_controller_write") if each.severity == "warning"] == [
        0x123
    ]
    assert [
        (each.topic, each.from_zxid, each.to_zxid, each.detail) for each in found("under_replicated")
    ] == [
        (None, 0x134, None, "broker 3 was not in sync in 1 partition of 1 topic, for 46.2 s"),
        ("mv", 0x134, None, "replicas [3, 2], not in sync: 2 for 1.6 s, 3 for 46.2 s"),
        (None, 0x23F, None, "broker 2 was not in sync in 1 partition of 1 topic, for 1.6 s"),
    ]


def test_a_partition_whose_replicas_both_died() -> None:
    """The partition of `mv` whose replicas both died is an error from 0x239 to the end."""
    assert [
        (each.severity, each.topic, each.from_zxid, each.to_zxid) for each in found("offline_partition")
    ] == [("error", "mv", 0x239, None)]


def test_brokers_that_left_are_reported_with_their_partitions() -> None:
    """The four short lives of brokers: 3 and 8 led nothing, 1 and 2 did."""
    assert [(each.from_zxid, each.detail.rpartition("; ")[2]) for each in found("broker_flapping")] == [
        (0x136, "it led nothing"),
        (0x137, "it led 2 partitions of t"),
        (0x223, "it led nothing"),
        (0x239, "it led 6 partitions of l, mv, t"),
    ]


def test_outages_of_a_healthy_cluster_are_warnings() -> None:
    """Brokers that were killed, a controlled shutdown; and a topic whose deletion ended its outage."""
    offline = found("offline_partition", HEALTHY[0])

    assert {each.severity for each in offline} == {"warning"}
    assert [(each.topic, each.partition, each.from_zxid, each.to_zxid) for each in offline] == [
        ("orders", 2, 0xA3, 0xB0),
        ("orders", 3, 0xA3, 0xB0),
        ("orders", 5, 0xA3, 0xB0),
        ("page-views", 0, 0x129, 0x12D),
    ]


@pytest.mark.parametrize("name", [*HEALTHY, INCIDENTS])
def test_a_later_start_finds_nothing_that_the_whole_history_lacks(name: str) -> None:
    """What stood before is seeds then, which tell less, and must not tell more.

    The last elections of a storm are too few for one, and stand for themselves.
    """
    found_in_all = find(OURS, lambda: events_in(source(name).rows()))
    storms = [(each.from_zxid or 0, each.to_zxid or 0) for each in found_in_all if "a storm" in each.detail]

    def signs(some: list[Finding]) -> set[tuple[object, ...]]:
        return {
            (each.finding, each.severity, each.topic, each.partition, each.to_zxid)
            for each in some
            if each.finding != "controller_election"
            or not any(first <= (each.from_zxid or 0) <= last for first, last in storms)
        }

    history = source(name).history
    assert history is not None
    whole = signs(found_in_all)
    for zxid in range(5, history.last_zxid, 41):
        events = events_in(source(name).rows(PointInTime(zxid=zxid)))
        assert signs(find(OURS, lambda events=events: events)) <= whole, hex(zxid)


RUNS = ("kafka-1.1.1/writes", "kafka-2.8.2/writes", "kafka-3.9.1/writes", "kafka-3.9.1/m-writes")
_TYPES: Mapping[str, int] = {
    "create": TransactionType.CREATE,
    "delete": TransactionType.DELETE,
    "set": TransactionType.SET_DATA,
    "check": TransactionType.CHECK,
    "error": TransactionType.ERROR,
    "multi": TransactionType.MULTI,
    "createSession": TransactionType.CREATE_SESSION,
    "closeSession": TransactionType.CLOSE_SESSION,
}


def events(run: str) -> list[Event]:
    """The rows of what real Kafka 1.1.1, 2.8.2 and 3.9.1 wrote: the runs below `tests/golden/kafka-*`."""
    return list(events_of(_transactions(run)))


def _transactions(run: str) -> Iterator[Transaction]:
    """The recordings do not have the requests' numbers, so all ends of sessions look like a client's."""
    for record in lines(f"{run}.jsonl"):
        kind = record["op"]
        parts = record.get("ops", [] if kind.endswith("Session") else [record])
        operations = tuple(map(_operation, parts))
        yield Transaction(record["zxid"], record["session"], 1, record["time"], _TYPES[kind], operations)


def _operation(record: dict[str, Any]) -> Operation:
    return Operation(
        _TYPES[record["op"]],
        record.get("path"),
        data_of(record) if "data" in record or "data64" in record else None,
        version=record.get("version"),
        is_ephemeral=record.get("ephemeral", False),
        error=record.get("code"),
    )


@pytest.mark.parametrize("run", RUNS)
def test_later_kafka_has_no_fault_but_that_it_is_switched_off_at_the_end(run: str) -> None:
    """Controllers that elect in multis, moves by request and by call, and a migration to KRaft."""
    rows = events(run)
    some = find(OURS, lambda: rows)
    errors = [each for each in some if each.severity == "error"]

    assert {(each.finding, each.to_zxid) for each in errors} <= {("offline_partition", None)}
    assert not [each for each in some if each.finding in ("controller_epoch_gap", "deposed_controller_write")]
    elected = [each.detail for each in some if each.finding == "controller_election"]
    assert [f"elected, epoch {number}" in each for number, each in enumerate(elected, 1)] == [True] * len(
        elected
    )


def test_these_are_all_of_them() -> None:
    """The rules tried here are all fourteen about brokers and controllers: none was renamed or dropped."""
    assert len(OURS) == 14
