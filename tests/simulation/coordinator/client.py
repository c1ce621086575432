"""A client of a group coordinator: joins, syncs, fetches offsets, sends heartbeats, commits, as Kafka's do.

    find the coordinator -> JoinGroup -> SyncGroup -> OffsetFetch -> heartbeats and commits
             ^                 ^            |                             |
             +-- 15, 16, no answer          +------ 22, 25, 27 -----------+--> commit once more, join again

Before it joins again it commits. An eager consumer then gives up its partitions. A cooperative one (KIP-429)
keeps them and goes on to commit; when it is assigned fewer, it commits, revokes the others, and joins again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol

from tests.simulation.cluster.broker import SimulatedBroker
from tests.simulation.coordinator.assignments import (
    assign_cooperatively,
    assigned_partitions,
    assignment_bytes,
    deal_out,
    subscription_bytes,
)
from tests.simulation.coordinator.calls import CallStage, ClientCall, ClientNetwork
from tests.simulation.schedule import Action
from zkgroup.broker.groups.store_events import OffsetsRead
from zkgroup.broker.groups.stored_coordinator import ServiceResult
from zkgroup.coordinator.effects import CommitOffsetsResult, FetchOffsetsResult
from zkgroup.coordinator.events import (
    CommitOffsets,
    FetchOffsets,
    GroupRequest,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    SyncGroup,
)
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode
from zkgroup.testing.clock import FakeClock
from zkgroup.wire.groups import (
    HeartbeatResponse,
    JoinedMember,
    JoinGroupResponse,
    LeaveGroupResponse,
    LeavingMember,
    SyncGroupResponse,
)
from zkgroup.znodes.coordinated_groups import OffsetAndMetadata

HEARTBEAT_MS: Final = 700
COMMIT_MS: Final = 900
BACKOFF_MS: Final = 100
REQUEST_MS: Final = 6_000
"""A request without an answer for so long breaks the connection."""
NOWHERE: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
"""Errors after which a client asks for its coordinator again."""


NOT_TOLD: Final = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
"""Errors of partitions after which a client goes on: it commits again later, if the topic is there again."""
LOST: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
"""Errors after which a client is in no generation."""


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
    is_cooperative: bool = False
    """Whether it keeps its partitions while it joins again."""


class ClientPhase(Enum):
    """What a client does next, or waits for."""

    OUTSIDE = "outside"
    JOINED = "joined"
    ASSIGNED = "assigned"
    WORKING = "working"
    PREPARING = "preparing"
    LEAVING = "leaving"
    ENDED = "ended"


_JOINING: Final = (ClientPhase.OUTSIDE, ClientPhase.JOINED, ClientPhase.ASSIGNED)


@dataclass(slots=True)
class BelievedMembership:
    """What a client believes."""

    member_id: str = ""
    generation: int = -1
    leads: bool = False
    members: tuple[JoinedMember, ...] = ()
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

    def enforce_rebalance(self) -> None:
        """Joins again without a reason, as `enforceRebalance` of Kafka's consumers (KIP-568)."""
        if self.phase is ClientPhase.WORKING:
            self._rejoin()

    def end(self) -> None:
        """Ends without any notification."""
        if self.instance_id is not None and self.assigned and self.phase is not ClientPhase.WORKING:
            self._note("static.ended")
        self.phase = ClientPhase.ENDED
        self._world.calls.cut(self)
        self._calls.clear()

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
        is_able = self.phase is ClientPhase.WORKING or (
            self._options.is_cooperative and self.phase in _JOINING and self.believes.generation >= 0
        )
        if not is_able or self._process is None:
            return False
        return "commit" not in self._calls and bool(self.believes.positions)

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
                leaving = LeavingMember(member_id=self.believes.member_id, group_instance_id=self.instance_id)
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
            protocols=(self._protocol(),),
        )

    def _protocol(self) -> tuple[str, bytes]:
        """Its assignment strategy, with its metadata."""
        topic = self._world.partitions()[0].topic
        if not self._options.is_cooperative:
            return "range", subscription_bytes(topic)
        return "cooperative-sticky", subscription_bytes(topic, self.assigned, self.believes.generation)

    def _sync(self) -> SyncGroup:
        assignments: dict[str, bytes] = {}
        if self.believes.leads:
            members, partitions = self.believes.members, self._world.partitions()
            if self._options.is_cooperative:
                shares = assign_cooperatively(members, partitions)
            else:
                turn = self._world.rng.randrange(len(members))
                shares = deal_out((each.member_id for each in members), partitions, turn)
            assignments = {each: assignment_bytes(share) for each, share in shares.items()}
        return SyncGroup(**self._identity(), assignments=assignments)

    def _fetch(self) -> FetchOffsets:
        return FetchOffsets(
            request_id=0,
            group_id=self.group,
            partitions=self._unread,
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

    @property
    def _unread(self) -> tuple[TopicPartition, ...]:
        """The partitions whose offsets it has not read."""
        return tuple(each for each in self.assigned if each not in self.believes.positions)

    def _note(self, kind: str, **fields: object) -> None:
        believes = self.believes
        self._world.note(self, kind, generation=believes.generation, member_id=believes.member_id, **fields)

    def received(self, call: ClientCall, result: ServiceResult) -> None:
        """Takes the answer to one of its requests."""
        kind = next((kind for kind, each in self._calls.items() if each is call), None)
        if kind is None:
            return  # it has given the request up
        del self._calls[kind]
        match result:
            case JoinGroupResponse():
                self._joined(call, result)
            case SyncGroupResponse():
                self._synced(result)
            case HeartbeatResponse(error=error):
                self._told(error)
            case OffsetsRead() | FetchOffsetsResult():
                self._fetched(call, result)
            case CommitOffsetsResult():
                self._committed(call, result, kind)
            case LeaveGroupResponse():
                self.end()
            case _:
                raise AssertionError(f"{self.name}: {call.request} was answered with {result}")

    def _joined(self, call: ClientCall, result: JoinGroupResponse) -> None:
        if self.phase is not ClientPhase.OUTSIDE:
            return
        if result.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.believes.member_id = result.member_id
            self._due_ms = self._world.clock.now_ms()
        elif result.error is not ErrorCode.NONE:
            self._refused(result.error)
        else:
            leads = result.leader == result.member_id
            self.believes = BelievedMembership(
                result.member_id, result.generation, leads, result.members, self.believes.positions
            )
            kept = [[each.topic, each.partition] for each in self.assigned]
            self._note("join.ok", leads=leads, kept=kept, since_ms=call.sent_ms)
            self.phase = ClientPhase.JOINED

    def _synced(self, result: SyncGroupResponse) -> None:
        if self.phase is not ClientPhase.JOINED:
            return
        if result.error is not ErrorCode.NONE:
            self._refused(result.error)
            return
        assigned, owned = assigned_partitions(result.assignment), self.assigned
        self.assigned = tuple(each for each in self._world.partitions() if each in assigned)
        self._note("sync.ok", partitions=[[each.topic, each.partition] for each in self.assigned])
        now_ms = self._world.clock.now_ms()
        self._beat_ms, self._commit_ms = now_ms + HEARTBEAT_MS, now_ms + COMMIT_MS
        if not assigned.issuperset(owned):
            self._note("partitions.revoked")
            self.phase, self._due_ms = ClientPhase.PREPARING, now_ms
            if not self.believes.positions:  # it has not read the offset of any
                self._rejoin()
        else:
            self.phase = ClientPhase.ASSIGNED if self._unread else ClientPhase.WORKING

    def _fetched(self, call: ClientCall, result: OffsetsRead | FetchOffsetsResult) -> None:
        if self.phase is not ClientPhase.ASSIGNED:
            return
        if result.error is not ErrorCode.NONE:
            self._refused(result.error)
        elif isinstance(result, OffsetsRead) and not result.partition_errors:
            self._note("fetch.ok", since_ms=call.sent_ms, offsets=offset_rows(result))
            self.believes.positions |= {
                each: result.offsets[each].offset if each in result.offsets else 0 for each in self._unread
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
        error = next((error for error in result.errors.values() if error not in NOT_TOLD), None)
        is_former = call.request.generation != self.believes.generation
        if kind == "main":
            self._prepared(None if is_former else error)
        elif error is not None and not is_former:
            self._told(error)

    def _prepared(self, error: ErrorCode | None) -> None:
        """The commit before it joins again was answered; where it is no member any more, it has lost all."""
        if error is not None and (error in LOST or error is ErrorCode.FENCED_INSTANCE_ID):
            self._refused(error)
        else:
            self._rejoin()

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
        elif error in LOST:
            self._lose(self.believes.member_id if error is ErrorCode.ILLEGAL_GENERATION else "")
            self._rejoin()
        elif error is ErrorCode.REBALANCE_IN_PROGRESS:
            self._rejoin()
        else:
            raise AssertionError(f"{self.name} got {error!r} while {self.phase.value}")
        if error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            self._lose(self.believes.member_id)
            self._note("join.refused")

    def _lose(self, member_id: str) -> None:
        """It has no partitions any more, because the others may have got them."""
        self.believes = BelievedMembership(member_id)
        self.assigned = ()

    def _rejoin(self) -> None:
        """Joins again. A cooperative client only gives up what it was not assigned, an eager one all."""
        if self.phase is ClientPhase.LEAVING:
            return
        if self._options.is_cooperative:
            positions = self.believes.positions
            self.believes.positions = {each: positions[each] for each in self.assigned if each in positions}
        else:
            self._lose(self.believes.member_id)
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


def offset_rows(result: OffsetsRead) -> list[list[object]]:
    """What was read, with the metadata, for the history."""
    return [[tp.topic, tp.partition, each.metadata] for tp, each in result.offsets.items()]
