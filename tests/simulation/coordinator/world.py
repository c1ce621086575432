"""The world of one schedule of coordinated groups: a cluster, clients, ZooKeeper consumers."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final

from tests.simulation.cluster.broker import SimulatedBroker
from tests.simulation.cluster.world import ClusterWorld
from tests.simulation.coordinator.calls import ClientCall, ClientNetwork
from tests.simulation.coordinator.client import (
    REQUEST_MS,
    ClientPhase,
    GroupClient,
    offset_rows,
)
from tests.simulation.coordinator.setup import OTHER_TOPIC, PARTITIONS, TOPIC, CoordinatorSetup
from tests.simulation.coordinator.zookeeper_member import ZooKeeperMember
from tests.simulation.schedule import Action, ScheduleRecording
from zkgroup.broker.groups.store_events import OffsetsRead
from zkgroup.broker.groups.stored_coordinator import ServiceResult
from zkgroup.coordinator.effects import CommitOffsetsResult
from zkgroup.coordinator.events import CommitOffsets, FetchOffsets
from zkgroup.coordinator.group_ids import slot_of
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.model.requests import Create
from zkgroup.znodes.admin_requests import TopicDeletion
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import Offset, offset_path
from zkgroup.znodes.coordinated_groups import OffsetAndMetadata

_PARTITIONS = tuple(TopicPartition(TOPIC, number) for number in range(PARTITIONS))
OTHER: Final = TopicPartition(OTHER_TOPIC, 0)
"""A partition that no member subscribes to: only clients that are no members commit it."""


class CoordinatorWorld(ClusterWorld):
    """A cluster whose brokers coordinate groups, and the members of these groups."""

    def __init__(self, setup: CoordinatorSetup, rng: random.Random) -> None:
        super().__init__(setup, rng)
        self.members_setup = setup
        self.calls = ClientNetwork(self.clock, rng, self.figures)
        self.group_clients: list[GroupClient] = []
        """Those that run."""
        self.zookeeper_members: list[ZooKeeperMember] = []
        """Those that run."""
        self._members_history = ScheduleRecording(self.clock)
        """What the ZooKeeper consumers record, which is checked in schedules of their own."""
        self._members_started = 0

    def start_client(self, group: str, index: int) -> GroupClient:
        """Starts a client of the coordinator; the first ones of a group are static."""
        self._members_started += 1
        setup, number = self.members_setup, self._members_started
        instance = f"{group}-i{index}" if index < setup.static else None
        client = GroupClient(
            self, group, f"{group}-c{index}-{number}", index, number, setup.options, instance
        )
        self.group_clients.append(client)
        return client

    def start_zookeeper_member(self, group: str, index: int) -> ZooKeeperMember:
        """Starts a ZooKeeper consumer, with a session of its own."""
        self._members_started += 1
        client = self.server.client(f"z{index}-{self._members_started}", self.setup.session_timeout_ms)
        member = ZooKeeperMember(
            group, client, self.clock, self._members_history, self._members_started, TOPIC, self.rng
        )
        self.zookeeper_members.append(member)
        return member

    def kill_zookeeper_member(self, member: ZooKeeperMember) -> None:
        """Ends it without any notification; its session stays until it expires."""
        member.actor.kill()
        self.zookeeper_members.remove(member)
        keeps = self.rng.random() < 0.3
        self.server.cut(member.name, executed=self.rng.randint(0, 2), keep_requests=keeps, hold=True)

    def clients_of(self, group: str) -> list[GroupClient]:
        """The running clients of a group."""
        return [one for one in self.group_clients if one.group == group]

    def members_of(self, group: str) -> list[ZooKeeperMember]:
        """The running ZooKeeper consumers of a group."""
        return [one for one in self.zookeeper_members if one.group == group]

    def forget_ended(self) -> None:
        """Forgets members that have ended."""
        self.group_clients = [one for one in self.group_clients if one.is_running]
        self.zookeeper_members = [one for one in self.zookeeper_members if one.is_running]

    def find_coordinator(self, group: str) -> SimulatedBroker | None:
        """The coordinator, as a broker knows it that is drawn; None where that cannot be reached."""
        awake = self.awake_brokers()
        if not awake:
            return None
        found = self.rng.choice(awake).cache.coordinator(group, self.setup.slots)
        return self.brokers.get(found.broker)

    def partitions(self) -> Sequence[TopicPartition]:
        """What the groups consume."""
        return _PARTITIONS

    def note(self, client: GroupClient, kind: str, **fields: object) -> None:
        """Records what a client has done, or was answered."""
        who = {"group": client.group, "owner": client.instance_id or fields.get("member_id")}
        self.recording.record(client.pid, client.name, 0, kind, {**who, **fields})
        self.figures[f"client {kind}"] += 1

    def missing_topics(self) -> list[str]:
        """The topics of the setup that are deleted."""
        are_missing = (each for each in self.setup.topics if self.server.find(Topic.path(each)) is None)
        return [each for each in are_missing if self.server.find(TopicDeletion.path(each)) is None]

    def create_topic(self, topic: str) -> bool:
        """Creates a topic of the setup again."""
        data = Topic(dict(enumerate(self.setup.topics[topic]))).encode()
        return self.write(Create(Topic.path(topic), data))

    def offset_of_former_topic(self, group: str) -> TopicPartition | None:
        """A partition whose topic is not the one of which the coordinator stored an offset."""
        for tp in (*_PARTITIONS, OTHER):
            offset = self.server.find(offset_path(group, tp))
            path = OffsetAndMetadata.path(slot_of(group, self.setup.slots), group, tp)
            beside, topic = self.server.find(path), self.server.find(Topic.path(tp.topic))
            if offset is None or beside is None:
                continue
            is_own = (
                Offset.decode(offset.path, offset.data).value
                == OffsetAndMetadata.decode(path, beside.data).offset
            )
            if is_own and (topic is None or offset.stat.mzxid < topic.stat.czxid):
                return tp
        return None

    def kill(self, broker: int, *, executed: int = 0, keep_requests: bool = False) -> None:
        """Kills a broker; the connections of its clients break."""
        process = self.brokers.get(broker)
        super().kill(broker, executed=executed, keep_requests=keep_requests)
        if process is not None:
            self._process_gone(process)

    def stop_process(self, broker: int) -> None:
        """Stops a broker; the connections of its clients break."""
        process = self.brokers[broker]
        super().stop_process(broker)
        self._process_gone(process)

    def _process_gone(self, process: SimulatedBroker) -> None:
        self.calls.process_gone(process)
        for client in self.group_clients:
            client.process_gone(process)

    def clients(self) -> dict[str, int]:
        """ZooKeeper clients of running processes; those of consumers have no broker: 0."""
        return super().clients() | {one.name: 0 for one in self.zookeeper_members if one.is_running}

    def actions(self) -> Iterator[Action]:
        """Possible next steps of processes and networks, without ZooKeeper's own steps."""
        yield from self.calls.steps(self.is_awake)  # first: what clients send below waits for the next round
        yield from super().actions()
        for client in list(self.group_clients):
            if self.is_awake(client.name):
                yield from client.actions()
        for member in list(self.zookeeper_members):
            if self.is_awake(member.name):
                yield from member.actions()

    def has_requests_of_groups(self, broker: SimulatedBroker) -> bool:
        """Whether requests to the broker's group coordinator wait."""
        return self.calls.waits_at(broker)

    def next_due_ms(self) -> int | None:
        """Time of the next timer of a running machine or client."""
        members: list[GroupClient | ZooKeeperMember] = [*self.group_clients, *self.zookeeper_members]
        times = [super().next_due_ms(), *(one.next_due_ms() for one in members if self.is_awake(one.name))]
        return min((each for each in times if each is not None), default=None)


