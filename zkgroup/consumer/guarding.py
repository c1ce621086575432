"""What keeps an application's history away from the life of its member (metrics: `GuardedMetrics`)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from zkgroup.metrics.sinks import SLOW_S
from zkgroup.model.ports import Clock, HistorySink

log = logging.getLogger("zkgroup.history")


class GuardedHistory:
    """A `HistorySink` over another whose errors are logged once: nobody stops working for want of a diary.

    After an error nothing more is recorded: a history with a hole would accuse the innocent. `on_lost` is
    called for each record that is missing. Thread-safe as far as the sink is.
    """

    def __init__(self, sink: HistorySink, member: str, clock: Clock, on_lost: Callable[[], None]) -> None:
        self._sink = sink
        self._clock = clock
        self._member = member
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._broken = False
        self._told_slow = False

    def record(self, kind: str, fields: Mapping[str, object]) -> None:
        """Passes it on."""
        if self._broken:
            self._on_lost()
            return
        begun_ms = self._clock.now_ms()
        try:
            self._sink.record(kind, fields)
        except Exception:
            if self._break_off():
                log.warning("%s: its history raised and stops here", self._member, exc_info=True)
            self._on_lost()
        took_s = (self._clock.now_ms() - begun_ms) / 1000
        if took_s > SLOW_S and not self._told_slow:
            self._told_slow = True
            log.warning(
                "%s: its history took %.1f s for a record; members wait for it meanwhile",
                self._member,
                took_s,
            )

    def _break_off(self) -> bool:
        """True the first time: the member's thread and the application's may come at once."""
        with self._lock:
            first, self._broken = not self._broken, True
        return first
