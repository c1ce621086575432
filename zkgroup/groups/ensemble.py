"""The connection that reads and changes run on: a blocking client, a clock and a way to wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from zkgroup.groups.as_of import AsOf as AsOf
from zkgroup.model import Znode
from zkgroup.model.ports import Clock
from zkgroup.security.client import PLAIN_ACCESS, BrokerAccess
from zkgroup.znodes.ids import number_of
from zkgroup.zookeeper.blocking import Blocking

K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ensemble:
    """One connected ensemble, as the functions of this package need it."""

    zk: Blocking
    clock: Clock
    pause: Callable[[float], None] = field(default=time.sleep)
    """Waits this many seconds between two reads; tests advance a clock instead."""
    access: BrokerAccess = PLAIN_ACCESS
    """By which the brokers in the ensemble are asked."""

    def exists_now(self, path: str) -> bool:
        """Returns whether there is such a znode, by everything that was written before this call."""
        self.zk.sync("/")
        return self.zk.exists(path) is not None

    def names_below(self, path: str) -> tuple[str, ...]:
        """The names of the children of a znode; none where it does not exist."""
        return self.zk.list_many([path])[path] or ()

    def numbers_below(self, path: str, number_of: Callable[[str], int | None] = number_of) -> list[int]:
        """The numbers that names of the children stand for, ascending; other names are left out."""
        found = (number_of(name) for name in self.names_below(path))
        return sorted(number for number in found if number is not None)

    def find_each(self, keys: Iterable[K], path_of: Callable[[K], str]) -> dict[K, Znode]:
        """The znodes that exist, in one bulk read, each by its key and in the order of the keys."""
        paths = {key: path_of(key) for key in keys}
        found = self.zk.read_many(list(paths.values()))
        return {key: znode for key, path in paths.items() if (znode := found[path]) is not None}

    def read_until(
        self, read: Callable[[], T], is_over: Callable[[T], object], timeout_s: float, every_s: float
    ) -> T:
        """Reads, and reads again, until there is no more to wait for or the time is over; the last result."""
        end_ms = self.clock.now_ms() + round(timeout_s * 1000)
        while True:
            found = read()
            left_ms = end_ms - self.clock.now_ms()
            if is_over(found) or left_ms <= 0:
                return found
            self.pause(min(every_s, left_ms / 1000))

    def as_of(self) -> AsOf:
        """The moment of what has just been read: the session's last zxid, and the time for people."""
        return AsOf(zxid=self.zk.last_zxid, time_ms=self.clock.wall_ms())
