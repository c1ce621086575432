"""Running zkgroup brokers without a controller: the test sends the control requests."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.waiting import PATIENCE_S, eventually_at
from tests.worlds.broker_requests import produce_request
from zkgroup.broker.broker import Broker
from zkgroup.broker.log.storage import MemoryStorage
from zkgroup.broker.replica_view import ReplicaView, Role
from zkgroup.broker.settings import BrokerSettings
from zkgroup.broker.telemetry import BrokerListener
from zkgroup.model import TopicPartition
from zkgroup.model.ports import Store
from zkgroup.model.requests import Connected, Create, SessionEvent, SetData
from zkgroup.testing import MemoryZooKeeper
from zkgroup.testing.clock import FakeClock
from zkgroup.wire.control import BrokerEndPoint as Address
from zkgroup.wire.control import (
    ControlledShutdownResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionStateInfo,
    UpdateMetadataBroker,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from zkgroup.wire.messages import Request, Response, decode_response, encode_request
from zkgroup.wire.records import ACKS_ALL, ProduceResponse, ProduceResult
from zkgroup.znodes.brokers import PartitionState
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration
from zkgroup.zookeeper.blocking import Blocking

QUICK = BrokerSettings(
    replica_fetch_wait_max_ms=50,
    replica_fetch_backoff_ms=20,
    replica_lag_time_max_ms=2000,
    controlled_shutdown_retry_backoff_ms=10,
    controller_takeover_grace_ms=100,
)
"""Everything that waits by time waits little."""
CONTROLLER = 9
ResponseT = TypeVar("ResponseT", bound=Response)


def ask(
    port: int,
    request: Request,
    kind: type[ResponseT],
    clock: FakeClock | None = None,
    *,
    version: int = 0,
) -> ResponseT:
    """Sends one request on a new connection. ConnectionResetError where it is closed without an answer.

    `clock`: the broker's, which advances until the answer comes.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(encode_request(request, 0, "test", version=version))
        if clock is not None:
            clock.advance_until(
                lambda: any(select.select([connection], [], [], 0)), f"an answer to {request}"
            )
        with connection.makefile("rb") as stream:
            size = stream.read(4)
            payload = stream.read(int.from_bytes(size, "big"))
    if len(size + payload) < 4 + int.from_bytes(size, "big"):
        raise ConnectionResetError("the connection was closed")
    return decode_response(kind, payload, version=version)[1]


class Idle:
    """Stands in for the controller that a broker hosts, and records its sessions and requests."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.started = self.closed = False
        self.sessions: list[SessionEvent] = []
        self.asked: list[int] = []
        self.answers: list[ControlledShutdownResponse] = []
        """To requests for a controlled shutdown, in order; then 0 and nothing remaining."""

    def start(self) -> None:
        self.started = True
        self.store.listen(self.sessions.append)

    def close(self, timeout_s: float = 5.0) -> bool:
        self.closed = True
        return True

    def shut_down(self, broker: int) -> Future[ControlledShutdownResponse]:
        self.asked.append(broker)
        future: Future[ControlledShutdownResponse] = Future()
        future.set_result(self.answers.pop(0) if self.answers else ControlledShutdownResponse(0))
        return future

    @property
    def connected(self) -> list[int]:
        """The incarnations of the sessions that were reported to it."""
        return [event.session.incarnation for event in self.sessions if isinstance(event, Connected)]


class Told(BrokerListener):
    """A listener that records every event."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.events: list[tuple[Any, ...]] = []

    def _note(self, *event: Any) -> None:
        with self.lock:
            self.events.append(event)

    def on_registered(
        self, broker: int, host: str | None, port: int, epoch: int, listeners: Mapping[str, str]
    ) -> None:
        self._note("registered", broker, host, port, epoch)

    def on_disconnected(self, metadata_age_ms: int | None, controller_epoch: int | None) -> None:
        self._note("disconnected", metadata_age_ms, controller_epoch)

    def on_role(self, topic_partition: TopicPartition, role: Role, leader_epoch: int | None) -> None:
        self._note(role.value, topic_partition, leader_epoch)

    def on_isr(self, topic_partition: TopicPartition, leader_epoch: int, isr: Any) -> None:
        self._note("isr", topic_partition, leader_epoch, tuple(isr))

    def on_config(self, entity: Any, overrides: Mapping[str, str]) -> None:
        self._note("config", str(entity), dict(overrides))

    def on_failed(self, error: BaseException) -> None:
        self._note("failed", error)

    def of(self, kind: str) -> list[tuple[Any, ...]]:
        with self.lock:
            return [event for event in self.events if event[0] == kind]


