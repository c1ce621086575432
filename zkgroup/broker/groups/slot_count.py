"""Reads how many slots there are: `/zkgroup/config`, which is created once and never changed."""

from __future__ import annotations

from collections.abc import Callable

from zkgroup.broker.groups.led_slots import StoreCore
from zkgroup.broker.groups.store_events import SlotsCounted
from zkgroup.errors import CorruptZnodeError
from zkgroup.model.requests import Read
from zkgroup.runtime.events import Watch
from zkgroup.runtime.machine import Job
from zkgroup.runtime.procedures import Procedure, Query, ask, read_done
from zkgroup.znodes.coordinated_groups import SlotConfig


class SlotCountReader:
    """Emits `SlotsCounted` once, as soon as the znode is there."""

    def __init__(self, core: StoreCore, on_counted: Callable[[], None]) -> None:
        self._core = core
        self._on_counted = on_counted

    def connected(self) -> None:
        """Reads the znode, and watches it while it does not exist."""
        if self._core.count is None:
            self._core.procedures.cancel("config")
            self._start()

    def _start(self) -> None:
        job = Job("read how many slots there are", self._read, self._ended, is_repeated=True)
        self._core.run("config", job)

    def _changed(self) -> None:
        if self._core.count is None and "config" not in self._core.procedures:
            self._start()

    def _read(self) -> Procedure[None]:
        (outcome,) = yield from ask(Query(Read(SlotConfig.path(), watch=True), Watch(self._changed)))
        znode = read_done(outcome)
        if znode is None:
            return
        try:
            self._core.count = SlotConfig.decode(znode.path, znode.data).slots
        except CorruptZnodeError as error:
            self._core.context.note("slots.unreadable", path=error.path, detail=str(error))
            return
        self._core.context.emit(SlotsCounted(self._core.count))

    def _ended(self, error: Exception | None) -> None:
        if error is not None:
            raise error
        if self._core.count is not None:
            self._on_counted()
