"""The connection that reads and changes run on: a blocking client, a clock and a way to wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from zkgroup.groups.as_of import AsOf as AsOf
from zkgroup.model.ports import Clock
from zkgroup.zookeeper.blocking import Blocking


@dataclass(frozen=True, slots=True)
class Ensemble:
    """One connected ensemble, as the functions of this package need it."""

    zk: Blocking
    clock: Clock
    pause: Callable[[float], None] = field(default=time.sleep)
    """Waits this many seconds between two reads; tests advance a clock instead."""

    def exists_now(self, path: str) -> bool:
        """Returns whether there is such a znode, by everything that was written before this call."""
        self.zk.sync("/")
        return self.zk.exists(path) is not None

    def as_of(self) -> AsOf:
        """The moment of what has just been read: the session's last zxid, and the time for people."""
        return AsOf(zxid=self.zk.last_zxid, time_ms=self.clock.wall_ms())
