"""One row a session: its life, its end, its silence and its members."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from zkgroup.audit.inputs.facts import Facts, SessionLife, brokers_of, members_of, server_of

SessionEnd = Literal["closed", "expired", "open"]


class SessionRow(NamedTuple):
    """One session. Fields that are not known are None: a history may begin after a session did."""

    session: int
    server: int
    """The `myid` of the server that issued it, from its top byte, which is only a hint."""
    timeout_ms: int | None
    from_zxid: int | None
    from_ms: int | None
    to_zxid: int | None
    to_ms: int | None
    ended: SessionEnd | None
    """Exact: an expiry is a close that no client asked for. None where only snapshots show the end."""
    writes: int | None
    """The number of its transactions, refused ones too, without its end."""
    silence_ms: int | None
    """The time from its last write, or its beginning, to its end or the end of the history."""
    ephemerals: int
    """The ephemerals that were deleted at its end, or that it has at the end of the history."""
    created: int | None
    """The ephemerals that it created within the history, or had at its beginning."""
    members: tuple[tuple[str, str], ...]
    """The group and member id of its registrations."""
    brokers: tuple[str, ...]
    was_controller: bool


def session_row(
    life: SessionLife, facts: Facts, *, writes: int, last_ms: int | None, created: int, ephemerals: int
) -> SessionRow:
    """The row of a session whose last write was at `last_ms`, from the counts of it."""
    session, end_ms = life.session, facts.end_ms if life.to_ms is None else life.to_ms
    ended: SessionEnd = "open" if life.to_zxid is None else "expired" if life.expired else "closed"
    silence_ms = None if last_ms is None else max(end_ms - last_ms, 0)
    was_controller = any(each.session == session for each in facts.controllers)
    counts, names = (ephemerals, created), (members_of(facts, session), brokers_of(facts, session))
    life_of = session, server_of(session), *life[1:6], ended
    return SessionRow(*life_of, writes, silence_ms, *counts, *names, was_controller)


def by_beginning(rows: Iterable[SessionRow]) -> list[SessionRow]:
    """The sessions by the zxid of their creation; those from before the history come first."""
    return sorted(rows, key=lambda row: (-1 if row.from_zxid is None else row.from_zxid, row.session))
