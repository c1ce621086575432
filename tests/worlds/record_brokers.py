"""Brokers with records on loopback, without ZooKeeper and controller: the test chooses the leaders.

All of them run on one event loop in one thread. Followers get appended records at once, unless they are held.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from operator import methodcaller
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.waiting import PATIENCE_S
from tests.worlds.replica_managers import Hosts, MemoryHosts, values_in
from tests.worlds.serving import context_of, opened
from zkgroup.broker.machine.events import ProducerIdsClaimed
from zkgroup.broker.replica_view import FollowerId
from zkgroup.broker.replicas.executor import PartitionWatch, ReplicaExecutor
from zkgroup.broker.replicas.manager import ReplicaManager
from zkgroup.broker.server.apis import BrokerApis
from zkgroup.broker.server.control_requests import ControlRequestHandler
from zkgroup.broker.server.handlers import Answer, RequestContext
from zkgroup.broker.server.log_dirs import IN_MEMORY, LogDirHandlers
from zkgroup.broker.server.metadata_cache import MetadataCache
from zkgroup.broker.server.metadata_requests import cached
from zkgroup.broker.server.produce_requests import ProducerIdManager
from zkgroup.broker.server.server import BrokerServer
from zkgroup.model import TopicPartition
from zkgroup.runtime.clock_loop import loop_factory
from zkgroup.testing.clock import FakeClock
from zkgroup.wire.control import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    PartitionStateInfo,
    UpdateMetadataBroker,
    UpdateMetadataRequest,
)
from zkgroup.wire.messages import Request
from zkgroup.wire.records import NO_EPOCH_END, ProduceRequest
from zkgroup.znodes.brokers import BrokerRegistration, Endpoint
from zkgroup.znodes.cluster import ProducerIdBlock

T = TypeVar("T")
CONTROLLER = 9
LONG_S = 3600.0


@dataclass
class _Running:
    server: BrokerServer
    service: BrokerApis
    thread: ReplicaExecutor
    address: tuple[str, int]
    requests: list[Request]


class RecordBrokers:
    """Brokers 1 to n. Methods are called from the test's thread."""

    def __init__(self, brokers: int = 3, hosts: Hosts | None = None, clock: FakeClock | None = None) -> None:
        """`clock`: of the brokers, and of their clients then; the system's where there is none."""
        self._hosts = hosts or MemoryHosts()
        self._numbers = range(1, brokers + 1)
        self.clock = clock or FakeClock()
        self._loop = (loop_factory(clock, "record-brokers") or asyncio.new_event_loop)()
        self._thread = threading.Thread(target=self._loop.run_forever, name="record-brokers")
        self._running: dict[int, _Running] = {}
        self._states: dict[TopicPartition, PartitionStateInfo] = {}
        self._copying: dict[tuple[TopicPartition, int], asyncio.Task[None]] = {}
        self._blocks = 0
        self.lost_answers: set[int] = set()
        """Brokers that close the connection in place of the next append's response; once each."""
        self.held: set[int] = set()
        """Brokers whose fetches are paused."""

    def __enter__(self) -> Self:
        self._thread.start()
        for number in self._numbers:
            self.start(number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in list(self._running):
            self.stop(number)
        self._run(self._end_copying(list(self._copying)))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def registrations(self) -> dict[int, BrokerRegistration]:
        """The brokers as in `/brokers/ids`."""
        return {number: self.registration(number) for number in sorted(self._running)}

    def registration(self, number: int) -> BrokerRegistration:
        listener = Endpoint("PLAINTEXT", *self._running[number].address, "PLAINTEXT")
        return BrokerRegistration.of([listener], 1, extensions={"zkgroup": {"role": "data"}})

    def start(self, number: int) -> None:
        """Starts a broker on the records of its predecessor; it gets all states."""
        self._run(self._start(number))
        self._tell_all()

    def stop(self, number: int) -> None:
        """Stops a broker: its connections close, its records stay."""
        running = self._running.pop(number)
        self._run(self._stop(running))

    def lose(self, number: int) -> None:
        """Stops a broker and deletes its records."""
        self._hosts.lose(number)

    def requests(self, number: int, kind: type[T]) -> list[T]:
        """Requests of clients to a running broker."""
        return [one for one in list(self._running[number].requests) if isinstance(one, kind)]

    def lead(
        self,
        tp: TopicPartition,
        leader: int,
        *,
        epoch: int = 0,
        isr: tuple[int, ...] | None = None,
        replicas: tuple[int, ...] | None = None,
        told: tuple[int, ...] | None = None,
    ) -> None:
        """Sets leaders, as a controller does; `told`: the brokers that get the decision, all running ones by
        default."""
        replicas = replicas or tuple(self._numbers)
        isr = replicas if isr is None else isr
        self._states[tp] = PartitionStateInfo(tp.topic, tp.partition, 1, leader, epoch, isr, epoch, replicas)
        self._tell_all(told, (tp,))

    @property
    def topics(self) -> set[str]:
        """Partitions with a leader."""
        return {tp.topic for tp in self._states}

    def records(self, number: int, tp: TopicPartition) -> list[bytes]:
        """Records of a running broker, in any role."""

        def read(host: ReplicaManager) -> list[bytes]:
            log = host._replicas[tp]._log  # type: ignore[attr-defined]
            return values_in(log.read(0, log.end_offset, 1 << 30))

        return self._run(self._running[number].thread.call(read))

    def watermark(self, number: int, tp: TopicPartition) -> int | None:
        return self._run(self._running[number].thread.call(lambda host: host.high_watermark(tp)))

    def _run(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(PATIENCE_S)

    async def _start(self, number: int) -> None:
        cache = MetadataCache()
        producer_ids = ProducerIdManager(lambda: self._loop.call_soon(producer_ids.claimed, self._block()))
        thread = ReplicaExecutor(self._hosts.open(number), name=f"replicas-{number}")
        service = BrokerApis(
            broker=number,
            control_requests=ControlRequestHandler(number, cache),
            metadata=cached(cache),
            clock=self.clock,
            replicas=thread,
            producer_ids=producer_ids,
            further=LogDirHandlers(thread, IN_MEMORY, cache.knows).rows(),
        )
        requests: list[Request] = []

        async def respond(context: RequestContext, request: Request) -> Answer:
            requests.append(request)
            response = await service.respond(context, request)
            if number in self.lost_answers and isinstance(request, ProduceRequest):
                self.lost_answers.discard(number)
                return None
            return response

        server = BrokerServer(respond, service.table.requests)
        address = await opened(server)
        self._running[number] = _Running(server, service, thread, address, requests)

    def _block(self) -> ProducerIdsClaimed:
        """The next block of ids for idempotent producers, each given to one broker."""
        self._blocks += 1
        return ProducerIdsClaimed(ProducerIdBlock(CONTROLLER, 1000 * self._blocks, 1000 * self._blocks + 999))

    async def _stop(self, running: _Running) -> None:
        await running.server.close()
        await running.service.close()
        assert await running.thread.close()

    def _tell_all(
        self, told: tuple[int, ...] | None = None, partitions: tuple[TopicPartition, ...] | None = None
    ) -> None:
        self._run(self._tell(told or tuple(self._running), partitions or tuple(self._states)))

    async def _tell(self, told: tuple[int, ...], partitions: tuple[TopicPartition, ...]) -> None:
        live = tuple(
            UpdateMetadataBroker(number, *one.address) for number, one in sorted(self._running.items())
        )
        states = tuple(self._states[tp] for tp in partitions)
        for number in told:
            respond = self._running[number].service.respond
            if states:
                roles = LeaderAndIsrRequest(CONTROLLER, 1, states, live)
                assert isinstance(await respond(context_of(roles), roles), LeaderAndIsrResponse)
            update = UpdateMetadataRequest(CONTROLLER, 1, states, live)
            await respond(context_of(update), update)
        for tp in partitions:
            await self._end_copying([key for key in self._copying if key[0] == tp])
            for number in self._states[tp].replicas:
                if number in self._running and self._states[tp].leader in self._running:
                    task = self._loop.create_task(self._copy(tp, self._states[tp].leader, number))
                    self._copying[tp, number] = task

    async def _end_copying(self, keys: list[tuple[TopicPartition, int]]) -> None:
        for key in keys:
            task = self._copying.pop(key)
            task.cancel()
            await asyncio.wait([task])

    async def _copy(self, tp: TopicPartition, leader: int, follower: int) -> None:
        """Fetches for a follower whenever its leader's log changes."""
        if follower == leader:
            return
        source, target = self._running[leader].thread, self._running[follower].thread
        watch = PartitionWatch(source)
        try:
            await source.call(lambda host: watch.add(tp))
            while True:
                if follower not in self.held:
                    await self._fetch(tp, follower, source, target)
                await source.complete(watch, lambda host: bool(watch.take()), source.now() + LONG_S)
        except RuntimeError:
            return  # one of the two is closed
        finally:
            source.post(lambda host: watch.close())

    async def _fetch(
        self, tp: TopicPartition, follower: int, source: ReplicaExecutor, target: ReplicaExecutor
    ) -> None:
        """Runs a follower's fetcher until it has everything."""
        while request := await target.call(lambda host: host.next_fetch(tp, 1 << 20)):
            response = await source.call(methodcaller("fetch", tp, request, FollowerId(follower, 0)))
            again = await target.call(methodcaller("take", tp, request, response))
            if not again or (not response.records and response.diverging == NO_EPOCH_END):
                return
