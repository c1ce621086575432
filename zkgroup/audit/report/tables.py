"""The tables for other tools, row by row: findings, incidents, and what a report shows.

The page combines bars and points that are too many to draw; these tables have every row. `audit run` writes
findings with the same columns, and incidents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, Protocol

from zkgroup.audit.answers.owner_lives import OwnerLife
from zkgroup.audit.answers.sessions import SessionRow
from zkgroup.audit.findings.group_rebalances import Rebalance
from zkgroup.audit.incidents.incident import NumberedFinding, NumberedIncident
from zkgroup.audit.inputs.texts import session_text
from zkgroup.zkfiles.schemas import Column

Partition = tuple[str, str, int]
"""Group, topic, partition."""


def _must(name: str, type_: Any, meaning: str) -> Column:
    return Column(name, type_, False, meaning)


def _may(name: str, type_: Any, meaning: str) -> Column:
    return Column(name, type_, True, meaning)


_PARTITION: Final = (
    _must("group", "string", "The consumer group."),
    _must("topic", "string", "The topic."),
    _must("partition", "int", "The partition's number."),
)
_SPAN: Final = (
    _may("from_zxid", "long", "The transaction with which it began; null for before the history."),
    _may("to_zxid", "long", "The transaction with which it ended; null while it lasts."),
    _may("from", "timestamp", "The leader's clock then."),
    _may("to", "timestamp", "The leader's clock then."),
)

OWNERS: Final = (
    *_PARTITION,
    _must("owner", "string", "The thread that the owner znode named."),
    _may("session", "string", "The session that claimed it, in hex; null where a snapshot does not name it."),
    *_SPAN,
    _must("ended_by", "string", "release, session_end, deleted_by_other or open."),
)
OFFSETS: Final = (
    *_PARTITION,
    _must("zxid", "long", "The transaction."),
    _must("time", "timestamp", "The leader's clock."),
    _may("session", "string", "The session that wrote, in hex; null where a snapshot does not name it."),
    _must("members", "string", "The members of the group that this session was, with commas."),
    _must("kind", "string", "commit, claim, reset, deletion or snapshot."),
    _may("offset", "long", "The offset written; null where it is no number, negative for none."),
    _may("previous", "long", "The offset that it replaced or deleted."),
    _may("owned", "boolean", "Whether the writer owned the partition; null where that is not known."),
    _may("owner", "string", "The thread that the owner znode named."),
    _must("rewind", "boolean", "Whether it is lower than the offset before."),
)
REBALANCES: Final = (
    _must("group", "string", "The consumer group."),
    *_SPAN,
    _must("causes", "string", "Its causes, by zxid, with commas."),
    _must("members", "int", "Registered at its end."),
    _must("touched", "int", "Partitions that lost or got an owner."),
    _must("moved", "int", "Partitions that have another thread than before."),
    _may("least", "int", "The fewest moves known; null where that cannot be known."),
    _must("retaken", "int", "Partitions that were given up and claimed by the same thread again."),
    _must("unowned", "int", "Partitions without an owner at its end."),
    _must("down_ms_max", "long", "The longest time without an owner, of those that have one again."),
)
SESSIONS: Final = (
    _must("session", "string", "Its number in hex."),
    _must("server", "int", "The myid in the number: a hint."),
    _may("timeout_ms", "int", "The timeout that was granted."),
    *_SPAN,
    _must("ended", "string", "closed, expired or open."),
    _must("writes", "long", "Its transactions, refused ones too, without its end."),
    _may("silence_ms", "long", "From its last write to its end."),
    _must("ephemerals", "int", "Ephemeral znodes deleted at its end, or there at the end of the history."),
    _must("created", "int", "Ephemerals that it made."),
    _must("members", "string", "GROUP/MEMBER of its registrations, with commas."),
    _must("brokers", "string", "The ids of its registrations, with commas."),
    _must("controller", "boolean", "Whether it ever was controller."),
)
FINDINGS: Final = (
    _must("finding", "string", "Its name."),
    _must("severity", "string", "error, warning or info."),
    _may("group", "string", "The consumer group."),
    _may("topic", "string", "The topic."),
    _may("partition", "int", "The partition's number."),
    _may("session", "string", "The session that it is about, in hex."),
    *_SPAN,
    _must("detail", "string", "What was found."),
    _must("incident", "int", "The number of the incident that it is in."),
)
INCIDENTS: Final = (
    _must("number", "int", "From 1, errors first."),
    _must("title", "string", "What happened."),
    _must("severity", "string", "error, warning or info."),
    _may("group", "string", "The consumer group."),
    *_SPAN,
    _must("cause", "string", "The kind of its cause."),
    _may("session", "string", "The session that caused it, in hex."),
    _must("act", "string", "What to do."),
    _must("findings", "int", "How many findings are in it."),
)
ENSEMBLE: Final = _must("ensemble", "string", "Its name.")
"""Comes first where tables are of several ensembles."""
TABLES: Final[dict[str, tuple[Column, ...]]] = {
    "owners": OWNERS,
    "offsets": OFFSETS,
    "rebalances": REBALANCES,
    "sessions": SESSIONS,
}
"""Holds what a report shows, by name; each has the columns in this order."""


class RowSink(Protocol):
    """Takes the rows of TABLES."""

    def add(self, table: str, row: tuple[Any, ...]) -> None: ...

    def add_arrays(self, table: str, arrays: Mapping[str, Any]) -> None:
        """Takes many rows as pyarrow arrays by the names of the columns; times in milliseconds."""


class Nowhere:
    """Leaves all rows out."""

    def add(self, table: str, row: tuple[Any, ...]) -> None:
        pass

    def add_arrays(self, table: str, arrays: Mapping[str, Any]) -> None:
        pass


def owner(of: Partition, life: OwnerLife) -> tuple[Any, ...]:
    """A row of OWNERS."""
    span = (life.from_zxid, life.to_zxid, life.from_ms, life.to_ms)
    return (*of, life.thread, _session(life.session), *span, life.ended_by)


def rebalance(one: Rebalance) -> tuple[Any, ...]:
    """A row of REBALANCES."""
    return (
        *(one.group, one.from_zxid, one.to_zxid, one.from_ms, one.to_ms),
        ", ".join(trigger.cause for trigger in one.triggers),
        *(one.members, len(one.changes), one.moved, one.least, len(one.retaken), one.unowned),
        one.down_ms_max,
    )


def session(row: SessionRow) -> tuple[Any, ...]:
    """A row of SESSIONS."""
    return (
        *(session_text(row.session), row.server, row.timeout_ms),
        *(row.from_zxid, row.to_zxid, row.from_ms, row.to_ms),
        *(row.ended, row.writes, row.silence_ms, row.ephemerals, row.created),
        ", ".join(f"{group}/{member}" for group, member in row.members),
        *(", ".join(row.brokers), row.was_controller),
    )


def finding_columns(rows: Sequence[NumberedFinding]) -> dict[str, list[Any]]:
    """The rows of FINDINGS, column by column: there may be very many."""
    fields = {"from": "from_ms", "to": "to_ms"}
    found = {
        column.name: list(map(attrgetter(f"finding.{fields.get(column.name, column.name)}"), rows))
        for column in FINDINGS[:-1]
    }
    return {
        **found,
        "session": list(map(_session, found["session"])),
        "incident": [one.incident for one in rows],
    }


def incident_columns(rows: Sequence[NumberedIncident]) -> dict[str, list[Any]]:
    """The rows of INCIDENTS, column by column."""
    incidents = [one.incident for one in rows]
    return {
        "number": [one.number for one in rows],
        "title": [one.title for one in incidents],
        "severity": [one.severity for one in incidents],
        "group": [one.group for one in incidents],
        "from_zxid": [one.from_zxid for one in incidents],
        "to_zxid": [one.to_zxid for one in incidents],
        "from": [one.from_ms for one in incidents],
        "to": [one.to_ms for one in incidents],
        "cause": [one.cause.kind for one in incidents],
        "session": [_session(one.cause.session) for one in incidents],
        "act": [one.act for one in incidents],
        "findings": [len(one.findings) for one in incidents],
    }


def _session(number: int | None) -> str | None:
    return session_text(number) if number else None
