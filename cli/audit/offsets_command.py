"""`zkgroup audit offsets`."""

from __future__ import annotations

import click

from zkgroup.audit.sources import Moment
from zkgroup.audit.views.group_rows import GroupPartition, rows_by_partition
from zkgroup.audit.views.offsets import OffsetRow, offsets_of
from zkgroup.model import TopicPartition

from ..documents import Json
from ..frame import output
from ..output import Output, say
from ..tables import Cell, Column
from ..units import counted, iso_time
from .common import EXIT_CHECK_FAILED, document, hex_zxid, session_text
from .history_options import OnePartition, between_options, read_facts
from .inputs import Inputs, command, input_options, opened

_KEYS = (
    *(
        "group",
        "topic",
        "partition",
        "zxid",
        "time",
        "session",
        "members",
        "kind",
        "offset",
        "previous",
        "owned",
    ),
    *("owner", "rewind"),
)

Placed = tuple[GroupPartition, OffsetRow]


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
    start: Moment | None,
    end: Moment | None,
) -> None:
    """Tell every write of an offset: what was written, by whom, and whether the writer was the owner.

    `claim` writes what was there, to fence others off; `reset` is an operator's; `snapshot` is what stood
    before the first transaction. Exit code 5 where there never was such a group.
    """
    out = output()
    with opened(inputs) as (source, _tell):
        rows, facts = read_facts(source, start, end)
        mine = rows_by_partition(rows.events(), group)
        found = [
            (where, row)
            for where, events in mine.items()
            if partition in (None, where.topic_partition)
            for row in offsets_of(events, facts, *where)
        ]
    found = sorted((one for one in found if one[1].is_rewind or not rewinds), key=lambda one: one[1].zxid)
    fields = document(
        "audit_offsets",
        facts.end_zxid,
        facts.end_ms,
        group=group,
        offsets=[_fields(where, row) for where, row in found],
    )
    if not out.document(fields, "offsets", _KEYS):
        _show(out, found)
        say(f"{counted(len(found), 'write')}, {sum(row.is_rewind for _, row in found)} of them rewinds")
    if source.damages():
        ctx.exit(EXIT_CHECK_FAILED)


def _fields(where: GroupPartition, row: OffsetRow) -> Json:
    return {
        "group": where.group,
        "topic": where.topic_partition.topic,
        "partition": where.topic_partition.partition,
        "zxid": row.zxid,
        "time": iso_time(row.time_ms),
        "session": session_text(row.session),
        "members": list(row.members),
        "kind": row.kind,
        "offset": _position(row.offset),
        "previous": _position(row.previous),
        "owned": row.owned,
        "owner": row.owner,
        "rewind": row.is_rewind,
    }


def _position(offset: int | None) -> int | None:
    """A negative one is none."""
    return None if offset is None or offset < 0 else offset


def _show(out: Output, found: list[Placed]) -> None:
    columns = [
        Column(header="TIME"),
        Column(header="GROUP", shorten="middle", least=8, rank=1),
        Column(header="PARTITION", shorten="middle", least=10),
        Column(header="KIND"),
        Column(header="OFFSET", right=True),
        Column(header="BEFORE", right=True),
        Column(header="OWNED"),
        Column(header="ZXID", right=True, rank=1),
        Column(header="SESSION", right=True, rank=2),
        Column(header="MEMBER", shorten="middle", least=16, rank=3),
        Column(header="OWNER", shorten="middle", least=16, rank=4),
    ]
    words = {True: "yes", False: Cell("no", "bad"), None: None}
    out.table(
        columns,
        [
            [
                iso_time(row.time_ms),
                where.group,
                str(where.topic_partition),
                row.kind,
                Cell(str(row.offset), "bad") if row.is_rewind else _position(row.offset),
                _position(row.previous),
                words[row.owned],
                hex_zxid(row.zxid),
                session_text(row.session),
                ", ".join(row.members) or None,
                row.owner,
            ]
            for where, row in found
        ],
    )
