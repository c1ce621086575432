"""An owner znode at the end of the history whose member is not registered.

An error once it has stood so for `grace_ms`, info before: a member may be on its way out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import BY_OWNED_PARTITION, Key
from zkgroup.audit.membership import member_of
from zkgroup.audit.owner_lives import OwnerLife, OwnerLives
from zkgroup.audit.rules import Bounds, Finding, Rule, Screened, folded
from zkgroup.audit.texts import duration_text, session_text

if TYPE_CHECKING:
    from zkgroup.audit.columns.tables import Tables

NAME = "orphan_owner"


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._group, self._topic, self._partition = key[0], key[1], int(key[2])
        self._facts = facts
        self._grace_ms = bounds["grace_ms"]
        self._lives = OwnerLives(facts)

    def see(self, event: Event) -> Iterator[Finding]:
        self._lives.see(event)
        yield from ()

    def end(self) -> Iterator[Finding]:
        life = self._lives.current
        if life is None or not is_known(self._facts, life.session):
            return
        lives = [m for m in self._facts.members.get(self._group, ()) if member_of(m) == life.member]
        if any(member.to_zxid is None for member in lives):
            return
        since_zxid, since_ms = life.from_zxid, life.from_ms
        if lives and (lives[-1].to_zxid or 0) > since_zxid:
            since_zxid, since_ms = lives[-1].to_zxid or 0, lives[-1].to_ms or 0
        ms = self._facts.end_ms - since_ms
        yield Finding(
            NAME,
            "error" if ms > self._grace_ms else "info",
            self._group,
            self._topic,
            self._partition,
            life.session,
            since_zxid,
            None,
            since_ms,
            None,
            _detail(life, ms),
        )


def is_known(facts: Facts, session: int) -> bool:
    """Whether everything that a session ever made is in the history or in its seeds."""
    life = facts.sessions.get(session)
    return facts.is_whole or (life is not None and life.from_zxid is not None)


def _detail(life: OwnerLife, ms: int) -> str:
    return (
        f"owner {life.thread!r} of session {session_text(life.session)} stands without a registration"
        f" of its member, for {duration_text(ms)} at the end"
    )


def _screen(tables: Tables, bounds: Bounds) -> Screened:
    """Partitions owned at the end by a member that is not registered then."""
    owners = tables.owners
    return Screened(owners.keys_with(owners.is_open & owners.is_without_member))


RULE = Rule(
    name=NAME,
    severity="error",
    question="Is there an owner whose member is not registered?",
    needs=("snapshot",),
    act=(
        "Nobody consumes the partition, and no other member can claim it. Find out who holds that session"
        " (`audit sessions`) and end that process; the znode is deleted with its session."
    ),
    keys=BY_OWNED_PARTITION,
    find=folded(_Fold),
    bounds={"grace_ms": 10_000},
    screen=_screen,
)
