"""What real Kafka 1.1.1, 2.8.2 and 3.9.1 wrote, as rows: the runs below `tests/golden/kafka-*`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.worlds.golden_data import data_of, lines
from zkgroup.audit.events import Event
from zkgroup.audit.reading import events_of
from zkgroup.zkfiles.records import Operation, Transaction, TransactionType

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
    """The rows of a run."""
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
