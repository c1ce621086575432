"""The group requests at a broker's port, on a store of groups in memory, and clients of it."""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tests.waiting import PATIENCE_S
from tests.worlds.serving import Client, opened
from zkgroup.broker.groups.handlers import GroupHandlers
from zkgroup.broker.groups.service import GroupCoordinatorService
from zkgroup.broker.groups.store_events import (
    ExpireOffsets,
    LegacyOffsetsRead,
    LegacyOffsetsWritten,
    MembersRead,
    OffsetsDeleted,
    OffsetsExpired,
    OffsetsRead,
    ReadLegacyOffsets,
    ReadMembers,
    SlotLed,
    SlotResigned,
    SlotsCounted,
    WriteLegacyOffsets,
    WriteManyOffsets,
)
from zkgroup.broker.replica_view import Role
from zkgroup.broker.server.handlers import ApiTable, Respond
from zkgroup.broker.server.server import BrokerServer
from zkgroup.broker.settings import BrokerSettings
from zkgroup.coordinator.effects import (
    DeleteGroup,
    DeleteOffsets,
    ReadOffsets,
    ReserveGenerations,
    WriteGroup,
    WriteOffsets,
)
from zkgroup.coordinator.events import (
    GroupWritten,
    LeaseExtended,
    OffsetsWritten,
    SlotLoaded,
    SlotLoading,
    SlotUnloaded,
    WriteOutcome,
)
from zkgroup.coordinator.group_ids import slot_of
from zkgroup.coordinator.records import GroupRecord
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.model.ports import Instant
from zkgroup.runtime.events import LogEvent, TimerFired
from zkgroup.testing.clock import FakeClock
from zkgroup.testing.memory_zookeeper import MemoryZooKeeper
from zkgroup.wire import groups as wire
from zkgroup.wire.messages import Request
from zkgroup.znodes.coordinated_groups import OFFSETS_TOPIC, OffsetAndMetadata

