"""Short forms of times and sessions in tables on a terminal; elsewhere they are whole."""

from __future__ import annotations

from collections.abc import Iterable

from zkgroup.audit.texts import session_digits

from ...audit_documents import session_text
from ...render import ELLIPSIS, Output
from ...units import iso_time

_DAY_MS = 86_400_000


class Brief:
    """The short forms of one table: the clock time of its times, the last digits of sessions.

    The dates are in a line above the table. Where its times are a day or more apart each has its date too.
    """

    def __init__(self, out: Output, times: Iterable[int | None], sessions: Iterable[int] = ()) -> None:
        """`sessions` are all that the digits have to tell apart."""
        self._out = out
        self._is_short = out.width is not None
        known = [time for time in times if time is not None] if self._is_short else []
        self._ends = (min(known), max(known)) if known else None
        self._has_dates = bool(known) and max(known) - min(known) >= _DAY_MS
        self._digits = session_digits(sessions) if self._is_short else 16

    def show_dates(self) -> None:
        """Prints the line above the table; none where times are whole, or there are none."""
        if self._ends is not None:
            days = dict.fromkeys((iso_time(time) or "")[:10] for time in self._ends)
            self._out.line(self._out.paint(f"times in UTC, {' to '.join(days)}", "dim"))

    def time(self, time_ms: int | None) -> str | None:
        """`14:03:05.123`."""
        text = iso_time(time_ms)
        if text is None or not self._is_short:
            return text
        day, clock = text[:-1].split("T")
        return f"{day} {clock}" if self._has_dates else clock

    def session(self, session: int | None) -> str | None:
        """`…07`, as titles of incidents have it."""
        text = session_text(session)
        return text if text is None or not self._is_short else ELLIPSIS + text[2:][-self._digits :]
