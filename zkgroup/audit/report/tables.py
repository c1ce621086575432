"""The tables for other tools: findings, incidents, and the rows of a report.

The page joins bars and points that are too many to draw; these tables have every row. `audit run` writes
findings with the same columns, and incidents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from zkgroup.audit.answers.partitions import SessionRow
from zkgroup.audit.findings.group_rebalances import Rebalance
from zkgroup.audit.findings.tables import PartitionTable
from zkgroup.audit.incidents.incident import Incident, NumberedFinding
from zkgroup.audit.inputs.rows import Numbers
from zkgroup.model.text import hex_session
from zkgroup.zkfiles.arrow import Column, batch_of_lists, may, must, record_batch, schema

Partition = tuple[str, str, int]
"""Group, topic, partition."""
ORDER: Final = ("_zxid", "_path", "_sub")
"""The columns beside those of a table by which its rows are sorted: zxid, path, place in the transaction.

Only seeds have a path."""
_LAST = {"long": (-(2**63), 2**63 - 1), "int": (-(2**31), 2**31 - 1)}

_PARTITION: Final = (
    must("group", "string", "The consumer group."),
    must("topic", "string", "The topic."),
    must("partition", "int", "The partition's number."),
)
_SPAN: Final = (
    may("from_zxid", "long", "The transaction with which it began; null for before the history."),
    may("to_zxid", "long", "The transaction with which it ended; null while it lasts."),
    may("from", "timestamp", "The leader's clock then."),
    may("to", "timestamp", "The leader's clock then."),
)
_BASIS: Final = must("basis", "string", "log or snapshots: what shows it.")

OWNERS: Final = (
    *_PARTITION,
    must("owner", "string", "The thread that the owner znode named."),
    may("session", "string", "The session that claimed it, in hex; null where a snapshot does not name it."),
    *_SPAN,
    must("ended_by", "string", "release, session_end, deleted_by_other or open."),
)
OFFSETS: Final = (
    *_PARTITION,
    must("zxid", "long", "The transaction."),
    must("time", "timestamp", "The leader's clock."),
    may("session", "string", "The session that wrote, in hex; null where a snapshot does not name it."),
    must("members", "string", "The members of the group that this session was, with commas."),
    must("kind", "string", "commit, claim, reset, deletion or snapshot."),
    may("offset", "long", "The offset written; null where it is no number, negative for none."),
    may("previous", "long", "The offset that it replaced or deleted."),
    may("owned", "boolean", "Whether the writer owned the partition; null where that is not known."),
    may("owner", "string", "The thread that the owner znode named."),
    must("rewind", "boolean", "Whether it is lower than the offset before."),
)
REBALANCES: Final = (
    must("group", "string", "The consumer group."),
    *_SPAN,
    must("causes", "string", "Its causes, by zxid, with commas."),
    must("members", "int", "Registered at its end."),
    must("touched", "int", "Partitions that lost or got an owner."),
    must("moved", "int", "Partitions that have another thread than before."),
    may("least", "int", "The fewest moves known; null where that cannot be known."),
    must("retaken", "int", "Partitions that were given up and claimed by the same thread again."),
    must("unowned", "int", "Partitions without an owner at its end."),
    must("down_ms_max", "long", "The longest time without an owner, of those that have one again."),
)
SESSIONS: Final = (
    must("session", "string", "Its number in hex."),
    must("server", "int", "The myid in the number: a hint."),
    may("timeout_ms", "int", "The timeout that was granted."),
    *_SPAN,
    may("ended", "string", "closed, expired or open; null where snapshots alone show the end."),
    may("writes", "long", "Its transactions, refused ones too, without its end; null for snapshots."),
    may("silence_ms", "long", "From its last write to its end."),
    must("ephemerals", "int", "Ephemeral znodes deleted at its end, or there at the end of the history."),
    may("created", "int", "Ephemerals that it made; null for snapshots."),
    must("members", "string", "GROUP/MEMBER of its registrations, with commas."),
    must("brokers", "string", "The ids of its registrations, with commas."),
    must("controller", "boolean", "Whether it ever was controller."),
)
FINDINGS: Final = (
    must("finding", "string", "Its name."),
    must("severity", "string", "error, warning or info."),
    may("group", "string", "The consumer group."),
    may("topic", "string", "The topic."),
    may("partition", "int", "The partition's number."),
    may("session", "string", "The session that it is about, in hex."),
    *_SPAN,
    _BASIS,
    may("at_zxid", "long", "The very transaction, where snapshots prove it."),
    must("detail", "string", "What was found."),
    must("incident", "int", "The number of the incident that it is in."),
)
INCIDENTS: Final = (
    must("number", "int", "From 1, errors first."),
    must("title", "string", "What happened."),
    must("severity", "string", "error, warning or info."),
    may("group", "string", "The consumer group."),
    *_SPAN,
    _BASIS,
    must("cause", "string", "The kind of its cause."),
    may("session", "string", "The session that caused it, in hex."),
    must("act", "string", "What to do."),
    must("findings", "int", "How many findings are in it."),
)
ENSEMBLE: Final = must("ensemble", "string", "Its name.")
"""The first column of tables with several ensembles."""
TABLES: Final[dict[str, tuple[Column, ...]]] = {
    "owners": OWNERS,
    "offsets": OFFSETS,
    "rebalances": REBALANCES,
    "sessions": SESSIONS,
}
"""The tables of a report by name, each with its columns in order."""
Give = Callable[[str, Any], object]
"""A function that gets the name of one of TABLES, and rows of it as a pyarrow.Table."""


def nowhere(_name: str, _table: Any) -> None:
    """Does nothing with the rows."""


def keys_of(partitions: PartitionTable, numbers: Mapping[Partition, int]) -> tuple[list[Partition], Numbers]:
    """The partitions of the keys of a table, and the number of each; -1 where it has none."""
    keys = [(key[0], key[1], int(key[2])) for key in partitions.selection.keys]
    return keys, np.array([numbers.get(key, -1) for key in keys], np.int64)


def partition_columns(keys: Sequence[Partition], codes: Numbers) -> dict[str, Any]:
    """The group, topic and partition of rows by the places of their keys; a path may name any partition."""
    partitions = np.array([min(key[2], _LAST["int"][1]) for key in keys], np.int32)
    return {
        "group": coded([key[0] for key in keys], codes),
        "topic": coded([key[1] for key in keys], codes),
        "partition": pa.array(partitions[codes]),
    }


def coded(texts: Sequence[str | None], codes: Numbers) -> Any:
    """An array of few different texts, with a dictionary."""
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(texts, pa.string()))


def texts_of(data: pa.Array, rows: Numbers) -> list[str]:
    """The data of rows as texts; bytes that are no UTF-8 are replaced."""
    return [(text or b"").decode("utf-8", "replace") for text in data.take(pa.array(rows)).to_pylist()]


def session_column(sessions: Numbers) -> Any:
    """The sessions in hex; null for 0."""
    different, codes = np.unique(sessions, return_inverse=True)
    return coded([hex_session(one) if one else None for one in different.tolist()], codes)


def table_of(columns: Sequence[Column], rows: Sequence[Any], **given: Callable[[Any], Any]) -> Any:
    """A pyarrow.Table of the attributes of rows by the columns' names; `given` has other columns."""
    given = {"from": attrgetter("from_ms"), "to": attrgetter("to_ms"), "session": _session, **given}
    lists = {
        column.name: _fitting(column, list(map(given.get(column.name) or attrgetter(column.name), rows)))
        for column in columns
    }
    return pa.Table.from_batches([record_batch(batch_of_lists(columns, lists))])


