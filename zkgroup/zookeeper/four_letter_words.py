"""Reads a server's own status, by four-letter words on its client port or by its AdminServer (HTTP).

Both can be switched off: words that `4lw.commands.whitelist` does not name are answered with a sentence, and
the AdminServer (3.5 and later, port 8080) may not run or not be reachable. No session is opened.
Source: ZooKeeper 3.9 Administrator's Guide, "The Four Letter Words", "The AdminServer".
"""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ADMIN_PORT = 8080
"""The port of an AdminServer unless `admin.serverPort` sets another."""

_ANSWER_MAX = 1 << 20
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """The status that one server reported; None for values that it did not report."""

    server: str
    """`HOST:PORT`."""
    by: str | None
    """`mntr`, `wchs` or `AdminServer`; None if the server reported nothing."""
    mode: str | None = None
    """`leader`, `follower`, `standalone`, ..."""
    version: str | None = None
    """The ZooKeeper release."""
    connections: int | None = None
    """Open client connections of this server."""
    watches: int | None = None
    """The watches of this server's own clients."""
    znodes: int | None = None
    """The znodes of the whole ensemble, also those above a chroot."""
    average_latency: float | None = None
    """Milliseconds from a request to its reply, on average since the server started or was reset."""
    data_bytes: int | None = None
    """Bytes of the paths and data of all znodes, as the server estimates them."""
    synced_followers: int | None = None
    """Followers that are in sync; only a leader reports it."""
    reason: str | None = None
    """The reason for which the server reported nothing."""


def ask_server(
    host: str, port: int, *, admin_port: int | None = ADMIN_PORT, words: bool = True, timeout_s: float = 3.0
) -> ServerStatus:
    """The status of one server, by `mntr`, its AdminServer or `wchs`. Never raises: see `reason`.

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
            return _by_mntr(server, host, port, timeout_s)
        except ConnectionRefusedError as error:  # an AdminServer there is that of another server of the host
            return ServerStatus(server=server, by=None, reason=f"mntr: {why(error)}")
        except (OSError, ValueError) as error:
            reasons.append(f"mntr: {why(error)}")
    if admin_port is not None:
        try:
            return _by_admin_server(server, host, admin_port, timeout_s)
        except (OSError, ValueError, http.client.HTTPException) as error:
            reasons.append(f"AdminServer at port {admin_port}: {why(error)}")
    watches = None
    if words:
        try:
            watches = read_wchs(send_word(host, port, "wchs", timeout_s))
        except OSError as error:
            reasons.append(f"wchs: {why(error)}")
    by = None if watches is None else "wchs"
    return ServerStatus(server=server, by=by, watches=watches, reason="; ".join(reasons))


def server_name(host: str, port: int) -> str:
    """`HOST:PORT`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def send_word(host: str, port: int, word: str, timeout_s: float, *, most: int = _ANSWER_MAX) -> str:
    """The reply to a four-letter word, such as `srvr`, `conf` or `mntr`. Raises OSError if there is none.

    `timeout_s` bounds the connecting, and each wait for a part of the reply, of which `most` bytes are read.
    """
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        connection.sendall(word.encode("ascii"))
        parts = bytearray()
        while len(parts) < most and (part := connection.recv(65536)):
            parts += part
    return parts.decode("utf-8", "replace")


def read_fields(answer: str) -> dict[str, str]:
    """The fields of a reply with lines `name=value` or `name: value`, as of `srvr` and `conf`."""
    rows = (line.replace("=", ":", 1).partition(":") for line in answer.splitlines())
    return {name.strip(): value.strip() for name, colon, value in rows if colon}


def read_mntr(answer: str) -> Mapping[str, str]:
    """The fields of a reply to `mntr` (lines `zk_name<TAB>value`), names without `zk_`."""
    rows = (line.partition("\t") for line in answer.splitlines())
    return {name.removeprefix("zk_"): value.strip() for name, tab, value in rows if tab}


def read_wchs(answer: str) -> int | None:
    """The total in a reply to `wchs` (`Total watches:13`). ZooKeeper 3.4.6 leaves child watches out."""
    for line in answer.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "Total watches" and value.strip().isdigit():
            return int(value)
    return None


def _by_mntr(server: str, host: str, port: int, timeout_s: float) -> ServerStatus:
    answer = send_word(host, port, "mntr", timeout_s)
    fields = read_mntr(answer)
    if not fields:
        lines = answer.strip().splitlines()
        raise ValueError(lines[0] if lines else "no reply")
    return _figures(server, "mntr", fields)


def _by_admin_server(server: str, host: str, port: int, timeout_s: float) -> ServerStatus:
    fields = ask_admin_server(host, port, "monitor", timeout_s)
    return _figures(server, "AdminServer", {name: str(value) for name, value in fields.items()})


def ask_admin_server(
    host: str, port: int, command: str, timeout_s: float, *, most: int = _ANSWER_MAX
) -> dict[str, Any]:
    """The reply of an AdminServer to a command such as `monitor`.

    Raises OSError, HTTPException, or ValueError where there is none, or it is an error or no object.
    """
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", f"/commands/{command}")
        response = connection.getresponse()
        body = response.read(most)
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise ValueError(f"HTTP {response.status}")
    fields = json.loads(body)
    if not isinstance(fields, dict) or fields.get("error") is not None:
        raise ValueError(str(fields.get("error")) if isinstance(fields, dict) else "no object")
    return fields


def _figures(server: str, by: str, fields: Mapping[str, str]) -> ServerStatus:
    def count(name: str) -> int | None:
        value = fields.get(name, "")
        return int(value) if value.isdigit() else None

    latency = fields.get("avg_latency", "")
    return ServerStatus(
        server=server,
        by=by,
        average_latency=float(latency) if _NUMBER.fullmatch(latency) else None,
        data_bytes=count("approximate_data_size"),
        synced_followers=count("synced_followers"),
        mode=fields.get("server_state"),
        version=(fields.get("version") or "").partition("-")[0] or None,
        connections=count("num_alive_connections"),
        watches=count("watch_count"),
        znodes=count("znode_count"),
    )


def why(error: Exception) -> str:
    """The text of an error, else its kind."""
    return str(error) or type(error).__name__
