"""A broker's port for tests, clients of it, and a replica manager whose every answer the test sets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import TypeVar

from tests.waiting import PATIENCE_S
from zkgroup.broker.machine.events import FollowerFetched
from zkgroup.broker.replica_view import Action, AppendResult, FollowerId, ReplicaView, Role
from zkgroup.broker.replicas.executor import ReplicaExecutor
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.replicas.min_insync import MinInsync
from zkgroup.broker.server.apis import BrokerApis
from zkgroup.broker.server.connection_choice import Peer
from zkgroup.broker.server.control_requests import ControlRequestHandler
from zkgroup.broker.server.handlers import RequestContext
from zkgroup.broker.server.metadata_cache import MetadataCache
from zkgroup.broker.server.metadata_requests import CreateTopic, SlotSource
from zkgroup.broker.server.port import ConnectionLimits
from zkgroup.broker.server.produce_requests import ProducerIdManager
from zkgroup.broker.server.server import BrokerServer
from zkgroup.model import TopicPartition
from zkgroup.security.listeners import Listener
from zkgroup.testing.clock import FakeClock
from zkgroup.wire.control import ControlledShutdownResponse, LeaderAndIsrRequest
from zkgroup.wire.messages import (
    ErrorCode,
    Request,
    RequestHeader,
    Response,
    decode_response,
    encode_request,
)
from zkgroup.wire.metadata import MetadataRequest, MetadataResponse
from zkgroup.wire.record_batch import check_records
from zkgroup.wire.records import NO_EPOCH, FetchedPartition, FetchPartition
from zkgroup.wire.schema import Buffer

ResponseT = TypeVar("ResponseT", bound=Response)

CLUSTER_ID = "LAKGEDWOQC6vMVe8_FqstQ"
ALL = MetadataRequest.of()
"""The metadata of all topics."""
NEW = ReplicaView(Role.NONE, -1, 0, 0, -1)


class JumpingLoop(asyncio.SelectorEventLoop):
    """A loop whose time a test can move on."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


def jump(seconds: float) -> None:
    """Moves the time of a test on; what is due by then happens in the next turns of the loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)
    loop.ahead_s += seconds


def on_a_loop(scenario: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Runs an async test; it may `jump`."""

    @wraps(scenario)
    def test(*arguments: object, **named: object) -> None:
        async def whole() -> None:
            await scenario(*arguments, **named)

        with asyncio.Runner(loop_factory=JumpingLoop) as runner:
            runner.run(whole())

    return test


def context_of(request: Request, version: int = 0) -> RequestContext:
    """The context of a request that a test gives to a handler itself."""
    return RequestContext(RequestHeader(request.API, version, 1, "test"), Peer("127.0.0.1", 1))


async def until(predicate: Callable[[], object]) -> None:
    """Waits as `wait_until` does, on a loop, which runs meanwhile."""
    async with asyncio.timeout(PATIENCE_S):
        while not predicate():
            await asyncio.sleep(0.001)