@dataclass
class RunningBrokers:
    """Brokers by id, and the control requests of a controller that does not run."""

    clock: FakeClock | None = None
    """Of all that is given to brokers, where it is not the system's."""
    brokers: dict[int, Broker] = field(default_factory=dict)
    told: dict[int, Told] = field(default_factory=dict)
    idle: dict[int, Idle] = field(default_factory=dict)
    controller: int = CONTROLLER
    controller_epoch: int = 1
    all: list[Broker] = field(default_factory=list)

    def add(
        self,
        where: str | Store,
        broker: int | None,
        *,
        wait: bool = True,
        settings: BrokerSettings | None = None,
        memory: MemoryStorage | None = None,
        **more: Any,
    ) -> Broker:
        """Starts a broker, on an address or on a client."""
        told = Told()

        def make(broker: int, endpoints: object, store: Store, *more: object, **named: object) -> Idle:
            self.idle[broker] = Idle(store)
            return self.idle[broker]

        place: dict[str, Any] = {"address": where} if isinstance(where, str) else {"client": where}
        one = Broker(
            **place,
            broker=broker,
            listener=told,
            settings=settings or QUICK,
            **({"clock": self.clock} if self.clock is not None else {}),
            **more,
        )
        one._make_controller = make
        one._memory = memory
        self.all.append(one)
        if broker is not None:
            self.brokers[broker], self.told[broker] = one, told
        one.start()
        if wait:
            one.wait_registered(PATIENCE_S)
        return one

    def address(self, broker: int) -> Address:
        serving = self.brokers[broker].serving
        assert serving is not None
        return Address(broker, *serving)

    def lead(
        self,
        zk: Blocking,
        tp: TopicPartition,
        leader: int,
        replicas: tuple[int, ...],
        *,
        isr: tuple[int, ...] | None = None,
        leader_epoch: int = 0,
        told: tuple[int, ...] | None = None,
    ) -> None:
        """Writes the state as a controller does; sends it to all replicas (or `told`), the leader first."""
        self.take_over(zk)
        path = PartitionState.path(tp)
        state = PartitionState(leader, leader_epoch, isr or replicas, self.controller_epoch)
        found = zk.find(path)
        if found is None:
            parts = path.split("/")[1:-1]
            zk.create_missing(*["/" + "/".join(parts[: depth + 1]) for depth in range(len(parts))])
            zk.multi(Create(path, state.encode()))
            version = 0
        else:
            zk.multi(SetData(path, state.encode(), found.stat.version))
            version = found.stat.version + 1
        info = PartitionStateInfo(
            tp.topic,
            tp.partition,
            self.controller_epoch,
            leader,
            leader_epoch,
            isr or replicas,
            version,
            replicas,
        )
        living = list(self.brokers)
        for broker in sorted(told or replicas, key=lambda one: one != leader):
            request = LeaderAndIsrRequest(
                self.controller, self.controller_epoch, (info,), (self.address(leader),)
            )
            answer = self.ask(broker, request, LeaderAndIsrResponse)
            assert answer.error == 0
            assert [one.error for one in answer.partitions] == [0]
        addresses = self.live_brokers(*living)
        for broker in living:
            update = UpdateMetadataRequest(self.controller, self.controller_epoch, (info,), addresses)
            assert self.ask(broker, update, UpdateMetadataResponse).error == 0

    def live_brokers(self, *numbers: int) -> tuple[UpdateMetadataBroker, ...]:
        """Brokers as live ones."""
        found = map(self.address, numbers)
        return tuple(UpdateMetadataBroker(one.broker, one.host, one.port) for one in found)

    def take_over(self, zk: Blocking) -> None:
        """Writes the znodes of the controller, with which brokers compare its requests; or takes its id."""
        path = ControllerRegistration.path()
        if (found := zk.find(path)) is not None:
            self.controller = ControllerRegistration.decode(path, found.data).broker
        else:
            zk.multi(Create(path, ControllerRegistration(self.controller, 0).encode()))
        epoch = ControllerEpoch(self.controller_epoch).encode()
        if (found := zk.find(ControllerEpoch.path())) is None:
            zk.multi(Create(ControllerEpoch.path(), epoch))
        elif found.data != epoch:
            zk.multi(SetData(ControllerEpoch.path(), epoch, found.stat.version))

    def append(self, broker: int, tp: TopicPartition, *values: bytes) -> ProduceResult:
        """Appends records with acks=all."""
        request = produce_request(tp, ACKS_ALL, *values)
        ((found,),) = (
            topic.partitions for topic in self.ask(broker, request, ProduceResponse, version=8).topics
        )
        return found

    def ask(self, broker: int, request: Request, kind: type[ResponseT], *, version: int = 0) -> ResponseT:
        """Sends one request to a broker; with a clock of the test, time passes until the answer comes."""
        return ask(self.address(broker).port, request, kind, self.clock, version=version)

    def view(self, broker: int, tp: TopicPartition) -> ReplicaView:
        return self.brokers[broker].replicas()[tp]

    def close(self) -> None:
        for broker in self.all:
            broker.close()


T = TypeVar("T")
T0 = TopicPartition("t", 0)


class MemoryBrokers:
    """A ZooKeeper in memory, brokers, and a client that reads the state."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.server = MemoryZooKeeper(self.clock)
        self.running = RunningBrokers(clock=self.clock)
        self.zk = Blocking(self.server.client("witness"))

    def add(self, *brokers: int, settings: BrokerSettings = QUICK, **more: object) -> None:
        for broker in brokers:
            self.running.add(self.server.client(f"b{broker}"), broker, settings=settings, **more)

    def isr(self, tp: TopicPartition = T0) -> tuple[int, ...]:
        path = PartitionState.path(tp)
        return PartitionState.decode(path, self.zk.read(path).data).isr

    def eventually(self, read: Callable[[], T], predicate: Callable[[T], object] = bool) -> T:
        """The first value of `read()` that satisfies the predicate; time passes until then."""
        return eventually_at(self.clock, read, predicate)

    def becomes(self, read: Callable[[], T], expected: object) -> T:
        """`read()` once it equals what is expected; time passes until then."""
        return eventually_at(self.clock, read, lambda found: found == expected, what=f"expected {expected!r}")
