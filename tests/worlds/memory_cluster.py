"""Znodes of brokers, topics and a controller on `MemoryZooKeeper`, as their owners write them."""

from __future__ import annotations

from collections.abc import Mapping

from tests.worlds.memory_groups import MemoryGroups
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, SetData
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.brokers import BrokerRegistration, Endpoint, PartitionState, Topic
from zkgroup.znodes.config import TopicConfig
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration

FORMATS = {"0.8.2.2": 1, "0.9.0.1": 2, "0.10.0.0": 3, "1.1.1": 4, "2.8.2": 5}


class MemoryCluster:
    """Brokers 1 to `brokers` of one release, one of them controller."""

    def __init__(self, world: MemoryGroups, brokers: int = 3, release: str = "1.1.1") -> None:
        self.world = world
        for number in range(1, brokers + 1):
            self.broker(number, release)
        world.hold(ControllerRegistration.path(), ControllerRegistration(1, 1).encode())
        world.server.put(ControllerEpoch.path(), ControllerEpoch(7).encode())

    def broker(self, number: int, release: str = "1.1.1", **extensions: object) -> None:
        plain = [Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT")]
        one = BrokerRegistration.of(
            plain, timestamp_ms=1, version=FORMATS[release], extensions=extensions or None
        )
        self.world.hold(BrokerRegistration.path(number), one.encode())

    def ours(self) -> None:
        """Replaces the controller by a zkgroup controller: its znode has been set once."""
        data = ControllerRegistration(1, 1).encode()
        self.world.write(SetData(ControllerRegistration.path(), data, 0))

    def no_controller(self) -> None:
        self.world.write(Delete(ControllerRegistration.path(), -1))

    def topic(self, name: str, *replicas: tuple[int, ...], **configs: str) -> None:
        """Writes states: the first replica leads, all are in sync."""
        lists = dict(enumerate(replicas))
        self.world.server.put(Topic.path(name), Topic(lists).encode())
        self.world.server.put(TopicConfig.path(name), TopicConfig(configs).encode())
        for number, brokers in lists.items():
            self.state(name, number, brokers[0], brokers)

    def state(self, topic: str, number: int, leader: int, isr: tuple[int, ...]) -> None:
        path = PartitionState.path(TopicPartition(topic, number))
        self.world.server.put(path, PartitionState(leader, 1, isr, 7).encode())

    def replicas(self, topic: str) -> Mapping[int, tuple[int, ...]]:
        found = self.world.server.find(Topic.path(topic))
        assert found is not None
        return Topic.decode(found.path, found.data).partitions

    def replicas_become(self, topic: str, number: int, brokers: tuple[int, ...]) -> None:
        found = self.world.server.find(Topic.path(topic))
        assert found is not None
        changed = Topic.decode(found.path, found.data).with_replicas(number, brokers)
        self.world.server.put(found.path, changed.encode())

    def requested(self) -> Mapping[TopicPartition, tuple[int, ...]] | None:
        found = self.world.server.find(Reassignment.path())
        return Reassignment.decode(found.path, found.data).targets if found else None

    def request(self, *moves: Move) -> None:
        self.world.parent("/admin")
        self.world.write(Create(Reassignment.path(), Reassignment(moves).encode()))

    def finish(self) -> None:
        """Ends reassignments as a controller does: replica lists become the targets, the request is
        deleted."""
        for (topic, number), brokers in (self.requested() or {}).items():
            self.replicas_become(topic, number, brokers)
        self.world.write(Delete(Reassignment.path(), -1))

    def overrides(self, path: str) -> Mapping[str, str]:
        found = self.world.server.find(path)
        return TopicConfig.decode(path, found.data).overrides if found else {}

    def notifications(self) -> list[str]:
        """The data of every notification, in order."""
        tree = self.world.server.tree()
        paths = sorted(path for path in tree if path.startswith("/config/changes/"))
        found = [self.world.server.find(path) for path in paths]
        return [(znode.data or b"").decode() for znode in found if znode]


def move(topic: str, partition: int, *brokers: int) -> Move:
    return Move(TopicPartition(topic, partition), brokers)
