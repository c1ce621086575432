"""`zkgroup audit owners`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from zkgroup.audit.sources import Moment
from zkgroup.audit.views.group_rows import GroupPartition, rows_by_partition
from zkgroup.audit.views.owners import OwnerLife, owners_of
from zkgroup.model import TopicPartition

from ..documents import Json
from ..frame import output
from ..output import Output, say
from ..tables import Cell, Column
from ..units import iso_time
from .common import EXIT_CHECK_FAILED, document, hex_zxid, session_text, span
from .history_options import OnePartition, read_facts
from .inputs import Inputs, command, input_options, opened
from .moments import MOMENT

_KEYS = ("owner", "session", "from_zxid", "to_zxid", "from", "to", "ended_by")
_STYLES = {"deleted_by_other": "bad", "session_end": "warn", "open": "good"}


@command()
@input_options(more=True, converted=True)
@click.option("--group", required=True, metavar="GROUP", help="The consumer group.")
@click.option(
    "--partition",
    required=True,
    type=OnePartition(),
    metavar="TOPIC:P",
    help="The partition, for example orders:3.",
)
@click.option(
    "--between",
    nargs=2,
    type=MOMENT,
    metavar="A B",
    help="Only who owned it at some time from A to B, each a zxid or a time.",
)
@click.pass_context
def owners(
    ctx: click.Context,
    inputs: Inputs,
    group: str,
    partition: TopicPartition,
    between: tuple[Moment, Moment] | None,
) -> None:
    """Tell who owned a partition of GROUP when, and how each ownership ended.

    `release`: by its own session. `session_end`: its session was closed or expired. `deleted_by_other`: by
    another session. `open`: it stood at the end. Exit code 5 where there never was such a group.
    """
    out = output()
    with opened(inputs) as (source, _tell):
        rows, facts = read_facts(source, between and between[0], between and between[1])
        mine = rows_by_partition(rows.events(), group).get(GroupPartition(group, partition), [])
        lives = owners_of(mine, facts, group, partition)
    fields = document(
        "audit_owners",
        facts.end_zxid,
        facts.end_ms,
        group=group,
        topic=partition.topic,
        partition=partition.partition,
        intervals=[owner_fields(life) for life in lives],
    )
    if not out.document(fields, "intervals", _KEYS):
        show_owners(out, lives)
        if not lives:
            say(f"nobody owned {partition} of {group}")
    if source.damages():
        ctx.exit(EXIT_CHECK_FAILED)


def owner_fields(life: OwnerLife) -> Json:
    """One of them, for programs."""
    return {
        "owner": life.thread,
        "session": session_text(life.session),
        **span(life.from_zxid, life.to_zxid, life.from_ms, life.to_ms),
        "ended_by": life.ended_by,
    }


def show_owners(out: Output, lives: Sequence[OwnerLife]) -> None:
    """A table of them."""
    columns = [
        Column(header="FROM"),
        Column(header="TO"),
        Column(header="OWNER", shorten="middle", least=24),
        Column(header="ENDED BY"),
        Column(header="FROM ZXID", right=True, rank=1),
        Column(header="TO ZXID", right=True, rank=1),
        Column(header="SESSION", right=True, rank=2),
    ]
    out.table(
        columns,
        [
            [
                iso_time(life.from_ms),
                iso_time(life.to_ms),
                life.thread,
                Cell(life.ended_by, _STYLES.get(life.ended_by)),
                hex_zxid(life.from_zxid),
                hex_zxid(life.to_zxid),
                session_text(life.session),
            ]
            for life in lives
        ],
    )
