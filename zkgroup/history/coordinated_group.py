"""The checker of a group of Kafka's protocol (S23 to S28, S30, S31), from server logs. Pure.

A generation has one assignment, and none follows a later one (S23); it gives no partition to two members
(S24). A commit is of a member that owns the partition in its generation (S25), only the broker that has set
the slot last writes the group (S26), the group has one kind of members at a time (S27), an offset goes back
only by the member that wrote it (S28), and neither the group with its members nor an offset is removed (S30,
S31). Commits have metadata: the client id and the token of the assignment, with a space between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from zkgroup.assignment.consumer_protocol import decode_assignment
from zkgroup.errors import CorruptZnodeError
from zkgroup.history.report import Violation
from zkgroup.history.transactions import Change, ServerTransaction
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
from zkgroup.znodes.json_fields import INT64, decimal


class StoredGeneration(NamedTuple):
    """One stored generation with its assignment."""

    number: int = 0
    owners: Mapping[int, tuple[str, ...]] = {}
    """Partition to the client ids of the members to which it is assigned."""


class StoredCommit(NamedTuple):
    """One committed offset."""

    zxid: int
    partition: int
    offset: int
    stored: StoredGeneration
    """The generation that was stored last."""
    metadata: str | None = None
    """None for a ZooKeeper consumer's."""

    @property
    def client(self) -> str:
        """Client id; empty without metadata."""
        return (self.metadata or "").partition(" ")[0]

    @property
    def token(self) -> int:
        """The token of the assignment; 0 for none, and in metadata of another form."""
        return decimal((self.metadata or "").partition(" ")[2], INT64) or 0


