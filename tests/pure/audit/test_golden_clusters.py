"""The findings about brokers and controllers on what real Kafka left behind, to the zxid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.worlds.audit_folders import HEALTHY, INCIDENTS, source
from tests.worlds.golden_data import data_of, lines
from tests.worlds.plain_findings import find
from tests.worlds.record_by_record import events_of
from tests.worlds.screened_findings import events_in
from zkgroup.audit.findings.engine import RULES
from zkgroup.audit.findings.rules import Finding
from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.source import PointInTime
from zkgroup.zkfiles.records import Operation, Transaction, TransactionType

NAMES = [rule.name for rule in RULES]
OURS = RULES[NAMES.index("controller_election") : NAMES.index("stuck_topic_deletion") + 1]


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
    for zxid in range(5, history.last_zxid, 97):
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
