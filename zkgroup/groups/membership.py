"""The members of a group of Kafka's group protocol, as its coordinator reports them or as stored. Pure.

What members send through their coordinator can be read for the protocol type `consumer`; of others it is
opaque, so topics and partitions of their members are not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from zkgroup.assignment.consumer_protocol import CONSUMER_PROTOCOL_TYPE, decode_assignment, subscribed_topics
from zkgroup.errors import CorruptFrameError
from zkgroup.groups.snapshot import CoordinatedGroup
from zkgroup.model import TopicPartition
from zkgroup.znodes.coordinated_groups import StoredMember

T = TypeVar("T")

STABLE = "Stable"
EMPTY = "Empty"
DEAD = "Dead"
"""States of a group, in Kafka's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveMember:
    """A member, as the coordinator of its group reports it."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    metadata: bytes
    assignment: bytes
    session_expires_in_ms: int | None = None
    """None while one of its requests is parked, or if the coordinator does not report it."""
    has_joined: bool | None = None
    """True if its JoinGroup waits for the end of the join phase; None if that is not reported."""
    is_awaiting_sync: bool | None = None
    """True if it has not synced in this generation; None if the coordinator does not report it."""
    session_timeout_ms: int | None = None
    """None if the coordinator does not report it."""
    rebalance_timeout_ms: int | None = None
    """None if the coordinator does not report it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveGroup:
    """A group, as its coordinator reports it."""

    state: str
    """Kafka's word; `Dead` for a group that it does not know."""
    protocol_type: str
    protocol: str
    members: tuple[LiveMember, ...] = ()
    phase: str | None = None
    """The event that the group waits for; None, as the next ones, if the coordinator does not report it."""
    generation: int | None = None
    leader: str | None = None
    pending_members: int | None = None
    phase_ends_in_ms: int | None = None
    """None also where the phase has no end."""


LiveReader = Callable[[Mapping[str, int]], Mapping[str, LiveGroup]]
"""Asks brokers, by group, for the groups that they coordinate; those without an answer are absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMember:
    """A member of a group of Kafka's protocol, with what it subscribes to and what is assigned to it."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: tuple[str, ...] | None
    """None if they are not known: opaque, unreadable, or of a member that has just joined."""
    assigned: tuple[TopicPartition, ...] | None
    """None if they are opaque or unreadable."""
    errors: tuple[str, ...] = ()
    """The reasons why topics or partitions cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMembership:
    """A group of Kafka's protocol with its members."""

    state: str
    """Kafka's word."""
    generation: int | None
    protocol_type: str | None
    protocol: str | None
    """The assignment strategy."""
    leader: str | None
    members: tuple[ClientMember, ...]
    """By member id."""

    @property
    def topics(self) -> frozenset[str]:
        """All that a member subscribes to or has partitions of, as far as known."""
        subscribed = {topic for member in self.members for topic in member.topics or ()}
        return frozenset(subscribed | {tp.topic for tp, _ in self.assignments})

    @property
    def subscribed(self) -> frozenset[str]:
        """All that a member subscribes to, as far as known."""
        return frozenset(topic for member in self.members for topic in member.topics or ())

    @property
    def assignments(self) -> Iterator[tuple[TopicPartition, str]]:
        """Each assigned partition with its member's id; twice where two members have it."""
        for member in self.members:
            for tp in member.assigned or ():
                yield tp, member.member_id

    @property
    def owners(self) -> Mapping[TopicPartition, str]:
        """Each assigned partition with the first member that has it."""
        found: dict[TopicPartition, str] = {}
        for tp, member in self.assignments:
            found.setdefault(tp, member)
        return found

    @property
    def is_known(self) -> bool:
        """Returns whether the topics and partitions of all members are known."""
        return all(member.topics is not None and member.assigned is not None for member in self.members)


def membership(group: CoordinatedGroup, live: LiveGroup | None) -> ClientMembership:
    """The members as the coordinator reports them; as they are stored, where it has not answered."""
    if live is None or live.state == DEAD:
        return stored_membership(group)
    stored = {member.member_id: member for member in group.members}
    protocol = group.header.value.protocol if group.header and group.header.value else None
    protocol_type = live.protocol_type or None
    return ClientMembership(
        state=live.state,
        generation=_generation(group) if live.generation is None else live.generation,
        protocol_type=protocol_type,
        protocol=live.protocol or None,
        leader=live.leader,
        members=tuple(
            _client_member(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.host,
                protocol_type,
                # A coordinator reports subscriptions only while the group is stable.
                member.metadata or _metadata(stored.get(member.member_id), protocol),
                member.assignment,
            )
            for member in sorted(live.members, key=lambda member: member.member_id)
        ),
    )


def stored_membership(group: CoordinatedGroup) -> ClientMembership:
    """The members of the last stored generation; the state in which a coordinator that loads it begins."""
    header = group.header.value if group.header else None
    return ClientMembership(
        state=STABLE if group.members else EMPTY,
        generation=_generation(group),
        protocol_type=header.protocol_type if header else None,
        protocol=header.protocol if header else None,
        leader=header.leader if header else None,
        members=tuple(
            _client_member(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                header.protocol_type if header else None,
                _metadata(member, header.protocol if header else None),
                member.assignment,
            )
            for member in sorted(group.members, key=lambda member: member.member_id)
        ),
    )


def _generation(group: CoordinatedGroup) -> int | None:
    return group.header.value.generation if group.header and group.header.value else None


def _metadata(member: StoredMember | None, protocol: str | None) -> bytes:
    return next((data for name, data in member.protocols if name == protocol), b"") if member else b""


def _client_member(
    member_id: str,
    instance_id: str | None,
    client_id: str,
    host: str,
    protocol_type: str | None,
    metadata: bytes,
    assignment: bytes,
) -> ClientMember:
    topics: tuple[str, ...] | None = None
    assigned: tuple[TopicPartition, ...] | None = None
    errors: list[str] = []
    if protocol_type == CONSUMER_PROTOCOL_TYPE:
        topics = _readable(lambda: subscribed_topics(metadata), errors) if metadata else None
        found = _readable(lambda: decode_assignment(assignment), errors)
        assigned = None if found is None else found.partitions
    return ClientMember(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        host=host.removeprefix("/"),
        topics=topics,
        assigned=assigned,
        errors=tuple(errors),
    )


def _readable(decode: Callable[[], T], errors: list[str]) -> T | None:
    try:
        return decode()
    except CorruptFrameError as error:
        errors.append(str(error))
        return None
