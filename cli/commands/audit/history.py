"""`zkgroup audit owners`, `offsets` and `sessions`: what happened to a partition or a session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import click

from zkgroup.audit.answers.partitions import (
    GroupPartition,
    OffsetRow,
    OwnerLife,
    SessionRow,
)
from zkgroup.audit.inputs.events import require_group
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.found_files import SkippedFile
from zkgroup.audit.inputs.source import PointInTime, Source, is_within
from zkgroup.model import TopicPartition
from zkgroup.model.text import counted, hex_zxid

from ...app import fail_check, output
from ...audit_rows import OWNER, SPAN, Brief, LastTransaction, document, life_columns, session_text
from ...render import Cell, Output, echo_err
from ...schema import COUNT, SESSION, Inline, JsonKey, KeyColumn, NamedKeys, Shape, list_of, nullable
from .inputs import MOMENT, ONE_PARTITION, Inputs, between_options, command, input_options, opened

_SESSION_STYLES = {"expired": "bad", "open": "good"}
_OWNED = {True: "yes", False: Cell("no", "bad"), None: None}
_FROM = KeyColumn("from", at=lambda row, brief: brief.time(row.from_ms))
_TO = KeyColumn("to", at=lambda row, brief: brief.time(row.to_ms))


class PartitionOwner(NamedTuple):
    """An ownership, and of which partition."""

    topic_partition: TopicPartition
    life: OwnerLife


class PartitionOffset(NamedTuple):
    """A write of an offset, and of which partition."""

    where: GroupPartition
    write: OffsetRow


class GroupMemberId(NamedTuple):
    """A member of a group."""

    group: str
    member: str


PARTITION_OWNER = Shape(
    PartitionOwner,
    *(Inline("life", OWNER), "topic_partition"),
    columns=(
        KeyColumn("place", "PARTITION", lambda row: str(row.topic_partition), shorten="middle", least=10),
        *life_columns(lambda row: row.life),
    ),
)
OWNERS = document(
    "owners",
    NamedKeys(
        group=str,
        # null for all of the group
        topic=str | None,
        partition=int | None,
        intervals=Sequence[PartitionOwner],
        skipped=Sequence[SkippedFile],
    ),
    rows="intervals",
)


def _position(offset: int | None) -> int | None:
    """A committed offset; None for a negative one, which stands for none."""
    return None if offset is None or offset < 0 else offset


def _offset_cell(row: PartitionOffset) -> Cell | int | None:
    return Cell(str(row.write.offset), "bad") if row.write.is_rewind else _position(row.write.offset)


def _offsets(group_rank: int) -> Shape[PartitionOffset]:
    """With the rank of the group in the table."""
    return Shape(
        PartitionOffset,
        *("where.group", "where.topic_partition", "write.zxid", "write.time_ms"),
        JsonKey("session", nullable(SESSION), lambda row: session_text(row.write.session)),
        *("write.members", "write.kind"),
        JsonKey("offset", nullable(COUNT), lambda row: _position(row.write.offset)),
        JsonKey("previous", nullable(COUNT), lambda row: _position(row.write.previous)),
        *("write.owned", "write.owner", "rewind=write.is_rewind", "write.writes"),
        columns=(
            KeyColumn("time", at=lambda row, brief: brief.time(row.write.time_ms)),
            KeyColumn("group", shorten="middle", least=8, rank=group_rank),
            KeyColumn(
                *("place", "PARTITION", lambda row: str(row.where.topic_partition)),
                shorten="middle",
                least=10,
            ),
            KeyColumn("kind", rank=3),
            KeyColumn("offset", cell=_offset_cell),
            KeyColumn("previous", "BEFORE"),
            KeyColumn("owned", cell=lambda row: _OWNED[row.write.owned], rank=4),
            KeyColumn("zxid", cell=lambda row: hex_zxid(row.write.zxid), rank=2),
            KeyColumn("session", at=lambda row, brief: brief.session(row.write.session), right=True),
            KeyColumn(
                *("members", "MEMBER", lambda row: ", ".join(row.write.members) or None),
                shorten="middle",
                least=8,
                rank=1,
            ),
            KeyColumn("owner", shorten="middle", least=8, rank=1),
            KeyColumn("writes", rank=6),
        ),
    )


OFFSET, _OFFSET_OF_GROUP = _offsets(0), _offsets(5)
OFFSETS = document(
    "offsets",
    NamedKeys(group=str | None, offsets=Sequence[PartitionOffset], skipped=Sequence[SkippedFile]),
    rows="offsets",
)


def _who(row: SessionRow) -> str | None:
    parts = [f"broker {broker}" for broker in row.brokers]
    parts += ["controller"] if row.was_controller else []
    parts += [f"{group}/{member}" for group, member in row.members]
    return ", ".join(parts) or None


_MEMBER = Shape(GroupMemberId)
AUDITED_SESSION = Shape(
    SessionRow,
    *("session", "server", "timeout_ms", *SPAN, "ended", "writes", "silence_ms", "ephemerals", "created"),
    JsonKey(
        "members",
        list_of(_MEMBER.schema),
        lambda row: [_MEMBER.json(GroupMemberId(*one)) for one in row.members],
    ),
    *("brokers", "controller=was_controller"),
    columns=(
        # whole ids, by which the short ones of other tables can be found
        KeyColumn("session", cell=lambda row: session_text(row.session), right=True),
        *(_FROM, _TO),
        KeyColumn("ended", styles=_SESSION_STYLES),
        *(KeyColumn("writes", rank=2), KeyColumn("silence_ms", "SILENT MS", rank=1)),
        *(KeyColumn("timeout_ms", rank=3), KeyColumn("who", cell=_who, shorten="wrap", least=12)),
    ),
)
SESSIONS = document(
    "sessions", NamedKeys(sessions=Sequence[SessionRow], skipped=Sequence[SkippedFile]), rows="sessions"
)


@command()
@input_options(more=True)
@click.option("--group", required=True, metavar="GROUP", help="The consumer group.")
@click.option(
    "--partition",
    type=ONE_PARTITION,
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
def owners(
    inputs: Inputs,
    group: str,
    partition: TopicPartition | None,
    between: tuple[PointInTime, PointInTime] | None,
    start: PointInTime | None,
    end: PointInTime | None,
) -> None:
    """Show who owned the partitions of a group when, and how that ended.

    `release`: deleted by its own session. `session_end`: its session was closed or expired.
    `deleted_by_other`: deleted by another session. `open`: it existed at the end of the files. Where only
    snapshots show an end, it is nothing of these, and the moment is that of the first one without it. --since
    and --until select ownerships; each is shown from its beginning to its end. Exit code 5 where the files
    show no such group, or no such partition.

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
        from zkgroup.audit.answers.snapshots import OfPartitions, owners_in

        facts, found = owners_in(source, OfPartitions(group, partition, start, end))
    lives = [PartitionOwner(at.topic_partition, life) for at, life in found]
    if not OWNERS.print(
        out,
        LastTransaction.of(facts.end_zxid, facts.end_ms),
        group=group,
        topic=partition and partition.topic,
        partition=None if partition is None else partition.partition,
        intervals=lives,
        skipped=source.skipped,
    ):
        if partition is None:
            brief = _brief(out, [each.life for each in lives], facts.sessions)
            brief.show_dates()
            PARTITION_OWNER.table(out, lives, brief)
        else:
            show_owners(out, [each.life for each in lives], facts.sessions)
        if not lives:
            had = "had" if facts.has_log else "has"
            echo_err(f"{f'{partition} of {group}' if partition else group} {had} no owner")
        _is_of_past(facts, source)
    if source.damages():
        fail_check()


