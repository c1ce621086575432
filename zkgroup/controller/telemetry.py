"""The log and the metrics of a controller, from its effects."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from zkgroup.controller.machine.events import Elected, Resigned
from zkgroup.controller.machine.status import ControllerMetrics
from zkgroup.metrics.sinks import GuardedMetrics
from zkgroup.model.ports import Clock, MetricsSink
from zkgroup.runtime.events import LogEvent
from zkgroup.runtime.logs import get_logger

log = get_logger("zkgroup.controller")
state_log = get_logger("zkgroup.state_change")

COUNT_EVERY_MS: Final = 5_000
"""Interval between counts of the cluster for the metrics."""
_STATE_CHANGES: Final = {
    "leader.changed": logging.INFO,
    "election.unclean": logging.WARNING,
    "election.failed": logging.WARNING,
}
"""Kinds of notes for the log of changes, with their levels."""
_WARNINGS: Final = frozenset(
    {
        "broker.refused",
        "controller.persistent",
        "controller_epoch.unreadable",
        "handler.failed",
        "event.backoff",
        "event.refused",
        "unexpected_reply",
        "replica.offline",
        "znode.unreadable",
    }
)
"""Kinds of notes that a person should see; the others go to the log at debug level."""


class ControllerTelemetry:
    """The reports of one controller. Used on its machine's thread."""

    def __init__(self, broker: int, clock: Clock, metrics: MetricsSink | None) -> None:
        """metrics: None: nothing is counted."""
        self._broker = broker
        self._labels = {"broker": str(broker)}
        self._clock = clock
        self._metrics = None if metrics is None else GuardedMetrics(metrics)
        self._counted_ms: int | None = None

    def elected(self, effect: Elected) -> None:
        state_log.info("broker %d is the controller, epoch %d", self._broker, effect.epoch)
        self._gauge("active_controller_count", 1)
        self._counted_ms = None

    def resigned(self, effect: Resigned) -> None:
        """It is no longer active: another controller counts the cluster."""
        state_log.info(
            "broker %d is no longer the controller, epoch %d: %s", self._broker, effect.epoch, effect.reason
        )
        self._gauge("active_controller_count", 0)
        self._gauges(ControllerMetrics(0, 0, 0, 0, 0, 0))

    def crashed(self) -> None:
        self._gauge("active_controller_count", 0)

    def note(self, note: LogEvent) -> None:
        """Logs an event, and counts it where there is a metric."""
        if (level := _STATE_CHANGES.get(note.kind)) is not None:
            state_log.log(level, "%s", note)
        else:
            log.log(logging.WARNING if note.kind in _WARNINGS else logging.DEBUG, "%s", note)
        if self._metrics is None:
            return
        if note.kind == "election.unclean":
            self._metrics.count("zkgroup_controller_unclean_leader_elections_total", self._labels)
        elif note.kind == "election.done":
            seconds = float(str(note.fields["ms"])) / 1000
            self._metrics.observe("zkgroup_controller_leader_election_seconds", self._labels, seconds)

    def count_cluster(self, count: Callable[[], ControllerMetrics | None]) -> None:
        """Counts the cluster every `COUNT_EVERY_MS`; `count` returns None where it is not active."""
        now_ms = self._clock.now_ms()
        if self._metrics is None or now_ms < (self._counted_ms or 0) + COUNT_EVERY_MS:
            return
        if (figures := count()) is not None:
            self._counted_ms = now_ms
            self._gauges(figures)

    def _gauges(self, figures: ControllerMetrics) -> None:
        self._gauge("global_topic_count", figures.topics)
        self._gauge("global_partition_count", figures.partitions)
        self._gauge("offline_partitions_count", figures.offline_partitions)
        self._gauge("preferred_replica_imbalance_count", figures.preferred_imbalance)
        self._gauge("event_queue_size", figures.queue_size)
        self._gauge("event_queue_oldest_seconds", figures.queue_oldest_ms / 1000)

    def _gauge(self, name: str, value: float) -> None:
        if self._metrics is not None:
            self._metrics.gauge(f"zkgroup_controller_{name}", self._labels, value)
