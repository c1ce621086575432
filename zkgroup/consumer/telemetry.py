"""What a member tells about itself: the log, the history and the metrics, out of its effects."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from zkgroup.consumer.effects import ChangeState, FinishCommit, MemberState
from zkgroup.consumer.guarding import GuardedHistory
from zkgroup.consumer.lease import LeaseBoard
from zkgroup.errors import CommitUnknownError
from zkgroup.machinery.effects import Note
from zkgroup.metrics import GuardedMetrics
from zkgroup.model.ports import Clock, HistorySink, MetricsSink

state_log = logging.getLogger("zkgroup.state_change")
log = logging.getLogger("zkgroup.consumer")

_WARNINGS = frozenset(
    {"foreign_write", "fence_broken", "watch_gap", "ghost", "poison", "lease.expired", "callback.overdue"}
)
"""Kinds of notes that a person should see; the others go to the log at debug level."""


class Telemetry:
    """One member's reports. Used on the member's own thread, except `delivery`, which is thread-safe."""

    def __init__(
        self,
        group: str,
        member: str,
        board: LeaseBoard,
        clock: Clock,
        history: HistorySink | None,
        metrics: MetricsSink,
    ) -> None:
        self._labels = {"group": group, "member": member}
        self._group = group
        self._member = member
        self._board = board
        self._metrics = GuardedMetrics(metrics)
        self._history: GuardedHistory | None = None
        if history is not None:
            self._history = GuardedHistory(history, member, clock, self._history_lost)
        self._rebalance_since_ms: int | None = None
        self._reason = "start"

    @property
    def records_deliveries(self) -> bool:
        """Whether `deliver.start` and `deliver.end` are wanted: they cost a line a record."""
        return self._history is not None

    def delivery(self, kind: str, fields: Mapping[str, object]) -> None:
        if self._history is not None:
            self._history.record(kind, fields)

    def state(self, change: ChangeState) -> None:
        state_log.info(
            "%s: %s -> %s (%s)", self._member, change.before.value, change.after.value, change.reason
        )
        if self._history is not None:
            fields = {"before": change.before.value, "after": change.after.value, "reason": change.reason}
            self._history.record("state", fields)
        self._reason = change.reason
        for state in MemberState:
            labels = {**self._labels, "state": state.value}
            self._metrics.gauge("zkgroup_session_state", labels, 1.0 if state is change.after else 0.0)

    def note(self, note: Note) -> None:
        if note.kind == "missing_topic":
            topic = note.fields["topic"]
            told = "%s: topic %s does not exist, it has none of it: zkgroup topic create %s --partitions N"
            log.warning(told, self._member, topic, topic)
        level = logging.WARNING if note.kind in _WARNINGS else logging.DEBUG
        log.log(level, "%s: %s %s", self._member, note.kind, dict(note.fields))
        if self._history is not None:
            self._history.record(note.kind, note.fields)
        self._measure(note.kind)

    def _measure(self, kind: str) -> None:
        now_ms = self._board.now_ms()
        if kind == "lease.expired":
            self.holdings()
        elif kind == "watch_gap":
            self._metrics.count("zkgroup_watch_gap_total", self._labels)
        elif kind == "rebalance.begin":
            self._metrics.count("zkgroup_rebalance_total", {"group": self._group, "reason": self._reason})
            if self._rebalance_since_ms is None:
                self._rebalance_since_ms = now_ms
        elif kind == "rebalance.end" and self._rebalance_since_ms is not None:
            seconds = (now_ms - self._rebalance_since_ms) / 1000
            self._metrics.observe("zkgroup_rebalance_seconds", {"group": self._group}, seconds)
            self._rebalance_since_ms = None

    def committed(self, outcome: FinishCommit) -> None:
        """One commit: `ok`, or `refused` where any partition was, or `unknown` where any may have been."""
        errors = outcome.refused.values()
        unknown = any(isinstance(error, CommitUnknownError) for error in errors)
        label = "unknown" if unknown else "refused" if errors else "ok"
        self._metrics.count("zkgroup_commit_total", {"outcome": label})

    def holdings(self) -> None:
        """Reports how much is owned and for how long it is safe."""
        held = self._board.current
        self._metrics.gauge("zkgroup_partitions_owned", self._labels, len(held.grants))
        remaining_s = max(0, held.until_ms - self._board.now_ms()) / 1000
        self._metrics.gauge("zkgroup_lease_remaining_seconds", self._labels, remaining_s)

    def overdue(self, callback: str, timeout_ms: int) -> None:
        """A callback of the application was left behind."""
        log.warning(
            "%s: %s has not returned within %d ms and is left behind; later callbacks run on a fresh worker",
            self._member,
            callback,
            timeout_ms,
        )
        self._metrics.count("zkgroup_callback_overdue_total", {**self._labels, "callback": callback})

    def _history_lost(self) -> None:
        self._metrics.count("zkgroup_history_lost_total", self._labels)

    def ack_ignored(self) -> None:
        """An acknowledgement came after its partition was lost; thread-safe as far as the metrics sink is."""
        self._metrics.count("zkgroup_ack_ignored_total", self._labels)
