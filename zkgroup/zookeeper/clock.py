"""`SystemClock`: the clock of members in production."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class SystemClock:
    """Implements `zkgroup.model.ports.Clock`.

    CLOCK_BOOTTIME runs while the machine sleeps, so a lease is over when it wakes. On a system without it
    (macOS, Windows) the clock is CLOCK_MONOTONIC and `counts_sleep` is false: a lease may then appear valid
    for a moment after a suspend.
    """

    counts_sleep: bool = _BOOTTIME is not None

    def now_ms(self) -> int:
        if _BOOTTIME is None:
            return time.monotonic_ns() // 1_000_000
        return time.clock_gettime_ns(_BOOTTIME) // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        """See `Clock.call_at`. Each call takes a thread."""
        left_ms = at_ms - self.now_ms()
        if left_ms <= 0:
            callback()
            return lambda: None
        timer = threading.Timer(left_ms / 1000, callback)
        timer.daemon = True
        timer.start()
        return timer.cancel
