"""A broker in the simulation: production machine, control requests, metadata cache and replicas.

A broker of Kafka 0.8.2.2 is the same with Kafka's registration.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.simulation.cluster.coordination import SimulatedCoordinator
from tests.simulation.cluster.environment import ClusterEnvironment
from tests.simulation.cluster.replication import SimulatedFetcher, SimulatedFetches
from tests.simulation.cluster.shell import MachineShell
from tests.worlds.batches import batches_in, records_of
from tests.worlds.broker_requests import plain
from zkgroup.broker.hosted_controller import RegisteredStore
from zkgroup.broker.log.data_dir import DataDir, stored_records
from zkgroup.broker.log.log_config import LogConfig
from zkgroup.broker.machine import events as ef
from zkgroup.broker.machine.events import (
    BrokerMachineConfig,
    FetchesPaused,
    MaximalIsrsSet,
    ReplicasChanged,
    Serving,
    TopicsFollowed,
)
from zkgroup.broker.machine.isr import IsrChangePropagationConfig
from zkgroup.broker.machine.machine import BrokerMachine
from zkgroup.broker.machine.registration import BrokerStartup
from zkgroup.broker.replica_view import (
    Action,
    BecomeFollower,
    BecomeLeader,
    DeleteReplica,
    ReplicaView,
    Role,
    SetReplicas,
)
from zkgroup.broker.replicas.actions import (
    followed_again,
    perform,
    read_followers,
    role_change,
    set_maximal_isrs,
)
from zkgroup.broker.replicas.delayed_operations import DelayedProduce, append_records
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.replicas.min_insync import MinInsync
from zkgroup.broker.server.control_requests import ControlRequestHandler
from zkgroup.broker.server.metadata_cache import MetadataCache
from zkgroup.controller.machine.events import ControlRequest
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.ports import Store
from zkgroup.model.requests import Create, Multi, Outcome, Request, SetData
from zkgroup.wire.control import LeaderAndIsrRequest, StopReplicaRequest
from zkgroup.wire.messages import ErrorCode, Response
from zkgroup.wire.records import ACKS_ALL
from zkgroup.znodes.brokers import BrokerRegistration
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC

LAG_MAX_MS: Final = 3_000
NOTICES: Final = IsrChangePropagationConfig(every_ms=500, quiet_ms=500, waiting_max_ms=5_000)
CLUSTER_ID: Final = bytes(range(16))


@dataclass(frozen=True)
class UnacknowledgedAppend:
    """Records appended with acks=all, without a response yet."""

    topic_partition: TopicPartition
    values: tuple[bytes, ...]
    delayed: DelayedProduce


class SimulatedBroker:
    """One start of a broker. Its files (`storages` of the environment) outlive it."""

    def __init__(
        self,
        world: ClusterEnvironment,
        broker: int,
        *,
        pid: int,
        is_kafka: bool,
        registered: Callable[[SimulatedBroker, int], None],
    ) -> None:
        """`registered` is called with the session's incarnation: the broker is in `/brokers/ids`."""
        self.broker, self.pid = broker, pid
        self.name = f"b{broker}-{pid}"
        logs = LogConfig(segment_bytes=world.setup.segment_bytes)
        data_dir = DataDir.in_memory(logs, world.clock.wall_ms, world.storages[broker])
        self.host = ReplicaManager(broker, data_dir, world.clock.wall_ms)
        self.cache = MetadataCache(self._metadata_updated)
        self.receiver = ControlRequestHandler(broker, self.cache)
        self.client = world.server.client(self.name, world.setup.session_timeout_ms)
        self.registered_store = RegisteredStore(self.client)
        self.epoch = -1
        self.is_up = self.accepts_requests = False
        self.failure: Exception | None = None
        self.offline: set[TopicPartition] = set()
        """Partitions that it could not serve: for its controller it is offline there until it restarts or is
        in sync."""
        self.host_tasks: deque[Callable[[], None]] = deque()
        """Work of the machine's thread for the replicas' thread, in order."""
        self.lives: dict[TopicPartition, int] = {}
        """Incarnation of the topic when the role was taken."""
        self.follows: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        """Partitions whose fetches are paused."""
        self.min_insync = MinInsync(broker, 1)
        self.waiting: list[UnacknowledgedAppend] = []
        self.fetches = SimulatedFetches(world, self)
        """Fetches of other brokers from this leader."""
        self.fetchers: dict[int, SimulatedFetcher] = {}
        """Fetches of this broker, by leader."""
        self.world = self._world = world
        self._is_kafka = is_kafka
        self._note_registered = registered
        timing: dict[str, Any] = {"lag_max_ms": LAG_MAX_MS, "notices": NOTICES}
        config = BrokerMachineConfig(
            broker=broker, new_cluster_id=CLUSTER_ID, jitter=world.rng.random, **timing
        )
        self.machine = BrokerMachine(config)
        if is_kafka:
            self.machine.startup = Kafka08Startup(self.machine.core)
        store: Store = Kafka08Registering(self.client) if is_kafka else self.client
        self.shell = MachineShell(self.machine, store, world.clock, self._perform)
        settings = world.setup.coordinator
        self.coordinator = (
            None
            if settings is None
            else SimulatedCoordinator(world, settings, broker, self.client, self.cache.knows, self._note)
        )
        """The group coordinator, where the schedule has groups."""
        self._leader_epochs: dict[TopicPartition, int] = {}
        """Of the last role that had one."""

    def stop(self) -> None:
        """Ends the process; its session stays, and its logs are not closed."""
        self.shell.stop()
        if self.coordinator is not None:
            self.coordinator.stop()
        self.is_up = False
        self.host_tasks.clear()
        self.waiting.clear()
        self.fetches.stop()
        self._cut_off()

    def _cut_off(self) -> None:
        """Ends the fetches of this broker; what is in flight is lost."""
        for fetcher in self.fetchers.values():
            fetcher.cut_off()
        self.fetchers.clear()

    @property
    def is_listening(self) -> bool:
        return self.is_up and self.accepts_requests

    def handle_request(self, request: ControlRequest) -> Response | None:
        """Handles a control request at one moment; None where the broker closes the connection."""
        if not self.accepts_requests:
            return None
        before = self.receiver.controller_epoch
        match request:
            case LeaderAndIsrRequest():
                handling: Any = self.receiver.leader_and_isr(request)
            case StopReplicaRequest():
                handling = self.receiver.stop_replica(request)
            case _:
                response = self.receiver.update_metadata(request, self._world.clock.now_ms())
                return self._answered(request, before, response)
        try:
            action = next(handling)
            while True:
                error = self._perform_action(action, request)
                self._action_done(action, error)
                action = handling.send(error)
        except StopIteration as end:
            return self._answered(request, before, end.value)

    def _metadata_updated(self, deleted_topics: frozenset[str]) -> None:
        if self.coordinator is not None:
            self.coordinator.topics_deleted(deleted_topics)

    def _leader_and_isr_applied(self, request: LeaderAndIsrRequest) -> None:
        """Resumes paused fetches that the request sets up again."""
        followed = followed_again(self.receiver.replicas, request)
        self.paused -= followed
        self.shell.enqueue(TopicsFollowed(frozenset(tp.topic for tp in followed)))

    def _answered(self, request: ControlRequest, before: int | None, response: Any) -> Response:
        if response.error == ErrorCode.NONE:
            if isinstance(request, LeaderAndIsrRequest):
                self._leader_and_isr_applied(request)
            if before != request.controller_epoch:
                self._note(
                    "control.accepted",
                    incarnation=self.pid,
                    controller=request.controller_id,
                    epoch=request.controller_epoch,
                )
        else:
            self._world.figures["requests refused"] += 1
        assert isinstance(response, Response)
        return response

    def _perform_action(self, action: Action, request: ControlRequest) -> int:
        if isinstance(action, BecomeLeader | BecomeFollower):
            self._world.audit.begins(self.broker, action.topic_partition, request)
        elif isinstance(action, DeleteReplica):
            self._world.audit.deletes(self.broker, action.topic_partition, request)
        return perform(self.host, self.broker, action)

    def _action_done(self, action: Action, error: int) -> None:
        if isinstance(action, SetReplicas):
            self.shell.enqueue(ReplicasChanged(action.state))
            return
        change = role_change(action, error)
        tp = change.topic_partition
        leader = self.follows.pop(tp, None)
        self.paused.discard(tp)
        if (fetcher := self.fetchers.get(leader or 0)) is not None:
            if change.leader is not None and change.leader.broker == leader:
                fetcher.moved.add(tp)
            else:
                fetcher.drop(tp)
        change.apply_to(self.min_insync)
        self.shell.enqueue(change.event)
        if self.coordinator is not None:
            epoch = self._leader_epochs.get(tp) if change.leader_epoch is None else change.leader_epoch
            if epoch is not None:
                self._leader_epochs[tp] = epoch
            self.coordinator.role_taken(tp, change.role, epoch)
        if change.leader is not None and change.role is Role.FOLLOWER:  # nothing opens failed files again
            self.follows[tp] = change.leader.broker
        if change.role is Role.LEADER:
            self.offline.discard(tp)
        if isinstance(action, BecomeLeader | BecomeFollower) and error == ErrorCode.NONE:
            self._role_taken(tp, action.state.leader, action.state.leader_epoch)
        elif error == ErrorCode.KAFKA_STORAGE_ERROR:
            self.offline.add(tp)

    def _role_taken(self, tp: TopicPartition, leader: int, leader_epoch: int) -> None:
        life = self.lives[tp] = self._world.life(tp.topic)
        self._note(
            "role.taken",
            topic=tp.topic,
            partition=tp.partition,
            leader=leader,
            leader_epoch=leader_epoch,
            life=life,
        )

    def _note(self, kind: str, **fields: object) -> None:
        session = self.client.session.session_id if self.client.session else 0
        record_fields = {"broker": self.broker, **fields}
        self._world.recording.record(self.pid, f"broker-{self.broker}", session, kind, record_fields)

    def _perform(self, effect: ef.BrokerEffect) -> None:
        match effect:
            case ef.Prepared():
                self.shell.enqueue(Serving(plain(f"h{self.broker}", 9092), f"folder-{self.broker}"))
            case ef.Registered(epoch, incarnation):
                if self.epoch >= 0:
                    self.cache.mark_unconfirmed()
                self.epoch = epoch
                self.is_up = True
                self.host_tasks.append(self._registered)
                self._note_registered(self, incarnation)
            case ef.SetMaximalIsrs():
                self.host_tasks.append(lambda: self._count(effect))
            case ef.ReadFollowers():
                self.host_tasks.append(lambda: self._read_followers(effect))
            case ef.PauseFetches():
                self.host_tasks.append(self._hold)
            case ef.ResumeFetches(partitions):
                self.host_tasks.append(lambda: self.paused.difference_update(partitions))
            case ef.IsrChanged(tp, leader_epoch, isr):
                self.min_insync.isr_changed(tp, leader_epoch, isr)
            case ef.Failed(error):
                self.failure = error
                self._note("registration.failed", error=str(error))
            case _:
                pass

    def _count(self, order: ef.SetMaximalIsrs) -> None:
        behind = set_maximal_isrs(self.host, order)
        if order.batch is not None:
            self.shell.enqueue(MaximalIsrsSet(order.batch, behind))

    def _read_followers(self, order: ef.ReadFollowers) -> None:
        self.shell.enqueue(read_followers(self.host, order))

    def _registered(self) -> None:
        self.accepts_requests = True

    def _hold(self) -> None:
        self.accepts_requests = False
        self._cut_off()
        new = frozenset(self.follows.keys() - self.paused)
        self.paused.update(new)
        self.shell.enqueue(FetchesPaused(new))

    def leads(self, tp: TopicPartition) -> ReplicaView | None:
        view = self.host.view(tp)
        return view if view is not None and view.role is Role.LEADER else None

    def append(self, tp: TopicPartition, values: tuple[bytes, ...]) -> bool:
        """Appends the records of a producer with acks=all; `answer_waiting` responds.

        A producer to the topic of the slots is refused.
        """
        view = self.leads(tp)
        if view is None or tp.topic == OFFSETS_TOPIC:
            return False
        records = records_of(values, timestamp_ms=self._world.clock.wall_ms())
        results = append_records(self.host, {tp: records}, ACKS_ALL, self.min_insync)
        if results[tp].error is not ErrorCode.NONE:
            return False
        self.waiting.append(UnacknowledgedAppend(tp, values, DelayedProduce(results, self.min_insync)))
        return True

    def answer_waiting(self) -> None:
        """Responds to waiting appends and held fetches where it can."""
        waiting, self.waiting = self.waiting, []
        for one in waiting:
            if not one.delayed.check(self.host):
                self.waiting.append(one)
            elif one.delayed.results[one.topic_partition].error is ErrorCode.NONE:
                self._acknowledged(one)
        self.fetches.answer_held()

    def _acknowledged(self, one: UnacknowledgedAppend) -> None:
        tp, result = one.topic_partition, one.delayed.results[one.topic_partition]
        self._note(
            "append.ok",
            topic=tp.topic,
            partition=tp.partition,
            offset=result.base_offset,
            leader_epoch=result.leader_epoch,
            records=[value.decode() for value in one.values],
            life=self._world.life(tp.topic),
        )
        self._world.acknowledged(tp, result.base_offset, one.values)

    def keep(self, tp: TopicPartition) -> None:
        """Notes the records of this leader."""
        batches = list(batches_in(stored_records(self._world.storages[self.broker], tp)))
        values: list[str | None] = [None] * (batches[0].base_offset if batches else 0)  # they are deleted
        values += [value.decode() for batch in batches for value in batch.values]
        life = self._world.life(tp.topic)
        self._note("records.kept", topic=tp.topic, partition=tp.partition, records=values, life=life)

    def note_read(
        self, tp: TopicPartition, offset: int, values: list[bytes], leader_epoch: int, life: int
    ) -> None:
        """Notes that a consumer has read these values."""
        self._note(
            "records.read",
            topic=tp.topic,
            partition=tp.partition,
            offset=offset,
            leader_epoch=leader_epoch,
            records=[value.decode() for value in values],
            life=life,
        )
        self._world.records_read(tp, life, offset + len(values))

    def fetchable(self) -> list[int]:
        """The leaders that this broker could send a fetch now.

        A request that a leader holds is cut off for partitions that it does not name.
        """
        found = []
        for leader in dict.fromkeys(self.follows.values()):
            fetcher = self.fetchers.get(leader)
            if fetcher is None or fetcher.in_flight is None:
                found.append(leader)
                continue
            new = self._followed(leader) - fetcher.session.partitions.keys()
            if new and fetcher.response is None:
                found.append(leader)
        return found

    def _followed(self, leader: int) -> set[TopicPartition]:
        return {tp for tp, one in self.follows.items() if one == leader and tp not in self.paused}

    def ask(self, leader_id: int) -> bool:
        """Sends a fetch to a leader that this follower knows; returns whether it could."""
        leader = self._world.network.processes.get(leader_id)
        if not isinstance(leader, SimulatedBroker) or not leader.is_up:
            return False
        fetcher = self.fetchers.get(leader_id)
        if fetcher is None or fetcher.leader is not leader:
            fetcher = self.fetchers[leader_id] = SimulatedFetcher(self, leader)
        elif fetcher.in_flight is not None:
            fetcher.cut_off()
        return fetcher.ask(self._followed(leader_id))

    def delete_records(self, tp: TopicPartition, offset: int) -> bool:
        """Deletes the records of a leader below an offset, as retention does."""
        if self.host.delete_records(tp, offset) != ErrorCode.NONE:
            return False
        self._world.deleted_below(tp, self.lives.get(tp, 0), offset)
        return True

    def knows(self, broker: int) -> bool:
        """Whether the metadata cache has this broker as live."""
        return broker in self.cache.brokers


class Kafka08Startup(BrokerStartup):
    """The start of a Kafka broker, which accepts other Kafka brokers."""

    def _is_foreign(self, znode: Znode) -> bool:
        return False


class Kafka08Registering:
    """A store that registers a broker as Kafka does: without zkgroup's key."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.listen, self.abandon, self.close = store.listen, store.abandon, store.close

    @property
    def last_zxid(self) -> int:
        return self._store.last_zxid

    def submit(
        self,
        request: Request,
        *,
        incarnation: int,
        on_outcome: Callable[[Outcome], None],
        on_watch: Callable[[str], None] | None = None,
    ) -> None:
        """See `Store`."""
        if isinstance(request, Multi):
            request = Multi(tuple(_without_key(each) for each in request.operations))
        self._store.submit(request, incarnation=incarnation, on_outcome=on_outcome, on_watch=on_watch)


def _without_key(operation: Any) -> Any:
    by_zkgroup = isinstance(operation, Create | SetData) and operation.path.startswith("/brokers/ids/")
    if not by_zkgroup:
        return operation
    record_fields = BrokerRegistration.decode(operation.path, operation.data)
    plain = dataclasses.replace(record_fields, extensions={})
    return dataclasses.replace(operation, data=plain.encode())
