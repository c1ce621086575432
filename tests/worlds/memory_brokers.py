"""Whole brokers in one process, on a server in memory."""

from __future__ import annotations

from tests.worlds.running_brokers import QUICK, RunningBrokers
from zkgroup.broker.settings import BrokerSettings
from zkgroup.model import TopicPartition
from zkgroup.testing import MemoryZooKeeper
from zkgroup.znodes.partitions import PartitionState
from zkgroup.zookeeper.blocking import Blocking
from zkgroup.zookeeper.clock import SystemClock

T0 = TopicPartition("t", 0)


class MemoryBrokers:
    """A server in memory, brokers, and somebody who looks."""

    def __init__(self) -> None:
        self.server = MemoryZooKeeper(SystemClock())
        self.running = RunningBrokers()
        self.zk = Blocking(self.server.client("witness"))

    def add(self, *brokers: int, settings: BrokerSettings = QUICK, **more: object) -> None:
        for broker in brokers:
            self.running.add(self.server.client(f"b{broker}"), broker, settings=settings, **more)

    def isr(self, tp: TopicPartition = T0) -> tuple[int, ...]:
        path = PartitionState.path(tp)
        return PartitionState.decode(path, self.zk.read(path).data).isr
