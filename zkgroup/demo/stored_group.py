"""The history of a group in ZooKeeper's log: its generations, its commits, its coordinators. Pure.

It decides the rules of coordinated groups that a run can break: a commit belongs to its generation (S25),
only the broker that has set the slot last writes the group (S26), the group has one kind of members at a time
(S27), an offset goes back only by the member that wrote it (S28), and neither the group with its members nor
an offset is removed (S30, S31).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from zkgroup.assignment.consumer_protocol import decode_assignment
from zkgroup.history import Change, ServerTransaction, Violation
from zkgroup.model import TopicPartition
from zkgroup.znodes.consumers import Offset, ids_path, offsets_path, offsets_topic_path
from zkgroup.znodes.coordinated_groups import (
    GroupChunk,
    GroupHeader,
    OffsetAndMetadata,
    ProtocolMarker,
    SlotOwner,
    members_of,
    meta_topic_path,
)

JAVA = "java"
"""Client id of Java's console consumer, which commits without metadata."""


class StoredGeneration(NamedTuple):
    """One stored generation with its assignment."""

    generation: int = 0
    owners: Mapping[int, tuple[str, ...]] = {}
    """Partition to the client ids of the members to which it is assigned."""


class StoredCommit(NamedTuple):
    """One committed offset."""

    zxid: int
    partition: int
    offset: int
    client: str | None
    """Client id, from the metadata; empty for none, None for a ZooKeeper consumer."""
    token: int
    """Of the assignment, from the metadata; 0 for none."""
    owners: tuple[str, ...]
    """Client ids of the owners in the generation that was stored last."""
    generation: int
    metadata: str


