"""Ends the freezes of the groups of a coordinator, by ZooKeeper's clock (recipes 26).

A load reads the markers, and an operator who freezes or unfreezes a group sets its slot, so that it is loaded
again. When a freeze may be over, the marker is set to its own data: the `mtime` of that write says whether it
is. Then the marker is deleted, and the slot loaded again: waiting clients join anew.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from zkgroup.broker.groups.led_slots import LedSlot, SlotPhase, StoreCore
from zkgroup.model.requests import Delete, MultiDone, SetData
from zkgroup.runtime.machine import Job
from zkgroup.runtime.procedures import GuardRefusedError, Procedure, write

FREEZES_TIMER: Final = "freezes"
RETRY_MS: Final = 5000
"""Milliseconds after which a freeze that could not be ended is looked at again."""


class GroupFreezes:
    """The ends of the freezes in the slots of this broker."""

    def __init__(self, core: StoreCore) -> None:
        self._core = core

    def slot_loaded(self, slot: LedSlot) -> None:
        """Waits for the ends of the freezes that the load has found."""
        core = self._core
        for group, frozen in slot.frozen.items():
            until_ms, stat = frozen.freeze.until_ms(frozen.marker.stat), frozen.marker.stat
            left_ms = min(until_ms - core.context.now.wall_ms, until_ms - stat.mtime)
            frozen.end_ms = core.context.now.ms + max(left_ms, 0)
            core.context.note("group.frozen", group=group, until_ms=until_ms, by=frozen.freeze.by)
        self._arm()

    def timer_fired(self) -> None:
        """Ends what is over, and waits for the rest."""
        now_ms = self._core.context.now.ms
        for slot in self._owned():
            for group, frozen in slot.frozen.items():
                if frozen.end_ms <= now_ms:
                    frozen.end_ms = now_ms + RETRY_MS
                    job = Job("end a freeze", partial(self._end, slot, group), partial(self._ended, slot))
                    self._core.procedures.cancel(("freeze", group))
                    self._core.run(("freeze", group), job)
        self._arm()

    def _owned(self) -> list[LedSlot]:
        return [slot for slot in self._core.slots.values() if slot.phase is SlotPhase.OWNED]

    def _arm(self) -> None:
        ends = [frozen.end_ms for slot in self._owned() for frozen in slot.frozen.values()]
        if ends:
            self._core.context.set_timer(FREEZES_TIMER, min(ends))
        else:
            self._core.context.cancel_timer(FREEZES_TIMER)

    def _end(self, slot: LedSlot, group: str) -> Procedure[None]:
        frozen, context = slot.frozen[group], self._core.context
        path, data = frozen.marker.path, frozen.marker.data or b""
        answer = yield from write([slot.check, SetData(path, data, -1)], {slot.path})
        if slot.is_closed:
            return
        if not isinstance(answer, MultiDone):  # deleted by hand, or by a write whose answer was lost
            self._core.lost(slot, f"the freeze of {group} is gone")
            return
        stat = answer.stats[1]
        assert stat is not None
        left_ms = frozen.freeze.until_ms(stat) - stat.mtime
        if left_ms > 0:
            frozen.end_ms = context.now.ms + left_ms
            self._arm()
            return
        yield from write([slot.check, Delete(path, -1)], {slot.path})
        self._core.lost(slot, f"the freeze of {group} is over")

    def _ended(self, slot: LedSlot, error: Exception | None) -> None:
        """Loads again a slot that another client has set. What an ACL or a quota refuses is tried again."""
        if isinstance(error, GuardRefusedError):
            self._core.lost(slot, "set by another client")
