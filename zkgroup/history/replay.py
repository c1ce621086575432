"""The znodes of one group as they were after each change of a server's log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from zkgroup.errors import CorruptZnodeError
from zkgroup.history.transactions import Change, ServerTransaction
from zkgroup.model import TopicPartition
from zkgroup.znodes.brokers import Topic, topics_path
from zkgroup.znodes.consumers import (
    Offset,
    Owner,
    Registration,
    Reset,
    consumers_path,
    ids_path,
    offsets_path,
    owners_path,
    resets_path,
)
from zkgroup.znodes.ids import number_of

_NOWHERE = TopicPartition("", -1)
PlaceKind = Literal["id", "owner", "offset", "reset", "topic"]


@dataclass(frozen=True, slots=True)
class Place:
    """What a path is about: a member, a partition or a topic of the group."""

    kind: PlaceKind
    member: str = ""
    topic_partition: TopicPartition = _NOWHERE
    topic: str = ""


@dataclass(frozen=True, slots=True)
class Registered:
    session: int
    czxid: int
    registration: Registration | None
    """None where it is not readable: such a member owns nothing."""


@dataclass(frozen=True, slots=True)
class Owned:
    session: int
    czxid: int
    text: str
    member: str | None
    since_ms: int


@dataclass(frozen=True, slots=True)
class Stored:
    """An offset znode."""

    value: int | None
    """None where it is not readable."""
    version: int
    czxid: int


class Picture:
    """The state of a group. `apply` takes one change at a time, in the order of the log."""

    def __init__(self, group: str) -> None:
        self.sessions: set[int] = set()
        self.ids: dict[str, Registered] = {}
        self.owners: dict[TopicPartition, Owned] = {}
        self.offsets: dict[TopicPartition, Stored] = {}
        self.topics: dict[str, tuple[int, ...]] = {}
        self._places = _Places(group)

    def place(self, path: str) -> Place | None:
        return self._places.find(path)

    def apply(self, transaction: ServerTransaction, change: Change) -> None:
        """Takes over one accepted change."""
        place = self.place(change.path)
        if place is None or change.action == "check":
            return
        gone = change.action == "delete"
        match place.kind:
            case "id":
                self._id(transaction, change, place.member, gone=gone)
            case "owner":
                self._owner(transaction, change, place.topic_partition, gone=gone)
            case "offset":
                self._offset(transaction, change, place.topic_partition, gone=gone)
            case "topic":
                self._topic(change, place.topic, gone=gone)

    def wanted(self) -> Mapping[str, Registration]:
        """The readable registrations."""
        return {name: one.registration for name, one in self.ids.items() if one.registration is not None}

    def _id(self, transaction: ServerTransaction, change: Change, member: str, *, gone: bool) -> None:
        if gone:
            self.ids.pop(member, None)
            return
        try:
            registration = Registration.decode(change.path, change.data)
        except CorruptZnodeError:
            registration = None
        before = self.ids.get(member)
        session = change.ephemeral_owner if change.action == "create" or before is None else before.session
        self.ids[member] = Registered(session, transaction.zxid, registration)

    def _owner(
        self, transaction: ServerTransaction, change: Change, tp: TopicPartition, *, gone: bool
    ) -> None:
        if gone:
            self.owners.pop(tp, None)
        elif change.action == "create":
            text = (change.data or b"").decode("utf-8", "replace")
            owner = Owner(text)
            self.owners[tp] = Owned(
                change.ephemeral_owner, transaction.zxid, text, owner.member, transaction.at_ms
            )

    def _offset(
        self, transaction: ServerTransaction, change: Change, tp: TopicPartition, *, gone: bool
    ) -> None:
        if gone:
            self.offsets.pop(tp, None)
            return
        try:
            value = Offset.decode(change.path, change.data).value
        except CorruptZnodeError:
            value = None
        before = self.offsets.get(tp)
        czxid = transaction.zxid if change.action == "create" or before is None else before.czxid
        self.offsets[tp] = Stored(value, change.version or 0, czxid)

    def _topic(self, change: Change, topic: str, *, gone: bool) -> None:
        self.topics.pop(topic, None)
        if not gone:
            try:
                self.topics[topic] = Topic.decode(change.path, change.data).numbers
            except CorruptZnodeError:
                self.topics[topic] = ()


class _Places:
    """Tells what a path is about, remembering the answers: a log names the same few paths again and again."""

    def __init__(self, group: str) -> None:
        self._ids = f"{ids_path(group)}/"
        self._partitions: dict[str, PlaceKind] = {
            f"{owners_path(group)}/": "owner",
            f"{offsets_path(group)}/": "offset",
        }
        self._resets = f"{resets_path(group)}/"
        self._topics = f"{topics_path()}/"
        self._known: dict[str, Place | None] = {}

    def find(self, path: str) -> Place | None:
        if path not in self._known:
            self._known[path] = self._look(path)
        return self._known[path]

    def _look(self, path: str) -> Place | None:
        if path.startswith(self._ids):
            return Place("id", member=path.removeprefix(self._ids))
        if path.startswith(self._resets):
            tp = Reset.partition_of(path.removeprefix(self._resets))
            return Place("reset", topic_partition=tp) if tp else None
        if path.startswith(self._topics) and "/" not in path.removeprefix(self._topics):
            return Place("topic", topic=path.removeprefix(self._topics))
        for prefix, kind in self._partitions.items():
            topic, slash, name = path.removeprefix(prefix).partition("/")
            number = number_of(name)
            if path.startswith(prefix) and slash and number is not None:
                return Place(kind, topic_partition=TopicPartition(topic, number))
        return None


def number_in(data: bytes | None) -> int | None:
    """The value of an offset znode; None where it is no number."""
    try:
        return int(data or b"")
    except ValueError:
        return None


def groups_in(transactions: tuple[ServerTransaction, ...]) -> set[str]:
    """The groups in which somebody registered."""
    prefix = f"{consumers_path()}/"
    found = set()
    for transaction in transactions:
        for change in transaction.changes:
            parts = change.path.removeprefix(prefix).split("/") if change.path.startswith(prefix) else []
            if change.action == "create" and len(parts) == 3 and parts[1] == "ids":
                found.add(parts[0])
    return found
