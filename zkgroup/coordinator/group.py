"""A group and its members: states, votes, leader, generations.

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable
    any of them -> Dead; Stable and CompletingRebalance -> PreparingRebalance -> Empty

Nothing here answers a request or sets a timer. Sources: kafka/coordinator/group/GroupMetadata.scala,
MemberMetadata.scala@2.8.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from zkgroup.coordinator.settings import GENERATIONS_LEFT, GENERATIONS_RESERVED
from zkgroup.errors import IllegalTransitionError
from zkgroup.model import TopicPartition
from zkgroup.model.error_codes import ErrorCode

Protocols = tuple[tuple[str, bytes], ...]
"""Names of assignment strategies with the member's metadata for each, the preferred one first."""


class ConsumerGroupState(Enum):
    """The states of a group; the value is the name that Kafka's tools show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


VALID_PREVIOUS_STATES: Final[Mapping[ConsumerGroupState, frozenset[ConsumerGroupState]]] = {
    ConsumerGroupState.EMPTY: frozenset({ConsumerGroupState.PREPARING_REBALANCE}),
    ConsumerGroupState.PREPARING_REBALANCE: frozenset(
        {ConsumerGroupState.STABLE, ConsumerGroupState.COMPLETING_REBALANCE, ConsumerGroupState.EMPTY}
    ),
    ConsumerGroupState.COMPLETING_REBALANCE: frozenset({ConsumerGroupState.PREPARING_REBALANCE}),
    ConsumerGroupState.STABLE: frozenset({ConsumerGroupState.COMPLETING_REBALANCE}),
    ConsumerGroupState.DEAD: frozenset(ConsumerGroupState),
}


class GroupPhase(Enum):
    """The thing that a group that is not at rest waits for; a state of Kafka has one or more of them."""

    EMPTY = "Empty"
    INITIAL_DELAY = "InitialRebalanceDelay"
    """The first rebalance of an empty group waits for more members."""
    JOINING = "PreparingRebalance"
    RESERVING = "ReservingGenerations"
    """All members have joined; the numbers of generations, or the marker, are not yet in ZooKeeper."""
    SYNCING = "CompletingRebalance"
    STORING = "StoringAssignment"
    """The leader's assignment is being written."""
    STABLE = "Stable"
    DEAD = "Dead"


class Timer:
    """A deadline and what is called when it has passed."""

    __slots__ = ("deadline_ms", "on_expiry", "queued_ms")

    def __init__(self, on_expiry: Callable[[], None]) -> None:
        self.on_expiry = on_expiry
        self.deadline_ms: int | None = None
        """None while the timer is not set."""
        self.queued_ms: int | None = None
        """Of its entry in the heap that can still fire; None without one."""


