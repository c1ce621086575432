"""The sink that is used when none is given, and what keeps a sink's errors away from the member."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from zkgroup.model.ports import MetricsSink

log = logging.getLogger("zkgroup.metrics")


SLOW_S = 0.1
"""A call of a sink that takes longer is told of once: a member waits for its sinks."""


class NoMetrics:
    """A `MetricsSink` that drops everything."""

    def count(self, name: str, labels: Mapping[str, str], amount: float = 1.0) -> None:
        """Drops it."""

    def gauge(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Drops it."""

    def observe(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Drops it."""


class GuardedMetrics:
    """A `MetricsSink` over another whose errors are logged: nobody stops working for want of a metric.

    The first error is logged with its traceback, the first call that takes long without one; the others
    would only repeat it. Errors are counted. The sink is called again: its backend may come back.
    """

    def __init__(self, sink: MetricsSink) -> None:
        self._sink = sink
        self._told_slow = False
        self.errors = 0
        """Calls that raised."""

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
