"""What a member's process is told, as one line on its standard input: nothing of it is on a command line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from zkgroup.zookeeper import ClientSettings
from zkgroup.zookeeper.settings import Digest, Sasl, Secret, Tls


@dataclass(frozen=True, slots=True)
class Orders:
    """Everything that one member needs to know."""

    name: str
    zookeeper: str
    group: str
    source: str | None
    """Folder of the topic's files; None for brokers of ours."""
    output: str
    """File for the processed records, one line each."""
    history: str
    """File for the recorded history."""
    records_per_s: int
    """How fast it works: the demo is for watching."""
    session_timeout_ms: int
    server_tick_ms: int
    connection: ClientSettings
    """Who we are and how it is encrypted; the rest of it is not passed on."""


def encode(orders: Orders) -> bytes:
    """One line, newline included. Holds secrets in clear: for the pipe to the process only."""
    plain = {name: getattr(orders, name) for name in Orders.__dataclass_fields__ if name != "connection"}
    auth, tls = orders.connection.auth, orders.connection.tls
    plain["digest"] = auth.credential if isinstance(auth, Digest) else None
    plain["sasl"] = auth.options() if isinstance(auth, Sasl) else None
    plain["tls"] = _tls_fields(tls) if tls else None
    return json.dumps(plain).encode() + b"\n"


def decode(line: bytes) -> Orders:
    """The orders as they were given. Raises ValueError where the line is not whole."""
    plain = json.loads(line)
    auth = _auth(plain.pop("digest"), plain.pop("sasl"))
    tls = plain.pop("tls")
    if tls is not None:
        password = tls.pop("key_password")
        tls = Tls(**tls, key_password=Secret(password) if password else None)
    return Orders(**plain, connection=ClientSettings(auth=auth, tls=tls))


def _tls_fields(tls: Tls) -> dict[str, Any]:
    return {
        "ca_file": tls.ca_file,
        "cert_file": tls.cert_file,
        "key_file": tls.key_file,
        "key_password": tls.key_password.reveal() if tls.key_password else None,
        "check_host_name": tls.check_host_name,
    }


def _auth(digest: str | None, sasl: dict[str, str] | None) -> Digest | Sasl | None:
    if digest is not None:
        user, _, password = digest.partition(":")
        return Digest(user, Secret(password))
    if sasl is not None:
        password = sasl.pop("password", "")
        return Sasl(**sasl, password=Secret(password) if password else None)
    return None