def _is_of_past(facts: Facts, source: Source) -> bool:
    """Returns whether transactions were read; says where none were: no row then is no proof of the past."""
    if not facts.has_log:
        count = sum(len(each.snapshots) for each in source.series)
        what = "this is what stands in the tree; what was before is not known"
        if count > 1:
            what = f"this is what {count} snapshots show; what came and went between them is not known"
        echo_err(f"no transactions were read: {what}")
    return facts.has_log


def _brief(out: Output, lives: Sequence[OwnerLife], sessions: Iterable[int]) -> Brief:
    return Brief(out, (time for life in lives for time in (life.from_ms, life.to_ms)), sessions)


def show_owners(out: Output, lives: Sequence[OwnerLife], sessions: Iterable[int]) -> None:
    """One row an ownership; `sessions` are all of the history."""
    brief = _brief(out, lives, sessions)
    brief.show_dates()
    OWNER.table(out, lives, brief)


@command()
@input_options(more=True)
@click.option("--group", metavar="GROUP", help="Only this consumer group.")
@click.option(
    "--partition", type=ONE_PARTITION, metavar="TOPIC:P", help="Only this partition, for example orders:3."
)
@click.option("--rewinds", is_flag=True, help="Only writes of less than what was there.")
@between_options
def offsets(
    inputs: Inputs,
    group: str | None,
    partition: TopicPartition | None,
    rewinds: bool,
    start: PointInTime | None,
    end: PointInTime | None,
) -> None:
    """Show every write of an offset, and which session wrote it.

    Also whether the writer was the owner. `claim` writes what was there, to fence others off; `reset` is an
    operator's; `snapshot` is what existed before the first transaction or in the first of several snapshots.
    `write` stands for all writes between two snapshots, by the growth of the version, and `reset` where their
    last one was an operator's, by its marker. Exit code 5 where the files show no such group, or no such
    partition.

    \b
    Example:
      zkgroup audit offsets --input copy/version-2 --group billing --partition orders:3
    """
    out = output()
    with opened(inputs) as (source, _report):
        from zkgroup.audit.answers.snapshots import OfPartitions, offsets_in

        facts, rows = offsets_in(source, OfPartitions(group, partition, start, end))
    found = [PartitionOffset(*each) for each in rows if each[1].is_rewind or not rewinds]
    last = LastTransaction.of(facts.end_zxid, facts.end_ms)
    if not OFFSETS.print(out, last, group=group, offsets=found, skipped=source.skipped):
        brief = Brief(out, (one.write.time_ms for one in found), facts.sessions)
        brief.show_dates()
        (OFFSET if group is None else _OFFSET_OF_GROUP).table(out, found, brief)
        if _is_of_past(facts, source):
            rewound = sum(row.is_rewind for _, row in found)
            echo_err(f"{counted(len(found), 'write')}, {rewound} of them rewinds")
    if source.damages():
        fail_check()


