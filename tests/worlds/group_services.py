"""The group requests at a broker's port, on a store of groups in memory, and clients of it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.waiting import PATIENCE_S
from tests.worlds.memory_group_store import ANSWERS, MemoryGroupStore
from tests.worlds.serving import Client
from zkgroup.broker.groups.handlers import GroupHandlers
from zkgroup.broker.groups.service import GroupCoordinatorService
from zkgroup.broker.server.handlers import ApiTable, Respond
from zkgroup.broker.server.server import BrokerServer
from zkgroup.broker.settings import BrokerSettings
from zkgroup.coordinator.events import LeaseExtended
from zkgroup.model import TopicPartition
from zkgroup.runtime.events import LogEvent, TimerFired
from zkgroup.testing.clock import FakeClock
from zkgroup.testing.memory_zookeeper import MemoryZooKeeper
from zkgroup.wire import groups as wire

GROUP = "g"
PARTITION = TopicPartition("t", 0)
FAST = BrokerSettings(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=10)
PROTOCOLS = (wire.JoinProtocol(name="range", metadata=b"m"),)
TIMEOUT_MS = 10_000


@dataclass
class GroupServer:
    """Broker 1 at its port: it leads every slot. Its clock stands still until the test moves it."""

    service: GroupCoordinatorService
    store: MemoryGroupStore
    server: BrokerServer
    clock: FakeClock
    served: Mapping[int, range]
    address: tuple[str, int] = ("", 0)
    logged: list[LogEvent] = field(default_factory=list)
    crashes: list[Exception] = field(default_factory=list)

    async def client(self) -> GroupClient:
        return GroupClient(*await asyncio.open_connection(*self.address))

    def give_lease(self, ms: int) -> None:
        """The store reports a lease of so many milliseconds from now on."""
        self.store.effects_before.append(LeaseExtended(self.clock.now_ms() + ms))
        self.service._machine.step(TimerFired(ANSWERS))

    def release(self) -> None:
        """The writes that the store holds get their outcomes."""
        self.service._machine.step(TimerFired(ANSWERS))

    def advance(self, ms: int) -> None:
        """Moves the clock from timer to timer of the coordinator."""
        end = self.clock.now_ms() + ms
        while (due := self.service.coordinator.next_deadline_ms) is not None and due <= end:
            self.clock.jump(max(0, due - self.clock.now_ms()))
            self.service.advance()
        self.clock.jump(end - self.clock.now_ms())


@asynccontextmanager
async def group_server(
    settings: BrokerSettings = FAST,
    *,
    slots: int = 1,
    store: MemoryGroupStore | None = None,
    is_known: Callable[[TopicPartition], bool] = lambda tp: tp.topic == "t",
    unique_id: Callable[[], str] | None = None,
    around: Callable[[Respond], Respond] = lambda respond: respond,
    leads: bool = True,
) -> AsyncIterator[GroupServer]:
    """A served broker. At the end everything is closed, and no task of it is left on the loop.

    `around` wraps what answers requests.
    """
    clock, ids = FakeClock(), itertools.count(1)
    groups = store or MemoryGroupStore(slots)
    logged: list[LogEvent] = []
    crashes: list[Exception] = []
    zookeeper = MemoryZooKeeper(clock)
    client = zookeeper.client("broker", 6000)
    service = GroupCoordinatorService(
        1,
        client,
        clock,
        settings,
        on_crash=crashes.append,
        on_log=logged.append,
        machine=groups,
        unique_id=unique_id or (lambda: f"{next(ids):04}"),
    )
    handlers = GroupHandlers(service, is_known, clock, settings.offset_metadata_max_bytes)
    table = ApiTable(handlers.rows())
    server = BrokerServer(around(table.respond), table.versions)
    service.start()
    for slot in range(slots if leads else 0):
        service.slot_led(slot, 0)
    address = await server.start("127.0.0.1")
    found = GroupServer(service, groups, server, clock, table.versions, address, logged, crashes)
    try:
        yield found
    finally:
        async with asyncio.timeout(PATIENCE_S):
            await server.close()
        service.close()
        client.close()
        zookeeper.close()
        assert crashes == []
        assert asyncio.all_tasks() == {asyncio.current_task()}


class GroupClient(Client):
    """A connection of a client that uses groups; each method answers with the response."""

    def send_join(self, member_id: str = "", *, version: int = 3, group: str = GROUP, **fields: Any) -> None:
        self.send(join_request(member_id, group=group, **fields), version)

    async def join(self, member_id: str = "", *, version: int = 3, **fields: Any) -> wire.JoinGroupResponse:
        self.send_join(member_id, version=version, **fields)
        return await self.receive(wire.JoinGroupResponse, version=version)

    async def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        version: int = 3,
        group: str = GROUP,
        **fields: Any,
    ) -> wire.SyncGroupResponse:
        request = sync_request(member_id, generation, assignments, group=group, **fields)
        return await self.ask(request, wire.SyncGroupResponse, version)

    async def beat(self, member_id: str, generation: int, *, version: int = 3, group: str = GROUP) -> int:
        request = wire.HeartbeatRequest(group=group, generation=generation, member_id=member_id)
        return (await self.ask(request, wire.HeartbeatResponse, version)).error

    async def commit(
        self, *offsets: tuple[TopicPartition, int], version: int = 8, group: str = GROUP, **fields: Any
    ) -> dict[TopicPartition, int]:
        """The error of each partition."""
        request = commit_request(*(offsets or [(PARTITION, 1)]), group=group, **fields)
        response = await self.ask(request, wire.OffsetCommitResponse, version)
        return errors_of(response)

    async def fetch(
        self, *partitions: TopicPartition, version: int = 7, group: str = GROUP
    ) -> wire.OffsetFetchResponse:
        """The offsets of these partitions, or all."""
        topics = None
        if partitions or version < 2:
            topics = tuple(
                wire.OffsetFetchTopic(topic=tp.topic, partitions=(tp.partition,)) for tp in partitions
            )
        request = wire.OffsetFetchRequest(group=group, topics=topics)
        return await self.ask(request, wire.OffsetFetchResponse, version)

    async def describe(self, *groups: str, version: int = 5, **fields: Any) -> wire.DescribedGroup:
        request = wire.DescribeGroupsRequest(groups=groups or (GROUP,), **fields)
        return (await self.ask(request, wire.DescribeGroupsResponse, version)).groups[0]


def join_request(
    member_id: str = "",
    *,
    group: str = GROUP,
    session_ms: int = TIMEOUT_MS,
    rebalance_ms: int = TIMEOUT_MS,
    protocols: tuple[wire.JoinProtocol, ...] = PROTOCOLS,
    **fields: Any,
) -> wire.JoinGroupRequest:
    """A JoinGroup of a consumer."""
    return wire.JoinGroupRequest(
        group=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member_id,
        protocol_type="consumer",
        protocols=protocols,
        **fields,
    )


def sync_request(
    member_id: str,
    generation: int,
    assignments: dict[str, bytes] | None = None,
    *,
    group: str = GROUP,
    **fields: Any,
) -> wire.SyncGroupRequest:
    """A SyncGroup, of the leader with the assignments."""
    return wire.SyncGroupRequest(
        group=group,
        generation=generation,
        member_id=member_id,
        assignments=tuple(
            wire.MemberAssignment(member_id=each, assignment=assigned)
            for each, assigned in (assignments or {}).items()
        ),
        **fields,
    )


def commit_request(
    *offsets: tuple[TopicPartition, int], group: str = GROUP, metadata: str | None = "", **fields: Any
) -> wire.OffsetCommitRequest:
    """An OffsetCommit."""
    return wire.OffsetCommitRequest(
        group=group,
        topics=tuple(
            wire.TopicToCommit(
                topic=tp.topic,
                partitions=(wire.OffsetToCommit(partition=tp.partition, offset=offset, metadata=metadata),),
            )
            for tp, offset in offsets
        ),
        **fields,
    )


def errors_of(response: wire.OffsetCommitResponse | wire.OffsetDeleteResponse) -> dict[TopicPartition, int]:
    """The error of each partition."""
    return {
        TopicPartition(topic.topic, each.partition): each.error
        for topic in response.topics
        for each in topic.partitions
    }


def offsets_of(response: wire.OffsetFetchResponse) -> dict[TopicPartition, tuple[int, str | None, int]]:
    """Offset, metadata and error of each partition."""
    return {
        TopicPartition(topic.topic, each.partition): (each.offset, each.metadata, each.error)
        for topic in response.topics
        for each in topic.partitions
    }
