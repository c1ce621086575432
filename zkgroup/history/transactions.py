"""What a ZooKeeper server accepted and refused, as plain values.

Made of the memory server's log in simulation, of real servers' logs by `transaction_log`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Action = Literal["create", "set", "delete", "check"]


@dataclass(frozen=True, slots=True)
class Change:
    """One operation of a transaction, with its outcome."""

    action: Action
    path: str
    data: bytes | None = None
    """Of a create or set."""
    version: int | None = None
    """The data version after a create or set."""
    ephemeral_owner: int = 0
    """Of a create: the session that an ephemeral belongs to, 0 for a persistent znode."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing of a transaction was applied."""

    path: str
    code: str
    """ZooKeeper's name, as `BadVersion`."""


@dataclass(frozen=True, slots=True)
class ServerTransaction:
    """One entry of a server's log. Refused writes use up a zxid, too."""

    zxid: int
    at_ms: int
    """On the members' clock where that is known (simulation), else the server's. Never used for order."""
    session: int
    """0 where the writer is no session (a test's own hand)."""
    changes: tuple[Change, ...]
    """As applied, in order (at the end of a session: its ephemerals deleted); as asked for, when refused."""
    kind: Literal["write", "create_session", "close_session"] = "write"
    refusal: Refusal | None = None
