"""A claim that outlived the registration of its member: orphan_owner through time.

What goes in one transaction, as at the end of a session, has not outlived anything. Info while it stands at
the end of the history for less than `grace_ms`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import BY_OWNED_PARTITION, Key
from zkgroup.audit.membership import Span, gaps, lives_by_session, member_of, merged
from zkgroup.audit.owner_lives import OwnerLife, OwnerLives
from zkgroup.audit.rules import Bounds, Finding, Rule, Screened, folded
from zkgroup.audit.texts import duration_text

if TYPE_CHECKING:
    from zkgroup.audit.columns.tables import Tables

NAME = "orphan_owner_interval"


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._group, self._topic, self._partition = key[0], key[1], int(key[2])
        self._facts = facts
        self._grace_ms = bounds["grace_ms"]
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
        """A claim that never had a registration of its session is owner_session_mismatch."""
        registered = merged(
            Span(life.from_zxid, life.from_ms, life.to_zxid, life.to_ms)
            for life in self._members.get(owner.session, ())
            if member_of(life) == owner.member
        )
        owned = Span(owner.from_zxid, owner.from_ms, owner.to_zxid, owner.to_ms)
        for gap in gaps(owned, registered):
            ms = gap.ms(self._facts)
            yield Finding(
                NAME,
                "error" if gap.to_zxid is not None or ms > self._grace_ms else "info",
                self._group,
                self._topic,
                self._partition,
                owner.session,
                gap.from_zxid,
                gap.to_zxid,
                gap.from_ms,
                gap.to_ms,
                f"owner {owner.thread!r} stood for {duration_text(ms)} after the registration of its member",
            )


def _screen(tables: Tables, bounds: Bounds) -> Screened:
    """Partitions with a claim that is not within one registration of its member."""
    owners = tables.owners
    return Screened(owners.keys_with(~owners.is_registered))


RULE = Rule(
    name=NAME,
    severity="error",
    question="Did a claim outlive the registration of its member?",
    needs=("log",),
    act=(
        "Until the claim went, the others could not take the partition over. Members of zkgroup and of the"
        " JVM never leave that way: find the tool that deletes below `ids`, or another client library."
    ),
    keys=BY_OWNED_PARTITION,
    find=folded(_Fold),
    bounds={"grace_ms": 10_000},
    screen=_screen,
)