@dataclass(slots=True, kw_only=True, eq=False)
class MemberMetadata:
    """A member of a group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    """True if its first join phase has not completed."""
    parked_join: int | None = None
    """Request id."""
    parked_sync: int | None = None
    """Request id."""
    replaced_ms: int | None = None
    """Time at which a new process last took its group.instance.id."""
    session_timer: Timer = field(default_factory=lambda: Timer(_never_armed))

    @property
    def is_static(self) -> bool:
        """True if it has a group.instance.id (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def is_parked(self) -> bool:
        """True if one of its requests waits for the group."""
        return self.parked_join is not None or self.parked_sync is not None

    @property
    def protocol_names(self) -> tuple[str, ...]:
        """The names of its protocols, each once, although a client may list one twice."""
        return tuple(dict.fromkeys(name for name, _ in self.protocols))

    def metadata(self, protocol: str) -> bytes:
        """Its metadata for a protocol that it has: the first one of that name, as in Kafka."""
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def vote(self, candidates: frozenset[str]) -> str:
        """The candidate that it prefers; it has at least one."""
        return next(name for name in self.protocol_names if name in candidates)


def _never_armed() -> None:
    raise AssertionError("the timer of a member that was not added to a group fired")


class RebalanceBegin(NamedTuple):
    """The begin of a rebalance, for the history."""

    ms: int
    """By the machine's clock."""
    reason: str


class GroupMetadata:
    """A group: its members in the order in which they joined, its generation, what it waits for."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = ConsumerGroupState.EMPTY
        self.state_timestamp_ms = 0
        self.generation = 0
        self.reserved_generation = 0
        """Generations up to this one may be given to members: ZooKeeper has the number."""
        self.requested_generation = 0
        """The highest number that any write of this group has asked to reserve."""
        self.skipped_generation = 0
        """Generations up to this one may have been given by a former coordinator."""
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, MemberMetadata] = {}
        self.joined_count = 0
        """Members whose join is parked."""
        self.static_members: dict[str, str] = {}
        """group.instance.id to member id."""
        self.pending_members: dict[str, Timer] = {}
        """Ids that were given with MEMBER_ID_REQUIRED and have not joined."""
        self.pending_sync: set[str] = set()
        """Members that have not synced in this generation."""
        self.pending_commits: dict[TopicPartition, int] = {}
        """Number of commits of each partition that are being written."""
        self.supported_protocols: Counter[str] = Counter()
        """Number of members that list each protocol."""
        self.has_new_member = False
        """True if a member was added since the initial delay was armed."""
        self.remaining_delay_ms: int | None = None
        """Time by which the running initial delay may still be extended; None outside of it."""
        self.join_delay_ms = 0
        """The last setting of the join timer."""
        self.is_marked = False
        """True if ZooKeeper says that the group's members are the coordinator's."""
        self.is_frozen = False
        """True if its generation is kept while it is stable, until its slot is loaded again (recipes 26)."""
        self.left_frozen: list[MemberMetadata] = []
        """Members of the generation that have left or expired since it was frozen: they stay stored."""
        self.reservation: int | None = None
        """The write in flight that reserves generations or sets the marker."""
        self.assignment_write: int | None = None
        """The write in flight of this generation's assignment."""
        self.is_completion_due = False
        """True if the join phase completes as soon as generations are reserved."""
        self.join_timer = Timer(_never_armed)
        self.sync_timer = Timer(_never_armed)
        self.rebalance_started_ms: int | None = None
        self.rebalance_begin: RebalanceBegin | None = None
        """Of the rebalance that no stored generation has ended, for the history."""
        self.stored_assignments: Mapping[str, bytes] = {}
        """Those of the stored generation, by the members' names in the history."""

    def transition_to(self, state: ConsumerGroupState, now_ms: int) -> None:
        """Changes the state. Raises IllegalTransitionError where Kafka has no such change."""
        if self.state not in VALID_PREVIOUS_STATES[state]:
            raise IllegalTransitionError(f"group: {self.state.value} -> {state.value} is not allowed")
        self.state = state
        self.state_timestamp_ms = now_ms

    @property
    def can_rebalance(self) -> bool:
        """True if a rebalance can start."""
        return self.state in VALID_PREVIOUS_STATES[ConsumerGroupState.PREPARING_REBALANCE]

    @property
    def phase(self) -> GroupPhase:
        """The phase of the group."""
        if self.state is ConsumerGroupState.PREPARING_REBALANCE:
            if self.remaining_delay_ms is not None:
                return GroupPhase.INITIAL_DELAY
            return GroupPhase.RESERVING if self.is_completion_due else GroupPhase.JOINING
        if self.state is ConsumerGroupState.COMPLETING_REBALANCE and self.assignment_write is not None:
            return GroupPhase.STORING
        return GroupPhase(self.state.value)

    def add(self, member: MemberMetadata, protocol_type: str) -> None:
        """Adds a member; the first one gives the protocol type and leads."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self._count_protocols(member, 1)

    def remove(self, member: MemberMetadata) -> None:
        """Removes a member without a parked request; if it led, the earliest of the others leads."""
        assert not member.is_parked, member.member_id
        del self.members[member.member_id]
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        self._count_protocols(member, -1)
        self.pending_sync.discard(member.member_id)
        if self.is_frozen and not member.is_new:
            self.left_frozen.append(member)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def update(self, member: MemberMetadata, protocols: Protocols) -> None:
        """Replaces what a member supports."""
        self._count_protocols(member, -1)
        member.protocols = protocols
        self._count_protocols(member, 1)

    def replace_id(self, member: MemberMetadata, new_id: str) -> None:
        """Gives a static member the id of its new process; it keeps its place and its leadership."""
        old_id = member.member_id
        member.member_id = new_id
        self.members = {new_id if key == old_id else key: each for key, each in self.members.items()}
        assert member.group_instance_id is not None
        self.static_members[member.group_instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(new_id)

    def _count_protocols(self, member: MemberMetadata, by: int) -> None:
        for name in member.protocol_names:
            self.supported_protocols[name] += by
            if not self.supported_protocols[name]:
                del self.supported_protocols[name]

    def park_join(self, member: MemberMetadata, request_id: int) -> int | None:
        """Parks a join of a member until the join phase completes; returns the one that it replaces."""
        replaced = self.take_join(member)
        member.parked_join = request_id
        self.joined_count += 1
        return replaced

    def take_join(self, member: MemberMetadata) -> int | None:
        """Takes the parked join of a member, to be answered."""
        parked, member.parked_join = member.parked_join, None
        if parked is not None:
            self.joined_count -= 1
        return parked

    @property
    def has_all_members_joined(self) -> bool:
        """True if the join phase can complete early."""
        return not self.pending_members and self.joined_count == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of the members; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def members_in_order(self) -> Iterator[MemberMetadata]:
        """Static members by group.instance.id, then dynamic ones by member id.

        A leader of kafka-python 3.0 loses members of a list that is not in this order.
        """
        yield from sorted(
            self.members.values(),
            key=lambda member: (not member.is_static, member.group_instance_id or "", member.member_id),
        )

    def error_of(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Returns the error for a request of a member that is fenced or unknown.

        A group.instance.id that is not registered makes it unknown, as in Kafka 3.9.1.
        """
        if group_instance_id is not None:
            registered = self.static_members.get(group_instance_id)
            if registered is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if registered != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def has_room(self, member_id: str, max_size: int) -> bool:
        """Returns whether a join is within group.max.size.

        While a rebalance is prepared, joins count and not members, so a group that is too large loses those
        that join last. Pending ids take no room.
        """
        member = self.members.get(member_id)
        if self.state is ConsumerGroupState.PREPARING_REBALANCE:
            is_parked = member is not None and member.parked_join is not None
            return is_parked or self.joined_count < max_size
        if self.state in (ConsumerGroupState.COMPLETING_REBALANCE, ConsumerGroupState.STABLE):
            return member is not None or len(self.members) < max_size
        return True

    def supports(self, protocol_type: str, protocols: Sequence[tuple[str, bytes]]) -> bool:
        """Returns whether a member with these protocols can be in the group."""
        if self.state is ConsumerGroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        return protocol_type == self.protocol_type and any(
            self.supported_protocols[name] == len(self.members) for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """The protocol with the most votes among those of all members; the leader decides a tie."""
        candidates = frozenset(
            name for name, count in self.supported_protocols.items() if count == len(self.members)
        )
        votes = Counter(member.vote(candidates) for member in self.members.values())
        most = max(votes.values())
        tied = frozenset(name for name, count in votes.items() if count == most)
        assert self.leader is not None
        return self.members[self.leader].vote(tied)

    def elect_joined_leader(self) -> bool:
        """Makes the earliest member that has joined the leader, unless the leader has; False if none has."""
        if self.leader is not None and self.members[self.leader].parked_join is not None:
            return True
        joined = (key for key, member in self.members.items() if member.parked_join is not None)
        leader = next(joined, None)
        if leader is not None:
            self.leader = leader
        return leader is not None

    @property
    def next_generation(self) -> int:
        """The number of the next generation."""
        return max(self.generation, self.skipped_generation) + 1

    @property
    def is_next_generation_reserved(self) -> bool:
        """True if the next generation may be given to members."""
        return self.is_marked and self.next_generation <= self.reserved_generation

    def generation_to_reserve(self) -> int:
        """The number that the next write of the group has to reserve."""
        last = max(self.requested_generation, self.reserved_generation)
        if self.next_generation + GENERATIONS_LEFT > last:
            last = self.next_generation - 1 + GENERATIONS_RESERVED
        self.requested_generation = last
        return last

    def start_generation(self, now_ms: int) -> None:
        """Begins the next generation: CompletingRebalance with members, Empty without."""
        self.generation = self.next_generation
        self.pending_sync.clear()
        self.left_frozen.clear()
        self.protocol = self.select_protocol() if self.members else None
        self.transition_to(
            ConsumerGroupState.COMPLETING_REBALANCE if self.members else ConsumerGroupState.EMPTY, now_ms
        )
