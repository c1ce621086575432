"""`zkgroup session`: the client behind a session."""

from __future__ import annotations

from collections.abc import Sequence

import click

from zkgroup.admin.sessions import FIND_IN_FILES, SessionDescription, SessionZnode, describe_session
from zkgroup.audit.answers.partitions import SessionRow
from zkgroup.errors import NotFoundError, PartlyDoneError
from zkgroup.model.text import hex_session, iso_time, named
from zkgroup.zookeeper.four_letter_words import ADMIN_PORT
from zkgroup.zookeeper.server_connections import SessionConnection
from zkgroup.zookeeper.settings import Address

from ..app import fail_check, output, shared
from ..audit_rows import LAST_TRANSACTION, Brief, LastTransaction
from ..context import connected, target
from ..param_types import Parsed
from ..render import Output
from ..schema import SESSION, Document, KeyColumn, NamedKeys, Shape
from ..units import age, is_whole
from .audit.history import AUDITED_SESSION
from .audit.inputs import Inputs, command, input_options, opened


def _session(text: str) -> int:
    digits = text.removeprefix("0x").removeprefix("0X")
    number = int(digits, 16) if digits != text else int(text) if is_whole(text) else 0
    if not 0 < number < 2**64:
        raise ValueError(f"{text!r}: expected a session id as ZooKeeper writes it, such as 0x1a1fb66fa0f0008")
    return number


CONNECTION = Shape(
    SessionConnection,
    *("client", "server", "session_timeout_ms", "connected_ms", "last_operation"),
    columns=(
        "client",
        "server",
        KeyColumn("connected", "CONNECTED", at=lambda row, now_ms: age(row.connected_ms, now_ms), right=True),
        KeyColumn("session_timeout_ms", "TIMEOUT MS", rank=2),
        KeyColumn("last_operation", rank=3),
    ),
)
HELD = Shape(
    SessionZnode,
    columns=(
        "kind",
        KeyColumn("who", shorten="middle", least=24),
        KeyColumn("created", "HELD", at=lambda row, now_ms: age(row.created_ms, now_ms), right=True),
        KeyColumn("path", shorten="middle", least=20, rank=2),
    ),
)
SESSION_DOCUMENT = Document(
    "session",
    NamedKeys(
        session=SESSION,
        connections=Sequence[SessionConnection],
        znodes=Sequence[SessionZnode],
        # null without --input
        past=SessionRow | None,
        unanswered=Sequence[str],
        hidden=Sequence[str],
    ),
    LAST_TRANSACTION,
)


@command()
@click.argument("session_id", metavar="SESSION", type=Parsed("session", _session))
@click.option(
    "--admin-port",
    type=click.IntRange(0, 65535),
    default=ADMIN_PORT,
    show_default=True,
    metavar="PORT",
    help="Port of the servers' AdminServers, asked where four-letter words are not allowed; 0: do not ask.",
)
@input_options(more=False)
def session(session_id: int, admin_port: int, inputs: Inputs) -> None:
    """Show which client is behind SESSION.

    Servers are asked by `cons` where allowed, else their AdminServer, which client is connected by it; name
    all of them in the address. Registrations, owners and controllers that it holds are read from the tree.
    With --input the servers' files are read instead: whose the session was, and how it ended. Exit code 4
    where a server does not say who is connected and none is found, 5 where there is no such session.

    \b
    Example:
      zkgroup -z zk1:2181,zk2:2181,zk3:2181 session 0x1a1fb66fa0f0008
    """
    if inputs.texts:
        _show_past(session_id, inputs)
    else:
        _show_live(session_id, admin_port)


def _show_live(session_id: int, admin_port: int) -> None:
    out = output()
    where = target(shared())
    servers = Address.parse(where.zookeeper).hosts
    encrypted = bool(where.tls_ca or where.tls_cert or where.tls_key)
    with connected() as ensemble:
        found = describe_session(
            ensemble, session_id, servers, admin_port=admin_port or None, words=not encrypted
        )
    moment = LastTransaction.of(found.as_of.zxid, found.as_of.time_ms)
    if not SESSION_DOCUMENT.print(
        out,
        moment,
        session=hex_session(session_id),
        connections=found.connections,
        znodes=found.znodes,
        past=None,
        unanswered=found.unanswered,
        hidden=found.hidden,
    ):
        _show(out, found)
    if not found.is_whole:
        raise PartlyDoneError(_not_known(found))


def _not_known(found: SessionDescription) -> str:
    parts = []
    if found.unanswered and not found.connections:
        parts.append(
            f"who is connected: {'; '.join(found.unanswered)}; let the servers answer `cons` "
            "(4lw.commands.whitelist), or name the port of their AdminServer with --admin-port"
        )
    if found.hidden:
        parts.append(f"what an ACL hides: {named(found.hidden)}")
    if not found.znodes and not found.connections:
        in_files = FIND_IN_FILES.format(session=hex_session(found.session_id))
        parts.append(f"whose it was is in the servers' files: {in_files}")
    return f"not known: {'; '.join(parts)}"


def _show(out: Output, found: SessionDescription) -> None:
    now_ms = found.as_of.time_ms
    out.line(out.paint(f"session {hex_session(found.session_id)}", "bold"))
    if found.connections:
        out.line()
        CONNECTION.table(out, found.connections, now_ms)
    if found.znodes:
        out.line()
        HELD.table(out, found.znodes, now_ms)
    elif found.connections:
        out.line("it holds no znode of a broker, a controller or a group")


def _show_past(session_id: int, inputs: Inputs) -> None:
    out = output()
    with opened(inputs) as (source, _report):
        from zkgroup.audit.answers.snapshots import parts_of, session_views, sessions_in

        facts, rows, _groups = sessions_in(parts_of(source), lambda: session_views(source.rows()))
        row = next((one for one in rows if one.session & 0xFFFF_FFFF_FFFF_FFFF == session_id), None)
        if row is None:
            times = f"{iso_time(facts.start_ms)} to {iso_time(facts.end_ms)}"
            raise NotFoundError(
                f"session {hex_session(session_id)}: expected it in the files, which are of {times}, found "
                "none; give the folders of all servers and of that time: `zkgroup audit sessions` lists what "
                "they have"
            )
    moment = LastTransaction.of(facts.end_zxid, facts.end_ms)
    if not SESSION_DOCUMENT.print(
        out,
        moment,
        session=hex_session(session_id),
        connections=(),
        znodes=(),
        past=row,
        unanswered=(),
        hidden=(),
    ):
        brief = Brief(out, (row.from_ms, row.to_ms))
        brief.show_dates()
        AUDITED_SESSION.table(out, [row], brief)
    if source.damages():
        fail_check()