@dataclass(slots=True)
class LoggedGroup:
    """The group in the order of the log, and what has broken a rule."""

    group: str
    slot: int
    topic: str
    generations: list[StoredGeneration] = field(default_factory=list)
    commits: list[StoredCommit] = field(default_factory=list)
    coordinators: list[int] = field(default_factory=list)
    """The broker of each load of the slot."""
    registrations: int = 0
    """Registrations of ZooKeeper consumers."""
    markers: int = 0
    """Times that the group was marked as one of Kafka's protocol."""
    violations: list[Violation] = field(default_factory=list)
    _chunks: dict[str, bytes] = field(default_factory=dict)
    _header: GroupHeader | None = None
    _ids: set[str] = field(default_factory=set)
    """The registered ZooKeeper consumers."""
    _is_marked: bool = False
    _session: int = 0
    """That of the broker that has set the slot last."""
    _first: dict[str, int] = field(default_factory=dict)
    """Metadata of commits to the generation in which they were stored first."""
    _last: dict[int, StoredCommit] = field(default_factory=dict)
    """Partition to its last commit; those of Java, which have no token, are left out."""

    def apply(self, transaction: ServerTransaction) -> None:
        """Applies and checks one transaction, if the servers accepted it."""
        if transaction.refusal is not None:
            return
        written = [change for change in transaction.changes if change.action != "check"]
        for change in written:
            self._apply(transaction, change)
        for change in written:  # the header's chunks may be behind it
            if change.path == self._header_path:
                self._header = GroupHeader.decode(change.path, change.data) if change.data else None
                self._store()
        self._check_kinds(transaction)
        for commit in self._commits(transaction):
            self._check_commit(commit)
            self.commits.append(commit)

    @property
    def has_members(self) -> bool:
        """True if members of a coordinator are stored."""
        return self._header is not None and self._header.chunks > 0

    @property
    def _header_path(self) -> str:
        return GroupHeader.path(self.slot, self.group)

    def _apply(self, transaction: ServerTransaction, change: Change) -> None:
        """Applies one change of anything but the header's content and offsets."""
        header, ids = self._header_path, f"{ids_path(self.group)}/"
        path, is_there = change.path, change.action != "delete"
        if path == SlotOwner.path(self.slot) and change.data:
            self.coordinators.append(SlotOwner.decode(path, change.data).broker)
            self._session = transaction.session
        elif path == ProtocolMarker.path(self.group):
            self._is_marked = is_there
            self.markers += change.action == "create"
        elif path.startswith(ids):
            (self._ids.add if is_there else self._ids.discard)(path.removeprefix(ids))
            self.registrations += change.action == "create"
        elif path.startswith(f"{offsets_path(self.group)}/") and not is_there:
            self._violated("S31", f"{path} is deleted", transaction.zxid)
        elif path == header or path.startswith(f"{header}/"):
            if transaction.session != self._session:
                detail = f"{path} is written by session {transaction.session:#x}"
                self._violated("S26", f"{detail}, the slot is of {self._session:#x}", transaction.zxid)
            if path == header and not is_there and self.has_members:
                self._violated("S30", "the group is removed with its members", transaction.zxid)
            if is_there and path.startswith(f"{header}/rec-"):
                self._chunks[path] = change.data or b""

    def _violated(self, invariant: str, detail: str, zxid: int, partition: int | None = None) -> None:
        tp = None if partition is None else TopicPartition(self.topic, partition)
        self.violations.append(Violation(invariant, detail, tp, zxid))

    def _store(self) -> None:
        """Keeps the assignment of a generation."""
        header = self._header
        if header is None or not header.chunks:
            return
        numbers = range(header.first_chunk, header.first_chunk + header.chunks)
        paths = [GroupChunk.path(self.slot, self.group, header.generation, number) for number in numbers]
        chunks = [GroupChunk(self._chunks[path]) for path in paths]
        owners: dict[int, tuple[str, ...]] = {}
        for member in members_of(self._header_path, header, chunks):
            for tp in decode_assignment(member.assignment).partitions:
                owners[tp.partition] = (*owners.get(tp.partition, ()), member.client_id)
        self.generations.append(StoredGeneration(header.generation, owners))

    def _check_kinds(self, transaction: ServerTransaction) -> None:
        kinds = (ids_path(self.group), ProtocolMarker.path(self.group), self._header_path)
        if not any(change.path.startswith(kinds) for change in transaction.changes):
            return
        if self._ids and (self._is_marked or self.has_members):
            detail = f"ZooKeeper members {', '.join(sorted(self._ids))} beside those of a coordinator"
            self._violated("S27", detail, transaction.zxid)
        if self.has_members and not self._is_marked:
            self._violated("S27", "stored members without the marker", transaction.zxid)

    def _commits(self, transaction: ServerTransaction) -> Sequence[StoredCommit]:
        metadata = _children(transaction, meta_topic_path(self.slot, self.group, self.topic))
        last = self.generations[-1] if self.generations else StoredGeneration()
        found = []
        for number, change in _children(transaction, offsets_topic_path(self.group, self.topic)).items():
            client, token, text = None, 0, ""
            if number in metadata:
                text = OffsetAndMetadata.decode(metadata[number].path, metadata[number].data).metadata
                client, _, rest = text.rstrip("\0").partition(" ")  # confluent-kafka sends a 0
                token = int(rest or 0)
            at = Offset.decode(change.path, change.data).value
            owners = last.owners.get(number, ())
            found.append(
                StoredCommit(transaction.zxid, number, at, client, token, owners, last.generation, text)
            )
        return found

    def _check_commit(self, commit: StoredCommit) -> None:
        """The metadata of a commit are those of one assignment: it belongs to one generation."""
        if commit.client is not None and not commit.token:
            return  # of Java
        zxid, number, is_same = commit.zxid, commit.partition, False
        before = self._last.get(number)
        if commit.client is not None:
            generation = self._first.setdefault(commit.metadata, commit.generation)
            if not self.has_members or generation != commit.generation:
                detail = f"commit {commit.metadata!r} of generation {generation} is stored"
                self._violated("S25", f"{detail} in generation {commit.generation}", zxid, number)
            if before is not None and before.client == commit.client:
                is_same = self._first[before.metadata] == generation  # its requests may change places
        if before is not None and commit.offset < before.offset and not is_same:
            detail = f"goes back from {before.offset} ({before.metadata!r}) to {commit.offset}"
            self._violated("S28", f"{detail} ({commit.metadata!r})", zxid, number)
        self._last[number] = commit


def _children(transaction: ServerTransaction, parent: str) -> dict[int, Change]:
    """The written children of a znode, by number."""
    return {
        int(change.path.rpartition("/")[2]): change
        for change in transaction.changes
        if change.path.startswith(f"{parent}/") and change.action in ("create", "set") and change.data
    }
