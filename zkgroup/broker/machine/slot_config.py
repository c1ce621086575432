"""Reads the number of slots from `/zkgroup/config`, which is created once and never changes."""

from __future__ import annotations

from zkgroup.broker.machine.events import BrokerContext, SlotConfigRead
from zkgroup.errors import CorruptZnodeError
from zkgroup.runtime.machine import Work
from zkgroup.runtime.procedures import (
    ConnectionLossError,
    NoAuthError,
    Procedure,
    UnexpectedReplyError,
    read_many,
)
from zkgroup.znodes.coordinated_groups import SlotConfig


class SlotConfigReads:
    """Performs `ReadSlotConfig`; one read answers all events before it."""

    def __init__(self, core: BrokerContext) -> None:
        self._core = core
        self._is_wanted = False

    def wanted(self) -> None:
        """Notes that the number of slots is needed."""
        self._is_wanted = True

    def refuse_without_connection(self) -> None:
        """Ends a read that cannot be sent now."""
        if self._is_wanted and not self._core.connected:
            self._read(None)

    def next(self) -> Work | None:
        return ("read the number of slots", self._read_config) if self._is_wanted else None

    def _read_config(self) -> Procedure[None]:
        path = SlotConfig.path()
        try:
            ((znode,),) = yield from read_many([path])
        except (ConnectionLossError, NoAuthError, UnexpectedReplyError):
            self._read(None)
            raise
        slots = None
        if znode is not None:
            try:
                slots = SlotConfig.decode(path, znode.data).slots
            except CorruptZnodeError as error:
                self._core.note("slot_config.unreadable", path=path, detail=str(error))
        self._read(slots)

    def _read(self, slots: int | None) -> None:
        self._is_wanted = False
        self._core.emit(SlotConfigRead(slots))
