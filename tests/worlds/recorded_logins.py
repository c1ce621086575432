"""Conversations with Kafka 2.8.2 about users and logins, ACLs, refusals, and quotas (`tests/golden`)."""

from __future__ import annotations

from typing import NamedTuple

from tests.worlds import golden_data

LOGINS = "security/kafka-2.8.2.jsonl"
ACLS = "security/kafka-2.8.2-authorizer.jsonl"
REFUSALS = "security/kafka-2.8.2-refusals.jsonl"
QUOTAS = "quotas/kafka-2.8.2.jsonl"


class Exchange(NamedTuple):
    """A frame that was sent, and the one that came; None where Kafka closed the connection."""

    sent: bytes
    came: bytes | None

    @property
    def api(self) -> tuple[int, int]:
        """Key and version of the request."""
        return int.from_bytes(self.sent[4:6], "big"), int.from_bytes(self.sent[6:8], "big")


class Conversation(NamedTuple):
    """One connection."""

    case: str
    exchanges: tuple[Exchange, ...]
    is_closed: bool
    """True if Kafka closed the connection at its end."""


def conversations(file: str = LOGINS) -> list[Conversation]:
    """Those of a file, in the order in which they were recorded."""
    found = []
    for row in golden_data.lines(file):
        frames = [None if one is None else bytes.fromhex(one) for one in row["frames"]]
        pairs = zip(frames[0::2], frames[1::2], strict=False)
        exchanges = tuple(Exchange(sent or b"", came) for sent, came in pairs)
        found.append(Conversation(row["case"], exchanges, frames[-1] is None))
    return found
