"""Moments, sessions and ownerships as the commands of the audit and its demo show them.

On a terminal times and sessions in tables are short; elsewhere they are whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from zkgroup.audit.answers.partitions import OwnerLife
from zkgroup.audit.inputs.found_files import SkippedFile
from zkgroup.model.text import hex_session, hex_zxid, iso_time, session_digits

from .render import ELLIPSIS, Output
from .schema import COUNT, SESSION, TIME, Document, JsonKey, KeyColumn, Shape, T, given, nullable

_DAY_MS = 86_400_000
_OWNER_STYLES = {"deleted_by_other": "bad", "session_end": "warn", "open": "good"}


@dataclass(frozen=True, slots=True)
class LastTransaction:
    """The last transaction that was read; the time is None where there is none."""

    zxid: int
    time_ms: int | None

    @classmethod
    def of(cls, zxid: int | None, time_ms: int | None) -> LastTransaction:
        """`zxid` may be None or -1 where there is no transaction."""
        return cls(max(zxid or 0, 0), time_ms)


LAST_TRANSACTION = Shape(LastTransaction)
SKIPPED_FILE = Shape(SkippedFile)


def document(name: str, shape: Shape[T], *, rows: str | None = None) -> Document[T]:
    """A document of the audit: of the last transaction that was read."""
    return Document(f"audit_{name}", shape, LAST_TRANSACTION, rows=rows)


def session_text(session: int | None) -> str | None:
    """As ZooKeeper's own tools write it; None for None and 0, which stand for no session."""
    return hex_session(session) if session else None


# A session of 0 is unknown there: a snapshot does not name the writer.
SESSION_KEY = JsonKey("session", nullable(SESSION), lambda row: session_text(row.session))
SPAN = (
    given("from_zxid", nullable(COUNT)),
    "to_zxid",
    JsonKey("from", nullable(TIME), lambda row: iso_time(row.from_ms)),
    "to_ms",
)


def life_columns(life: Callable[[Any], OwnerLife]) -> Sequence[str | KeyColumn]:
    """Those of an ownership, which `life` takes from a row."""
    return (
        KeyColumn("from", at=lambda row, brief: brief.time(life(row).from_ms)),
        KeyColumn("to", at=lambda row, brief: brief.time(life(row).to_ms)),
        KeyColumn("owner", shorten="middle", least=8),
        KeyColumn("ended_by", styles=_OWNER_STYLES, shorten="wrap", least=11),
        KeyColumn("from_zxid", cell=lambda row: hex_zxid(life(row).from_zxid), rank=2),
        KeyColumn("to_zxid", cell=lambda row: hex_zxid(life(row).to_zxid), rank=3),
        KeyColumn("session", at=lambda row, brief: brief.session(life(row).session), right=True, rank=1),
    )


OWNER = Shape(
    OwnerLife,
    *("owner=thread", SESSION_KEY, *SPAN, "ended_by"),
    columns=life_columns(lambda life: life),
)


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
