"""A client of a group coordinator: joins, syncs, fetches offsets, sends heartbeats, commits, as Kafka's do.

    find the coordinator -> JoinGroup -> SyncGroup -> OffsetFetch -> heartbeats and commits
             ^                 ^            |                             |
             +-- 15, 16, no answer          +------ 22, 25, 27 -----------+--> commit once more, join again

An eager consumer: before it joins again it commits, and gives up its partitions.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol

from zkgroup.broker.groups.store_events import OffsetsRead
from zkgroup.broker.groups.stored_coordinator import ServiceResult
from zkgroup.coordinator.effects import (
    CommitOffsetsResult,
    FetchOffsetsResult,
    HeartbeatResult,
    JoinGroupResult,
    LeaveGroupResult,
    SyncGroupResult,
)
from zkgroup.coordinator.events import (
    CommitOffsets,
    FetchOffsets,
    GroupRequest,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingIdentity,
    SyncGroup,
)
from zkgroup.coordinator.records import OffsetAndMetadata
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.testing.clock import FakeClock
from zkgroup.testing.simulation.cluster.broker import SimulatedBroker
from zkgroup.testing.simulation.coordinator.calls import CallStage, ClientCall, ClientNetwork
from zkgroup.testing.simulation.schedule import Action

HEARTBEAT_MS: Final = 700
COMMIT_MS: Final = 900
BACKOFF_MS: Final = 100
REQUEST_MS: Final = 6_000
"""A request without an answer for so long breaks the connection."""
NOWHERE: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
"""Errors after which a client asks for its coordinator again."""


class ClientsWorld(Protocol):
    """What clients use of the world."""

    clock: FakeClock
    rng: random.Random
    calls: ClientNetwork

    def find_coordinator(self, group: str) -> SimulatedBroker | None:
        """The coordinator, as some broker knows it; None where none is known or it cannot be reached."""
        ...

    def partitions(self) -> Sequence[TopicPartition]:
        """What the groups consume."""
        ...

    def note(self, client: GroupClient, kind: str, **fields: object) -> None:
        """Records what a client has done, or was answered."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """How a client behaves."""

    session_timeout_ms: int = 2_500
    rebalance_timeout_ms: int = 3_000
    gets_id_first: bool = True
    """Whether it gets its member id before it joins (JoinGroup 4 on)."""
    requires_stable: bool = True
    """Whether it waits for commits under way when it reads offsets (OffsetFetch 7 on)."""


class ClientPhase(Enum):
    """What a client does next, or waits for."""

    OUTSIDE = "outside"
    JOINED = "joined"
    ASSIGNED = "assigned"
    WORKING = "working"
    PREPARING = "preparing"
    LEAVING = "leaving"
    ENDED = "ended"


@dataclass(slots=True)
class BelievedMembership:
    """What a client believes."""

    member_id: str = ""
    generation: int = -1
    leads: bool = False
    members: tuple[str, ...] = ()
    positions: dict[TopicPartition, int] = field(default_factory=dict)


class GroupClient:
    """One client, stepped by the schedule."""

    def __init__(
        self,
        world: ClientsWorld,
        group: str,
        name: str,
        index: int,
        pid: int,
        options: ClientOptions,
        instance_id: str | None = None,
    ) -> None:
        self.group, self.name, self.index, self.pid = group, name, index, pid
        self.instance_id = instance_id
        self.phase = ClientPhase.OUTSIDE
        self.believes = BelievedMembership()
        self._world, self._options = world, options
        self._process: SimulatedBroker | None = None
        self._calls: dict[str, ClientCall] = {}
        """Without an answer, by kind: `main`, `heartbeat` or `commit`."""
        self.assigned: tuple[TopicPartition, ...] = ()
        self.acknowledged = 0
        """Commits that were accepted."""
        self._due_ms = self._beat_ms = self._commit_ms = 0
        self._commits = 0

    @property
    def open_calls(self) -> dict[str, str]:
        """The stage of each request without an answer."""
        return {kind: call.stage.value for kind, call in self._calls.items()}

    @property
    def has_sent_commit(self) -> bool:
        """Whether a commit is on its way to the coordinator."""
        call = self._calls.get("commit")
        return call is not None and call.stage is CallStage.SENT

    @property
    def is_running(self) -> bool:
        return self.phase is not ClientPhase.ENDED

    def leave(self) -> None:
        """Leaves the group in order, and ends."""
        if self.is_running:
            self.phase, self._due_ms = ClientPhase.LEAVING, self._world.clock.now_ms()
            self._calls.pop("main", None)

    def end(self) -> None:
        """Ends without any notification."""
        self.phase = ClientPhase.ENDED
        self._world.calls.cut(self)
        self._calls.clear()

    # --- steps ------------------------------------------------------------------------------------

    def actions(self) -> Iterator[Action]:
        """Possible next steps."""
        now_ms = self._world.clock.now_ms()
        if not self.is_running:
            return
        if any(now_ms >= call.give_up_ms for call in self._calls.values()):
            yield self._timed_out
            return
        if "main" not in self._calls and self._acts and now_ms >= self._due_ms:
            yield self._act
        if self._beats and now_ms >= self._beat_ms:
            yield self._beat
        if self._may_commit and now_ms >= self._commit_ms:
            yield self.commit

    def next_due_ms(self) -> int | None:
        """When it acts next without an event."""
        if not self.is_running:
            return None
        times = [call.give_up_ms for call in self._calls.values()]
        if "main" not in self._calls and self._acts:
            times.append(self._due_ms)
        if self._beats:
            times.append(self._beat_ms)
        if self._may_commit:
            times.append(self._commit_ms)
        return min(times, default=None)

    @property
    def _acts(self) -> bool:
        return self.phase is not ClientPhase.WORKING or self._process is None

    @property
    def _beats(self) -> bool:
        has_joined = self.phase in (ClientPhase.WORKING, ClientPhase.ASSIGNED)
        return has_joined and "heartbeat" not in self._calls and self._process is not None

    @property
    def _may_commit(self) -> bool:
        is_able = self.phase is ClientPhase.WORKING and self._process is not None
        return is_able and "commit" not in self._calls and bool(self.believes.positions)

    def _act(self) -> None:
        if self._process is None:
            self._process = self._world.find_coordinator(self.group)
            if self._process is None:
                self._later()
            return
        match self.phase:
            case ClientPhase.OUTSIDE:
                self._send("main", self._join())
            case ClientPhase.JOINED:
                self._send("main", self._sync())
            case ClientPhase.ASSIGNED:
                self._send("main", self._fetch())
            case ClientPhase.PREPARING:
                self._send("main", self._commit_request())
            case ClientPhase.LEAVING if self.believes.member_id:
                leaving = LeavingIdentity(
                    member_id=self.believes.member_id, group_instance_id=self.instance_id
                )
                self._send("main", LeaveGroup(request_id=0, group_id=self.group, members=(leaving,)))
            case ClientPhase.LEAVING:
                self.end()

    def _beat(self) -> None:
        self._beat_ms = self._world.clock.now_ms() + HEARTBEAT_MS
        self._send("heartbeat", Heartbeat(**self._identity()))

    def commit(self) -> None:
        """Commits what it has processed since the last commit."""
        if self._may_commit:
            self._commit_ms = self._world.clock.now_ms() + COMMIT_MS
            for partition in self.believes.positions:
                self.believes.positions[partition] += self._world.rng.randint(0, 2)
            self._send("commit", self._commit_request())

    def _send(self, kind: str, request: GroupRequest) -> None:
        assert self._process is not None
        give_up_ms = self._world.clock.now_ms() + REQUEST_MS
        self._calls[kind] = self._world.calls.send(self, self._process, request, give_up_ms)

    def _later(self) -> None:
        self._due_ms = self._world.clock.now_ms() + BACKOFF_MS

    # --- requests ---------------------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        return {
            "request_id": 0,
            "group_id": self.group,
            "generation": self.believes.generation,
            "member_id": self.believes.member_id,
            "group_instance_id": self.instance_id,
        }

    def _join(self) -> JoinGroup:
        options = self._options
        return JoinGroup(
            request_id=0,
            group_id=self.group,
            member_id=self.believes.member_id,
            group_instance_id=self.instance_id,
            requires_member_id=options.gets_id_first,
            client_id=self.name,
            client_host="/127.0.0.1",
            session_timeout_ms=options.session_timeout_ms,
            rebalance_timeout_ms=options.rebalance_timeout_ms,
            protocol_type="consumer",
            protocols=(("range", b"t0"),),
        )

    def _sync(self) -> SyncGroup:
        assignments: dict[str, bytes] = {}
        if self.believes.leads:
            members = sorted(self.believes.members)
            turn = self._world.rng.randrange(len(members))
            shares: dict[str, list[str]] = {each: [] for each in members}
            for number, partition in enumerate(self._world.partitions()):
                shares[members[(number + turn) % len(members)]].append(str(partition.partition))
            assignments = {each: ",".join(share).encode() for each, share in shares.items()}
        return SyncGroup(**self._identity(), assignments=assignments)

    def _fetch(self) -> FetchOffsets:
        return FetchOffsets(
            request_id=0,
            group_id=self.group,
            partitions=self.assigned,
            require_stable=self._options.requires_stable,
        )

    def _commit_request(self) -> CommitOffsets:
        self._commits += 1
        number = f"{self.name}.{self._commits}"
        positions, wall_ms = self.believes.positions, self._world.clock.wall_ms()
        self._note("commit.sent", commit=number)
        return CommitOffsets(
            **self._identity(),
            offsets={
                each: OffsetAndMetadata(offset=offset, metadata=number, commit_timestamp_ms=wall_ms)
                for each, offset in positions.items()
            },
        )

    def _note(self, kind: str, **fields: object) -> None:
        believes = self.believes
        self._world.note(self, kind, generation=believes.generation, member_id=believes.member_id, **fields)

    # --- answers ----------------------------------------------------------------------------------

    def received(self, call: ClientCall, result: ServiceResult) -> None:
        """Takes the answer to one of its requests."""
        kind = next((kind for kind, each in self._calls.items() if each is call), None)
        if kind is None:
            return  # it has given the request up
        del self._calls[kind]
        match result:
            case JoinGroupResult():
                self._joined(result)
            case SyncGroupResult():
                self._synced(result)
            case HeartbeatResult(error):
                self._told(error)
            case OffsetsRead() | FetchOffsetsResult():
                self._fetched(result)
            case CommitOffsetsResult():
                self._committed(call, result, kind)
            case LeaveGroupResult():
                self.end()
            case _:
                raise AssertionError(f"{self.name}: {call.request} was answered with {result}")

    def _joined(self, result: JoinGroupResult) -> None:
        if self.phase is not ClientPhase.OUTSIDE:
            return
        if result.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.believes.member_id = result.member_id
            self._due_ms = self._world.clock.now_ms()
        elif result.error is not ErrorCode.NONE:
            self._refused(result.error)
        else:
            leads = result.leader == result.member_id
            members = tuple(each.member_id for each in result.members)
            self.believes = BelievedMembership(result.member_id, result.generation, leads, members)
            self._note("join.ok", leads=leads)
            self.phase = ClientPhase.JOINED

    def _synced(self, result: SyncGroupResult) -> None:
        if self.phase is not ClientPhase.JOINED:
            return
        if result.error is not ErrorCode.NONE:
            self._refused(result.error)
            return
        numbers = [int(each) for each in result.assignment.decode().split(",") if each]
        self.assigned = tuple(each for each in self._world.partitions() if each.partition in numbers)
        self._note("sync.ok", partitions=[[each.topic, each.partition] for each in self.assigned])
        now_ms = self._world.clock.now_ms()
        self._beat_ms, self._commit_ms = now_ms + HEARTBEAT_MS, now_ms + COMMIT_MS
        self.phase = ClientPhase.ASSIGNED if self.assigned else ClientPhase.WORKING

    def _fetched(self, result: OffsetsRead | FetchOffsetsResult) -> None:
        if self.phase is not ClientPhase.ASSIGNED:
            return
        if result.error is not ErrorCode.NONE:
            self._refused(result.error)
        elif isinstance(result, OffsetsRead) and not result.partition_errors:
            self.believes.positions = {
                each: result.offsets[each].offset if each in result.offsets else 0 for each in self.assigned
            }
            self.phase = ClientPhase.WORKING
        else:
            self._later()  # a commit is under way

    def _committed(self, call: ClientCall, result: CommitOffsetsResult, kind: str) -> None:
        assert isinstance(call.request, CommitOffsets)
        stored = [tp for tp, error in result.errors.items() if error is ErrorCode.NONE]
        if stored:
            self.acknowledged += 1
            number = next(iter(call.request.offsets.values())).metadata
            self._note("commit.ok", commit=number, partitions=[[tp.topic, tp.partition] for tp in stored])
        if kind == "main":
            self._rejoin()
            return
        error = next((error for error in result.errors.values() if error is not ErrorCode.NONE), None)
        if error is not None:
            self._told(error)

    def _told(self, error: ErrorCode) -> None:
        """A heartbeat or commit was answered with this error."""
        if error is ErrorCode.NONE or self.phase not in (ClientPhase.WORKING, ClientPhase.ASSIGNED):
            return
        if error is ErrorCode.REBALANCE_IN_PROGRESS and self.believes.positions:
            self.phase, self._due_ms = ClientPhase.PREPARING, self._world.clock.now_ms()
            self._calls.pop("main", None)
        else:
            self._refused(error)

    def _refused(self, error: ErrorCode) -> None:
        if error in NOWHERE:
            self.disconnected()
        elif error is ErrorCode.FENCED_INSTANCE_ID:
            self._note("fenced")
            self.end()
        elif error in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
            self._later()
        elif error in (
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.REBALANCE_IN_PROGRESS,
        ):
            if error is ErrorCode.UNKNOWN_MEMBER_ID:
                self.believes.member_id = ""
            self._rejoin()
        else:
            raise AssertionError(f"{self.name} got {error!r} while {self.phase.value}")
        if error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            self._note("join.refused")

    def _rejoin(self) -> None:
        """Gives up its partitions, and joins again."""
        if self.phase is ClientPhase.LEAVING:
            return
        self.believes = BelievedMembership(self.believes.member_id)
        self.assigned = ()
        self._calls.pop("main", None)
        self.phase, self._due_ms = ClientPhase.OUTSIDE, self._world.clock.now_ms()

    def process_gone(self, process: SimulatedBroker) -> None:
        """A broker's process has ended; its connections are broken."""
        if self._process is process:
            self.disconnected()

    def disconnected(self) -> None:
        """Its connection is broken, or leads to a broker that is not its coordinator."""
        self._world.calls.cut(self)
        self._calls.clear()
        self._process = None
        self._later()
        if self.phase is ClientPhase.PREPARING:
            self._rejoin()
            self._later()

    def _timed_out(self) -> None:
        self.disconnected()
