"""Two owners of one partition: the former owner still commits after the new one has claimed.

The former owner lost its claim to a deletion by another session or to an expiry. It is identified by its
session, or by its member id in the next session. One row for each pair of owners, from the claim to the
last such commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import BY_GROUP_PARTITION, Key
from zkgroup.audit.membership import member_of
from zkgroup.audit.owner_lives import OwnerLife, OwnerLives
from zkgroup.audit.partition_offsets import PartitionOffsets
from zkgroup.audit.rules import Bounds, Finding, Rule, Screened, folded
from zkgroup.audit.texts import duration_text, session_text

if TYPE_CHECKING:
    from zkgroup.audit.columns.tables import Tables

NAME = "double_ownership"


@dataclass(slots=True)
class _Overlap:
    old: OwnerLife
    new: OwnerLife
    session: int
    """That the old owner commits in."""
    to_zxid: int
    to_ms: int
    commits: int


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._group, self._topic, self._partition = key[0], key[1], int(key[2])
        self._facts = facts
        self._lives = OwnerLives(facts)
        self._offsets = PartitionOffsets(self._group, facts)
        self._put_out: dict[str, OwnerLife] = {}
        """Who lost the partition without releasing it, and has not had it since."""
        self._overlaps: dict[str, _Overlap] = {}
        self._names: dict[int, str] | None = None

    def see(self, event: Event) -> Iterator[Finding]:
        over = self._lives.see(event)
        write = self._offsets.see(event)
        current = self._lives.current
        if over is not None:
            yield from self._flush()
            if self._lost_it(over):
                self._put_out[self._who(over.session)] = over
        if current is not None and current.from_zxid == event.zxid:
            self._put_out.pop(self._who(current.session), None)
        if write is not None and write.is_commit and current is not None:
            self._committed(event, current)

    def end(self) -> Iterator[Finding]:
        yield from self._flush()

    def _lost_it(self, life: OwnerLife) -> bool:
        if life.ended_by == "deleted_by_other":
            return True
        session = self._facts.sessions.get(life.session)
        return life.ended_by == "session_end" and session is not None and session.expired is True

    def _committed(self, event: Event, current: OwnerLife) -> None:
        who = self._who(event.session)
        old = self._put_out.get(who)
        if old is None:
            return
        overlap = self._overlaps.get(who)
        if overlap is None:
            overlap = _Overlap(old, current, event.session, 0, 0, 0)
            self._overlaps[who] = overlap
        overlap.to_zxid, overlap.to_ms = event.zxid, event.time_ms
        overlap.commits += 1

    def _flush(self) -> Iterator[Finding]:
        """The ownership against which they were is over."""
        for each in self._overlaps.values():
            ms = each.to_ms - each.new.from_ms
            times = "once" if each.commits == 1 else f"{each.commits} times"
            yield Finding(
                NAME,
                "error",
                self._group,
                self._topic,
                self._partition,
                each.session,
                each.new.from_zxid,
                each.to_zxid,
                each.new.from_ms,
                each.to_ms,
                f"{each.old.thread!r} committed {times}, up to {duration_text(ms)} after"
                f" {each.new.thread!r} of session {session_text(each.new.session)} had claimed",
            )
        self._overlaps.clear()

    def _who(self, session: int) -> str:
        """The member behind a session, so that it is known again in its next one; else the session."""
        if self._names is None:
            self._names = {}
            for life in self._facts.members.get(self._group, ()):
                name = member_of(life)
                # Of members that share a client the files do not show which one wrote.
                is_shared = self._names.get(life.session, name) != name
                self._names[life.session] = session_text(life.session) if is_shared else name
        return self._names.get(session, session_text(session))


def _screen(tables: Tables, bounds: Bounds) -> Screened:
    """Partitions with a commit while another session owned them."""
    p = tables.partitions
    return Screened(p.keys_with(p.is_commit & (p.holder >= 0) & ~p.by_holder))


RULE = Rule(
    name=NAME,
    severity="error",
    question="Did two members act on one partition at the same time?",
    needs=("log",),
    act=(
        "Records in that time may have been processed twice, and the offset may have gone back. A JVM"
        " member that was paused or lost its claim does not notice: restart it, and find the pause or the"
        " session that deleted the claim (claim_stolen). Members of zkgroup are fenced and never do this."
    ),
    keys=BY_GROUP_PARTITION,
    find=folded(_Fold),
    screen=_screen,
)
