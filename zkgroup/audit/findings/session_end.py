"""How sessions ended that took something with them, or did not mean to end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from zkgroup.audit.events import Event
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import BY_SESSION, Key
from zkgroup.audit.rules import Bounds, Finding, Rule, Screened, folded
from zkgroup.audit.texts import count_text, duration_text, only_group, who

if TYPE_CHECKING:
    from zkgroup.audit.columns.tables import Tables


class _Fold:
    def __init__(self, key: Key, facts: Facts, bounds: Bounds) -> None:
        self._session = int(key[0])
        self._facts = facts
        life = facts.sessions.get(self._session)
        self._end_zxid = life.to_zxid if life is not None else None
        self._timeout_ms = life.timeout_ms if life is not None else None
        self._last: Event | None = None
        """What the session itself wrote last."""
        self._close: Event | None = None
        self._lost = 0

    def see(self, event: Event) -> Iterable[Finding]:
        if event.op == "closeSession":
            self._close = event
        elif event.zxid == self._end_zxid:
            self._lost += event.op == "delete"
        elif not event.seed:
            self._last = event
        return ()

    def end(self) -> Iterator[Finding]:
        close = self._close
        if close is None:
            return
        expired = close.cxid == 0
        if not expired and not self._lost:
            return
        yield Finding(
            RULE.name,
            RULE.severity,
            group=only_group(self._facts, self._session),
            session=self._session,
            from_zxid=close.zxid,
            to_zxid=close.zxid,
            from_ms=close.time_ms,
            to_ms=close.time_ms,
            detail=f"{who(self._facts, self._session)} {'expired' if expired else 'closed'}"
            f"{self._silence(close)}; {count_text(self._lost, 'ephemeral')} went with it",
        )

    def _silence(self, close: Event) -> str:
        if self._last is None:
            return " without a write in this history"
        timeout = f" (timeout {duration_text(self._timeout_ms)})" if self._timeout_ms is not None else ""
        return f" {duration_text(close.time_ms - self._last.time_ms)} after its last write{timeout}"


def _screen(tables: Tables, bounds: Bounds) -> Screened:
    """Of sessions that were closed: the close, what went with it, and the last row before it."""
    s = tables.sessions
    matters = s.is_end | s.is_close
    last = s.last_of(~s.is_end & ~s.seed & ~s.is_close)
    matters[last[last >= 0]] = True
    return Screened(s.of_sessions(s.is_closed, matters))


RULE = Rule(
    name="session_end",
    severity="info",
    question="Which sessions expired, and which closed and took ephemerals with them?",
    needs=("log",),
    act="An expiry: the process died, was paused (garbage collection, a stopped machine) or was cut off for"
    " as long as its timeout. Silence well above the timeout is normal for a session that only reads.",
    keys=BY_SESSION,
    find=folded(_Fold),
    screen=_screen,
)
