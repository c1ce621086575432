"""Evidence about one group: records, options, and its znodes after each change of the server's log."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from zkgroup.history.records import HistoryRecord, partition_of
from zkgroup.history.transactions import Change, ServerTransaction, decoded
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import Topic, topics_path
from zkgroup.znodes.consumers import (
    Offset,
    Owner,
    Registration,
    consumers_path,
    ids_path,
    offsets_path,
    owners_path,
    resets_path,
)
from zkgroup.znodes.group_records import Reset
from zkgroup.znodes.ids import number_of

_NO_PARTITION = TopicPartition("", -1)
GroupZnodeKind = Literal["id", "owner", "offset", "reset", "topic"]


@dataclass(frozen=True, slots=True)
class GroupZnode:
    """The group's znode at a path: its kind, and its member, partition or topic."""

    kind: GroupZnodeKind
    member: str = ""
    topic_partition: TopicPartition = _NO_PARTITION
    topic: str = ""


@dataclass(frozen=True, slots=True)
class MemberZnode:
    session: int
    czxid: int
    registration: Registration | None
    """None where it is not readable: such a member owns nothing."""


@dataclass(frozen=True, slots=True)
class OwnerZnode:
    session: int
    czxid: int
    text: str
    member: str | None
    since_ms: int


@dataclass(frozen=True, slots=True)
class OffsetZnode:
    """An offset znode."""

    value: int | None
    """None where it is not readable."""
    version: int
    czxid: int


class ReplayedGroup:
    """The znodes of a group. `apply` takes one change at a time, in the order of the log."""

    def __init__(self, group: str) -> None:
        self.ids: dict[str, MemberZnode] = {}
        self.owners: dict[TopicPartition, OwnerZnode] = {}
        self.offsets: dict[TopicPartition, OffsetZnode] = {}
        self.topics: dict[str, tuple[int, ...]] = {}
        self._places = _GroupPaths(group)

    def place(self, path: str) -> GroupZnode | None:
        return self._places.find(path)

    def apply(self, transaction: ServerTransaction, change: Change) -> None:
        """Applies one accepted change."""
        place = self.place(change.path)
        if place is None or change.action == "check":
            return
        tp, is_new = place.topic_partition, change.action == "create"
        match place.kind, change.action:
            case "id", "delete":
                self.ids.pop(place.member, None)
            case "owner", "delete":
                self.owners.pop(tp, None)
            case "offset", "delete":
                self.offsets.pop(tp, None)
            case "topic", "delete":
                self.topics.pop(place.topic, None)
            case "id", _:
                member, registration = self.ids.get(place.member), decoded(Registration.decode, change)
                session = change.ephemeral_owner if member is None or is_new else member.session
                self.ids[place.member] = MemberZnode(session, transaction.zxid, registration)
            case "owner", "create":
                text = (change.data or b"").decode("utf-8", "replace")
                session, zxid, at_ms = change.ephemeral_owner, transaction.zxid, transaction.at_ms
                self.owners[tp] = OwnerZnode(session, zxid, text, Owner(text).member, at_ms)
            case "offset", _:
                before, offset = self.offsets.get(tp), decoded(Offset.decode, change)
                czxid = transaction.zxid if before is None or is_new else before.czxid
                value = None if offset is None else offset.value
                self.offsets[tp] = OffsetZnode(value, change.version or 0, czxid)
            case "topic", _:
                topic = decoded(Topic.decode, change)
                self.topics[place.topic] = () if topic is None else topic.numbers

    def wanted(self) -> Mapping[str, Registration]:
        """The readable registrations."""
        return {name: one.registration for name, one in self.ids.items() if one.registration is not None}


class _GroupPaths:
    """Parses paths, with a cache: a log repeats the same few paths."""

    def __init__(self, group: str) -> None:
        self._ids = f"{ids_path(group)}/"
        self._partitions: dict[str, GroupZnodeKind] = {
            f"{owners_path(group)}/": "owner",
            f"{offsets_path(group)}/": "offset",
        }
        self._resets = f"{resets_path(group)}/"
        self._topics = f"{topics_path()}/"
        self._known: dict[str, GroupZnode | None] = {}

    def find(self, path: str) -> GroupZnode | None:
        if path not in self._known:
            self._known[path] = self._parse(path)
        return self._known[path]

    def _parse(self, path: str) -> GroupZnode | None:
        if path.startswith(self._ids):
            return GroupZnode("id", member=path.removeprefix(self._ids))
        if path.startswith(self._resets):
            tp = Reset.partition_of(path.removeprefix(self._resets))
            return GroupZnode("reset", topic_partition=tp) if tp else None
        if path.startswith(self._topics) and "/" not in path.removeprefix(self._topics):
            return GroupZnode("topic", topic=path.removeprefix(self._topics))
        for prefix, kind in self._partitions.items():
            topic, slash, name = path.removeprefix(prefix).partition("/")
            number = number_of(name)
            if path.startswith(prefix) and slash and number is not None:
                return GroupZnode(kind, topic_partition=TopicPartition(topic, number))
        return None