@command()
@input_options(more=True)
@click.option("--group", metavar="GROUP", help="Only sessions of members of this group.")
@between_options
def sessions(inputs: Inputs, group: str | None, start: PointInTime | None, end: PointInTime | None) -> None:
    """Show the life of every session and how it ended.

    Also which client it was, and how long it was silent before its end. `closed` is by the client, `expired`
    by the servers. `server` is the myid in the session's id, a hint. --since and --until select the sessions
    that lived at some time then; each is shown with its whole life, and WRITES counts all its transactions in
    the files. Of snapshots alone it is the lists that servers' have: from the first one with a session to the
    first without it.

    \b
    Example:
      zkgroup audit sessions --input copy/version-2 --group billing
    """
    out = output()
    with opened(inputs) as (source, _report):
        from zkgroup.audit.answers.snapshots import parts_of, session_views, sessions_in

        zxids = source.zxids(start, end)
        facts, all_sessions, groups = sessions_in(parts_of(source), lambda: session_views(source.rows()))
        require_group(group, groups)
        found = [
            row
            for row in all_sessions
            if group is None or any(of == group for of, _ in row.members)
            if is_within(row.from_zxid, row.to_zxid, zxids)
        ]
        lists = [one.sessions is not None for each in source.series for one in each.snapshots]
        if lists:
            of = f"the lists in {sum(lists)} of {len(lists)} snapshots; exports have none"
            echo_err(f"note: sessions {'outside the logs ' if source.history else ''}are those of {of}")
    last = LastTransaction.of(facts.end_zxid, facts.end_ms)
    if not SESSIONS.print(out, last, sessions=found, skipped=source.skipped):
        brief = Brief(out, (time for row in found for time in (row.from_ms, row.to_ms)))
        brief.show_dates()
        AUDITED_SESSION.table(out, found, brief)
        if _is_of_past(facts, source):
            expired = sum(row.ended == "expired" for row in found)
            echo_err(f"{counted(len(found), 'session')}, {expired} expired")
    if source.damages():
        fail_check()
