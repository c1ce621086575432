"""One history for all members of a test, from all their threads."""

from __future__ import annotations

import threading
from typing import Any

from zkgroup.history import MemoryHistory
from zkgroup.history.records import HistoryRecord
from zkgroup.model.ports import Clock


class Recorder:
    """One list of records for all members of a test."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self.records: list[HistoryRecord] = []

    def sink(self, member: str) -> Any:
        lock, history = self._lock, MemoryHistory(member, self.clock, self.records)

        class Locked:
            """Members write from several threads, as `HistoryFile` allows."""

            def record(self, kind: str, fields: Any) -> None:
                with lock:
                    history.record(kind, fields)

        return Locked()
