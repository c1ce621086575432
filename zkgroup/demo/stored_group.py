"""The history of a group in ZooKeeper's log: its generations, its commits, its coordinators. Pure.

It decides the rules of coordinated groups that a run can break: a commit belongs to its generation (S25),
only the broker that has set the slot last writes the group (S26), the group has one kind of members at a time
(S27), an offset goes back only by the member that wrote it (S28), and neither the group with its members nor
an offset is removed (S30, S31).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from zkgroup.assignment.consumer_protocol import decode_assignment
from zkgroup.demo.checks import CheckResult, checked
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
    stored: StoredGeneration
    """The generation that was stored last."""
    metadata: str = ""
    client: str | None = None
    """Client id, from the metadata; empty for none, None for a ZooKeeper consumer."""
    token: int = 0
    """Of the assignment, from the metadata; 0 for none."""


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
    """Partition to its last commit; those of Java, which have no token, are left out."""

    def apply(self, transaction: ServerTransaction) -> None:
        """Applies and checks one transaction, if the servers accepted it."""
        if transaction.refusal is not None:
            return
        changes = [change for change in transaction.changes if change.action != "check"]
        for change in changes:
            self._apply(transaction, change)
        written = {change.path: change for change in changes}
        if header := written.get(self._header_path):  # its chunks may be behind it
            self._header = GroupHeader.decode(header.path, header.data) if header.data else None
            self._store()
        self._check_transaction(transaction)
        for commit in self._commits(transaction.zxid, written):
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

    def _check_transaction(self, transaction: ServerTransaction) -> None:
        """The group has one kind of members."""
        kinds = (ids_path(self.group), ProtocolMarker.path(self.group), self._header_path)
        if not any(change.path.startswith(kinds) for change in transaction.changes):
            return
        if self._ids and (self._is_marked or self.has_members):
            detail = f"ZooKeeper members {', '.join(sorted(self._ids))} beside those of a coordinator"
            self._violated("S27", detail, transaction.zxid)
        if self.has_members and not self._is_marked:
            self._violated("S27", "stored members without the marker", transaction.zxid)

    def _commits(self, zxid: int, written: Mapping[str, Change]) -> Iterator[StoredCommit]:
        """The offsets that a transaction has written."""
        last = self.generations[-1] if self.generations else StoredGeneration()
        metadata = meta_topic_path(self.slot, self.group, self.topic)
        for path, change in written.items():
            parent, _, name = path.rpartition("/")
            if parent != offsets_topic_path(self.group, self.topic) or not change.data:
                continue
            commit = StoredCommit(zxid, int(name), Offset.decode(path, change.data).value, last)
            of_client = written.get(f"{metadata}/{name}")
            if of_client is not None and of_client.data:
                text = OffsetAndMetadata.decode(of_client.path, of_client.data).metadata
                client, _, token = text.rstrip("\0").partition(" ")  # confluent-kafka sends a 0
                commit = commit._replace(metadata=text, client=client, token=int(token or 0))
            yield commit

    def _check_commit(self, commit: StoredCommit) -> None:
        """The metadata of a commit are those of one assignment: it belongs to one generation."""
        if commit.client is not None and not commit.token:
            return  # of Java
        number, stored, is_same = commit.partition, commit.stored.generation, False
        before = self._last.get(number)
        if commit.client is not None:
            generation = self._first.setdefault(commit.metadata, stored)
            if not self.has_members or generation != stored:
                detail = f"commit {commit.metadata!r} of generation {generation} is stored"
                self._violated("S25", f"{detail} in generation {stored}", commit.zxid, number)
            if before is not None and before.client == commit.client:
                is_same = self._first[before.metadata] == generation  # its requests may change places
        if before is not None and commit.offset < before.offset and not is_same:
            detail = f"goes back from {before.offset} ({before.metadata!r}) to {commit.offset}"
            self._violated("S28", f"{detail} ({commit.metadata!r})", commit.zxid, number)
        self._last[number] = commit

    def check_owners(self, least: int) -> CheckResult:
        """No stored generation gives a partition to two members, and no number is given to two assignments.

        `least` is the number of generations that have to be there.
        """
        faults = [
            f"generation {one.generation}: {number} belongs to {' and '.join(owners)}"
            for one in self.generations
            for number, owners in sorted(one.owners.items())
            if len(owners) > 1
        ]
        for before, after in pairwise(self.generations):
            if after.generation < before.generation:
                faults.append(f"generation {after.generation} after {before.generation}")
            elif after.generation == before.generation and after.owners != before.owners:
                faults.append(f"generation {after.generation} has two assignments")
        numbers = sorted({one.generation for one in self.generations})
        text = f"{len(numbers)} generations, {numbers[0]} to {numbers[-1]}" if numbers else "no generation"
        statement = "no two members of a generation own one partition"
        return checked(statement, faults=faults, proof=text, enough=len(numbers) >= least)

    def check_commits(self) -> CheckResult:
        """Each stored commit is of the member that owns the partition in the generation stored last."""
        commits = [one for one in self.commits if one.client is not None]
        faults = [
            f"zxid {one.zxid:#x}: {one.partition}:{one.offset} by {one.client or 'Java'}"
            for one in commits
            if (one.client or JAVA) not in one.stored.owners.get(one.partition, ())
        ]
        text = f"{len(commits):,} commits of clients in ZooKeeper's log, all of owners"
        statement = "no commit of an old generation was accepted"
        return checked(statement, faults=faults, proof=text, enough=bool(commits))

    def check_kinds(self, least: int) -> CheckResult:
        """No ZooKeeper consumer was registered while Kafka's protocol was marked; so many were later."""
        mixed = [one for one in self.violations if one.invariant == "S27"]
        text = f"{self.registrations} ZooKeeper consumers, after the last client had left"
        enough = self.registrations >= least and self.markers > 0
        return checked("one kind of members at a time", faults=mixed, proof=text, enough=enough)
