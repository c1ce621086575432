"""Events on stdout as they come: NDJSON for programs, a line each for people."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from .output import Output
from .units import iso_time


class EventLines:
    """Writes events whole and in order, from whichever thread they come."""

    STYLES: Mapping[str, str] = {}
    """Style of an event's name, for people."""
    WIDTH = 9
    """Of the column of names."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._gone: BrokenPipeError | None = None
        self.when_gone: Callable[[], None] = lambda: None
        """Called when nobody reads the events any more; must not wait."""

    def check(self) -> None:
        """Raises BrokenPipeError where nobody reads the events any more."""
        if self._gone is not None:
            raise self._gone

    def print(self, event: str, fields: Mapping[str, Any], told: str) -> None:
        """One event: its fields for programs, `told` for people."""
        now = iso_time(time.time_ns() // 1_000_000)
        assert now is not None
        with self._lock:
            if self._gone is not None:
                return
            try:
                self._write(event, now, fields, told)
            except BrokenPipeError as error:  # `| head`: who serves leaves, and nothing failed
                self._gone = error
                self.when_gone()

    def _write(self, event: str, now: str, fields: Mapping[str, Any], told: str) -> None:
        if not self._out.is_table:
            self._out.event({"event": event, "time": now, **fields})
            return
        label = f"{event:<{self.WIDTH}}"
        label = self._out.paint(label, self.STYLES[event]) if event in self.STYLES else label
        self._out.line(f"{self._out.paint(now[11:23], 'dim')}  {label} {told}")
