"""A group coordinator without a broker: its requests have numbers, and the test completes its writes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from zkgroup.coordinator.coordinator import GroupCoordinator
from zkgroup.coordinator.effects import (
    DeleteGroup,
    DeleteOffsets,
    DropRequest,
    Effect,
    GroupResult,
    ReadOffsets,
    Reply,
    ReserveGenerations,
    WriteGroup,
    WriteOffsets,
)
from zkgroup.coordinator.events import (
    CommitOffsets,
    CoordinatorEvent,
    DescribeGroup,
    FetchOffsets,
    GroupWritten,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetsWritten,
    RemoveGroup,
    RemoveOffsets,
    SlotLoaded,
    SlotLoading,
    Started,
    SyncGroup,
    WriteOutcome,
)
from zkgroup.coordinator.group import Protocols
from zkgroup.coordinator.records import GroupRecord
from zkgroup.coordinator.settings import CoordinatorSettings
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.runtime.events import LogEvent
from zkgroup.wire.groups import (
    DescribedGroup,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    LeavingMember,
    SyncGroupResponse,
)
from zkgroup.znodes.coordinated_groups import OffsetAndMetadata

GROUP = "g"
RANGE: Protocols = (("range", b"r"),)
SETTINGS = CoordinatorSettings(
    group_min_session_timeout_ms=10,
    group_max_session_timeout_ms=600_000,
    group_initial_rebalance_delay_ms=50,
    group_max_size=4,
)
"""Those of Kafka's own tests of its coordinator."""
TIMEOUT_MS = 500
PARTITION = TopicPartition("t", 0)
WRITES = (WriteGroup, ReserveGenerations, WriteOffsets, DeleteGroup)


