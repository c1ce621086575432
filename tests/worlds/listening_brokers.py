"""Brokers in this process with listeners of their own, on a ZooKeeper in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Self

from tests.waiting import PATIENCE_S, eventually
from zkgroup.broker.broker import Broker
from zkgroup.broker.log.storage import MemoryStorage
from zkgroup.broker.security_settings import SecuritySettings
from zkgroup.broker.settings import BrokerSettings
from zkgroup.testing.kafka_cluster.cluster import FAST
from zkgroup.testing.memory_zookeeper import MemoryZooKeeper
from zkgroup.zookeeper.client import SystemClock

THREEFOLD = replace(FAST, default_replication_factor=3)
"""Topics that clients create have a replica on each broker."""


class ListeningBrokers:
    """Brokers 1, 2, ..., each with the listeners of its properties; ports are chosen by the system."""

    def __init__(
        self,
        properties: Callable[[int], Mapping[str, str]],
        count: int = 3,
        settings: BrokerSettings = THREEFOLD,
    ) -> None:
        """`properties`: those of a broker, by its id."""
        self.zookeeper = MemoryZooKeeper(SystemClock())
        self._settings = settings
        self._restarts = 0
        self._logs = {number: MemoryStorage() for number in range(1, count + 1)}
        self.brokers = {number: self._made(number, properties(number)) for number in self._logs}

    def _made(self, number: int, properties: Mapping[str, str], suffix: str = "") -> Broker:
        made = Broker(
            client=self.zookeeper.client(f"broker-{number}{suffix}", self._settings.session_timeout_ms),
            broker=number,
            settings=self._settings,
            security=SecuritySettings.of(properties),
        )
        made._memory = self._logs[number]
        return made

    def __enter__(self) -> Self:
        try:
            for one in self.brokers.values():
                one.start()
            self._wait()
        except BaseException:
            self.close()
            raise
        return self

    def _wait(self) -> None:
        for one in self.brokers.values():
            one.wait_registered(PATIENCE_S)
        everyone = self.brokers.keys()
        eventually(lambda: all(one.health().live_brokers == everyone for one in self.brokers.values()))

    def restart(self, number: int, properties: Mapping[str, str]) -> None:
        """Stops a broker as an operator does, and starts it with other properties; its logs stay."""
        self.brokers[number].close()
        self._restarts += 1
        self.brokers[number] = self._made(number, properties, f"-{self._restarts}")
        self.brokers[number].start()
        self._wait()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for one in self.brokers.values():
            one.close(controlled_shutdown=False)
        self.zookeeper.close()

    def address(self, broker: int, listener: str) -> str:
        """`HOST:PORT` of a listener."""
        found = self.brokers[broker].listeners
        assert found is not None
        return found[listener]

    def addresses(self, listener: str) -> dict[int, str]:
        """The same of each broker."""
        return {number: self.address(number, listener) for number in self.brokers}
