"""A broker's process in the simulation: the real machine, receiver, cache and replica host on one session.

Kafka's own brokers are played by the same parts, registered without our key; their candidate for
`/controller` is the one of `real_controller`.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from zkgroup.broker.isr_notices import NoticeTiming
from zkgroup.broker.machine import effects as ef
from zkgroup.broker.machine.core import BrokerConfig
from zkgroup.broker.machine.counting import count
from zkgroup.broker.machine.events import (
    FetchesHeld,
    Followed,
    FollowerFetched,
    FollowersSeen,
    IsrsCounted,
    Led,
    Left,
    Serving,
)
from zkgroup.broker.machine.machine import BrokerMachine
from zkgroup.broker.memory_host import MemoryPlace, MemoryReplicaHost
from zkgroup.broker.metadata_cache import MetadataCache
from zkgroup.broker.node.gate import RegisteredStore
from zkgroup.broker.receiver import Action, BecomeFollower, BecomeLeader, Delete, Receiver, Stop
from zkgroup.broker.replica_host import Follower, ReplicaView, Role
from zkgroup.broker.replication.replica import no_fetch
from zkgroup.controller.machine.requests import ControlRequest
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Store
from zkgroup.testing.cluster_simulation.real_broker import AmongKafka, WithoutKey
from zkgroup.testing.cluster_simulation.shell import Shell
from zkgroup.wire.control import LeaderAndIsrRequest, StopReplicaRequest
from zkgroup.wire.error_codes import ErrorCode
from zkgroup.wire.messages import Response
from zkgroup.wire.replica_host import ACKS_ALL, AppendLinesRequest, FetchLinesRequest, FetchLinesResponse

if TYPE_CHECKING:
    from zkgroup.testing.cluster_simulation.world import World

LAG_MAX_MS: Final = 3_000
NOTICES: Final = NoticeTiming(every_ms=500, quiet_ms=500, waiting_max_ms=5_000)
CLUSTER_ID: Final = bytes(range(16))


@dataclass(frozen=True)
class Waiting:
    """Lines appended with acks=all that are not answered yet."""

    topic_partition: TopicPartition
    leader_epoch: int
    offset: int
    lines: tuple[bytes, ...]


class BrokerProcess:
    """One start of a broker. Its lines (`place`) outlive it."""

    def __init__(self, world: World, broker: int, place: MemoryPlace, *, pid: int, is_kafka: bool) -> None:
        self.broker, self.pid = broker, pid
        self.name = f"b{broker}-{pid}"
        self.host = MemoryReplicaHost(broker, place)
        self.cache = MetadataCache()
        self.receiver = Receiver(broker, self.cache)
        self.client = world.server.client(self.name, world.setup.session_timeout_ms)
        self.gate = RegisteredStore(self.client)
        self.epoch = -1
        self.is_up = self.obeys = False
        self.failure: Exception | None = None
        self.unfit: set[TopicPartition] = set()
        """What it could not serve: to its controller it is offline there until it starts or is in sync."""
        self.errands: deque[Callable[[], None]] = deque()
        """What the machine's thread has left to the replicas' thread, in order."""
        self.lives: dict[TopicPartition, int] = {}
        """Life of the topic when a role was taken."""
        self.follows: dict[TopicPartition, int] = {}
        self.held: set[TopicPartition] = set()
        """Followed, and not to be fetched for now."""
        self.waiting: list[Waiting] = []
        self.answers: dict[TopicPartition, tuple[FetchLinesRequest, FetchLinesResponse]] = {}
        self._world = world
        self._is_kafka = is_kafka
        config = BrokerConfig(
            broker=broker,
            new_cluster_id=CLUSTER_ID,
            lag_max_ms=LAG_MAX_MS,
            notices=NOTICES,
            jitter=world.rng.random,
        )
        self.machine = BrokerMachine(config)
        if is_kafka:
            self.machine.preparing = AmongKafka(self.machine.core)
        store: Store = WithoutKey(self.client) if is_kafka else self.client
        self.shell = Shell(self.machine, store, world.clock, self._perform)

    def stop(self) -> None:
        """The process is gone; its session is not told."""
        self.shell.stop()
        self.is_up = False
        self.errands.clear()
        self.waiting.clear()
        self.answers.clear()
        self.host.close()

    # --- the controller's requests --------------------------------------------------------------------

    @property
    def is_listening(self) -> bool:
        return self.is_up and self.obeys

    def obey(self, request: ControlRequest) -> Response | None:
        """What the broker's service does, at one moment; None where it closes the connection."""
        if not self.obeys:
            return None
        before = self.receiver.controller_epoch
        match request:
            case LeaderAndIsrRequest():
                handling: Any = self.receiver.leader_and_isr(request)
            case StopReplicaRequest():
                handling = self.receiver.stop_replica(request)
            case _:
                response: Response = self.receiver.update_metadata(request, self._world.clock.now_ms())
                return self._obeyed(request, before, response)
        try:
            action = next(handling)
            while True:
                error = self._act(action, request)
                self._acted(action, error)
                action = handling.send(error)
        except StopIteration as end:
            return self._obeyed(request, before, end.value)

    def _told(self, request: LeaderAndIsrRequest) -> None:
        """A word on what is held, too."""
        followed = set()
        for state in request.partitions:
            known = self.receiver.replicas.get(state.topic_partition)
            if known is not None and not known.leads and known.state.leader_epoch == state.leader_epoch:
                followed.add(state.topic_partition)
        self.held -= followed
        self.shell.tell(Followed(frozenset(tp.topic for tp in followed)))

    def _obeyed(self, request: ControlRequest, before: int | None, response: Any) -> Response:
        if response.error == ErrorCode.NONE:
            if isinstance(request, LeaderAndIsrRequest):
                self._told(request)
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

    def _act(self, action: Action, request: ControlRequest) -> int:
        match action:
            case BecomeLeader(state):
                self._world.audit.begins(self, action.topic_partition, request)
                isr = {*state.isr, self.broker}
                return self.host.become_leader(
                    action.topic_partition, state.leader_epoch, state.replicas, isr
                )
            case BecomeFollower(state, _):
                self._world.audit.begins(self, action.topic_partition, request)
                return self.host.become_follower(action.topic_partition, state.leader_epoch)
            case Stop(tp):
                self.host.stop(tp)
                return ErrorCode.NONE
            case Delete(tp):
                self._world.audit.deletes(self, tp, request)
                return self.host.delete(tp)

    def _acted(self, action: Action, error: int) -> None:
        tp = action.topic_partition
        self.follows.pop(tp, None)
        self.held.discard(tp)
        self.answers.pop(tp, None)
        match action:
            case BecomeLeader(state) if error == ErrorCode.NONE:
                self.unfit.discard(tp)
                self.shell.tell(Led(state))
                self._took(tp, state.leader, state.leader_epoch)
            case BecomeFollower(state, leader) if error == ErrorCode.NONE:
                self.shell.tell(Left(tp))
                self._took(tp, state.leader, state.leader_epoch)
                if leader is not None:
                    self.follows[tp] = leader.broker
            case _:
                self.shell.tell(Left(tp))
                if error == ErrorCode.KAFKA_STORAGE_ERROR:
                    self.unfit.add(tp)

    def _took(self, tp: TopicPartition, leader: int, leader_epoch: int) -> None:
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
        told: Mapping[str, object] = {"broker": self.broker, **fields}
        self._world.recording.record(self.pid, f"broker-{self.broker}", session, kind, told)

    # --- the machine's orders -------------------------------------------------------------------------

    def _perform(self, effect: ef.BrokerEffect) -> None:
        match effect:
            case ef.Prepared():
                self.shell.tell(Serving(f"h{self.broker}", 9092, f"folder-{self.broker}"))
            case ef.Registered(epoch, incarnation):
                if self.epoch >= 0:
                    self.cache.doubt()
                self.epoch = epoch
                self.is_up = True
                self.errands.append(self._registered)
                self._world.registered(self, incarnation)
            case ef.CountIsrs():
                self.errands.append(lambda: self._count(effect))
            case ef.LookAtFollowers():
                self.errands.append(lambda: self._look(effect))
            case ef.HoldFetches():
                self.errands.append(self._hold)
            case ef.FollowOn(partitions):
                self.errands.append(lambda: self.held.difference_update(partitions))
            case ef.Failed(error):
                self.failure = error
                self._note("registration.failed", error=str(error))
            case _:
                pass

    def _count(self, order: ef.CountIsrs) -> None:
        behind = count(self.host, order)
        if order.batch is not None:
            self.shell.tell(IsrsCounted(order.batch, behind))

    def _look(self, order: ef.LookAtFollowers) -> None:
        seen: dict[TopicPartition, tuple[int, Mapping[int, Follower]]] = {}
        for tp in order.partitions:
            view = self.host.view(tp)
            if view is not None and view.role is Role.LEADER:
                seen[tp] = view.leader_epoch, view.followers
        self.shell.tell(FollowersSeen(order.partitions, seen))

    def _registered(self) -> None:
        self.obeys = True

    def _hold(self) -> None:
        self.obeys = False
        self.answers.clear()
        new = frozenset(self.follows.keys() - self.held)
        self.held.update(new)
        self.shell.tell(FetchesHeld(new))

    # --- lines ----------------------------------------------------------------------------------------

    def leads(self, tp: TopicPartition) -> ReplicaView | None:
        view = self.host.view(tp)
        return view if view is not None and view.role is Role.LEADER else None

    def append(self, tp: TopicPartition, lines: tuple[bytes, ...]) -> bool:
        """A producer with acks=all; answered by `look_at_waiting`."""
        view = self.leads(tp)
        if view is None:
            return False
        request = AppendLinesRequest(tp.topic, tp.partition, view.leader_epoch, ACKS_ALL, lines)
        response = self.host.append(request)
        if response.error != ErrorCode.NONE:
            return False
        self.waiting.append(Waiting(tp, view.leader_epoch, response.base_offset, lines))
        return True

    def look_at_waiting(self) -> None:
        """Answers what the high watermark has passed; what is of a term that ended is never answered."""
        still = []
        for one in self.waiting:
            view = self.leads(one.topic_partition)
            if view is None or view.leader_epoch != one.leader_epoch:
                continue
            if view.high_watermark < one.offset + len(one.lines):
                still.append(one)
                continue
            tp = one.topic_partition
            self._note(
                "append.ok",
                topic=tp.topic,
                partition=tp.partition,
                offset=one.offset,
                leader_epoch=one.leader_epoch,
                lines=[line.decode() for line in one.lines],
                life=self._world.life(tp.topic),
            )
            self._world.acknowledged(tp, one.offset, one.lines)
        self.waiting = still

    def keep(self, tp: TopicPartition) -> None:
        """Records what this leader holds."""
        place = self._world.places[self.broker]
        log = place.open(tp)
        batches = log.read(0, log.end_offset, 1 << 30) if log is not None else ()
        lines = b"".join(batch.lines for batch in batches).decode().splitlines()
        life = self._world.life(tp.topic)
        self._note("lines.kept", topic=tp.topic, partition=tp.partition, lines=lines, life=life)

    def note_read(
        self, tp: TopicPartition, offset: int, lines: list[bytes], leader_epoch: int, life: int
    ) -> None:
        """A consumer was given these lines."""
        self._note(
            "lines.read",
            topic=tp.topic,
            partition=tp.partition,
            offset=offset,
            leader_epoch=leader_epoch,
            lines=[line.decode() for line in lines],
            life=life,
        )
        self._world.lines_read(tp, life, offset + len(lines))

    def ask(self, tp: TopicPartition) -> bool:
        """A follower asks the leader that it knows; the answer is on its way. Whether it could ask."""
        if tp in self.held:
            return False
        leader = self._world.network.processes.get(self.follows[tp])
        request = self.host.next_fetch(tp, broker_epoch=self.epoch, max_bytes=1_000, max_wait_ms=0)
        if request is None or not isinstance(leader, BrokerProcess) or not leader.is_up:
            return False
        if leader.knows(self.broker):
            response = leader.host.fetch(self._as_asked(request, leader.leads(tp)))
        else:
            response = no_fetch(ErrorCode.STALE_BROKER_EPOCH)
        if response.error == ErrorCode.NONE and response.diverging is None:
            leader.shell.tell(
                FollowerFetched(
                    tp, self.broker, request.offset, response.log_end_offset, response.high_watermark
                )
            )
        self.answers[tp] = request, response
        return True

    def knows(self, broker: int) -> bool:
        """Whether a controller has said that it lives."""
        return broker in self.cache.brokers

    def _as_asked(self, request: FetchLinesRequest, leader: ReplicaView | None) -> FetchLinesRequest:
        """What the leader makes of it."""
        if leader is None or not self._world.setup.fetches_without_terms:
            return request
        return dataclasses.replace(request, leader_epoch=leader.leader_epoch)

    def take(self, tp: TopicPartition) -> None:
        """The leader's answer arrives."""
        request, response = self.answers.pop(tp)
        self.host.take(request, response)
