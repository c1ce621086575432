"""`zkgroup audit sessions`."""

from __future__ import annotations

import click

from zkgroup.audit.groups import groups_of, require_group
from zkgroup.audit.sources import Moment
from zkgroup.audit.views.sessions import SessionRow, sessions_of

from ..documents import Json
from ..frame import output
from ..output import Output, say
from ..tables import Cell, Column
from ..units import counted, iso_time
from .common import EXIT_CHECK_FAILED, document, session_text, span
from .history_options import between_options, read_facts
from .inputs import Inputs, command, input_options, opened

_KEYS = (
    *("session", "server", "timeout_ms", "from_zxid", "to_zxid", "from", "to", "ended", "writes"),
    *("silence_ms", "ephemerals", "created", "members", "brokers", "controller"),
)
_STYLES = {"expired": "bad", "open": "good"}


@command()
@input_options(more=True, converted=True)
@click.option("--group", metavar="GROUP", help="Only sessions of members of this group.")
@between_options
@click.pass_context
def sessions(
    ctx: click.Context, inputs: Inputs, group: str | None, start: Moment | None, end: Moment | None
) -> None:
    """Tell the life of every session: who it was, how it ended, how silent it was before.

    `closed` is by the client, `expired` by the servers. `server` is the myid in the session's id, a hint.
    """
    out = output()
    with opened(inputs) as (source, _tell):
        rows, facts = read_facts(source, start, end)
        if group is not None:
            require_group(group, groups_of(rows.events()))
        found = [row for row in sessions_of(rows.events(), facts) if group is None or _is_of(row, group)]
    fields = document(
        "audit_sessions", facts.end_zxid, facts.end_ms, sessions=[_fields(row) for row in found]
    )
    if not out.document(fields, "sessions", _KEYS):
        _show(out, found)
        say(f"{counted(len(found), 'session')}, {sum(row.ended == 'expired' for row in found)} expired")
    if source.damages():
        ctx.exit(EXIT_CHECK_FAILED)


def _is_of(row: SessionRow, group: str) -> bool:
    return any(of == group for of, _ in row.members)


def _fields(row: SessionRow) -> Json:
    return {
        "session": session_text(row.session),
        "server": row.server,
        "timeout_ms": row.timeout_ms,
        **span(row.from_zxid, row.to_zxid, row.from_ms, row.to_ms),
        "ended": row.ended,
        "writes": row.writes,
        "silence_ms": row.silence_ms,
        "ephemerals": row.ephemerals,
        "created": row.created,
        "members": [{"group": group, "member": member} for group, member in row.members],
        "brokers": list(row.brokers),
        "controller": row.was_controller,
    }


def _show(out: Output, found: list[SessionRow]) -> None:
    columns = [
        Column(header="SESSION", right=True),
        Column(header="FROM"),
        Column(header="TO"),
        Column(header="ENDED"),
        Column(header="WRITES", right=True, rank=1),
        Column(header="SILENT MS", right=True, rank=2),
        Column(header="TIMEOUT MS", right=True, rank=3),
        Column(header="WHO", shorten="middle", least=20, rank=1),
    ]
    out.table(
        columns,
        [
            [
                session_text(row.session),
                iso_time(row.from_ms),
                iso_time(row.to_ms),
                Cell(row.ended, _STYLES.get(row.ended)),
                row.writes,
                row.silence_ms,
                row.timeout_ms,
                _who(row),
            ]
            for row in found
        ],
    )


def _who(row: SessionRow) -> str | None:
    told = [f"broker {broker}" for broker in row.brokers]
    told += ["controller"] if row.was_controller else []
    told += [f"{group}/{member}" for group, member in row.members]
    return ", ".join(told) or None
