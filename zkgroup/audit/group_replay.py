"""Replays the rows of a group: its members, owners and stored assignment after each row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from zkgroup.audit.events import Event
from zkgroup.audit.expected_owners import ExpectedOwners, expected_owners
from zkgroup.audit.facts import Facts
from zkgroup.audit.keys import Key
from zkgroup.audit.membership import partitions_at, registration_of, topics_wanted
from zkgroup.audit.owner_lives import thread_of
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.znodes.consumers import Registration
from zkgroup.znodes.group_records import StoredAssignment
from zkgroup.znodes.paths import PathKind, partition_of, path_kind


class RegisteredMember(NamedTuple):
    session: int
    registration: Registration | None
    """None where a JVM member could not read it: such a member owns nothing, and stops the JVM members."""
    from_zxid: int
    from_ms: int


class Claimed(NamedTuple):
    thread: str
    session: int
    from_zxid: int
    from_ms: int


class Freed(NamedTuple):
    """The last end of an owner of a partition that has no owner now."""

    claim: Claimed
    zxid: int
    time_ms: int
    session: int
    """Who deleted it."""


class GroupReplay:
    """Members, owners and stored assignment of a group. `apply` takes its rows in order."""

    def __init__(self, group: str, facts: Facts) -> None:
        self.group = group
        self.members: dict[str, RegisteredMember] = {}
        self.owners: dict[TopicPartition, Claimed] = {}
        self.freed: dict[TopicPartition, Freed] = {}
        self._facts = facts
        self._assignment_path = StoredAssignment.path(group)
        self._assignment: StoredAssignment | None = None

    def apply(self, event: Event, place: PathKind) -> None:
        if place.kind == "member":
            self._member(event, place.member)
        elif place.kind == "owner":
            self._owner(event, partition_of(event.path))
        elif event.path == self._assignment_path:
            self._assignment = _assignment(event)

    def registrations(self) -> dict[str, Registration]:
        """The readable ones."""
        return {
            name: member.registration
            for name, member in self.members.items()
            if member.registration is not None
        }

    def threads(self) -> dict[TopicPartition, str]:
        """The owner of each owned partition, as a thread id."""
        return {tp: claim.thread for tp, claim in self.owners.items()}

    def foreign_claims(self) -> list[Claimed]:
        """The owners in another client's format: the id alone of a registration of the same session."""
        members = self.members
        return [
            claim
            for claim in self.owners.values()
            if claim.thread in members and members[claim.thread].session == claim.session
        ]

    def expected_owners(self, zxid: int) -> ExpectedOwners | None:
        """The assignment with the topics of a zxid; None where it cannot be known.

        That is so of other clients' members, too: how they share partitions is their own.
        """
        if self.foreign_claims():
            return None
        return expected_owners(
            self.registrations(), partitions_at(self._facts, zxid), self.threads(), self._assignment
        )

    def is_at_rest(self, zxid: int) -> bool:
        """Whether every member owns exactly what it is assigned."""
        if not self.owners and self._is_to_be_owned(zxid):
            return False
        plan = self.expected_owners(zxid)
        return plan is not None and plan.owners == self.threads()

    def _is_to_be_owned(self, zxid: int) -> bool:
        """Whether an assignment, if it can be known, has an owner for something. False: perhaps."""
        if self._assignment is not None and not self._assignment.owners:
            return False
        partitions = partitions_at(self._facts, zxid)
        return any(
            threads > 0 and partitions.get(topic)
            for registration in self.registrations().values()
            for topic, threads in (topics_wanted(registration, tuple(partitions)) or {}).items()
        )

    def _member(self, event: Event, member: str) -> None:
        if event.op == "create":
            self.members[member] = RegisteredMember(
                event.session, registration_of(event.data), event.zxid, event.time_ms
            )
        elif event.op == "set" and member in self.members:
            self.members[member] = self.members[member]._replace(registration=registration_of(event.data))
        elif event.op == "delete":
            self.members.pop(member, None)

    def _owner(self, event: Event, topic_partition: TopicPartition) -> None:
        if event.op == "create":
            self.owners[topic_partition] = Claimed(thread_of(event), event.session, event.zxid, event.time_ms)
            self.freed.pop(topic_partition, None)
        elif event.op == "delete" and topic_partition in self.owners:
            claim = self.owners.pop(topic_partition)
            self.freed[topic_partition] = Freed(claim, event.zxid, event.time_ms, event.session)


def replayed_group(rows: Iterable[Event], key: Key, facts: Facts) -> Iterator[GroupReplay]:
    """The group after its last row: one value. Several rules share it."""
    replay = GroupReplay(key[0], facts)
    for event in rows:
        replay.apply(event, path_kind(event.path))
    yield replay


def _assignment(event: Event) -> StoredAssignment | None:
    if event.op == "delete":
        return None
    try:
        return StoredAssignment.decode(event.path, event.data)
    except CorruptZnodeError:
        return None
