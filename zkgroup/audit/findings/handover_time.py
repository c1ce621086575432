"""From the end of a session to the last of its partitions being owned again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keyings import BY_GROUP
from zkgroup.audit.rules import Bounds, Finding, Key, Rule
from zkgroup.audit.words import count_text, duration_text, who
from zkgroup.znodes.places import Place, place_of

_At = tuple[str, int]


@dataclass(slots=True)
class _Ended:
    """A session that ended as an owner; partitions wait for their first next claim."""

    zxid: int
    time_ms: int
    session: int
    expired: bool
    silence_ms: int | None
    partitions: int = 0
    waiting: set[_At] = field(default_factory=set)
    last_claim: Event | None = None


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._group = key[0]
        self._facts = facts
        self._wrote: dict[int, int] = {}
        """When a session last wrote something of the group."""
        self._ended: dict[int, _Ended] = {}
        self._waits_for: dict[_At, int] = {}
        """By partition, the session whose end it waits to be claimed after."""

    def see(self, event: Event) -> Iterator[Finding]:
        if event.seed:
            return
        life = self._facts.sessions.get(event.session)
        is_end = life is not None and life.to_zxid == event.zxid
        place = place_of(event.path)
        if is_end and event.op == "delete" and place.kind == "owner":
            self._lost(event, place)
        elif not is_end:
            self._wrote[event.session] = event.time_ms
        if event.op == "create" and place.kind == "owner":
            yield from self._claimed(event, (place.topic, place.partition))

    def end(self) -> Iterator[Finding]:
        for ended in self._ended.values():
            if ended.waiting:
                yield self._found(ended)

    def _lost(self, event: Event, place: Place) -> None:
        ended = self._ended.get(event.session)
        if ended is None:
            if not self._has_heirs(event):
                return
            wrote_ms = self._wrote.pop(event.session, None)
            silence_ms = None if wrote_ms is None else event.time_ms - wrote_ms
            ended = _Ended(event.zxid, event.time_ms, event.session, event.cxid == 0, silence_ms)
            self._ended[event.session] = ended
        at = (place.topic, place.partition)
        ended.partitions += 1
        ended.waiting.add(at)
        self._waits_for[at] = event.session

    def _has_heirs(self, event: Event) -> bool:
        """Whether another session had a member in the group when this one ended."""
        return any(
            life.session != event.session
            and life.from_zxid < event.zxid
            and (life.to_zxid is None or life.to_zxid > event.zxid)
            for life in self._facts.members.get(self._group, ())
        )

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
            then = "none of them was claimed again"
        else:
            took = duration_text(claim.time_ms - ended.time_ms)
            left = f", {len(ended.waiting)} never" if ended.waiting else ""
            then = f"the last was claimed again {took} later{left}"
        return Finding(
            RULE.name,
            RULE.severity,
            group=self._group,
            session=ended.session,
            from_zxid=ended.zxid,
            to_zxid=None if ended.waiting or claim is None else claim.zxid,
            from_ms=ended.time_ms,
            to_ms=None if ended.waiting or claim is None else claim.time_ms,
            detail=f"{who(self._facts, ended.session, self._group)} {how}{silence} with"
            f" {count_text(ended.partitions, 'partition')}; {then}",
        )


RULE = Rule(
    name="handover_time",
    severity="info",
    question="When a member's session ended, how long did its partitions stand before others had all of"
    " them?",
    needs=("log",),
    act="Before the end lies the session timeout, if it expired; behind it the rebalance of the others. A"
    " long rebalance: look for failed_claims and for JVM members that wait between their attempts.",
    keying=BY_GROUP,
    fold=_Fold,
)
