"""Sessions that live on without doing anything.

Each is reported with the server that issued it, and how many sessions of that server live: a leak is often
one client's, and a client stays with a server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import BY_SESSION, Key
from zkgroup.audit.rules import Bounds, Finding, Rule, Screened, folded
from zkgroup.audit.texts import count_text, duration_text, server_of, session_text

if TYPE_CHECKING:
    from zkgroup.audit.columns.tables import Tables


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._session = int(key[0])
        self._facts = facts
        self._idle_ms = bounds["idle_ms"]
        self._ephemerals: set[str] = set()
        self._last: Event | None = None
        self._is_over = False

    def see(self, event: Event) -> Iterable[Finding]:
        if event.op == "closeSession":
            self._is_over = True
        elif event.op == "create" and event.ephemeral == "session" and event.applied:
            self._ephemerals.add(event.path)
        elif event.op == "delete" and event.applied:
            self._ephemerals.discard(event.path)
        if not event.seed:
            self._last = event
        return ()

    def end(self) -> Iterator[Finding]:
        facts, last = self._facts, self._last
        if self._is_over or self._ephemerals or not facts.has_log:
            return
        zxid, since_ms = (facts.start_zxid, facts.start_ms) if last is None else (last.zxid, last.time_ms)
        idle_ms = facts.end_ms - since_ms
        if idle_ms <= self._idle_ms:
            return
        server = server_of(self._session)
        of_server = count_text(facts.open_by_server.get(server, 0), "open session")
        yield Finding(
            RULE.name,
            RULE.severity,
            session=self._session,
            from_zxid=zxid,
            from_ms=since_ms,
            detail=f"session {session_text(self._session)}, issued by server {server} ({of_server} of it),"
            f" has no ephemeral and wrote nothing for {duration_text(idle_ms)}"
            f"{' at least' if last is None else ''}",
        )


def _screen(tables: Tables, bounds: Bounds) -> Screened:
    """Sessions that are open, and silent for long."""
    s = tables.sessions
    return Screened(s.of_sessions(~s.is_closed & s.silent_for(bounds["idle_ms"])))


RULE = Rule(
    name="session_leak",
    severity="warning",
    question="Which sessions are kept alive for days without an ephemeral and without a write?",
    needs=("snapshot", "log"),
    act="A client that only reads has such a session and is fine. Many of them are clients that open sessions"
    " and never close them: `cons` of each server's four-letter commands names their addresses.",
    keys=BY_SESSION,
    find=folded(_Fold),
    bounds={"idle_ms": 3 * 86_400_000},
    screen=_screen,
)
