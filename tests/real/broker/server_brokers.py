"""zkgroup brokers with their controller at an address, and a client that bypasses the broken network."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from tests.waiting import PATIENCE_S, joined
from tests.worlds.running_brokers import QUICK as QUICKEST
from tests.worlds.running_brokers import Told, ask
from zkgroup.broker.broker import Broker
from zkgroup.broker.settings import BrokerSettings
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse
from zkgroup.znodes.brokers import BrokerRegistration, PartitionState, Topic
from zkgroup.znodes.config import TopicConfig
from zkgroup.zookeeper.blocking import Blocking

QUICK = replace(QUICKEST, replica_lag_time_max_ms=10_000, session_timeout_ms=20_000)
"""A follower that a busy machine keeps from fetching for a moment stays in sync, and no session ends then."""


class Cluster:
    """Brokers at an address, and a client that reads and writes past the broken network."""

    def __init__(self, address: str, zk: Blocking) -> None:
        self.address = address
        self.zk = zk
        self.brokers: dict[int, Broker] = {}
        self.told: dict[int, Told] = {}

    def add(self, *brokers: int, settings: BrokerSettings = QUICK, **more: Any) -> None:
        for broker in brokers:
            self.told[broker] = Told()
            made = Broker(self.address, broker=broker, settings=settings, listener=self.told[broker], **more)
            self.brokers[broker] = made
            made.start()
        for broker in brokers:
            self.brokers[broker].wait_registered(PATIENCE_S)

    def find(self, path: str) -> bytes | None:
        """The data of a znode; None where there is no such znode."""
        self.zk.sync(path)
        found = self.zk.find(path)
        return None if found is None else found.data

    def registration(self, broker: int) -> BrokerRegistration:
        path = BrokerRegistration.path(broker)
        return BrokerRegistration.decode(path, self.zk.read(path).data)

    def create_topic(self, topic: str, *replicas: tuple[int, ...]) -> None:
        self.zk.multi(
            Create(TopicConfig.path(topic), TopicConfig().encode()),
            Create(Topic.path(topic), Topic(dict(enumerate(replicas))).encode()),
        )

    def state(self, topic: str, partition: int = 0) -> PartitionState | None:
        path = PartitionState.path(TopicPartition(topic, partition))
        data = self.find(path)
        return None if data is None else PartitionState.decode(path, data)

    def isr(self, topic: str, partition: int = 0) -> tuple[int, ...]:
        state = self.state(topic, partition)
        return () if state is None else state.isr

    def leaders(self, broker: int, topic: str) -> list[int]:
        """The leaders of a topic's partitions, as this broker answers clients; none before it knows them."""
        serving = self.brokers[broker].serving
        assert serving is not None
        try:
            (answer,) = ask(serving[1], MetadataRequest.of(topic), MetadataResponse).topics
        except ConnectionResetError:
            return []
        return [one.leader for one in answer.partitions]

    def close(self) -> None:
        closing = [threading.Thread(target=broker.close) for broker in self.brokers.values()]
        for thread in closing:
            thread.start()
        joined(*closing)
