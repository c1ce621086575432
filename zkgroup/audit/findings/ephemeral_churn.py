"""Sessions that make and drop ephemerals all the time, or live for moments only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import BY_SESSION, Key
from zkgroup.audit.rules import Bounds, Finding, Rule, Screened, folded
from zkgroup.audit.sliding_window import Burst, SlidingWindow
from zkgroup.audit.texts import count_text, duration_text, only_group, who

if TYPE_CHECKING:
    from zkgroup.audit.columns.tables import Tables

_HOUR_MS = 3_600_000


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._session = int(key[0])
        self._facts = facts
        self._short_ms = bounds["short_ms"]
        self._window = SlidingWindow(int(bounds["per_hour"]), _HOUR_MS)
        self._mine: set[str] = set()
        """Ephemerals of this session; those that others delete stay in it."""
        self._made = 0

    def see(self, event: Event) -> Iterator[Finding]:
        if event.seed or not event.applied:
            return
        if event.op == "create" and event.ephemeral == "session":
            self._mine.add(event.path)
            self._made += 1
            yield from self._churn(self._window.add(event))
        elif event.op == "delete" and event.path in self._mine:
            self._mine.discard(event.path)
            yield from self._churn(self._window.add(event))

    def end(self) -> Iterator[Finding]:
        yield from self._churn(self._window.end())
        life = self._facts.sessions.get(self._session)
        if not self._made or life is None or life.from_ms is None or life.to_ms is None:
            return
        if life.to_ms - life.from_ms < self._short_ms:
            yield Finding(
                RULE.name,
                "info",
                group=only_group(self._facts, self._session),
                session=self._session,
                from_zxid=life.from_zxid,
                to_zxid=life.to_zxid,
                from_ms=life.from_ms,
                to_ms=life.to_ms,
                detail=f"{who(self._facts, self._session)} lived for"
                f" {duration_text(life.to_ms - life.from_ms)} and made {count_text(self._made, 'ephemeral')}",
            )

    def _churn(self, burst: Burst | None) -> Iterator[Finding]:
        if burst is None:
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
            detail=f"{who(self._facts, self._session)} created and deleted ephemerals {burst.times} times in"
            f" {duration_text(burst.last.time_ms - burst.first.time_ms)}",
        )


def _screen(tables: Tables, bounds: Bounds) -> Screened:
    """The rows of ephemerals, of sessions with many of them or a short life."""
    s = tables.sessions
    matters = s.is_of_ephemerals
    busy = s.counts(matters) >= int(bounds["per_hour"])
    return Screened(s.of_sessions(busy | s.shorter_than(bounds["short_ms"]), matters))


RULE = Rule(
    name="ephemeral_churn",
    severity="warning",
    question="Which sessions create and delete ephemerals all the time, and which that had some lived for"
    " less than a minute?",
    needs=("log",),
    act="Each of these is a write for every server, and most fire watches. Look for rebalances that do not"
    " end (rebalance_storm) and for clients that open a session for each thing they do.",
    keys=BY_SESSION,
    find=folded(_Fold),
    bounds={"per_hour": 3_600, "short_ms": 60_000},
    screen=_screen,
)
