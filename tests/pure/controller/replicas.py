"""Brokers and their copies of partitions in memory: they obey the controller's requests and write ISRs.

As the exhaustive model has them (`tests/programs/model/controller`): a copy holds everything that was
acknowledged, is behind, or is not there. `Replicas.judge` says what must hold after every step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from tests.worlds.stepped_electors import SteppedElectors
from zkgroup.controller.machine.events import ControlRequest
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Create, Delete, MultiDone, SetData
from zkgroup.testing.memory_zookeeper import ServerStep
from zkgroup.wire.control import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionError,
    PartitionStateInfo,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataResponse,
)
from zkgroup.wire.messages import ErrorCode
from zkgroup.znodes.admin_requests import Reassignment, TopicDeletion
from zkgroup.znodes.brokers import (
    NO_LEADER,
    BrokerRegistration,
    Endpoint,
    PartitionState,
    Topic,
    broker_ids_path,
    topics_path,
)

Brokers = tuple[int, ...]
WHOLE, BEHIND = 2, 1


@lru_cache
def _state_in(data: bytes | None) -> PartitionState:
    return PartitionState.decode("", data)


@lru_cache
def _topic_in(data: bytes | None) -> Topic:
    return Topic.decode("", data)


@dataclass
class Copy:
    """What a broker knows of a partition that it got in a request."""

    leader_epoch: int
    leader: int
    isr: Brokers
    version: int
    replicas: Brokers


@dataclass
class Host:
    """One broker. Its logs outlive it, what it was sent does not."""

    id: int
    session: int = 0
    incarnation: int = 0
    """czxid of its registration; 0 while it is down."""
    epoch: int = 0
    copies: dict[TopicPartition, Copy] = field(default_factory=dict)
    logs: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def is_up(self) -> bool:
        return self.incarnation > 0


class Replicas:
    """The brokers of a world."""

    def __init__(self, world: SteppedElectors, ids: Brokers, version: int = 4) -> None:
        self.world = world
        self.hosts = {id_: Host(id_) for id_ in ids}
        self.version = version
        """Of the registrations; from 4 on a topic's own keys name reassignments."""
        self.holds_back: set[int] = set()
        """Followers that fetch nothing for now."""
        self.floors: dict[TopicPartition, int] = {}
        self.topics: list[str] = []
        self._epochs: dict[TopicPartition, int] = {}
        self._judged = 0
        for path in (broker_ids_path(), topics_path(), "/admin/delete_topics", "/isr_change_notification"):
            world.server.put(path)
        for path in ("/config/changes", "/config/topics"):
            world.server.put(path)
        for id_ in ids:
            self.start(id_)

    def start(self, id_: int) -> None:
        """Registers the broker in a session of its own; it knows nothing, and has its logs."""
        client = self.world.server.client()
        self.world.server.deliver(ServerStep("connect", client.name))
        assert client.session is not None
        host = self.hosts[id_]
        host.session, host.epoch, host.copies = client.session.session_id, 0, {}
        listeners = [Endpoint("PLAINTEXT", "h", 9000 + id_, "PLAINTEXT")]
        data = BrokerRegistration.of(listeners, 0, self.version).encode()
        path = BrokerRegistration.path(id_)
        self.world.write(Create(path, data, ephemeral=True), session_id=host.session)
        host.incarnation = self.world.find(path).stat.czxid

    def stop(self, id_: int) -> None:
        """The broker dies, and its registration goes."""
        self.world.write(Delete(BrokerRegistration.path(id_), 0))
        host = self.hosts[id_]
        host.incarnation, host.copies = 0, {}

    def topic(self, name: str, partitions: Mapping[int, Brokers]) -> None:
        """A topic whose partitions are led by their first replicas, all in sync."""
        self.topics.append(name)
        self.world.write(
            Create(Topic.path(name), Topic(dict(partitions)).encode()),
            Create(Topic.partitions_path(name), None),
        )
        for number, replicas in partitions.items():
            each = TopicPartition(name, number)
            state = PartitionState(replicas[0], 0, replicas, 0)
            self.world.write(
                Create(Topic.partition_path(each), None), Create(PartitionState.path(each), state.encode())
            )
            for id_ in replicas:
                self.hosts[id_].logs[each] = WHOLE

    def obey(
        self, id_: int, request: ControlRequest
    ) -> LeaderAndIsrResponse | StopReplicaResponse | UpdateMetadataResponse:
        """As a broker of 0.8.2.2 does (controller.md 7.5)."""
        host = self.hosts[id_]
        stale = request.controller_epoch < host.epoch
        error = ErrorCode.STALE_CONTROLLER_EPOCH if stale else ErrorCode.NONE
        host.epoch = max(host.epoch, request.controller_epoch)
        if isinstance(request, LeaderAndIsrRequest):
            done = () if stale else tuple(self._lead_or_follow(host, request))
            return LeaderAndIsrResponse(error, done)
        if isinstance(request, StopReplicaRequest):
            done = () if stale else tuple(self._stop(host, request))
            return StopReplicaResponse(error, done)
        return UpdateMetadataResponse(error)

    def _lead_or_follow(self, host: Host, request: LeaderAndIsrRequest) -> Iterator[PartitionError]:
        for info in request.partitions:
            known = host.copies.get(info.topic_partition)
            if known is not None and info.leader_epoch <= known.leader_epoch:
                yield PartitionError(*info.topic_partition, ErrorCode.STALE_LEADER_EPOCH)
            elif host.id in info.replicas:
                self._take(host, info)
                yield PartitionError(*info.topic_partition, ErrorCode.NONE)

    def _take(self, host: Host, info: PartitionStateInfo) -> None:
        each = info.topic_partition
        host.copies[each] = Copy(info.leader_epoch, info.leader, info.isr, info.zk_version, info.replicas)
        host.logs.setdefault(each, BEHIND)

    def _stop(self, host: Host, request: StopReplicaRequest) -> Iterator[PartitionError]:
        for each in request.partitions:
            host.copies.pop(each, None)
            if request.delete:
                state = None if self._is_going(each.topic) else self.state(each)
                in_sync = state.isr if state else ()
                assert host.id not in in_sync, f"broker {host.id} of the ISR deletes {each}"
                host.logs.pop(each, None)
            yield PartitionError(*each, ErrorCode.NONE)

    def work(self) -> bool:
        """Followers catch up, and leaders take them into the ISR. Whether anything was written."""
        did = False
        for host in self.hosts.values():
            for each, copy in list(host.copies.items()):
                if host.is_up and copy.leader == host.id and host.logs.get(each) == WHOLE:
                    did |= self._expand(host, each, copy)
        return did

    def _expand(self, host: Host, each: TopicPartition, copy: Copy) -> bool:
        ready = [id_ for id_ in copy.replicas if id_ not in copy.isr and self._follows(id_, each, host.id)]
        if not ready:
            return False
        for id_ in ready:
            self.hosts[id_].logs[each] = WHOLE
        return self._write(host, each, copy, (*copy.isr, *ready))

    def drop(self, each: TopicPartition, follower: int) -> bool:
        """The leader takes a follower out of the ISR that is too slow."""
        state = self.state(each)
        assert state is not None
        host = self.hosts[state.leader]
        copy = host.copies[each]
        self.hosts[follower].logs[each] = BEHIND
        return self._write(host, each, copy, tuple(id_ for id_ in copy.isr if id_ != follower))

    def produce(self) -> None:
        """Every partition acknowledges a record: who is not in sync is behind from now on."""
        for host in self.hosts.values():
            for each, log in host.logs.items():
                state = self.state(each)
                if log == WHOLE and state is not None and host.id not in state.isr:
                    host.logs[each] = BEHIND

    def _follows(self, id_: int, each: TopicPartition, leader: int) -> bool:
        host = self.hosts[id_]
        copy = host.copies.get(each)
        return host.is_up and id_ not in self.holds_back and copy is not None and copy.leader == leader

    def _write(self, host: Host, each: TopicPartition, copy: Copy, isr: Brokers) -> bool:
        """As 0.8.2.2: with the version it was sent last; refused, it freezes (K9)."""
        state = self.state(each)
        assert state is not None
        received = PartitionState(host.id, copy.leader_epoch, isr, state.controller_epoch)
        path = PartitionState.path(each)
        answer = self.world.server.write(
            SetData(path, received.encode(), copy.version), session_id=host.session
        )
        if not isinstance(answer, MultiDone):
            return False
        copy.isr, copy.version = isr, copy.version + 1
        return True

    def state(self, each: TopicPartition) -> PartitionState | None:
        found = self.world.server.find(PartitionState.path(each))
        return None if found is None else _state_in(found.data)

    def lists(self, name: str) -> Topic:
        return _topic_in(self.world.find(Topic.path(name)).data)

    def _is_going(self, name: str) -> bool:
        return self.world.server.find(TopicDeletion.path(name)) is not None

    def request(self) -> Reassignment | None:
        found = self.world.server.find(Reassignment.path())
        return None if found is None else Reassignment.decode("", found.data)

    def judge_writes(self) -> None:
        """As `judge`, where anything was written since: other steps change nothing that it reads."""
        if len(self.world.server.log) != self._judged:
            self.judge()

    def judge(self) -> None:
        """S12, S13, S15, and that nothing acknowledged is lost."""
        self._judged = len(self.world.server.log)
        for name in self.topics:
            if self.world.server.find(Topic.path(name)) is None or self._is_going(name):
                continue
            for number, replicas in self.lists(name).partitions.items():
                each = TopicPartition(name, number)
                if (state := self.state(each)) is not None:
                    self._judge_one(each, replicas, state)

    def _judge_one(self, each: TopicPartition, replicas: Brokers, state: PartitionState) -> None:
        assert state.isr, f"{each}: nobody is in sync"
        assert state.leader in (*state.isr, NO_LEADER), f"{each}: the leader is not in sync"
        assert set(state.isr) <= set(replicas), f"{each}: in sync, and no replica"
        assert len(replicas) >= self.floors.get(each, 1), f"{each}: fewer replicas than before and after"
        assert state.leader_epoch >= self._epochs.get(each, 0), f"{each}: the leader epoch falls"
        self._epochs[each] = state.leader_epoch
        lost = [id_ for id_ in state.isr if self.hosts[id_].logs.get(each) != WHOLE]
        assert not lost, f"{each}: brokers {lost} are in sync without what was acknowledged"
