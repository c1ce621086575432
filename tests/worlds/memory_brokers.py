"""Complete brokers in one process, on `MemoryZooKeeper` and a `FakeClock`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tests.waiting import eventually_at
from tests.worlds.running_brokers import QUICK, RunningBrokers
from zkgroup.broker.settings import BrokerSettings
from zkgroup.model import TopicPartition
from zkgroup.testing import MemoryZooKeeper
from zkgroup.testing.clock import FakeClock
from zkgroup.znodes.brokers import PartitionState
from zkgroup.zookeeper.blocking import Blocking

T = TypeVar("T")
T0 = TopicPartition("t", 0)


class MemoryBrokers:
    """A ZooKeeper in memory, brokers, and a client that reads the state."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.server = MemoryZooKeeper(self.clock)
        self.running = RunningBrokers(clock=self.clock)
        self.zk = Blocking(self.server.client("witness"))

    def add(self, *brokers: int, settings: BrokerSettings = QUICK, **more: object) -> None:
        for broker in brokers:
            self.running.add(self.server.client(f"b{broker}"), broker, settings=settings, **more)

    def isr(self, tp: TopicPartition = T0) -> tuple[int, ...]:
        path = PartitionState.path(tp)
        return PartitionState.decode(path, self.zk.read(path).data).isr

    def eventually(self, read: Callable[[], T], predicate: Callable[[T], object] = bool) -> T:
        """The first value of `read()` that satisfies the predicate; time passes until then."""
        return eventually_at(self.clock, read, predicate)

    def becomes(self, read: Callable[[], T], expected: object) -> T:
        """`read()` once it equals what is expected; time passes until then."""
        return eventually_at(self.clock, read, lambda found: found == expected, what=f"expected {expected!r}")
