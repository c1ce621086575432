"""The consumers of a demo as child processes, and the settings that each reads from its standard input.

Nothing of the settings is on a command line, where other users could read secrets.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zkgroup.demo.processes import ChildProcess
from zkgroup.errors import MemberFailedError
from zkgroup.zookeeper import ClientSettings
from zkgroup.zookeeper.settings import Digest, Sasl, Secret, Tls


@dataclass(frozen=True, slots=True)
class MemberProcessSettings:
    """Everything that one member needs to know."""

    name: str
    zookeeper: str
    group: str
    source: str | None
    """Folder of the topic's files; None for zkgroup's brokers."""
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


def encode_settings(orders: MemberProcessSettings) -> bytes:
    """One line, newline included. Holds secrets in clear: for the pipe to the process only."""
    plain = {
        name: getattr(orders, name)
        for name in MemberProcessSettings.__dataclass_fields__
        if name != "connection"
    }
    auth, tls = orders.connection.auth, orders.connection.tls
    plain["digest"] = auth.credential if isinstance(auth, Digest) else None
    plain["sasl"] = auth.options() if isinstance(auth, Sasl) else None
    plain["tls"] = _tls_fields(tls) if tls else None
    return json.dumps(plain).encode() + b"\n"


def decode_settings(line: bytes) -> MemberProcessSettings:
    """The orders as they were given. Raises ValueError where the line is not whole."""
    plain = json.loads(line)
    auth = _auth(plain.pop("digest"), plain.pop("sasl"))
    tls = plain.pop("tls")
    if tls is not None:
        password = tls.pop("key_password")
        tls = Tls(**tls, key_password=Secret(password) if password else None)
    return MemberProcessSettings(**plain, connection=ClientSettings(auth=auth, tls=tls))


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


class MemberProcess(ChildProcess):
    """One consumer in a process of its own."""

    def __init__(self, orders: MemberProcessSettings, log: Path) -> None:
        """Starts it. `log` receives what it writes to standard error."""
        self.output = Path(orders.output)
        self.processed = 0
        self.lost_session = False
        super().__init__(orders.name, "zkgroup.demo.members.worker", log)
        self.give(encode_settings(orders))

    def note(self, event: dict[str, Any]) -> None:
        """Brings state and count up to date."""
        match event["event"]:
            case "state":
                self.state = event["after"]
            case "lost":
                self.lost_session = True
            case "progress":
                self.processed = event["processed"]

    def check(self) -> None:
        """Raises `MemberFailedError` where it ended by itself."""
        if self.ended and not self.killed and self.state not in ("left", "closed"):
            raise MemberFailedError(f"{self.name} ended with exit code {self.exit_code}: {self.last_words}")
