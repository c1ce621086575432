"""Many in a short time: one row for each time that it was so, however long it lasted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from zkgroup.audit.inputs.events import Event


class Occurrence(NamedTuple):
    zxid: int
    time_ms: int


class FullWindow(NamedTuple):
    """A time in which every window had enough of them, from the first to the last."""

    first: Occurrence
    last: Occurrence
    times: int


class SlidingWindow:
    """Counts events in a sliding window; remembers no more of them than are enough."""

    def __init__(self, enough: int, window_ms: float) -> None:
        self._recent: deque[Occurrence] = deque(maxlen=max(enough, 1))
        self._window_ms = window_ms
        self._open: FullWindow | None = None

    def add(self, event: Event) -> FullWindow | None:
        """One more; the full window that this one is too late for, if there was one."""
        return self.add_at(event.zxid, event.time_ms)

    def add_at(self, zxid: int, time_ms: int) -> FullWindow | None:
        now, over = Occurrence(zxid, time_ms), None
        if self._open is not None and time_ms - self._open.last.time_ms > self._window_ms:
            over = self.end()
        self._recent.append(now)
        first = self._recent[0]
        if len(self._recent) == self._recent.maxlen and time_ms - first.time_ms <= self._window_ms:
            times = len(self._recent) if self._open is None else self._open.times + 1
            self._open = FullWindow(first if self._open is None else self._open.first, now, times)
        elif self._open is not None:
            over = self.end()
            self._recent.append(now)
        return over

    def end(self) -> FullWindow | None:
        """The full window that is open, now over."""
        over, self._open = self._open, None
        self._recent.clear()
        return over


def full_windows(events: Iterable[Event], enough: int, window_ms: float) -> Iterator[FullWindow]:
    """The times in which rows were many: `enough` of them within every window."""
    window = SlidingWindow(enough, window_ms)
    for event in events:
        full = window.add(event)
        if full is not None:
            yield full
    last = window.end()
    if last is not None:
        yield last
