"""A cluster of Kafka on a real server, written znode by znode."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.worlds.server_groups import ServerGroups
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, Operation, SetData
from zkgroup.znodes.admin_requests import Reassignment
from zkgroup.znodes.brokers import (
    BrokerRegistration,
    Endpoint,
    PartitionState,
    Topic,
    broker_ids_path,
    brokers_path,
    topics_path,
)
from zkgroup.znodes.config import TopicConfig, config_path, topic_configs_path
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration

WRITES_AT_ONCE = 900


class ServerCluster:
    """Brokers 1 to 3 of Kafka 1.1 as znodes; broker 1 is the controller. No broker runs."""

    def __init__(self, groups: ServerGroups) -> None:
        self.zk = groups.zk
        self.zk.create_missing(
            brokers_path(), broker_ids_path(), topics_path(), config_path(), topic_configs_path()
        )
        for number in (1, 2, 3):
            self.broker(number)
        self.zk.multi(
            Create(ControllerRegistration.path(), ControllerRegistration(1, 1).encode(), ephemeral=True),
            Create(ControllerEpoch.path(), b"7"),
        )

    def broker(self, number: int) -> None:
        one = BrokerRegistration.of([Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT")], timestamp_ms=1)
        self.zk.multi(Create(BrokerRegistration.path(number), one.encode(), ephemeral=True))

    def topic(self, name: str, *replicas: tuple[int, ...], leaders: Mapping[int, int] | None = None) -> None:
        """Creates a topic with its states; the first replica leads unless `leaders` says otherwise."""
        lists = dict(enumerate(replicas))
        writes: list[Operation] = [
            Create(TopicConfig.path(name), TopicConfig().encode()),
            Create(Topic.path(name), Topic(lists).encode()),
            Create(Topic.partitions_path(name), None),
        ]
        for number, brokers in lists.items():
            tp = TopicPartition(name, number)
            state = PartitionState((leaders or {}).get(number, brokers[0]), 1, brokers, 7)
            writes += [
                Create(Topic.partition_path(tp), None),
                Create(PartitionState.path(tp), state.encode()),
            ]
        for start in range(0, len(writes), WRITES_AT_ONCE):
            self.zk.multi(*writes[start : start + WRITES_AT_ONCE])

    def tree(self, path: str) -> list[str]:
        """The paths of this znode and all those below it, children first."""
        names = self.zk.list_many([path])[path] or ()
        return [*(below for name in names for below in self.tree(f"{path}/{name}")), path]

    def ours(self) -> None:
        """Makes a zkgroup controller the active one."""
        self.zk.multi(SetData(ControllerRegistration.path(), ControllerRegistration(1, 1).encode(), 0))

    def odd(self, path: str) -> None:
        """Writes a znode whose data cannot be decoded."""
        self.zk.multi(Create(path, b"{"))

    def finish(self) -> None:
        """Ends a reassignment as the controller does."""
        request = self.zk.read(Reassignment.path())
        for (name, number), replicas in Reassignment.decode(request.path, request.data).targets.items():
            found = self.zk.read(Topic.path(name))
            topic = Topic.decode(found.path, found.data).with_replicas(number, replicas)
            self.zk.multi(SetData(found.path, topic.encode(), found.stat.version))
        self.zk.multi(Delete(request.path, request.stat.version))


def reassignment_file(folder: Path, *moves: tuple[str, int, list[int]]) -> str:
    """Writes a JSON file for Kafka's reassignment tool."""
    entries = [{"topic": topic, "partition": number, "replicas": to} for topic, number, to in moves]
    file = folder / "moves.json"
    file.write_text(json.dumps({"version": 1, "partitions": entries}))
    return str(file)