def number_in(data: bytes | None) -> int | None:
    """The value of an offset znode; None where it is no number."""
    try:
        return int(data or b"")
    except ValueError:
        return None


def groups_in(transactions: tuple[ServerTransaction, ...]) -> set[str]:
    """The groups with a registration."""
    prefix = f"{consumers_path()}/"
    found = set()
    for transaction in transactions:
        for change in transaction.changes:
            parts = change.path.removeprefix(prefix).split("/") if change.path.startswith(prefix) else []
            if change.action == "create" and len(parts) == 3 and parts[1] == "ids":
                found.add(parts[0])
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """Facts that are not in the records and the log. Times are on the members' clock, in milliseconds."""

    group: str | None = None
    """Needed only where the server's log holds several groups."""
    member_sessions: Collection[int] = ()
    """Sessions of zkgroup's members beyond those that registered or recorded anything."""
    quiet_from_ms: int | None = None
    """Time of the last repair or other change; without it convergence (L1 to L4) is not decided."""
    recovery_ms: int = 10_000
    """Longest time after `quiet_from_ms` until the group has converged."""
    ended_members: Collection[str] = ()
    """Members that were killed, could not record their end, and did not come back."""
    half_claim_ms: int = 30_000
    """Longest time for an owner znode whose member does not own the partition by its own records."""
    slack_ms: int = 100
    """Time between the check of a lease and the stamp on the record of the delivery."""
    gaps_allowed: bool = False
    """Offsets of records may have gaps (compacted topics): a claim may start above its position."""
    offsets_given: bool = False
    """The application commits offsets of its own choice, processed or not: that rule (S5) is not decided."""


@dataclass(frozen=True)
class GroupEvidence:
    """Everything that the invariants of a group are decided from."""

    records: tuple[HistoryRecord, ...]
    """In the order of time."""
    transactions: tuple[ServerTransaction, ...]
    """In the order of their zxid; empty without a server's log."""
    group: str
    options: CheckOptions = field(default_factory=CheckOptions)

    @cached_property
    def by_member(self) -> Mapping[str, tuple[HistoryRecord, ...]]:
        """Each member's records, in order."""
        found: dict[str, list[HistoryRecord]] = {}
        for record in self.records:
            found.setdefault(record.member, []).append(record)
        return {member: tuple(records) for member, records in found.items()}

    @cached_property
    def ownerships(self) -> tuple[RecordedOwnership, ...]:
        """Every ownership as its member recorded it, in the order of their beginnings.

        An ownership ends with the member's record, or where the member registers again in another session (it
        was killed in between and could not record the end).
        """
        open_: dict[str, dict[tuple[TopicPartition, int], RecordedOwnership]] = {}
        found: list[RecordedOwnership] = []
        for record in self.records:
            mine = open_.setdefault(record.member, {})
            if record.kind == "registered":
                for key in [key for key in mine if mine[key].begin.session != record.session]:
                    mine.pop(key).end = record
            elif record.kind == "own.begin":
                key = (record.topic_partition, record.fields["token"])
                mine[key] = RecordedOwnership(record.member, *key, begin=record)
                found.append(mine[key])
            elif record.kind == "own.end":
                ended = mine.pop((record.topic_partition, record.fields["token"]), None)
                if ended is not None:
                    ended.end = record
        return tuple(found)

    @cached_property
    def rewinds(self) -> frozenset[tuple[TopicPartition, int]]:
        """Partition and resulting version of writes that follow a seek back by the application."""
        return frozenset(
            (partition_of(row), row["fence"] + 1 if record.kind == "commit.invoke" else row["version"])
            for record in self.records
            if record.kind in ("commit.invoke", "release.invoke")
            for row in record.fields["offsets" if record.kind == "commit.invoke" else "partitions"]
            if row.get("rewind")
        )

    @property
    def converged_by_ms(self) -> int | None:
        """The deadline for convergence; None where `quiet_from_ms` is unknown."""
        quiet_from_ms = self.options.quiet_from_ms
        return None if quiet_from_ms is None else quiet_from_ms + self.options.recovery_ms


@dataclass(slots=True)
class RecordedOwnership:
    """One ownership, as its member recorded it."""

    member: str
    topic_partition: TopicPartition
    token: int
    begin: HistoryRecord
    end: HistoryRecord | None = None
