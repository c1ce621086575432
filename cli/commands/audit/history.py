"""`zkgroup audit owners`, `offsets` and `sessions`: what happened to a partition or a session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import click

from zkgroup.audit.facts import Facts
from zkgroup.audit.groups import require_group
from zkgroup.audit.owner_lives import OwnerLife
from zkgroup.audit.points_in_time import PointInTime, is_within
from zkgroup.audit.views.group_rows import GroupPartition, require_partition, rows_by_partition
from zkgroup.audit.views.offsets import OffsetRow, offsets_of
from zkgroup.audit.views.owners import owners_of
from zkgroup.audit.views.sessions import SessionRow
from zkgroup.model import TopicPartition

from ... import audit_documents as documents
from ...app import EXIT_CHECK_FAILED, output
from ...render import Cell, Output, TableColumn, echo_err
from ...units import counted
from .brief import Brief
from .inputs import (
    MOMENT,
    Inputs,
    OnePartition,
    between_options,
    command,
    hex_zxid,
    input_options,
    opened,
    read_partitions,
    read_sessions,
)

_OWNER_STYLES = {"deleted_by_other": "bad", "session_end": "warn", "open": "good"}


@command()
@input_options(more=True, converted=True)
@click.option("--group", required=True, metavar="GROUP", help="The consumer group.")
@click.option(
    "--partition",
    type=OnePartition(),
    metavar="TOPIC:P",
    help="Only this partition, for example orders:3.  [default: all of the group]",
)
@click.option(
    "--between",
    nargs=2,
    type=MOMENT,
    metavar="A B",
    help="The same as --since A --until B: who owned it at some time from A to B.",
)
@between_options
@click.pass_context
def owners(
    ctx: click.Context,
    inputs: Inputs,
    group: str,
    partition: TopicPartition | None,
    between: tuple[PointInTime, PointInTime] | None,
    start: PointInTime | None,
    end: PointInTime | None,
) -> None:
    """Show who owned the partitions of a group when, and how that ended.

    `release`: deleted by its own session. `session_end`: its session was closed or expired.
    `deleted_by_other`: deleted by another session. `open`: it existed at the end of the files. --since and
    --until select ownerships; each is shown from its beginning to its end. Exit code 5 where the files show
    no such group, or no such partition.

    \b
    Example:
      zkgroup audit owners --input copy/version-2 --group billing --partition orders:3
    """
    out = output()
    if between is not None:
        if start is not None or end is not None:
            raise click.UsageError("--between A B is --since A --until B: give one or the other")
        start, end = between
    with opened(inputs) as (source, _report):
        zxids = source.zxids(start, end)
        facts, rows = read_partitions(source.rows(start), group)
        mine = rows_by_partition(rows, group)
        if partition is not None:
            require_partition(partition, mine, facts)
            mine = {where: mine[where] for where in (GroupPartition(group, partition),) if where in mine}
        lives = [
            documents.PartitionOwner(where.topic_partition, life)
            for where, events in sorted(mine.items())
            for life in owners_of(events, facts, *where)
            if is_within(life.from_zxid, life.to_zxid, zxids)
        ]
    document = documents.OWNERS.json(
        documents.LastTransaction.of(facts.end_zxid, facts.end_ms),
        documents.AuditOwnersDocument(group, partition, lives),
    )
    if not out.document(document, "intervals", documents.PARTITION_OWNER.keys):
        if partition is None:
            brief = _brief(out, [each.life for each in lives], facts.sessions)
            brief.show_dates()
            out.table(_group_columns(brief), lives)
        else:
            show_owners(out, [each.life for each in lives], facts.sessions)
        if not lives:
            had = "had" if facts.has_log else "has"
            echo_err(f"{f'{partition} of {group}' if partition else group} {had} no owner")
        _is_of_past(facts)
    if source.damages():
        ctx.exit(EXIT_CHECK_FAILED)


def _is_of_past(facts: Facts) -> bool:
    """Whether transactions were read. Where none were, says so: no row then means nothing about the past."""
    if not facts.has_log:
        echo_err("no transactions were read: this is what stands in the tree; what was before is not known")
    return facts.has_log


def _owner_columns(brief: Brief) -> list[TableColumn[OwnerLife]]:
    return [
        TableColumn("FROM", lambda life: brief.time(life.from_ms)),
        TableColumn("TO", lambda life: brief.time(life.to_ms)),
        TableColumn("OWNER", lambda life: life.thread, shorten="middle", least=8),
        TableColumn(
            *("ENDED BY", lambda life: Cell(life.ended_by, _OWNER_STYLES.get(life.ended_by))),
            shorten="wrap",
            least=11,
        ),
        TableColumn("FROM ZXID", lambda life: hex_zxid(life.from_zxid), right=True, rank=2),
        TableColumn("TO ZXID", lambda life: hex_zxid(life.to_zxid), right=True, rank=3),
        TableColumn("SESSION", lambda life: brief.session(life.session), right=True, rank=1),
    ]


def _of_life(column: TableColumn[OwnerLife]) -> TableColumn[documents.PartitionOwner]:
    return TableColumn(
        column.header,
        lambda row: column.value(row.life),
        right=column.right,
        shorten=column.shorten,
        least=column.least,
        rank=column.rank,
        lines=column.lines,
    )


def _group_columns(brief: Brief) -> list[TableColumn[documents.PartitionOwner]]:
    return [
        TableColumn("PARTITION", lambda row: str(row.topic_partition), shorten="middle", least=10),
        *map(_of_life, _owner_columns(brief)),
    ]


def _brief(out: Output, lives: Sequence[OwnerLife], sessions: Iterable[int]) -> Brief:
    return Brief(out, (time for life in lives for time in (life.from_ms, life.to_ms)), sessions)


def show_owners(out: Output, lives: Sequence[OwnerLife], sessions: Iterable[int]) -> None:
    """One row an ownership; `sessions` are all of the history."""
    brief = _brief(out, lives, sessions)
    brief.show_dates()
    out.table(_owner_columns(brief), lives)


@command()
@input_options(more=True, converted=True)
@click.option("--group", metavar="GROUP", help="Only this consumer group.")
@click.option(
    "--partition", type=OnePartition(), metavar="TOPIC:P", help="Only this partition, for example orders:3."
)
@click.option("--rewinds", is_flag=True, help="Only writes of less than what was there.")
@between_options
@click.pass_context
def offsets(
    ctx: click.Context,
    inputs: Inputs,
    group: str | None,
    partition: TopicPartition | None,
    rewinds: bool,
    start: PointInTime | None,
    end: PointInTime | None,
) -> None:
    """Show every write of an offset, and which session wrote it.

    Also whether the writer was the owner. `claim` writes what was there, to fence others off; `reset` is an
    operator's; `snapshot` is what existed before the first transaction. Exit code 5 where the files show no
    such group, or no such partition.

    \b
    Example:
      zkgroup audit offsets --input copy/version-2 --group billing --partition orders:3
    """
    out = output()
    with opened(inputs) as (source, _report):
        facts, rows = read_partitions(source.rows(start, end), group)
        mine = rows_by_partition(rows, group)
        if partition is not None:
            require_partition(partition, mine, facts)
        found = [
            documents.PartitionOffset(where, row)
            for where, events in mine.items()
            if partition in (None, where.topic_partition)
            for row in offsets_of(events, facts, *where)
        ]
    found = sorted(
        (one for one in found if one.write.is_rewind or not rewinds), key=lambda one: one.write.zxid
    )
    document = documents.OFFSETS.json(
        documents.LastTransaction.of(facts.end_zxid, facts.end_ms),
        documents.AuditOffsetsDocument(group, found),
    )
    if not out.document(document, "offsets", documents.OFFSET.keys):
        brief = Brief(out, (one.write.time_ms for one in found), facts.sessions)
        brief.show_dates()
        out.table(_offset_columns(brief, of_one_group=group is not None), found)
        if _is_of_past(facts):
            rewound = sum(row.is_rewind for _, row in found)
            echo_err(f"{counted(len(found), 'write')}, {rewound} of them rewinds")
    if source.damages():
        ctx.exit(EXIT_CHECK_FAILED)


_OWNED = {True: "yes", False: Cell("no", "bad"), None: None}


def _offset_columns(brief: Brief, *, of_one_group: bool) -> list[TableColumn[documents.PartitionOffset]]:
    return [
        TableColumn("TIME", lambda row: brief.time(row.write.time_ms)),
        TableColumn(
            *("GROUP", lambda row: row.where.group), shorten="middle", least=8, rank=5 if of_one_group else 0
        ),
        TableColumn("PARTITION", lambda row: str(row.where.topic_partition), shorten="middle", least=10),
        TableColumn("KIND", lambda row: row.write.kind, rank=3),
        TableColumn("OFFSET", lambda row: _offset_cell(row.write), right=True),
        TableColumn("BEFORE", lambda row: documents.position(row.write.previous), right=True),
        TableColumn("OWNED", lambda row: _OWNED[row.write.owned], rank=4),
        TableColumn("ZXID", lambda row: hex_zxid(row.write.zxid), right=True, rank=2),
        TableColumn("SESSION", lambda row: brief.session(row.write.session), right=True),
        TableColumn(
            "MEMBER", lambda row: ", ".join(row.write.members) or None, shorten="middle", least=8, rank=1
        ),
        TableColumn("OWNER", lambda row: row.write.owner, shorten="middle", least=8, rank=1),
    ]


def _offset_cell(write: OffsetRow) -> Cell | int | None:
    return Cell(str(write.offset), "bad") if write.is_rewind else documents.position(write.offset)


_SESSION_STYLES = {"expired": "bad", "open": "good"}


@command()
@input_options(more=True, converted=True)
@click.option("--group", metavar="GROUP", help="Only sessions of members of this group.")
@between_options
@click.pass_context
def sessions(
    ctx: click.Context, inputs: Inputs, group: str | None, start: PointInTime | None, end: PointInTime | None
) -> None:
    """Show the life of every session and how it ended.

    Also which client it was, and how long it was silent before its end. `closed` is by the client, `expired`
    by the servers. `server` is the myid in the session's id, a hint. --since and --until select the sessions
    that lived at some time then; each is shown with its whole life, and WRITES counts all its transactions in
    the files.

    \b
    Example:
      zkgroup audit sessions --input copy/version-2 --group billing
    """
    out = output()
    with opened(inputs) as (source, _report):
        zxids = source.zxids(start, end)
        facts, all_sessions, groups = read_sessions(source.rows())
        require_group(group, groups)
        found = [
            row
            for row in all_sessions
            if (group is None or _is_of(row, group)) and is_within(row.from_zxid, row.to_zxid, zxids)
        ]
    document = documents.SESSIONS.json(
        documents.LastTransaction.of(facts.end_zxid, facts.end_ms), documents.AuditSessionsDocument(found)
    )
    if not out.document(document, "sessions", documents.AUDITED_SESSION.keys):
        brief = Brief(out, (time for row in found for time in (row.from_ms, row.to_ms)))
        brief.show_dates()
        out.table(_session_columns(brief), found)
        if _is_of_past(facts):
            expired = sum(row.ended == "expired" for row in found)
            echo_err(f"{counted(len(found), 'session')}, {expired} expired")
    if source.damages():
        ctx.exit(EXIT_CHECK_FAILED)


def _is_of(row: SessionRow, group: str) -> bool:
    return any(of == group for of, _ in row.members)


def _session_columns(brief: Brief) -> list[TableColumn[SessionRow]]:
    """With whole session ids, by which the short ones of other tables can be found."""
    return [
        TableColumn("SESSION", lambda row: documents.session_text(row.session), right=True),
        TableColumn("FROM", lambda row: brief.time(row.from_ms)),
        TableColumn("TO", lambda row: brief.time(row.to_ms)),
        TableColumn("ENDED", lambda row: Cell(row.ended, _SESSION_STYLES.get(row.ended))),
        TableColumn("WRITES", lambda row: row.writes, right=True, rank=2),
        TableColumn("SILENT MS", lambda row: row.silence_ms, right=True, rank=1),
        TableColumn("TIMEOUT MS", lambda row: row.timeout_ms, right=True, rank=3),
        TableColumn("WHO", lambda row: _who(row), shorten="wrap", least=12),
    ]


def _who(row: SessionRow) -> str | None:
    parts = [f"broker {broker}" for broker in row.brokers]
    parts += ["controller"] if row.was_controller else []
    parts += [f"{group}/{member}" for group, member in row.members]
    return ", ".join(parts) or None
