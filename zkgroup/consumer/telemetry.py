"""Reports a member's effects to the log, the history and the metrics.

`GuardedHistory` logs an error of the application's history sink instead of raising it (metrics have
`GuardedMetrics`). `HistoryQueue` takes records of deliveries under the delivery's lock, which decides their
order, and passes them to the sink after the lock is released: a sink may call the consumer. `send` is called
before a commit that includes a delivery, and before the end of an ownership; it also waits for the record
that another thread is writing.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping

from zkgroup.consumer.lease import LeaseTable
from zkgroup.consumer.machine.events import ChangeState, FinishCommit, MemberState
from zkgroup.errors import CommitUnknownError
from zkgroup.metrics.sinks import SLOW_S, GuardedMetrics
from zkgroup.model.ports import Clock, HistorySink, MetricsSink
from zkgroup.runtime.events import LogEvent

state_log = logging.getLogger("zkgroup.state_change")
log = logging.getLogger("zkgroup.consumer")
history_log = logging.getLogger("zkgroup.history")

_WARNINGS = frozenset(
    {
        "assignment_refused",
        "foreign_write",
        "fence_broken",
        "watch_gap",
        "stale_registration",
        "coordinated_group",
        "restart_grace_void",
        "corrupt_znode",
        "persistent_znode",
        "lease.expired",
        "callback.overdue",
    }
)
"""Kinds of log events at level WARNING; the others have level DEBUG."""


class Telemetry:
    """The reports of one member. Used on the member's own thread, except `delivery`, which is thread-safe."""

    def __init__(
        self,
        group: str,
        member: str,
        lease_table: LeaseTable,
        clock: Clock,
        history: HistorySink | None,
        metrics: MetricsSink | None,
    ) -> None:
        self._labels = {"group": group, "member": member}
        self._group = group
        self._member = member
        self._lease_table = lease_table
        self._metrics = None if metrics is None else GuardedMetrics(metrics)
        self._history: GuardedHistory | None = None
        if history is not None:
            self._history = GuardedHistory(history, member, clock, self._history_lost)
        self._rebalance_since_ms: int | None = None
        self._reason = "start"

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
            self._gauge("zkgroup_session_state", labels, 1.0 if state is change.after else 0.0)

    def note(self, note: LogEvent) -> None:
        if note.kind == "missing_topic":
            topic = note.fields["topic"]
            message = "%s: topic %s does not exist; create it: zkgroup topic create %s --partitions N"
            log.warning(message, self._member, topic, topic)
        level = logging.WARNING if note.kind in _WARNINGS else logging.DEBUG
        log.log(level, "%s: %s", self._member, note)
        if self._history is not None:
            self._history.record(note.kind, note.fields)
        self._measure(note.kind)

    def _measure(self, kind: str) -> None:
        now_ms = self._lease_table.now_ms()
        if kind == "lease.expired":
            self.holdings()
        elif kind == "watch_gap":
            self._count("zkgroup_watch_gap_total", self._labels)
        elif kind == "rebalance.begin":
            self._count("zkgroup_rebalance_total", {"group": self._group, "reason": self._reason})
            if self._rebalance_since_ms is None:
                self._rebalance_since_ms = now_ms
        elif kind == "rebalance.end" and self._rebalance_since_ms is not None:
            seconds = (now_ms - self._rebalance_since_ms) / 1000
            if self._metrics is not None:
                self._metrics.observe("zkgroup_rebalance_seconds", {"group": self._group}, seconds)
            self._rebalance_since_ms = None

    def committed(self, outcome: FinishCommit) -> None:
        """Counts one commit: `unknown` if any outcome is, else `refused` if any partition was, else `ok`."""
        errors = outcome.refused.values()
        unknown = any(isinstance(error, CommitUnknownError) for error in errors)
        label = "unknown" if unknown else "refused" if errors else "ok"
        self._count("zkgroup_commit_total", {"outcome": label})

    def holdings(self) -> None:
        """Reports the number of owned partitions and the remaining time of the lease."""
        held = self._lease_table.current
        self._gauge("zkgroup_partitions_owned", self._labels, len(held.grants))
        remaining_s = max(0, held.until_ms - self._lease_table.now_ms()) / 1000
        self._gauge("zkgroup_lease_remaining_seconds", self._labels, remaining_s)

    def overdue(self, callback: str, timeout_ms: int) -> None:
        """Reports an abandoned callback of the application."""
        log.warning(
            "%s: %s has not returned within %d ms and is abandoned; later callbacks run on a new worker",
            self._member,
            callback,
            timeout_ms,
        )
        self._count("zkgroup_callback_overdue_total", {**self._labels, "callback": callback})

    def _count(self, name: str, labels: Mapping[str, str]) -> None:
        if self._metrics is not None:
            self._metrics.count(name, labels)

    def _gauge(self, name: str, labels: Mapping[str, str], value: float) -> None:
        if self._metrics is not None:
            self._metrics.gauge(name, labels, value)

    def _history_lost(self) -> None:
        self._count("zkgroup_history_lost_total", self._labels)

    def ack_ignored(self) -> None:
        """Counts an acknowledgement after its partition was lost; thread-safe if the metrics sink is."""
        self._count("zkgroup_ack_ignored_total", self._labels)


class GuardedHistory:
    """A `HistorySink` over another, whose first error is logged: the member goes on without it.

    After an error nothing more is recorded, as a checker would report faults in a history with a gap.
    `on_lost` is called for each record that is missing. Thread-safe if the sink is.
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
        if self._broken:
            self._on_lost()
            return
        begun_ms = self._clock.now_ms()
        try:
            self._sink.record(kind, fields)
        except Exception:  # noqa: BLE001 - the application's sink; logged, and not called again
            if self._break_off():
                history_log.warning(
                    "%s: its history sink raised; recording stops", self._member, exc_info=True
                )
            self._on_lost()
        took_s = (self._clock.now_ms() - begun_ms) / 1000
        if took_s > SLOW_S and not self._told_slow:
            self._told_slow = True
            history_log.warning(
                "%s: its history sink took %.1f s for a record; members wait for it meanwhile",
                self._member,
                took_s,
            )

    def _break_off(self) -> bool:
        """Returns whether this is the first error: the threads of member and application may race."""
        with self._lock:
            first, self._broken = not self._broken, True
        return first


SEND_WAIT_S = 0.5
"""Seconds to wait for another thread in the sink, which may itself wait for this thread."""

HistoryEntry = tuple[str, Mapping[str, object]]


class HistoryQueue:
    """Passes history records on in order, one at a time. `add` may be called under a lock, `send` may not."""

    def __init__(self, record: Callable[[str, Mapping[str, object]], None]) -> None:
        self._record = record
        self._waiting: deque[HistoryEntry] = deque()
        self._sending = threading.Lock()
        self._sender: int | None = None

    def add(self, kind: str, fields: Mapping[str, object]) -> None:
        self._waiting.append((kind, fields))

    def send(self) -> None:
        """Records everything in the queue; from within the sink it leaves that to the running call."""
        if not self._waiting and not self._sending.locked():
            return
        me = threading.get_ident()
        if self._sender == me:
            return
        if not self._sending.acquire(timeout=SEND_WAIT_S):
            history_log.warning(
                "the history sink takes more than %g s: records may be out of order", SEND_WAIT_S
            )
            return
        self._sender = me
        try:
            while self._waiting:
                self._record(*self._waiting.popleft())
        finally:
            self._sender = None
            self._sending.release()
