"""The members' records of a simulated run, in the one order in which they were made."""

from __future__ import annotations

from collections.abc import Mapping

from zkgroup.history import Record
from zkgroup.testing.clock import FakeClock


class Recording:
    """Collects what a `HistorySink` would write, with the common fields of the history."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.records: list[Record] = []

    def record(self, pid: int, member: str, session: int, kind: str, fields: Mapping[str, object]) -> None:
        seq = len(self.records) + 1
        ts = self._clock.now_ms() * 1_000_000
        self.records.append(Record(ts, seq, pid, member, session, kind, fields))