def _fitting(column: Column, values: list[Any]) -> list[Any]:
    """The values, null or cut where the column does not hold them: clients may write any number."""
    if column.type not in _LAST:
        return values
    least, most = _LAST[column.type]
    if not column.nullable:
        return [min(max(value, least), most) for value in values]
    return [value if value is None or least <= value <= most else None for value in values]


def rebalance_table(rows: Sequence[Rebalance]) -> Any:
    """A pyarrow.Table of REBALANCES."""
    return table_of(
        REBALANCES,
        rows,
        causes=lambda one: ", ".join(trigger.cause for trigger in one.triggers),
        touched=lambda one: len(one.changes),
        retaken=lambda one: len(one.retaken),
    )


def session_table(rows: Sequence[SessionRow]) -> Any:
    """A pyarrow.Table of SESSIONS."""
    return table_of(
        SESSIONS,
        rows,
        members=lambda row: ", ".join(f"{group}/{member}" for group, member in row.members),
        brokers=lambda row: ", ".join(row.brokers),
        controller=attrgetter("was_controller"),
    )


def finding_table(rows: Sequence[NumberedFinding]) -> Any:
    """A pyarrow.Table of FINDINGS."""
    incidents = pa.array([one.incident for one in rows], pa.int32())
    table = table_of(FINDINGS[:-1], [one.finding for one in rows])
    return table.append_column(schema(FINDINGS).field("incident"), incidents)


def incident_table(incidents: Sequence[Incident]) -> Any:
    """A pyarrow.Table of INCIDENTS."""
    return table_of(
        INCIDENTS,
        incidents,
        cause=attrgetter("cause.kind"),
        session=lambda one: _session(one.cause),
        findings=lambda one: len(one.findings),
    )


def _session(row: Any) -> str | None:
    return hex_session(row.session) if row.session else None