@dataclass
class ScriptedHost(ReplicaManager):
    """A `ReplicaManager` with views that the test sets. Records each call and the thread of the call."""

    broken: set[TopicPartition] = field(default_factory=set)
    """Raises for these, as no host may."""
    full: set[TopicPartition] = field(default_factory=set)
    """Answers 56 for these."""
    gate: threading.Event = field(default_factory=threading.Event)
    """Roles are taken while it is set."""
    asked: list[tuple[object, ...]] = field(default_factory=list)
    threads: set[threading.Thread] = field(default_factory=set)
    views: dict[TopicPartition, ReplicaView] = field(default_factory=dict)
    fetches: list[FetchedPartition] = field(default_factory=list)
    """Answers to fetches, in order; the last one stays."""
    cut: bool = False
    """Records that were appended are not here any more."""
    in_sync: int = 3
    """Replicas that the high watermark waits for."""
    closed: int = 0
    at_gate: bool = False

    def __post_init__(self) -> None:
        self.gate.set()
        self._listeners: list[Callable[[TopicPartition], None]] = []

    def _note(self, *what: object) -> None:
        self.asked.append(what)
        self.threads.add(threading.current_thread())

    def _role(self, tp: TopicPartition, role: Role, epoch: int, *what: object) -> ErrorCode:
        self.at_gate = True
        assert self.gate.wait(PATIENCE_S)
        self.at_gate = False
        self._note(*what)
        if tp in self.broken:
            raise OSError("broken")
        if tp in self.full:
            return ErrorCode.KAFKA_STORAGE_ERROR
        self.show(tp, role=role, leader_epoch=epoch)
        return ErrorCode.NONE

    def show(self, tp: TopicPartition, **changes: object) -> None:
        """Sets the view of a partition and notifies the listeners."""
        self.views[tp] = replace(self.views.get(tp, NEW), **changes)  # type: ignore[arg-type]
        for listener in self._listeners:
            listener(tp)

    def become_leader(
        self,
        topic_partition: TopicPartition,
        leader_epoch: int,
        replicas: Collection[int],
        isr: AbstractSet[int],
    ) -> ErrorCode:
        what = ("leader", topic_partition, leader_epoch, tuple(replicas), set(isr))
        return self._role(topic_partition, Role.LEADER, leader_epoch, *what)

    def become_follower(self, topic_partition: TopicPartition, leader_epoch: int) -> ErrorCode:
        what = ("follower", topic_partition, leader_epoch)
        return self._role(topic_partition, Role.FOLLOWER, leader_epoch, *what)

    def stop(self, topic_partition: TopicPartition) -> None:
        self._role(topic_partition, Role.NONE, -1, "stop", topic_partition)

    def delete(self, topic_partition: TopicPartition) -> ErrorCode:
        return self._role(topic_partition, Role.NONE, -1, "delete", topic_partition)

    def append(
        self, topic_partition: TopicPartition, records: Buffer, leader_epoch: int = NO_EPOCH
    ) -> AppendResult:
        self._note("append", topic_partition, bytes(records))
        view = self.views.get(topic_partition)
        if view is None:
            return AppendResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        start = view.log_end_offset
        end = start + sum(header.record_count for header in check_records(records))
        self.show(topic_partition, log_end_offset=end)
        return AppendResult(
            ErrorCode.NONE,
            start,
            end,
            view.leader_epoch,
            log_start_offset=0,
            high_watermark=view.high_watermark,
        )

    def maximal_isr_size(self, topic_partition: TopicPartition) -> int | None:
        view = self.views.get(topic_partition)
        return self.in_sync if view is not None and view.role is Role.LEADER else None

    def keeps(self, topic_partition: TopicPartition, leader_epoch: int, end_offset: int) -> bool:
        view = self.views[topic_partition]
        return view.role is Role.LEADER and not self.cut

    def high_watermark(self, topic_partition: TopicPartition) -> int | None:
        return self.views[topic_partition].high_watermark

    def fetch(
        self,
        topic_partition: TopicPartition,
        request: FetchPartition,
        follower: FollowerId | None = None,
        *,
        held: bool = False,
        **limits: object,
    ) -> FetchedPartition:
        self._note("fetch, held" if held else "fetch", topic_partition, request, follower)
        return self.fetches.pop(0) if len(self.fetches) > 1 else self.fetches[0]

    def partitions(self) -> Collection[TopicPartition]:
        return sorted(self.views)

    def view(self, topic_partition: TopicPartition) -> ReplicaView | None:
        return self.views.get(topic_partition)

    def listen(self, listener: Callable[[TopicPartition], None]) -> None:
        self._listeners.append(listener)

    def close(self) -> None:
        self._note("close")
        self.closed += 1


class Noted:
    """An observer that records every event."""

    def __init__(self) -> None:
        self.actions: list[tuple[Action, int]] = []
        self.fetches: list[FollowerFetched] = []
        self.orders: list[LeaderAndIsrRequest] = []
        self.strays: list[tuple[TopicPartition, ...]] = []

    def on_action(self, action: Action, error: int) -> None:
        self.actions.append((action, error))

    def on_fetches(self, fetched: Sequence[FollowerFetched]) -> None:
        self.fetches += fetched

    def on_leader_and_isr(self, request: LeaderAndIsrRequest) -> None:
        self.orders.append(request)

    def on_stray_replicas(self, partitions: Sequence[TopicPartition]) -> None:
        self.strays.append(tuple(partitions))


@dataclass
class Served:
    """Broker 1, listening on loopback."""

    address: tuple[str, int]
    server: BrokerServer
    service: BrokerApis
    receiver: ControlRequestHandler
    cache: MetadataCache
    clock: FakeClock
    noted: Noted
    thread: ReplicaExecutor | None

    async def client(self) -> Client:
        reader, writer = await asyncio.open_connection(*self.address)
        return Client(reader, writer)


