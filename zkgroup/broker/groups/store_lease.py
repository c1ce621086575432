"""How long this broker may answer for its groups without news from ZooKeeper (recipes 9).

A write that is acknowledged extends the lease, as for members: until then the broker's session cannot have
ended, so no controller can have moved its slots because of that. Where no write is acknowledged, a
transaction of the checks of all slots goes out every T/6. A slot that is moved while the broker lives is
noticed by its watch; a commit meanwhile is refused by the slot's check.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from zkgroup.broker.groups.led_slots import LedSlot, SlotPhase, StoreCore
from zkgroup.coordinator.events import LeaseExtended
from zkgroup.model.requests import MultiRefused
from zkgroup.runtime.concurrent_procedures import Job
from zkgroup.runtime.lease import heartbeat_period_ms, lease_ms
from zkgroup.runtime.procedures import Procedure, write

HEARTBEAT_TIMER: Final = "slots heartbeat"
STEPS_PER_TIMEOUT: Final = 60
"""The lease is extended in steps of at least so small a part of the session timeout."""


class StoreLease:
    """Extends the lease, and writes where nothing else is written."""

    def __init__(self, core: StoreCore) -> None:
        self._core = core
        self._until_ms: int | None = None
        self._last_sent_ms = 0
        core.context.on_write_acknowledged = self._acknowledged

    def connected(self) -> None:
        """A new connection: the next heartbeat is due within its period."""
        self._arm(self._core.context.now.ms)

    def session_over(self) -> None:
        self._core.context.cancel_timer(HEARTBEAT_TIMER)

    def timer_fired(self) -> None:
        """Writes a heartbeat, unless another write was acknowledged meanwhile, or no slot is led."""
        context = self._core.context
        if not context.connected or context.session is None:
            return
        slots = [slot for slot in self._core.slots.values() if slot.phase is SlotPhase.OWNED]
        shortest_ms = heartbeat_period_ms(context.session.timeout_ms, lambda: 0.0)
        if not slots or context.now.ms < self._last_sent_ms + shortest_ms:
            self._arm(self._last_sent_ms if slots else context.now.ms)
            return
        self._arm(context.now.ms)
        if "heartbeat" not in self._core.procedures:
            job = Job("extend the lease", partial(self._write, slots), lambda error: None)
            self._core.run("heartbeat", job)

    def _write(self, slots: list[LedSlot]) -> Procedure[None]:
        slots = [slot for slot in slots if not slot.is_closed]
        while slots:
            outcome = yield from write([slot.check for slot in slots], ())
            if not isinstance(outcome, MultiRefused):
                return
            lost = slots.pop(outcome.index)
            self._core.lost(lost, "a heartbeat was refused")

    def _acknowledged(self, sent_ms: int) -> None:
        context = self._core.context
        session = context.session
        if session is None:
            return
        self._last_sent_ms = max(self._last_sent_ms, sent_ms)
        span_ms = lease_ms(session.timeout_ms, context.config.lease_fraction, context.config.server_tick_ms)
        until_ms = self._last_sent_ms + span_ms
        step_ms = session.timeout_ms // STEPS_PER_TIMEOUT
        if until_ms > context.now.ms and (self._until_ms is None or until_ms >= self._until_ms + step_ms):
            self._until_ms = until_ms
            context.emit(LeaseExtended(until_ms))

    def _arm(self, from_ms: int) -> None:
        """Sets the timer of the next heartbeat, one period after this time."""
        context = self._core.context
        assert context.session is not None
        period_ms = heartbeat_period_ms(context.session.timeout_ms, context.jitter)
        context.set_timer(HEARTBEAT_TIMER, max(from_ms + period_ms, context.now.ms + 1))
