"""From the end of a session to the last of its partitions being owned again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts, Life
from zkgroup.audit.keys import BY_GROUP, Key
from zkgroup.audit.rules import Bounds, Finding, Rule, Screened, folded
from zkgroup.audit.texts import count_text, duration_text, who
from zkgroup.znodes.paths import PathKind, path_kind

if TYPE_CHECKING:
    from zkgroup.audit.columns.tables import Tables

_At = tuple[str, int]


@dataclass(slots=True)
class _Ended:
    """A session that ended as an owner; partitions wait for their first next claim."""

    zxid: int
    time_ms: int
    session: int
    expired: bool
    silence_ms: int | None
    heirs_to: tuple[int | None, int]
    """Zxid and time up to which members were there to take over; None for the end of the history."""
    partitions: int = 0
    waiting: set[_At] = field(default_factory=set)
    last_claim: Event | None = None


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._group = key[0]
        self._facts = facts
        self._patience_ms = bounds["patience_ms"]
        self._known = {(life.path, life.from_zxid): life for life in facts.members.get(self._group, ())}
        self._there: dict[str, Life] = {}
        """The registrations that stand, by path."""
        self._wrote: dict[int, int] = {}
        """When a session last wrote something of the group."""
        self._ended: dict[int, _Ended] = {}
        self._waits_for: dict[_At, int] = {}
        """By partition, the session whose end it waits to be claimed after."""

    def see(self, event: Event) -> Iterator[Finding]:
        place = path_kind(event.path)
        if place.kind == "member":
            self._registered(event)
        if event.seed:
            return
        life = self._facts.sessions.get(event.session)
        is_end = life is not None and life.to_zxid == event.zxid
        if is_end and event.op == "delete" and place.kind == "owner":
            self._lost(event, place)
        elif not is_end:
            self._wrote[event.session] = event.time_ms
        if event.op == "create" and place.kind == "owner":
            yield from self._claimed(event, (place.topic, place.partition))

    def end(self) -> Iterator[Finding]:
        for ended in self._ended.values():
            if ended.last_claim is not None or ended.heirs_to[1] - ended.time_ms > self._patience_ms:
                yield self._found(ended)

    def _registered(self, event: Event) -> None:
        if event.op == "delete":
            self._there.pop(event.path, None)
        elif event.op == "create" and (life := self._known.get((event.path, event.zxid))) is not None:
            self._there[event.path] = life

    def _lost(self, event: Event, place: PathKind) -> None:
        ended = self._ended.get(event.session)
        if ended is None:
            heirs_to = self._heirs_to(event)
            if heirs_to is None:
                return
            wrote_ms = self._wrote.pop(event.session, None)
            silence_ms = None if wrote_ms is None else event.time_ms - wrote_ms
            expired = event.cxid == 0
            ended = _Ended(event.zxid, event.time_ms, event.session, expired, silence_ms, heirs_to)
            self._ended[event.session] = ended
        at = (place.topic, place.partition)
        ended.partitions += 1
        ended.waiting.add(at)
        self._waits_for[at] = event.session

    def _heirs_to(self, event: Event) -> tuple[int | None, int] | None:
        """Up to when the members that outlived this session were there; None where there were none."""
        ends = [
            (life.to_zxid, self._facts.end_ms if life.to_ms is None else life.to_ms)
            for life in self._there.values()
            if life.to_zxid is None or life.to_zxid > event.zxid
        ]
        return max(ends, key=lambda end: (end[0] is None, end[0] or 0), default=None)

    def _claimed(self, event: Event, at: _At) -> Iterator[Finding]:
        session = self._waits_for.pop(at, None)
        if session is None:
            return
        ended = self._ended[session]
        ended.waiting.discard(at)
        ended.last_claim = event
        if not ended.waiting:
            yield self._found(ended)
            del self._ended[session]

    def _found(self, ended: _Ended) -> Finding:
        claim = ended.last_claim
        silence = "" if ended.silence_ms is None else f" after {duration_text(ended.silence_ms)} of silence"
        how = "expired" if ended.expired else "closed"
        if claim is None:
            then = f"none of them was claimed again in {duration_text(ended.heirs_to[1] - ended.time_ms)}"
        else:
            took = duration_text(claim.time_ms - ended.time_ms)
            left = f", {len(ended.waiting)} never" if ended.waiting else ""
            then = f"the last was claimed again {took} later{left}"
        to_zxid, to_ms = ended.heirs_to
        if claim is not None and not ended.waiting:
            to_zxid, to_ms = claim.zxid, claim.time_ms
        return Finding(
            RULE.name,
            RULE.severity,
            group=self._group,
            session=ended.session,
            from_zxid=ended.zxid,
            to_zxid=to_zxid,
            from_ms=ended.time_ms,
            to_ms=None if to_zxid is None else to_ms,
            detail=f"{who(self._facts, ended.session, self._group)} {how}{silence} with"
            f" {count_text(ended.partitions, 'partition')}; {then}",
        )


def _screen(tables: Tables, bounds: Bounds) -> Screened:
    """Rows of members and owners, and the last that a session that ended wrote in each group before."""
    from zkgroup.audit.columns.groups import is_kind, last_before_the_end

    groups = tables.groups
    matters = is_kind(tables.columns, groups.rows, "member", "owner", "group")
    matters[last_before_the_end(tables, groups)] = True
    return Screened(groups.where(matters))


RULE = Rule(
    name="handover_time",
    severity="info",
    question="When a member's session ended, how long did its partitions stand before others had all of"
    " them?",
    needs=("log",),
    act="Before the end lies the session timeout, if it expired; behind it the rebalance of the others. A"
    " long rebalance: check failed_claims and JVM members that wait between their attempts.",
    keys=BY_GROUP,
    find=folded(_Fold),
    bounds={"patience_ms": 10_000},
    screen=_screen,
)
