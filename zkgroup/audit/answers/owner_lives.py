"""The lives of an owner znode: who owned a partition when, and how each ownership ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from zkgroup.audit.inputs.events import Event
from zkgroup.audit.inputs.facts import Facts
from zkgroup.audit.inputs.keys import Key
from zkgroup.znodes.consumers import Owner

EndedBy = Literal["release", "session_end", "deleted_by_other", "open"]


class OwnerLife(NamedTuple):
    """One existence of an owner znode."""

    thread: str
    """The text of the znode, what is no UTF-8 replaced."""
    session: int
    """Names who created it; 0 for one of a snapshot that is not ephemeral."""
    from_zxid: int
    from_ms: int
    to_zxid: int | None = None
    to_ms: int | None = None
    ended_by: EndedBy = "open"
    ender: int | None = None
    """The session that deleted it, or that ended."""
    is_ephemeral: bool = True
    """False for one that no session holds: `persistent_znode` reports it."""

    def is_of(self, member: str) -> bool:
        """Returns whether the text names this member."""
        return member in members_named(self.thread)


@lru_cache(maxsize=1 << 14)
def member_of_thread(thread: str) -> str | None:
    """The member that the text of an owner znode names; None where it is no thread id. Results are cached."""
    return Owner(thread).member


@lru_cache(maxsize=1 << 14)
def members_named(thread: str) -> tuple[str, ...]:
    """`Owner.members` of the text of an owner znode. Results are cached."""
    return Owner(thread).members


def thread_of(event: Event) -> str:
    """The text of an owner znode, what is no UTF-8 replaced."""
    return (event.data or b"").decode("utf-8", "replace")


class OwnerLives:
    """Sees the owner rows of one partition, in order."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.current: OwnerLife | None = None

    def see(self, event: Event) -> OwnerLife | None:
        """Takes a row in; the life that it ended, if it ended one."""
        if event.op not in ("create", "delete"):
            return None
        over = None if self.current is None else _ended(self.current, event, self._facts)
        self.current = None
        if event.op == "create":
            self.current = OwnerLife(
                thread_of(event),
                event.session,
                event.zxid,
                event.time_ms,
                is_ephemeral=event.ephemeral == "session",
            )
        return over


def owner_lives(rows: Iterable[Event], key: Key, facts: Facts) -> Iterator[OwnerLife]:
    """Every ownership of a partition, out of its owner rows in order; the last may be open."""
    lives = OwnerLives(facts)
    for event in rows:
        over = lives.see(event)
        if over is not None:
            yield over
    if lives.current is not None:
        yield lives.current


def is_session_end(facts: Facts, event: Event) -> bool:
    """Returns whether a deletion came of the end of a session, and was not asked for by itself."""
    life = facts.sessions.get(event.session)
    return event.synthetic or (life is not None and life.to_zxid == event.zxid)


def _ended(life: OwnerLife, event: Event, facts: Facts) -> OwnerLife:
    """The life, over. A create ends it only where the log has a hole: its deletion is not known."""
    if event.op == "create":
        return life._replace(to_zxid=event.zxid, to_ms=event.time_ms, ended_by="session_end")
    how: EndedBy = "deleted_by_other"
    if event.session == life.session:
        how = "session_end" if is_session_end(facts, event) else "release"
    return life._replace(to_zxid=event.zxid, to_ms=event.time_ms, ended_by=how, ender=event.session)
