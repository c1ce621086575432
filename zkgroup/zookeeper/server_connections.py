"""Reads which clients are connected to a server, by the four-letter word `cons` or by its AdminServer.

A client is connected to one server at a time, and only that server knows its address. Both ways can be
switched off (`zkgroup.zookeeper.four_letter_words`).
Source: `ServerCnxn.dumpConnectionInfo` and `getConnectionInfo` of ZooKeeper 3.4.6 to 3.9.
"""

from __future__ import annotations

import http.client
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zkgroup.zookeeper.four_letter_words import ADMIN_PORT, ask_admin_server, send_word, server_name, why

_LINE = re.compile(r"\s*/?(?P<client>\S+?)\[\d+\]\((?P<fields>.*)\)\s*")
_TIMEOUT_S = 3.0
_BYTES_MAX = 64 << 20
"""Of an answer: a line of `cons` has some 200 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConnection:
    """The connection of a session: one client of one server; None for what the server did not say."""

    server: str
    """`HOST:PORT` of the server."""
    client: str
    """`ADDRESS:PORT` of the client, as the server sees it."""
    session_id: int
    """The session."""
    session_timeout_ms: int | None
    """The session timeout that the server has granted."""
    connected_ms: int | None
    """The time of the connection, in epoch milliseconds."""
    last_operation: str | None
    """The last request, in ZooKeeper's short words, such as `PING` or `GETD`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConnections:
    """The clients of one server with a session, or the reason why they are not known."""

    server: str
    """`HOST:PORT`."""
    connections: tuple[SessionConnection, ...] = ()
    """The clients."""
    reason: str | None = None
    """The reason for which the server reported nothing; None if it did."""


def read_connections(
    host: str, port: int, *, admin_port: int | None = ADMIN_PORT, words: bool = True
) -> ServerConnections:
    """The clients of one server. Never raises: see `reason`.

    Args:
        admin_port: None to leave the AdminServer out.
        words: whether the client port speaks plain text; no word is sent to a port with TLS.
    """
    server = server_name(host, port)
    reasons = []
    if not words:
        reasons.append("four-letter words are not sent to a port that speaks TLS")
    else:
        try:
            answer = send_word(host, port, "cons", _TIMEOUT_S, most=_BYTES_MAX)
            return ServerConnections(server=server, connections=read_cons(server, answer))
        except ConnectionRefusedError as error:  # an AdminServer there is that of another server of the host
            return ServerConnections(server=server, reason=f"cons: {why(error)}")
        except (OSError, ValueError) as error:
            reasons.append(f"cons: {why(error)}")
    if admin_port is not None:
        try:
            found = ask_admin_server(host, admin_port, "connections", _TIMEOUT_S, most=_BYTES_MAX)
            return ServerConnections(server=server, connections=read_admin_connections(server, found))
        except (OSError, ValueError, http.client.HTTPException) as error:
            reasons.append(f"AdminServer at port {admin_port}: {why(error)}")
    return ServerConnections(server=server, reason="; ".join(reasons))


def read_cons(server: str, answer: str) -> tuple[SessionConnection, ...]:
    """The clients with a session in a reply to `cons`. Raises ValueError for one that is none.

    The reply is never empty: the connection that asked has a line too.
    """
    lines = [line for line in answer.splitlines() if line.strip()]
    matches = [match for match in map(_LINE.fullmatch, lines) if match]
    if not matches:
        raise ValueError(lines[0] if lines else "no reply")
    found = []
    for match in matches:
        fields = dict(part.partition("=")[::2] for part in match["fields"].split(","))
        if "sid" in fields:
            found.append(
                SessionConnection(
                    server=server,
                    client=match["client"],
                    session_id=int(fields["sid"], 16),
                    session_timeout_ms=_count(fields.get("to")),
                    connected_ms=_count(fields.get("est")),
                    last_operation=fields.get("lop"),
                )
            )
    return tuple(found)


def read_admin_connections(server: str, found: Mapping[str, Any]) -> tuple[SessionConnection, ...]:
    """The clients with a session in a reply of an AdminServer. Raises ValueError for one that is none."""
    try:
        return tuple(
            SessionConnection(
                server=server,
                client=str(one["remote_socket_address"]).removeprefix("/"),
                session_id=int(one["session_id"]) & 0xFFFF_FFFF_FFFF_FFFF,
                session_timeout_ms=_count(one.get("session_timeout")),
                connected_ms=_count(one.get("established")),
                last_operation=one.get("last_operation"),
            )
            for kind in ("connections", "secure_connections")
            for one in found.get(kind, ())
            if one.get("session_id")
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no list of connections ({type(error).__name__}: {error})") from error


def _count(value: object) -> int | None:
    return int(str(value)) if str(value).isdecimal() else None