ANSWERS = "answers"
"""Timer at which the writes that were held get their outcomes."""

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class MemoryGroupStore:
    """What several brokers may share; each steps it as its own machine.

    `outcome` is that of every write. While `holds` is set, writes get theirs with `TimerFired(ANSWERS)`.
    """

    def __init__(self, slots: int = 1) -> None:
        self.slots = slots
        self.groups: dict[str, GroupRecord] = {}
        self.offsets: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
        self.zookeeper_members: dict[str, tuple[str, ...]] = {}
        self.unreadable: set[TopicPartition] = set()
        """Offsets that are no numbers."""
        self.outcome = WriteOutcome.STORED
        self.holds = False
        self.is_counted = False
        self.led: set[int] = set()
        self.written: list[object] = []
        """Every write, in order."""
        self.read: list[ReadOffsets] = []
        """Every OffsetFetch that came to the store."""
        self.effects_before: list[Any] = []
        """Given with the next step, before its own."""
        self._held: deque[Callable[[], list[Any]]] = deque()

    def step(self, event: Any, now: Instant) -> list[Any]:
        """`GroupStore.step`."""
        effects, self.effects_before = self.effects_before, []
        if not self.is_counted:
            self.is_counted = True
            effects.append(SlotsCounted(self.slots))
        return [*effects, *self._step(event)]

    def _step(self, event: Any) -> list[Any]:
        match event:
            case SlotLed(slot, epoch):
                self.led.add(slot)
                records = [each for name, each in self.groups.items() if slot_of(name, self.slots) == slot]
                return [SlotLoading(slot, epoch), SlotLoaded(slot, epoch, tuple(records))]
            case SlotResigned(slot, epoch):
                self.led.discard(slot)
                return [SlotUnloaded(slot, epoch)]
            case TimerFired(name) if name == ANSWERS:
                found = []
                while self._held:
                    found += self._held.popleft()()
                return found
            case ReadOffsets():
                self.read.append(event)
                return [self._read(event)]
            case ReadMembers(number, group):
                return [MembersRead(number, ErrorCode.NONE, self.zookeeper_members.get(group, ()))]
            case ReadLegacyOffsets():
                stored = self.offsets.get(event.group_id, {})
                offsets = {each: stored[each].offset for each in event.partitions if each in stored}
                unreadable = frozenset(self.unreadable.intersection(event.partitions))
                return [LegacyOffsetsRead(event.request_id, ErrorCode.NONE, offsets, unreadable)]
            case WriteGroup() | ReserveGenerations() | DeleteGroup() | WriteOffsets() | DeleteOffsets():
                self.written.append(event)
                return self._later(lambda: self._write(event))
            case WriteManyOffsets(writes):
                return [effect for write in writes for effect in self._step(write)]
            case WriteLegacyOffsets():
                self.written.append(event)
                return self._later(lambda: self._write_legacy(event))
            case ExpireOffsets(group, recorded):
                for each in recorded:
                    self.offsets[group].pop(each, None)
                left = bool(self.offsets.get(group))
                return [OffsetsExpired(group_id=group, partitions=frozenset(recorded), has_offsets=left)]
            case _:
                return []  # session events: memory has no session

    def _later(self, write: Callable[[], list[Any]]) -> list[Any]:
        if not self.holds:
            return write()
        self._held.append(write)
        return []

    def _read(self, read: ReadOffsets) -> OffsetsRead:
        stored = self.offsets.get(read.group_id, {})
        named = tuple(stored) if read.partitions is None else read.partitions
        unstable = dict.fromkeys(read.unstable & set(named), ErrorCode.UNSTABLE_OFFSET_COMMIT)
        offsets = {each: stored[each] for each in named if each in stored}
        return OffsetsRead(read.request_id, ErrorCode.NONE, offsets, unstable)

    def _write(self, write: Any) -> list[Any]:
        is_stored = self.outcome is WriteOutcome.STORED
        match write:
            case WriteGroup(write_id, record):
                if is_stored:
                    self.groups[record.group_id] = record
                return [GroupWritten(write_id, self.outcome)]
            case ReserveGenerations():
                found = self.groups.get(write.group_id)
                if is_stored and found is not None:
                    reserved = write.reserved_generation
                    self.groups[write.group_id] = replace(found, reserved_generation=reserved)
                return [GroupWritten(write.write_id, self.outcome)]
            case DeleteGroup(write_id, group, keeps_offsets):
                if keeps_offsets and self.offsets.get(group):
                    return [GroupWritten(write_id, WriteOutcome.HAS_OFFSETS)]
                if is_stored:
                    self.groups.pop(group, None)
                    self.offsets.pop(group, None)
                return [GroupWritten(write_id, self.outcome)]
            case WriteOffsets():
                if is_stored:
                    self.offsets.setdefault(write.group_id, {}).update(write.offsets)
                return [OffsetsWritten({write.write_id: dict.fromkeys(write.offsets, self.outcome)})]
            case DeleteOffsets(request_id=request_id, group_id=group, partitions=partitions):
                for each in partitions if is_stored else ():
                    self.offsets.get(group, {}).pop(each, None)
                return [OffsetsDeleted(request_id, dict.fromkeys(partitions, self.outcome))]
            case _:
                raise AssertionError(write)

    def _write_legacy(self, write: WriteLegacyOffsets) -> list[Any]:
        if self.outcome is WriteOutcome.STORED:
            offsets = {each: OffsetAndMetadata(offset=offset) for each, offset in write.offsets.items()}
            self.offsets.setdefault(write.group_id, {}).update(offsets)
        return [LegacyOffsetsWritten(write.request_id, dict.fromkeys(write.offsets, self.outcome))]


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
    served: Mapping[int, type[Request]]
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
    server = BrokerServer(around(table.respond), table.requests)
    service.start()
    for slot in range(slots if leads else 0):
        service.on_role(TopicPartition(OFFSETS_TOPIC, slot), Role.LEADER, 0)
    address = await opened(server)
    found = GroupServer(service, groups, server, clock, table.requests, address, logged, crashes)
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
