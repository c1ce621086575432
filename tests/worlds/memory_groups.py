"""Groups on `MemoryZooKeeper`, written in members' sessions, and recorded trees of Kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.reader import read_snapshot
from zkgroup.groups.verify import expected_ownership
from zkgroup.model import StaticSubscription, Subscription, TopicPartition
from zkgroup.model.ports import Store
from zkgroup.model.requests import (
    Create,
    Operation,
    SetData,
)
from zkgroup.testing import FakeClock, MemoryZooKeeper
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import (
    Offset,
    Owner,
    Registration,
    ids_path,
    offsets_topic_path,
    owners_topic_path,
    views_path,
)
from zkgroup.znodes.group_records import View
from zkgroup.zookeeper.blocking import Blocking

OURS = {"zkgroup": "0.1.0", "strategy": "range", "exclude_internal": "true"}


def hold(server: MemoryZooKeeper, path: str, data: bytes) -> None:
    """Creates a znode in a session that lasts, or sets its data."""
    if server.find(path) is not None:
        server.put(path, data)
        return
    session = (server.clients.get("holder") or server.client("holder")).session
    assert session is not None
    parent = path.rpartition("/")[0]
    if server.find(parent) is None:
        server.put(parent)
    server.write(Create(path, data, ephemeral=True), session_id=session.session_id)


class MemoryGroups:
    """One ensemble with an operator on it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.server = MemoryZooKeeper(self.clock)
        self.ensemble = self.operator(self.server.client("operator"))

    def operator(self, store: Store, pause: Callable[[float], None] | None = None) -> Ensemble:
        """An operator's `Ensemble` on this store; pauses advance the clock."""
        return Ensemble(zk=Blocking(store), clock=self.clock, pause=pause or self.pass_time)

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(int(seconds * 1000))

    def topic(self, name: str, partitions: int) -> None:
        self.server.put(Topic.path(name), Topic(dict.fromkeys(range(partitions), (0,))).encode())

    def member(
        self,
        group: str,
        name: str,
        wanted: Subscription | Mapping[str, int],
        extensions: Mapping[str, str] | None = None,
    ) -> int:
        """Registers a member in a new session; returns that session."""
        subscription = StaticSubscription(wanted) if isinstance(wanted, Mapping) else wanted
        registration = Registration.of(
            subscription, self.clock.wall_ms(), OURS if extensions is None else extensions
        )
        return self.raw_member(group, name, registration.encode())

    def raw_member(self, group: str, name: str, data: bytes) -> int:
        """Writes any bytes as a registration."""
        member = f"{group}_{name}"
        client = self.server.client(member)
        self.parent(ids_path(group))
        assert client.session is not None
        session = client.session.session_id
        self.write(Create(Registration.path(group, member), data, ephemeral=True), session_id=session)
        return session

    def leave(self, group: str, name: str) -> None:
        self.server.clients[f"{group}_{name}"].close()

    def own(self, group: str, topic: str, partition: int, thread: str, session: int = 0) -> None:
        """Creates an owner znode as a zkgroup claim does; by default in the member's session."""
        tp = TopicPartition(topic, partition)
        path = Owner.path(group, tp)
        self.parent(owners_topic_path(group, topic))
        self.parent(offsets_topic_path(group, topic))
        if not session:
            client = self.server.clients[thread.rpartition("-")[0]]
            assert client.session is not None
            session = client.session.session_id
        offset = self.server.find(Offset.path(group, tp))
        bump: Operation = Create(Offset.path(group, tp), b"-1")
        if offset is not None:
            bump = SetData(offset.path, offset.data or b"", offset.stat.version)
        self.write(
            Create(path, thread.encode(), ephemeral=True),
            SetData(path, thread.encode(), 0),
            bump,
            session_id=session,
        )

    def own_as_planned(self, group: str) -> None:
        """Gives every partition the owner that the assignment names."""
        expected = expected_ownership(read_snapshot(self.ensemble, group))
        assert expected.owners is not None
        for tp, thread in sorted(expected.owners.items()):
            self.own(group, tp.topic, tp.partition, thread)

    def commit(self, group: str, topic: str, partition: int, offset: int | bytes) -> None:
        data = offset if isinstance(offset, bytes) else str(offset).encode()
        self.server.put(Offset.path(group, TopicPartition(topic, partition)), data)

    def publish(self, group: str, name: str, view: View) -> None:
        member = f"{group}_{name}"
        client = self.server.clients[member]
        assert client.session is not None
        self.parent(views_path(group))
        self.write(
            Create(View.path(group, member), view.encode(), ephemeral=True),
            session_id=client.session.session_id,
        )

    def hold(self, path: str, data: bytes) -> None:
        hold(self.server, path, data)

    def parent(self, path: str) -> None:
        if self.server.find(path) is None:
            self.server.put(path)

    def write(self, *operations: Operation, session_id: int = 0) -> None:
        outcome = self.server.write(*operations, session_id=session_id)
        assert type(outcome).__name__ == "MultiDone", outcome

    def offset(self, group: str, topic: str, partition: int) -> str | None:
        found = self.server.find(Offset.path(group, TopicPartition(topic, partition)))
        return None if found is None or found.data is None else found.data.decode()