@dataclass(slots=True)
class CoordinatedGroupChecker:
    """The group in the order of the log, and what has broken a rule."""

    group: str
    slot: int
    topic: str
    silent: str = ""
    """Client id of the member that commits without metadata."""
    generations: list[StoredGeneration] = field(default_factory=list)
    commits: list[StoredCommit] = field(default_factory=list)
    coordinators: list[int] = field(default_factory=list)
    """The broker of each load of the slot."""
    registrations: int = 0
    """Registrations of ZooKeeper consumers."""
    markers: int = 0
    """Times that the group was marked as one of Kafka's protocol."""
    violations: list[Violation] = field(default_factory=list)
    _zxid: int = 0
    _header: GroupHeader | None = None
    _chunks: dict[str, bytes] = field(default_factory=dict)
    """All that were ever written."""
    _ids: set[str] = field(default_factory=set)
    """The registered ZooKeeper consumers."""
    _is_marked: bool = False
    _session: int = 0
    """That of the broker that has set the slot last."""
    _first: dict[str, int] = field(default_factory=dict)
    """Metadata of commits to the generation in which they were stored first."""
    _last: dict[int, StoredCommit] = field(default_factory=dict)
    """Partition to its last commit; those of clients without a token are left out."""

    def run(self, log: Iterable[ServerTransaction]) -> None:
        """Applies and checks all transactions that the servers accepted."""
        for transaction in log:
            if transaction.refusal is None:
                self._accepted(transaction)

    def _accepted(self, transaction: ServerTransaction) -> None:
        self._zxid = transaction.zxid
        changes = [change for change in transaction.changes if change.action != "check"]
        for change in changes:
            self._apply(transaction.session, change)
        written = {change.path: change for change in changes}
        if header := written.get(self._path):  # its chunks may be behind it
            self._header = GroupHeader.decode(header.path, header.data) if header.data else None
            self._store()
        self._check_kinds(change.path for change in transaction.changes)
        for commit in self._committed(written):
            self._check_commit(commit)
            self.commits.append(commit)

    @property
    def _path(self) -> str:
        return GroupHeader.path(self.slot, self.group)

    @property
    def _has_members(self) -> bool:
        """True if members of a coordinator are stored."""
        return self._header is not None and self._header.chunks > 0

    @property
    def _last_stored(self) -> StoredGeneration:
        return self.generations[-1] if self.generations else StoredGeneration()

    def _violated(self, invariant: str, detail: str, partition: int | None = None) -> None:
        tp = None if partition is None else TopicPartition(self.topic, partition)
        self.violations.append(Violation(invariant, detail, tp, self._zxid))

    def _apply(self, session: int, change: Change) -> None:
        """Applies one change of anything but the header's content and offsets."""
        path, is_there, ids = change.path, change.action != "delete", f"{ids_path(self.group)}/"
        if path == SlotOwner.path(self.slot) and change.data:
            self.coordinators.append(SlotOwner.decode(path, change.data).broker)
            self._session = session
        elif path == ProtocolMarker.path(self.group):
            self._is_marked = is_there
            self.markers += change.action == "create"
        elif path.startswith(ids):
            (self._ids.add if is_there else self._ids.discard)(path.removeprefix(ids))
            self.registrations += change.action == "create"
        elif path.startswith(f"{offsets_path(self.group)}/") and not is_there:
            self._violated("S31", f"{path} is deleted")
        elif f"{path}/".startswith(f"{self._path}/"):
            if session != self._session:
                detail = f"{path} is written by session {session:#x}, the slot is of {self._session:#x}"
                self._violated("S26", detail)
            if path == self._path and not is_there and self._has_members:
                self._violated("S30", "the group is removed with its members")
            if is_there and path.startswith(f"{self._path}/rec-"):
                self._chunks[path] = change.data or b""

    def _store(self) -> None:
        """Keeps the assignment of a generation."""
        header = self._header
        if header is None or not header.chunks:
            return
        numbers = range(header.first_chunk, header.first_chunk + header.chunks)
        paths = [GroupChunk.path(self.slot, self.group, header.generation, number) for number in numbers]
        chunks = [GroupChunk(self._chunks[path]) for path in paths if path in self._chunks]
        try:
            members = members_of(self._path, header, chunks)
        except CorruptZnodeError as error:
            self._violated("S23", f"generation {header.generation} has no assignment: {error}")
            return
        owners: dict[int, tuple[str, ...]] = {}
        for member in members:
            for tp in decode_assignment(member.assignment).partitions:
                owners[tp.partition] = (*owners.get(tp.partition, ()), member.client_id)
        for number, clients in owners.items():
            if len(clients) > 1:
                detail = f"it belongs to {' and '.join(clients)} in generation {header.generation}"
                self._violated("S24", detail, number)
        before, stored = self._last_stored, StoredGeneration(header.generation, owners)
        if stored.number < before.number:
            self._violated("S23", f"generation {stored.number} after {before.number}")
        elif stored.number == before.number and owners != before.owners:
            self._violated("S23", f"generation {stored.number} has two assignments")
        self.generations.append(stored)

    def _check_kinds(self, touched: Iterable[str]) -> None:
        """The group has one kind of members."""
        kinds = (ids_path(self.group), ProtocolMarker.path(self.group), self._path)
        if not any(path.startswith(kinds) for path in touched):
            return
        if self._ids and (self._is_marked or self._has_members):
            names = ", ".join(sorted(self._ids))
            self._violated("S27", f"ZooKeeper members {names} beside those of a coordinator")
        if self._has_members and not self._is_marked:
            self._violated("S27", "stored members without the marker")

    def _committed(self, written: Mapping[str, Change]) -> Iterator[StoredCommit]:
        """The offsets that a transaction has written."""
        offsets = f"{offsets_topic_path(self.group, self.topic)}/"
        for path, change in written.items():
            if not path.startswith(offsets) or not change.data:
                continue
            name, metadata = path.removeprefix(offsets), None
            client = written.get(f"{meta_topic_path(self.slot, self.group, self.topic)}/{name}")
            if client is not None and client.data:  # confluent-kafka sends a 0 at the end
                metadata = OffsetAndMetadata.decode(client.path, client.data).metadata.rstrip("\0")
            offset = Offset.decode(path, change.data).value
            yield StoredCommit(self._zxid, int(name), offset, self._last_stored, metadata)

    def _check_commit(self, commit: StoredCommit) -> None:
        """The metadata of a commit are those of one assignment: it belongs to one generation."""
        number, stored, is_same = commit.partition, commit.stored.number, False
        client, before = commit.client or self.silent, self._last.get(number)
        if commit.metadata is not None and client not in commit.stored.owners.get(number, ()):
            self._violated("S25", f"{commit.offset} by {client}, no owner in generation {stored}", number)
        if commit.metadata is not None and not commit.token:
            return
        if commit.metadata is not None:
            generation = self._first.setdefault(commit.metadata, stored)
            if not self._has_members or generation != stored:
                now = f"in generation {stored}" if self._has_members else "in a group without members"
                detail = f"commit {commit.metadata!r} of generation {generation} is stored {now}"
                self._violated("S25", detail, number)
            if before is not None and before.metadata is not None and before.client == commit.client:
                is_same = self._first[before.metadata] == generation  # its requests may change places
        if before is not None and commit.offset < before.offset and not is_same:
            detail = f"goes back from {before.offset} ({before.metadata!r}) to {commit.offset}"
            self._violated("S28", f"{detail} ({commit.metadata!r})", number)
        self._last[number] = commit
