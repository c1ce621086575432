"""A sink around another, whose errors it logs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from zkgroup.model.ports import MetricsSink

log = logging.getLogger("zkgroup.metrics")


SLOW_S = 0.1
"""Seconds. A call of a sink that takes longer is logged once: a member waits for its sinks."""


class GuardedMetrics:
    """A `MetricsSink` over another, whose errors it logs and does not raise.

    It logs the first error with its traceback, and the first call that takes long; it only counts further
    errors. It keeps calling the sink, whose backend may come back.
    """

    def __init__(self, sink: MetricsSink) -> None:
        self._sink = sink
        self._told_slow = False
        self.errors = 0
        """Number of calls that raised."""

    def count(self, name: str, labels: Mapping[str, str], amount: float = 1.0) -> None:
        """Passes it on."""
        self._pass_on(lambda: self._sink.count(name, labels, amount))

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Passes it on."""
        self._pass_on(lambda: self._sink.gauge(name, labels, value))

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Passes it on."""
        self._pass_on(lambda: self._sink.observe(name, labels, value))

    def _pass_on(self, report: Callable[[], None]) -> None:
        begun_s = time.monotonic()  # real time: what is measured is the application's code
        try:
            report()
        except Exception:
            self.errors += 1
            if self.errors == 1:
                log.warning("the metrics sink raised; its further errors are not logged", exc_info=True)
        took_s = time.monotonic() - begun_s
        if took_s > SLOW_S and not self._told_slow:
            self._told_slow = True
            log.warning("the metrics sink took %.1f s for a call; members wait for it meanwhile", took_s)
