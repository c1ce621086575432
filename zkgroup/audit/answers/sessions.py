"""One row a session: when it lived, how it ended, how silent it was, what it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from zkgroup.audit.inputs.facts import Facts, SessionLife, server_of
from zkgroup.audit.inputs.texts import brokers_of, members_of

SessionEnd = Literal["closed", "expired", "open"]


class SessionRow(NamedTuple):
    """Fields that are not known are None: a history may begin after a session did."""

    session: int
    server: int
    """The `myid` of the server that issued it, from its top byte: a hint."""
    timeout_ms: int | None
    from_zxid: int | None
    from_ms: int | None
    to_zxid: int | None
    to_ms: int | None
    ended: SessionEnd
    """Exact: an expiry is a close that no client asked for."""
    writes: int
    """Its transactions, refused ones too, without its end."""
    silence_ms: int | None
    """From its last write, or its beginning, to its end or the end of the history."""
    ephemerals: int
    """Ephemeral znodes that were deleted at its end, or that it has at the end of the history."""
    created: int
    """Ephemerals that it made within the history, or had at its beginning."""
    members: tuple[tuple[str, str], ...]
    """Group and member id of its registrations."""
    brokers: tuple[str, ...]
    was_controller: bool


@dataclass(slots=True)
class SessionCounts:
    """Holds what is counted of one session."""

    writes: int = 0
    last_ms: int | None = None
    created: int = 0
    lost: int = 0


def session_rows(
    counts: Mapping[int, SessionCounts], living: Mapping[int, int], facts: Facts
) -> list[SessionRow]:
    """By the zxid of the creation; those from before come first.

    Args:
        living: by session, the ephemerals that it has at the end.
    """
    controllers, nothing = {life.session for life in facts.controllers}, SessionCounts()
    rows = (
        _row(life, counts.get(session, nothing), living.get(session, 0), session in controllers, facts)
        for session, life in facts.sessions.items()
    )
    return sorted(rows, key=lambda row: (-1 if row.from_zxid is None else row.from_zxid, row.session))


def _row(
    life: SessionLife, counts: SessionCounts, living: int, was_controller: bool, facts: Facts
) -> SessionRow:
    ended: SessionEnd = "open" if life.to_zxid is None else "expired" if life.expired else "closed"
    end_ms = facts.end_ms if life.to_ms is None else life.to_ms
    return SessionRow(
        life.session,
        server_of(life.session),
        life.timeout_ms,
        life.from_zxid,
        life.from_ms,
        life.to_zxid,
        life.to_ms,
        ended,
        counts.writes,
        None if counts.last_ms is None else max(end_ms - counts.last_ms, 0),
        living if ended == "open" else counts.lost,
        counts.created,
        members_of(facts, life.session),
        brokers_of(facts, life.session),
        was_controller,
    )