class Coordinator:
    """One coordinator, its clock and what it did. With `stores` every write is stored at once."""

    def __init__(
        self,
        settings: CoordinatorSettings = SETTINGS,
        *,
        slots: int = 1,
        stores: bool = True,
        first_id: int = 1,
    ) -> None:
        numbers = itertools.count(first_id)
        self.machine = GroupCoordinator(settings, slots, lambda: f"{next(numbers):04}")
        self.now_ms = 0
        self.stores = stores
        self.answers: dict[int, GroupResult] = {}
        self.dropped: set[int] = set()
        self.unwritten: list[WriteGroup | ReserveGenerations | WriteOffsets | DeleteGroup] = []
        """Writes without an outcome, the oldest first."""
        self.written: list[WriteGroup | ReserveGenerations | WriteOffsets | DeleteGroup] = []
        """Every write."""
        self.reads: list[ReadOffsets] = []
        self.deletions: list[DeleteOffsets] = []
        self.logged: list[LogEvent] = []
        self._requests = itertools.count(1)
        self.do(Started())
        for slot in range(slots):
            self.load(slot=slot)

    def do(self, event: CoordinatorEvent) -> None:
        """One event, and what follows from it."""
        self._take(self.machine.handle(event, self.now_ms))

    def advance(self, ms: int) -> None:
        """Moves the clock from timer to timer."""
        end = self.now_ms + ms
        while (due := self.machine.next_deadline_ms) is not None and due <= end:
            self.now_ms = max(due, self.now_ms)
            self._take(self.machine.advance(self.now_ms))
        self.now_ms = end

    def load(self, *groups: GroupRecord, slot: int = 0, epoch: int = 0) -> None:
        """A slot with these groups."""
        self.do(SlotLoading(slot, epoch))
        self.do(SlotLoaded(slot, epoch, groups))

    def complete(self, outcome: WriteOutcome = WriteOutcome.STORED) -> None:
        """Brings the outcome of the oldest write."""
        write = self.unwritten.pop(0)
        if isinstance(write, WriteOffsets):
            self.do(OffsetsWritten({write.write_id: dict.fromkeys(write.offsets, outcome)}))
        else:
            self.do(GroupWritten(write.write_id, outcome))

    def _take(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Reply(request_id, result):
                    assert request_id not in self.answers, "answered twice"
                    assert request_id not in self.dropped, "answered after it was dropped"
                    self.answers[request_id] = result
                case DropRequest(request_id):
                    self.dropped.add(request_id)
                case ReadOffsets():
                    self.reads.append(effect)
                case DeleteOffsets():
                    self.deletions.append(effect)
                case LogEvent():
                    self.logged.append(effect)
                case _:
                    self.written.append(effect)
                    self.unwritten.append(effect)
        while self.stores and self.unwritten:
            self.complete()

    def send_join(
        self,
        member_id: str = "",
        *,
        group: str = GROUP,
        instance: str | None = None,
        v4: bool = False,
        client: str = "c",
        protocols: Protocols = RANGE,
        protocol_type: str = "consumer",
        session_ms: int = TIMEOUT_MS,
        rebalance_ms: int = TIMEOUT_MS,
    ) -> int:
        """A JoinGroup; returns its number. `v4`: of a version that first gives an id."""
        return self._send(
            JoinGroup(
                request_id=self._number(),
                group_id=group,
                member_id=member_id,
                group_instance_id=instance,
                requires_member_id=v4,
                client_id=client,
                client_host="/127.0.0.1",
                session_timeout_ms=session_ms,
                rebalance_timeout_ms=rebalance_ms,
                protocol_type=protocol_type,
                protocols=protocols,
            )
        )

    def send_sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        group: str = GROUP,
        instance: str | None = None,
        **protocol: Any,
    ) -> int:
        """A SyncGroup; returns its number."""
        return self._send(
            SyncGroup(
                request_id=self._number(),
                group_id=group,
                generation=generation,
                member_id=member_id,
                group_instance_id=instance,
                assignments=assignments or {},
                **protocol,
            )
        )

    def beat(
        self, member_id: str, generation: int, *, group: str = GROUP, instance: str | None = None
    ) -> ErrorCode:
        """The answer to a heartbeat."""
        number = self._send(
            Heartbeat(
                request_id=self._number(),
                group_id=group,
                generation=generation,
                member_id=member_id,
                group_instance_id=instance,
            )
        )
        result = self.answers[number]
        assert isinstance(result, HeartbeatResponse)
        return result.error

    def leave(
        self, member_id: str = "", *instances: str | None, group: str = GROUP
    ) -> tuple[ErrorCode, list[ErrorCode]]:
        """The answer to a LeaveGroup of one member, or of several by their instance ids."""
        members = tuple(LeavingMember(member_id=member_id, group_instance_id=each) for each in instances)
        return self.leave_all(*(members or (LeavingMember(member_id=member_id),)), group=group)

    def leave_all(self, *members: LeavingMember, group: str = GROUP) -> tuple[ErrorCode, list[ErrorCode]]:
        number = self._send(LeaveGroup(request_id=self._number(), group_id=group, members=members))
        result = self.answers[number]
        assert isinstance(result, LeaveGroupResponse)
        return result.error, [each.error for each in result.members]

    def send_commit(
        self,
        member_id: str = "",
        generation: int = -1,
        *,
        group: str = GROUP,
        instance: str | None = None,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        unknown: Iterable[TopicPartition] = (),
    ) -> int:
        """An OffsetCommit; returns its number."""
        return self._send(
            CommitOffsets(
                request_id=self._number(),
                group_id=group,
                generation=generation,
                member_id=member_id,
                group_instance_id=instance,
                offsets=offsets or {PARTITION: OffsetAndMetadata(offset=1)},
                unknown_partitions=frozenset(unknown),
            )
        )

    def commit(self, *arguments: Any, **options: Any) -> ErrorCode:
        """The answer to a commit of one partition."""
        answer: Any = self.answers[self.send_commit(*arguments, **options)]
        (error,) = answer.errors.values()
        assert isinstance(error, ErrorCode)
        return error

    def fetch(self, *, group: str = GROUP, require_stable: bool = False) -> ReadOffsets | GroupResult:
        """What an OffsetFetch of `PARTITION` reads, or its answer."""
        number = self._send(
            FetchOffsets(
                request_id=self._number(),
                group_id=group,
                partitions=(PARTITION,),
                require_stable=require_stable,
            )
        )
        return self.answers[number] if number in self.answers else self.reads[-1]

    def describe(self, group: str = GROUP) -> DescribedGroup:
        result = self.answers[
            self._send(DescribeGroup(request_id=self._number(), group_id=group, include_timers=True))
        ]
        assert isinstance(result, DescribedGroup)
        return result

    def list(self, *states: str) -> Any:
        return self.answers[self._send(ListGroups(request_id=self._number(), states=frozenset(states)))]

    def delete(self, group: str = GROUP) -> ErrorCode | None:
        """The answer to a deletion; None while it is written."""
        result: Any = self.answers.get(self._send(RemoveGroup(request_id=self._number(), group_id=group)))
        return None if result is None else result.error

    def delete_offsets(self, *partitions: TopicPartition, group: str = GROUP) -> DeleteOffsets | GroupResult:
        """What an OffsetDelete deletes, or its answer."""
        number = self._send(
            RemoveOffsets(request_id=self._number(), group_id=group, partitions=partitions or (PARTITION,))
        )
        return self.answers[number] if number in self.answers else self.deletions[-1]

    def _number(self) -> int:
        return next(self._requests)

    def _send(self, event: Any) -> int:
        self.do(event)
        number: int = event.request_id
        return number

    def joined(self, number: int) -> JoinGroupResponse:
        """The answer to a JoinGroup."""
        result = self.answers[number]
        assert isinstance(result, JoinGroupResponse)
        return result

    def synced(self, number: int) -> SyncGroupResponse:
        """The answer to a SyncGroup."""
        result = self.answers[number]
        assert isinstance(result, SyncGroupResponse)
        return result

    def error(self, number: int) -> ErrorCode | None:
        """The error code of an answer; None while there is none."""
        result: Any = self.answers.get(number)
        return None if result is None else result.error

    def join(self, member_id: str = "", **options: Any) -> ErrorCode | None:
        """The error code of a join that is answered at once; None where it is parked."""
        return self.error(self.send_join(member_id, **options))

    def sync(self, *arguments: Any, **options: Any) -> ErrorCode | None:
        return self.error(self.send_sync(*arguments, **options))

    def completing(self, count: int = 1, **options: Any) -> list[str]:
        """A group of so many dynamic members that have joined and not synced. Returns their ids."""
        numbers = [self.send_join(**options) for _ in range(count)]
        self.advance(2 * SETTINGS.group_initial_rebalance_delay_ms)
        return [self.joined(number).member_id for number in numbers]

    def stable(self, count: int = 1, **options: Any) -> list[str]:
        """A stable group of so many dynamic members; the first leads. Returns their ids."""
        members = self.completing(count, **options)
        for member in members:
            self.send_sync(member, 1, {each: each.encode() for each in members})
        return members

    def static(self, *instances: str, **options: Any) -> dict[str, str]:
        """A stable group of static members; the first leads. Returns their member ids by instance."""
        numbers = {each: self.send_join(instance=each, **options) for each in instances}
        self.advance(2 * SETTINGS.group_initial_rebalance_delay_ms)
        members = {each: self.joined(number).member_id for each, number in numbers.items()}
        for instance, member in members.items():
            self.send_sync(member, 1, {each: each.encode() for each in members.values()}, instance=instance)
        return members

    def rejoin(self, *members: str, **options: Any) -> int:
        """These members join again and sync; the first is expected to lead. Returns the generation."""
        numbers = [self.send_join(member, **options) for member in members]
        generation = self.joined(numbers[0]).generation
        for member in members:
            self.send_sync(member, generation, dict.fromkeys(members, b"again"))
        return generation

    @property
    def state(self) -> str:
        return self.describe().state

    @property
    def generation(self) -> int:
        return self.describe().generation
