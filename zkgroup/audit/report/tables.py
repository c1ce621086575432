"""The tables for other tools: findings, incidents, and what a report shows.

The page combines bars and points that are too many to draw; these tables have every row. `audit run` writes
findings with the same columns, and incidents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final

from zkgroup.audit.answers.partitions import OwnerLife
from zkgroup.audit.answers.sessions import SessionRow
from zkgroup.audit.findings.group_rebalances import Rebalance
from zkgroup.audit.incidents.incident import Incident, NumberedFinding
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


Give = Callable[[str, Any], object]
"""Takes rows of one of TABLES: its name, and a pyarrow.Table with the columns of that name."""


def nowhere(_name: str, _table: Any) -> None:
    """Leaves all rows out."""


def lists_of(
    columns: Sequence[Column], rows: Sequence[Any], **given: Callable[[Any], Any]
) -> dict[str, list[Any]]:
    """The values of rows by column: attributes of the column's name, but for what is given."""
    given = {"from": attrgetter("from_ms"), "to": attrgetter("to_ms"), "session": _session, **given}
    return {
        column.name: list(map(given.get(column.name) or attrgetter(column.name), rows)) for column in columns
    }


def owner_lists(owned: Sequence[tuple[Partition, OwnerLife]]) -> dict[str, list[Any]]:
    """The columns of OWNERS."""
    places = ([place[number] for place, _ in owned] for number in range(len(_PARTITION)))
    lives = [life for _, life in owned]
    return {
        **{column.name: values for column, values in zip(_PARTITION, places, strict=True)},
        **lists_of(OWNERS[len(_PARTITION) :], lives, owner=attrgetter("thread")),
    }


def rebalance_lists(rows: Sequence[Rebalance]) -> dict[str, list[Any]]:
    """The columns of REBALANCES."""
    return lists_of(
        REBALANCES,
        rows,
        causes=lambda one: ", ".join(trigger.cause for trigger in one.triggers),
        touched=lambda one: len(one.changes),
        retaken=lambda one: len(one.retaken),
    )


def session_lists(rows: Sequence[SessionRow]) -> dict[str, list[Any]]:
    """The columns of SESSIONS."""
    return lists_of(
        SESSIONS,
        rows,
        members=lambda row: ", ".join(f"{group}/{member}" for group, member in row.members),
        brokers=lambda row: ", ".join(row.brokers),
        controller=attrgetter("was_controller"),
    )


def finding_columns(rows: Sequence[NumberedFinding]) -> dict[str, list[Any]]:
    """The columns of FINDINGS."""
    found = lists_of(FINDINGS[:-1], [one.finding for one in rows])
    return {**found, "incident": [one.incident for one in rows]}


def incident_columns(incidents: Sequence[Incident]) -> dict[str, list[Any]]:
    """The columns of INCIDENTS."""
    return lists_of(
        INCIDENTS,
        incidents,
        cause=attrgetter("cause.kind"),
        session=lambda one: _session(one.cause),
        findings=lambda one: len(one.findings),
    )


def _session(row: Any) -> str | None:
    return session_text(row.session) if row.session else None
