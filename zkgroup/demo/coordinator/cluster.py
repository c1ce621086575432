"""The processes of `zkgroup demo coordinator`: brokers, clients and producers, and the state last read."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from zkgroup.admin.coordinator import (
    CoordinatedGroupDescription,
    CoordinatorDescription,
    SlotDescription,
    describe_coordinator,
)
from zkgroup.demo.brokers.checks import Acknowledged
from zkgroup.demo.brokers.demo_cluster import EMPTY_CLUSTER, ClusterState, Producer, read_cluster
from zkgroup.demo.brokers.worker import BrokerChild
from zkgroup.demo.coordinator.view import (
    CoordinatedGroupRow,
    CoordinatingBrokerRow,
    CoordinatorView,
    GroupMemberRow,
)
from zkgroup.demo.coordinator.worker import ClientChild, ClientChildSettings
from zkgroup.demo.flight_data import PARTITIONS, TOPIC
from zkgroup.demo.group import group_state
from zkgroup.demo.group.worker import MemberChild, MemberChildSettings
from zkgroup.demo.progress import RUN_S, DemoRun
from zkgroup.errors import NotFoundError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.model import TopicPartition
from zkgroup.znodes.consumers import Offset
from zkgroup.zookeeper import ClientSettings

BROKERS = (1, 2, 3)
GROUP = "demo"
READ_EVERY_S = 0.3
END_WAIT_S = 10.0
TICK_MS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorDemoOptions:
    """Options of the demo. It always starts its own server, because the checks read the server's files."""

    keep: bool = False
    """Keep the files afterwards."""
    records_per_s: int = 400
    """Speed of the producer, until the last fault is over."""
    held_back: int = 2_000
    """Records that are produced when the ZooKeeper members have taken over the group."""
    session_timeout_ms: int = 4_000
    """Of brokers and of ZooKeeper members."""
    client_session_timeout_ms: int = 6_000
    """Of Kafka's clients."""
    timeout_s: float = RUN_S


