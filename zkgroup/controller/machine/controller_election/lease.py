"""How long a controller may send requests to brokers without news from the quorum (recipes 9 and 13).

    deadline = sent_at(last acknowledged write) + lease_fraction x T - min(server_tick_ms / 2, T / 4)

Writes to ZooKeeper need no lease, they carry the fence. Requests to brokers carry nothing that the next
controller could make invalid, so they end with the lease. A write that is acknowledged renews it; where
there is none, a transaction of the two checks of the fence goes out every T/6, and by up to a fifth of
that more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zkgroup.controller.machine.effects import ExtendLease
from zkgroup.controller.machine.elector_context import ElectorContext
from zkgroup.controller.machine.fenced_writes import Fence
from zkgroup.model.requests import Multi, MultiRefused, Outcome
from zkgroup.runtime.lease import heartbeat_period_ms, lease_ms

HEARTBEAT_TIMER: Final = "controller heartbeat"


class ControllerLease:
    """The lease of one rule."""

    def __init__(self, core: ElectorContext) -> None:
        self._core = core
        core.on_write_acknowledged = self._acknowledged
        self.until_ms: int | None = None
        """Its end as told last; None while nothing rules, and before the first acknowledgement."""
        self.on_refused: Callable[[], None] = lambda: None
        """A heartbeat was refused at the fence."""
        self._fence: Fence | None = None
        self._last_sent_ms: int | None = None
        """When the newest acknowledged write of this session was issued."""
        self._under_way = False

    @property
    def is_valid(self) -> bool:
        return self.until_ms is not None and self._core.now.ms < self.until_ms

    def start(self, fence: Fence, *, proven: bool) -> None:
        """`proven`: the election was answered. Where it was read back, the first heartbeat is the proof."""
        self._fence = fence
        if proven:
            self._extend()
        self._core.set_timer(HEARTBEAT_TIMER, self._core.now.ms if not proven else self._due_ms())

    def stop(self) -> None:
        """No rule, no lease."""
        self._fence = self.until_ms = None
        self._core.cancel_timer(HEARTBEAT_TIMER)

    def session_over(self) -> None:
        """What the old session was told says nothing of the next one."""
        self.stop()
        self._last_sent_ms = None
        self._under_way = False

    def connected(self) -> None:
        """Back in the same session: the next heartbeat is due at once."""
        self._under_way = False
        if self._fence is not None:
            self._core.set_timer(HEARTBEAT_TIMER, self._core.now.ms)

    def timer_fired(self) -> None:
        """Sends a heartbeat unless a write was acknowledged meanwhile; arms the next."""
        if self._fence is None or not self._core.connected:
            return
        due_ms = self._due_ms()
        if self._core.now.ms >= due_ms or not self.is_valid:
            due_ms = self._core.now.ms + self._period_ms()
            self._send(self._fence)
        self._core.set_timer(HEARTBEAT_TIMER, due_ms)

    def _send(self, fence: Fence) -> None:
        if self._under_way:
            return
        self._under_way = True

        def on_outcome(outcome: Outcome) -> None:
            self._under_way = False
            if isinstance(outcome, MultiRefused) and fence == self._fence:
                self.on_refused()

        self._core.ask(Multi(fence.checks()), on_outcome)

    def _acknowledged(self, sent_ms: int) -> None:
        self._last_sent_ms = max(self._last_sent_ms or sent_ms, sent_ms)
        if self._fence is not None:
            self._extend()

    def _extend(self) -> None:
        assert self._last_sent_ms is not None
        until_ms = self._last_sent_ms + self._span_ms()
        if until_ms > self._core.now.ms and (self.until_ms is None or until_ms > self.until_ms):
            self.until_ms = until_ms
            self._core.emit(ExtendLease(until_ms))

    def _due_ms(self) -> int:
        return (self._last_sent_ms or self._core.now.ms) + self._period_ms()

    def _period_ms(self) -> int:
        return heartbeat_period_ms(self._timeout_ms(), self._core.config.jitter)

    def _span_ms(self) -> int:
        config = self._core.config
        return lease_ms(self._timeout_ms(), config.lease_fraction, config.server_tick_ms)

    def _timeout_ms(self) -> int:
        session = self._core.session
        assert session is not None
        return session.timeout_ms