class OutsideClient:
    """A client that commits or fetches once, without being a member."""

    def __init__(self, world: CoordinatorWorld, group: str, number: int) -> None:
        self.group, self.name = group, f"outside-{number}"
        self._world, self._number = world, number

    def commit(self) -> bool:
        """Sends the commit; False where there is no coordinator."""
        world = self._world
        commit = CommitOffsets(
            request_id=0,
            group_id=self.group,
            offsets={
                world.rng.choice([*world.partitions(), OTHER]): OffsetAndMetadata(
                    offset=world.rng.randint(0, 9), metadata=self.name
                )
            },
        )
        return self._send(commit) and self._note("commit.sent", commit=self.name, generation=-1)

    def fetch(self) -> bool:
        """Asks for the offsets of all partitions; False where there is no coordinator."""
        partitions = (*self._world.partitions(), OTHER)
        return self._send(FetchOffsets(request_id=0, group_id=self.group, partitions=partitions))

    def _send(self, request: CommitOffsets | FetchOffsets) -> bool:
        world = self._world
        process = world.find_coordinator(self.group)
        if process is None:
            return False
        world.calls.send(self, process, request, world.clock.now_ms() + REQUEST_MS)
        return True

    def _note(self, kind: str, **fields: object) -> bool:
        who = {"group": self.group, "owner": self.name}
        self._world.recording.record(0, self.name, 0, kind, {**who, **fields})
        self._world.figures[f"outside {kind}"] += 1
        return True

    def received(self, call: ClientCall, result: ServiceResult) -> None:
        """Notes a commit that was accepted, or what was read."""
        if isinstance(result, OffsetsRead):
            self._note("fetch.ok", since_ms=call.sent_ms, offsets=offset_rows(result))
        if not isinstance(result, CommitOffsetsResult):
            return
        stored = [[tp.topic, tp.partition] for tp, error in result.errors.items() if error is ErrorCode.NONE]
        if stored:
            self._note("commit.ok", commit=self.name, partitions=stored)

    def disconnected(self) -> None:
        """It does not try again."""


def is_settled(clients: Sequence[GroupClient]) -> bool:
    """Whether all clients of a group are in one generation and have all partitions."""
    generations = {one.believes.generation for one in clients}
    owned = {tp for one in clients for tp in one.assigned}
    are_working = all(one.phase is ClientPhase.WORKING for one in clients)
    return are_working and len(generations) == 1 and owned == set(_PARTITIONS)
