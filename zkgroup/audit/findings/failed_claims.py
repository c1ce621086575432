"""Members that fail to create owner znodes again and again, because other owners have them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from zkgroup.audit.events import SINGLE, Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import BY_SESSION, Key
from zkgroup.audit.rules import Bounds, Finding, Rule, Screened, folded
from zkgroup.audit.sliding_window import Burst, SlidingWindow
from zkgroup.audit.texts import duration_text, members_of, only_group, who

if TYPE_CHECKING:
    from zkgroup.audit.columns.tables import Tables

_NO_NODE = -101
_NODE_EXISTS = -110
_MINUTE_MS = 60_000


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._session = int(key[0])
        self._facts = facts
        self._window = SlidingWindow(int(bounds["per_minute"]), _MINUTE_MS)
        self._previous: Event | None = None

    def see(self, event: Event) -> Iterator[Finding]:
        if self._is_contention(event):
            yield from self._found(self._window.add(event))
        self._previous = event

    def end(self) -> Iterator[Finding]:
        yield from self._found(self._window.end())

    def _is_contention(self, event: Event) -> bool:
        """Whether a request failed because a znode was there, and it was not a parent.

        A create below a missing parent fails, and a JVM client then creates the parents one by one, those
        that exist too: a refusal right behind a missing node is such a parent. Of a failed multi the first
        specific error is the cause; those after it only mean that they were not tried.
        """
        if event.op != "error" or event.error != _NODE_EXISTS:
            return False
        before = self._previous
        if event.sub == SINGLE and before is not None:
            is_parent = before.error == _NO_NODE and before.sub == SINGLE and before.cxid + 1 == event.cxid
            if is_parent:
                return False
        return True

    def _found(self, burst: Burst | None) -> Iterator[Finding]:
        if burst is None or not members_of(self._facts, self._session):
            return
        yield Finding(
            RULE.name,
            RULE.severity,
            group=only_group(self._facts, self._session),
            session=self._session,
            from_zxid=burst.first.zxid,
            to_zxid=burst.last.zxid,
            from_ms=burst.first.time_ms,
            to_ms=burst.last.time_ms,
            detail=f"{burst.times} requests of {who(self._facts, self._session)} failed in"
            f" {duration_text(burst.last.time_ms - burst.first.time_ms)} because the znode existed",
        )


def _screen(tables: Tables, bounds: Bounds) -> Screened:
    """Sessions with enough refusals."""
    s = tables.sessions
    return Screened(s.of_sessions(s.counts(s.is_contention) >= max(int(bounds["per_minute"]), 1)))


RULE = Rule(
    name="failed_claims",
    severity="warning",
    question="Which members kept running into owner znodes of others?",
    needs=("log",),
    act="The log does not say which znode it was. `audit owners` shows who held the group's partitions then:"
    " an owner of another group that stays, or members that do not agree about the assignment.",
    keys=BY_SESSION,
    find=folded(_Fold),
    bounds={"per_minute": 10},
    screen=_screen,
)
