"""The loggers of processes that any client can reach: bad frames neither forge lines nor fill the log.

Clients choose names, ids and metadata, and these reach messages and errors. Every logger of brokers,
coordinator and controller comes from `get_logger`, whose filter

* escapes control characters, line ends and bidirectional marks in messages and tracebacks
* passes at most `LINES_MAX` lines of a kind in `PERIOD_S`, of those that a client can cause
  (`extra=limited()`), and says in the next one how many were left out
"""

from __future__ import annotations

import logging
import threading
from typing import Final

from zkgroup.runtime.events import quoted

LINES_MAX: Final = 10
"""Lines of a kind in `PERIOD_S`."""
PERIOD_S: Final = 60.0
MESSAGE_MAX: Final = 4_000
"""Characters of a message; the middle of a longer one is left out."""
KINDS_MAX: Final = 1_000
"""Kinds of lines whose number is kept; they are texts of the source, so there are fewer."""


def get_logger(name: str) -> logging.Logger:
    """The logger of this name, with the filter of this module."""
    log = logging.getLogger(name)
    log.addFilter(PEERS)  # once, however often
    return log


def limited(kind: str = "") -> dict[str, str]:
    """The `extra` of a line that a client can cause.

    `kind`: part of its kind beside the message without its arguments.
    """
    return {"limited": kind}


class PeerFilter(logging.Filter):
    """Escapes the text of each record, and limits the number of records; see the module."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._kinds: dict[tuple[str, str, str], _LimitedLines] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Returns whether the record is passed on. It is changed where its text has to be."""
        left_out = 0
        kind: str | None = getattr(record, "limited", None)
        if kind is not None:
            with self._lock:
                key = (record.name, str(record.msg), kind)
                if key not in self._kinds and len(self._kinds) >= KINDS_MAX:
                    self._kinds.clear()
                lines = self._kinds.setdefault(key, _LimitedLines(record.created))
                if not lines.has_room(record.created):
                    return False
                left_out, lines.left_out = lines.left_out, 0
        message = record.getMessage()
        shown = quoted(message, MESSAGE_MAX)
        if left_out:
            shown += f" ({left_out} more lines like this one were left out)"
        if shown != message:
            record.msg, record.args = shown, ()
        if record.exc_info and record.exc_info[1] is not None and not str(record.exc_info[1]).isprintable():
            trace = logging.Formatter().formatException(record.exc_info)
            record.exc_text = "\n".join(f"  {quoted(line, MESSAGE_MAX)}" for line in trace.splitlines())
        return True

    def forget(self) -> None:
        """Begins to count anew, for tests."""
        with self._lock:
            self._kinds.clear()


PEERS: Final = PeerFilter()
"""The filter of all these loggers."""


class _LimitedLines:
    def __init__(self, since_s: float) -> None:
        self._since_s = since_s
        self._passed = 0
        self.left_out = 0

    def has_room(self, now_s: float) -> bool:
        """Returns whether one more line is passed; counts it."""
        if not 0 <= now_s - self._since_s < PERIOD_S:
            self._since_s, self._passed = now_s, 0
        if self._passed >= LINES_MAX:
            self.left_out += 1
            return False
        self._passed += 1
        return True
