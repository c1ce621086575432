"""Texts for people and documents: lists, counts, times, durations, sessions.

Text of others is made harmless for a terminal, a log or a spreadsheet.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache


def escaped(text: str, keep: str = "") -> str:
    """The text with Python's escapes in place of what is not printable: `\\x1b`, `\\n`, `\\u202e`.

    That is control characters, line ends, marks of the writing direction and lone surrogates: a terminal acts
    on some of them, and others forge a line. `keep` are characters that stay.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep else each.encode("unicode_escape").decode("ascii")
        for each in text
    )


_SIGN = "=+@\uff1d\uff0b\uff0d\uff20-"
_FORMULA = re.compile(f"'*[{_SIGN}]")
_NUMBER = re.compile(r"-\d+(\.\d+)?", re.ASCII)


def csv_cell(text: str) -> str:
    """The text with `'` before it where a spreadsheet would take it for a formula (OWASP, "CSV Injection").

    Negative numbers stay. `csv_text` is the inverse.
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def csv_text(cell: str) -> str:
    """The text of a cell that `csv_cell` has made."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def typed(command: str, *names: str, options: str = "") -> str:
    """A command to type; `--` keeps names that begin with `-` from being taken for options."""
    words = shlex.join(names)
    if any(name.startswith("-") for name in names):
        return " ".join(filter(None, ("zkgroup", command, options, "--", words)))
    return " ".join(filter(None, ("zkgroup", command, words, options)))


NAMED = 5
"""One message names this many of several things."""


def named(things: Iterable[object], most: int = NAMED, separator: str = ", ") -> str:
    """`orders-0, orders-1 and 48 more`; empty for none."""
    texts = [str(thing) for thing in things]
    rest = len(texts) - most
    return separator.join(texts[:most]) + (f" and {rest} more" if rest > 0 else "")


def iso_time(epoch_ms: int | None) -> str | None:
    """ISO-8601 UTC with milliseconds; None for no time, and for one that no calendar has."""
    if epoch_ms is None or (text := _second_text(epoch_ms // 1000)) is None:
        return None
    return f"{text}.{epoch_ms % 1000:03d}Z"


@lru_cache(maxsize=1 << 12)
def _second_text(epoch_s: int) -> str | None:
    """A second. Results are cached: a document has a time or two in each row, many of the same second."""
    try:
        moment = datetime.fromtimestamp(epoch_s, UTC)
    except (OverflowError, OSError, ValueError):
        return None
    return moment.isoformat()[:19]  # strftime would take four times as long


def time_text(epoch_ms: int) -> str:
    """The same for an error; milliseconds where no calendar has the time."""
    return iso_time(epoch_ms) or f"{epoch_ms} ms since 1970"


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number with its noun: `1 commit`, `2 commits`."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def session_digits(sessions: Iterable[int]) -> int:
    """The number of last digits, two or more, that differ between all these sessions."""
    texts = {hex_session(session) for session in sessions}
    return next((n for n in range(2, 17) if len({text[-n:] for text in texts}) == len(texts)), 16)


def duration_text(ms: int) -> str:
    """A duration in the unit that leaves one to three digits; below 0, after a step of the clock, is 0."""
    ms = max(ms, 0)
    if ms < 1_000:
        return f"{ms} ms"
    for size, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min")):
        if ms >= 2 * size:
            return f"{ms / size:.1f} {unit}"
    return f"{ms / 1_000:.1f} s"


def hex_session(session_id: int) -> str:
    """A session id as ZooKeeper's own tools print it."""
    return f"0x{session_id & 0xFFFF_FFFF_FFFF_FFFF:x}"


def hex_zxid(zxid: int | None) -> str | None:
    """As ZooKeeper's own tools write it."""
    return None if zxid is None else f"0x{zxid:x}"