@asynccontextmanager
async def served(
    host: ScriptedHost | None = None,
    limits: ConnectionLimits | None = None,
    controlled_shutdown: Callable[[int], asyncio.Future[ControlledShutdownResponse]] | None = None,
    is_live: Callable[[int], bool] = lambda broker: True,
    min_insync: MinInsync | None = None,
    producer_ids: ProducerIdManager | None = None,
    create_topic: CreateTopic | None = None,
    slots: SlotSource | None = None,
    create_offsets_topic: Callable[[], None] | None = None,
) -> AsyncIterator[Served]:
    """A served broker; at the end closes everything and checks that no task of it is left on the loop."""
    cache, clock, noted = MetadataCache(), FakeClock(), Noted()
    receiver = ControlRequestHandler(1, cache)

    async def present(topics: Sequence[str] | None) -> MetadataCache:
        return cache

    thread = None if host is None else ReplicaExecutor(host)  # type: ignore[arg-type]
    service = BrokerApis(
        broker=1,
        control_requests=receiver,
        metadata=present,
        clock=clock,
        replicas=thread,
        controlled_shutdown=controlled_shutdown,
        observer=noted,
        is_live=is_live,
        min_insync=min_insync,
        is_known=lambda tp: cache.partition(tp) is not None,
        producer_ids=producer_ids,
        cluster_id=lambda: CLUSTER_ID,
        create_topic=create_topic,
        slots=slots,
        create_offsets_topic=create_offsets_topic,
    )
    server = BrokerServer(service.respond, service.table.requests, limits)
    address = await opened(server)
    try:
        yield Served(address, server, service, receiver, cache, clock, noted, thread)
    finally:
        async with asyncio.timeout(PATIENCE_S):
            await server.close()
            await service.close()
            if thread is not None:
                assert await thread.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert server.held == server.connections == 0


@dataclass
class Client:
    """A connection to the port. Requests carry their number as correlation id."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    sent: int = 0
    sent_bytes: int = 0

    def send(self, request: Request, version: int = 0) -> None:
        self.sent += 1
        frame = encode_request(request, self.sent, "test", version=version)
        self.sent_bytes += len(frame)
        self.writer.write(frame)

    async def frame(self) -> bytes:
        """The next frame, without its size."""
        async with asyncio.timeout(PATIENCE_S):
            size = int.from_bytes(await self.reader.readexactly(4), "big")
            return await self.reader.readexactly(size)

    async def receive(self, kind: type[ResponseT], number: int | None = None, version: int = 0) -> ResponseT:
        """The next answer, which must belong to the request of that number, by default the last one sent."""
        correlation_id, response = decode_response(kind, await self.frame(), version=version)
        assert correlation_id == (self.sent if number is None else number)
        return response

    async def ask(self, request: Request, kind: type[ResponseT], version: int = 0) -> ResponseT:
        self.send(request, version)
        return await self.receive(kind, version=version)

    async def is_closed(self) -> bool:
        """Whether the broker closes the connection without sending another byte."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                return await self.reader.read() == b""
            except ConnectionError:
                return True

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


async def connected(broker: Served, count: int = 1) -> list[Client]:
    """So many clients; each has received one answer."""
    clients = [await broker.client() for _ in range(count)]
    for client in clients:
        await client.ask(ALL, MetadataResponse)
    return clients


async def closed(*clients: Client) -> None:
    for client in clients:
        await client.close()


async def client_of(address: tuple[str, int]) -> Client:
    return Client(*await asyncio.open_connection(*address))


async def opened(server: BrokerServer, port: int = 0) -> tuple[str, int]:
    """Opens one plain listener; returns its host and port."""
    one = Listener("PLAINTEXT", "127.0.0.1", port, "PLAINTEXT", "127.0.0.1", 0)
    (found,) = await server.start([one])
    return found.host, found.port


@asynccontextmanager
async def port_with(server: BrokerServer, count: int) -> AsyncIterator[tuple[tuple[str, int], list[Client]]]:
    """The address of a server, and so many clients that have received one answer; at the end closes them."""
    address = await opened(server)
    clients = [await client_of(address) for _ in range(count)]
    try:
        for client in clients:
            await client.ask(ALL, MetadataResponse)
        yield address, clients
    finally:
        await closed(*clients)
        await server.close()