@dataclass(kw_only=True)
class CoordinatorCluster(DemoRun[CoordinatorView]):
    """The processes of one run, and the state last read."""

    options: CoordinatorDemoOptions
    folder: Path
    lines: tuple[bytes, ...]
    zookeeper: str = ""
    ensemble: Ensemble = field(init=False)
    brokers: dict[int, BrokerChild] = field(default_factory=dict)
    """The newest process of each broker."""
    former: list[BrokerChild] = field(default_factory=list)
    """Processes that were killed and replaced by a newer one."""
    clients: list[ClientChild] = field(default_factory=list)
    members: list[MemberChild] = field(default_factory=list)
    """The ZooKeeper consumers."""
    producers: list[Producer] = field(default_factory=list)
    seen: ClusterState = EMPTY_CLUSTER
    group: CoordinatedGroupDescription | None = None
    """As its coordinator reports it; None before it exists."""
    slots: tuple[SlotDescription, ...] = ()
    zookeeper_group: group_state.DemoGroupState = group_state.EMPTY_GROUP
    offsets: Mapping[int, int] = field(default_factory=dict)
    """Partition to committed offset."""
    ends: dict[int, int] = field(default_factory=dict)
    """Partition to the next offset after the acknowledged records."""
    _counted: dict[int, int] = field(default_factory=dict)
    """Acknowledged records of each producer that are in `ends`."""

    def spawn(self, broker: int) -> BrokerChild:
        """Starts a broker process that waits for its settings; the broker's earlier process has ended."""
        if broker in self.brokers:
            self.former.append(self.brokers[broker])
        made = BrokerChild(broker, self.data_of(broker), self.folder / f"broker-{broker}.log")
        self.brokers[broker] = made
        return made

    def data_of(self, broker: int) -> Path:
        """The broker's data folder."""
        return self.folder / f"broker-{broker}"

    def start_broker(self, broker: int) -> None:
        """Sends the broker its settings, so that it starts serving."""
        self.brokers[broker].send_settings(self.zookeeper, self.options.session_timeout_ms)

    def start_client(self, name: str, client: str, bootstrap: str, jars: Path | None = None) -> None:
        """Starts a client of the group."""
        child_settings = ClientChildSettings(
            name=name,
            client=client,
            bootstrap=bootstrap,
            group=GROUP,
            output=str(self.folder / f"{name}.processed.jsonl"),
            session_timeout_ms=self.options.client_session_timeout_ms,
            jars=str(jars or ""),
        )
        self.clients.append(ClientChild(child_settings, self.folder / f"{name}.log"))

    def start_member(self, name: str) -> None:
        """Starts a ZooKeeper consumer of the group."""
        child_settings = MemberChildSettings(
            name=name,
            zookeeper=self.zookeeper,
            group=GROUP,
            source=None,
            output=str(self.folder / f"{name}.processed.jsonl"),
            history=str(self.folder / f"{name}.history.jsonl"),
            records_per_s=5_000,
            session_timeout_ms=6_000,
            server_tick_ms=TICK_MS,
            connection=ClientSettings(),
        )
        self.members.append(MemberChild(child_settings, self.folder / f"{name}.log"))

    def produce(self, lines: tuple[bytes, ...]) -> Producer:
        """Starts to produce these records."""
        producer = Producer(self.zookeeper, lines, PARTITIONS, self.options.records_per_s)
        self.producers.append(producer)
        return producer

    def stop_brokers(self) -> None:
        """Stops all brokers at once; their files are complete afterwards."""
        for broker in self.brokers.values():
            broker.close_stdin()
        until_s = time.monotonic() + END_WAIT_S
        for broker in self.brokers.values():
            broker.wait(max(until_s - time.monotonic(), 0))
            broker.close()

    def close(self) -> None:
        """Stops every process and the producers."""
        for producer in self.producers:
            producer.close()
        for child in (*self.clients, *self.members, *self.brokers.values(), *self.former):
            child.close()

    def refresh(self) -> None:
        """Reads the cluster, the group and the processes' events, and shows them."""
        self.seen = read_cluster(self.ensemble, PARTITIONS)
        for child in (*self.clients, *self.members, *self.brokers.values()):
            child.poll_events()
        if self.members:
            self.zookeeper_group = group_state.read_group(self.ensemble, GROUP)
        if self.clients:
            self._read_group()
        self._count()
        self.screen.show(self.view())

    def _read_group(self) -> None:
        paths = {Offset.path(GROUP, TopicPartition(TOPIC, n)): n for n in range(PARTITIONS)}
        found = self.ensemble.zk.read_many(list(paths))
        self.offsets = {
            number: Offset.decode(path, znode.data).value
            for path, number in paths.items()
            if (znode := found[path]) is not None
        }
        try:
            described: CoordinatorDescription = describe_coordinator(self.ensemble)
        except NotFoundError:  # no client has asked for a coordinator yet
            return
        self.slots = described.slots
        self.group = next((one for one in described.groups if one.group == GROUP), self.group)

    def _count(self) -> None:
        for number, producer in enumerate(self.producers):
            done = len(producer.acknowledged)
            for one in producer.acknowledged[self._counted.get(number, 0) : done]:
                self.ends[one.partition] = max(one.offset + 1, self.ends.get(one.partition, 0))
            self._counted[number] = done

    @property
    def acknowledged(self) -> list[Acknowledged]:
        """Every record acknowledged so far."""
        return [one for producer in self.producers for one in producer.acknowledged]

    @property
    def committed(self) -> int:
        """Number of records that the group has committed."""
        return sum(value for value in self.offsets.values() if value > 0)

    @property
    def produced(self) -> int:
        """Number of acknowledged records."""
        return sum(len(producer.acknowledged) for producer in self.producers)

    def check(self) -> None:
        """Raises where a process ended by itself or a producer failed."""
        for child in (*self.clients, *self.members, *self.brokers.values()):
            child.check()
        for producer in self.producers:
            producer.check()

    def view(self) -> CoordinatorView:
        """The view of what was read last."""
        return CoordinatorView(
            elapsed_s=self.elapsed_s,
            zookeeper=self.zookeeper,
            headline=self.headline,
            brokers=[self._broker_row(one) for _, one in sorted(self.brokers.items())],
            group=self._group_row(),
            members=[*map(self._client_row, self.clients), *map(self._member_row, self.members)],
            produced=self.produced,
            committed=self.committed,
            total=len(self.lines),
            events=tuple(self.events),
        )

    def partitions_of(self, name: str) -> tuple[int, ...]:
        """The partitions that are assigned to the client of this id, as the coordinator reports them."""
        members = self.group.members if self.group else ()
        return tuple(
            sorted(tp.partition for one in members if one.client_id == name for tp in one.partitions or ())
        )

    def _broker_row(self, process: BrokerChild) -> CoordinatingBrokerRow:
        broker = process.broker
        return CoordinatingBrokerRow(
            broker=broker,
            pid=process.pid,
            state=process.state,
            leads=self.seen.leads(broker),
            slots=sum(slot.leader == broker for slot in self.slots),
            coordinates=self.group is not None and self.group.leader == broker,
            controls=self.seen.controller == broker,
        )

    def _group_row(self) -> CoordinatedGroupRow:
        if self.members:
            return CoordinatedGroupRow(GROUP, self.zookeeper_group.state, None, None, None)
        one = self.group
        if one is None:
            return CoordinatedGroupRow(GROUP, "no member yet", None, None, None)
        ends_ms = one.phase_ends_in_ms
        ends_in_s = None if ends_ms is None else ends_ms / 1000
        return CoordinatedGroupRow(GROUP, one.phase, ends_in_s, one.generation, one.leader)

    def _client_row(self, process: ClientChild) -> GroupMemberRow:
        members = self.group.members if self.group else ()
        expires = [one.session_expires_in_ms for one in members if one.client_id == process.name]
        partitions = self.partitions_of(process.name)
        expires_ms = expires[0] if expires else None
        return GroupMemberRow(
            name=process.name,
            pid=process.pid,
            state=process.state,
            expires_in_s=None if expires_ms is None else expires_ms / 1000,
            processed=process.processed,
            lag=self._lag(partitions),
            partitions=partitions,
            gone=process.ended,
        )

    def _member_row(self, process: MemberChild) -> GroupMemberRow:
        owned = self.zookeeper_group.owners
        partitions = tuple(sorted(number for number, name in owned.items() if name == process.name))
        return GroupMemberRow(
            name=f"{process.name} (ZooKeeper)",
            pid=process.pid,
            state=process.state,
            expires_in_s=None,
            processed=process.processed,
            lag=self._lag(partitions),
            partitions=partitions,
            gone=process.ended,
        )

    def _lag(self, partitions: Iterable[int]) -> int:
        return sum(max(self.ends.get(n, 0) - max(self.offsets.get(n, 0), 0), 0) for n in partitions)
