"""Groups on a real server, written znode by znode, so that the test decides every state of a member."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from zkgroup.assignment import assign
from zkgroup.model import EvaluatedMember, StaticSubscription, TopicPartition
from zkgroup.model.requests import Create, Delete, SetData
from zkgroup.znodes.brokers import Topic, brokers_path, topics_path
from zkgroup.znodes.consumers import (
    Offset,
    Owner,
    Registration,
    consumers_path,
    group_path,
    ids_path,
    offsets_path,
    offsets_topic_path,
    owners_path,
    owners_topic_path,
)
from zkgroup.zookeeper import ClientSettings, ZooKeeperClient
from zkgroup.zookeeper.blocking import Blocking

OURS = {"zkgroup": "0.1.0", "strategy": "range", "exclude_internal": "true"}


class ServerGroups:
    """Topics, and members that share one session."""

    def __init__(self, address: str) -> None:
        self._client = ZooKeeperClient(address, ClientSettings(session_timeout_ms=30_000))
        self.zk = Blocking(self._client)

    def __enter__(self) -> Self:
        self.zk.wait_connected()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def topic(self, name: str, partitions: int) -> None:
        self.zk.create_missing(brokers_path(), topics_path())
        self.zk.multi(Create(Topic.path(name), Topic(dict.fromkeys(range(partitions), (0,))).encode()))

    def parents(self, group: str, *topics: str) -> None:
        self.zk.create_missing(consumers_path(), group_path(group), ids_path(group), owners_path(group))
        self.zk.create_missing(offsets_path(group), *(offsets_topic_path(group, topic) for topic in topics))
        self.zk.create_missing(*(owners_topic_path(group, topic) for topic in topics))

    def living(self, group: str, topic: str, partitions: int, members: tuple[str, ...] = ("a", "b")) -> None:
        """Writes members that own every partition by range, each with an offset of 10 times its number."""
        self.parents(group, topic)
        names = [f"{group}_{member}" for member in members]
        registration = Registration.of(StaticSubscription({topic: 1}), time.time_ns() // 1_000_000, OURS)
        for name in names:
            self.zk.multi(Create(Registration.path(group, name), registration.encode(), ephemeral=True))
        planned = assign(
            "range", [EvaluatedMember(name, {topic: 1}) for name in names], {topic: range(partitions)}
        )
        for tp, thread in planned.owners.items():
            self.offset(group, tp.topic, tp.partition, 10 * tp.partition)
            path = Owner.path(group, tp)
            self.zk.multi(Create(path, thread.encode(), ephemeral=True), SetData(path, thread.encode(), 0))

    def leave(self, group: str, *members: str) -> None:
        """Deletes the registrations and the owner znodes of members."""
        for topic in self.zk.list_many([owners_path(group)])[owners_path(group)] or ():
            for number in (
                self.zk.list_many([owners_topic_path(group, topic)])[owners_topic_path(group, topic)] or ()
            ):
                path = Owner.path(group, TopicPartition(topic, int(number)))
                if (self.zk.read(path).data or b"").decode().rpartition("-")[0] in {
                    f"{group}_{m}" for m in members
                }:
                    self.zk.multi(Delete(path, 1))
        for member in members:
            self.zk.multi(Delete(Registration.path(group, f"{group}_{member}"), 0))

    def offset(self, group: str, topic: str, partition: int, value: int) -> None:
        path = Offset.path(group, TopicPartition(topic, partition))
        found = self.zk.find(path)
        data = str(value).encode()
        self.zk.multi(Create(path, data) if found is None else SetData(path, data, found.stat.version))

    def offset_of(self, group: str, topic: str, partition: int) -> int | None:
        found = self.zk.find(Offset.path(group, TopicPartition(topic, partition)))
        return int(found.data) if found and found.data else None

    def exists(self, path: str) -> bool:
        return self.zk.exists(path) is not None
