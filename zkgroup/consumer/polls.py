"""Whether the application still polls (`max_poll_interval_ms`).

Its threads begin and end polls, the member's thread looks. There is no moment between a look and what
follows from it: each side writes first and then reads what the other one wrote, so that of a poll and a
look at the same time at least one knows of the other.
"""

from __future__ import annotations

import threading


class Polls:
    """The polls under way, and the time since the last one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way = 0
        self._last_ms = 0
        self.is_overdue = False
        """The member has left the group because nobody polls."""

    def start(self, now_ms: int) -> None:
        """The member joins: the first poll is due an interval later."""
        self._last_ms = now_ms

    def begin(self) -> bool:
        """The application asks for records; True where it has to be told that it is back."""
        with self._lock:
            self._under_way += 1
        return self.is_overdue

    def end(self, now_ms: int) -> None:
        """It has its records, or gave up waiting."""
        with self._lock:
            self._last_ms = now_ms  # first: a look between the two must not find a poll that ended long ago
            self._under_way -= 1

    def since_ms(self, now_ms: int) -> int:
        """Since when nobody polls: now, where somebody does."""
        return now_ms if self._under_way else self._last_ms

    def look(self, now_ms: int, interval_ms: int) -> bool:
        """True, once, where nobody has polled for so long."""
        if self.is_overdue or now_ms - self.since_ms(now_ms) < interval_ms:
            return False
        self.is_overdue = True
        if self._under_way:  # it came back between that look and this one, and was not told
            self.is_overdue = False
        return self.is_overdue

    def back(self) -> bool:
        """True, once, where the application polls again."""
        was_overdue, self.is_overdue = self.is_overdue, False
        return was_overdue
