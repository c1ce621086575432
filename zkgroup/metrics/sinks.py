"""The sink that is used when none is given, and what keeps a sink's errors away from the member."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from zkgroup.model.ports import MetricsSink

log = logging.getLogger("zkgroup.metrics")


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

    The first error is logged with its traceback; the others would only repeat it.
    """

    def __init__(self, sink: MetricsSink) -> None:
        self._sink = sink
        self._told = False

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
        try:
            report()
        except Exception:
            if not self._told:
                self._told = True
                log.warning("the metrics sink raised; further errors of it are not told", exc_info=True)
