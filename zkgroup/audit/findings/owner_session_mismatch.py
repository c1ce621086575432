"""A claim by a session that is not the one in which its member is registered.

Judged at the claim, by session and name together: members that share a client share its session. Of an
owner in a snapshot only that snapshot is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts, Life
from zkgroup.audit.findings.orphan_owner import is_known
from zkgroup.audit.keys import BY_OWNED_PARTITION, Key
from zkgroup.audit.membership import is_alive, lives_by_session, member_of
from zkgroup.audit.owner_lives import OwnerLife, OwnerLives
from zkgroup.audit.rules import Bounds, Finding, Rule, Screened, folded
from zkgroup.audit.texts import session_text

if TYPE_CHECKING:
    from zkgroup.audit.columns.tables import Tables

NAME = "owner_session_mismatch"


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._group, self._topic, self._partition = key[0], key[1], int(key[2])
        self._facts = facts
        self._lives = OwnerLives(facts)
        self._members = lives_by_session(facts, self._group)

    def see(self, event: Event) -> Iterator[Finding]:
        over = self._lives.see(event)
        if over is not None:
            yield from self._judge(over)

    def end(self) -> Iterator[Finding]:
        if self._lives.current is not None:
            yield from self._judge(self._lives.current)

    def _judge(self, owner: OwnerLife) -> Iterator[Finding]:
        mine = self._members.get(owner.session, ())
        if any(member_of(life) == owner.member and self._stood(life, owner) for life in mine):
            return
        if not is_known(self._facts, owner.session):
            return
        there = [m for m in self._facts.members.get(self._group, ()) if self._stood(m, owner)]
        named = [life for life in there if member_of(life) == owner.member]
        yield Finding(
            NAME,
            "error",
            self._group,
            self._topic,
            self._partition,
            owner.session,
            owner.from_zxid,
            owner.to_zxid,
            owner.from_ms,
            owner.to_ms,
            _detail(owner, there, named),
        )

    def _stood(self, member: Life, owner: OwnerLife) -> bool:
        """Whether a member was registered at the claim; for one of a snapshot, in that snapshot."""
        start = self._facts.start_zxid if self._facts.has_log else self._facts.end_zxid + 1
        if owner.from_zxid < start:
            return member.from_zxid < start
        return is_alive(member, owner.from_zxid)


def _detail(owner: OwnerLife, there: list[Life], named: list[Life]) -> str:
    claim = f"{owner.thread!r} was claimed by session {session_text(owner.session)}"
    if not owner.session:
        claim = f"owner {owner.thread!r} is not ephemeral"
    if named:
        return f"{claim}, but {member_of(named[-1])} is registered in {session_text(named[-1].session)}"
    mine = sorted({member_of(life) for life in there if life.session == owner.session})
    if mine:
        return f"{claim}, which is registered as {', '.join(mine)}"
    return f"{claim}, which is no member of the group"


def _screen(tables: Tables, bounds: Bounds) -> Screened:
    """Partitions with a claim that is not within one registration of its member."""
    owners = tables.owners
    return Screened(owners.keys_with(~owners.is_registered))


RULE = Rule(
    name=NAME,
    severity="error",
    question="Was a partition claimed by a session that its member is not registered in?",
    needs=("snapshot",),
    act=(
        "A JVM member takes an owner with its own name for its own, whatever session holds it, and consumes"
        " unowned once that session ends. Find the client behind the session, and restart the member."
    ),
    keys=BY_OWNED_PARTITION,
    find=folded(_Fold),
    screen=_screen,
)
