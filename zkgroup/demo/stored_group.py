"""The history of a group in ZooKeeper's log: its generations, its commits, its coordinators. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from zkgroup.assignment.consumer_protocol import decode_assignment
from zkgroup.history import Change, HistoryRecord, ServerTransaction
from zkgroup.history.coordinator import CoordinatorReport, check_coordinator
from zkgroup.znodes.consumers import Offset, ids_path, offsets_topic_path
from zkgroup.znodes.coordinated_groups import (
    GroupChunk,
    GroupHeader,
    OffsetAndMetadata,
    SlotOwner,
    members_of,
    meta_topic_path,
)
from zkgroup.znodes.ids import number_of

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
    """The group in the order of the log."""

    group: str
    slot: int
    topic: str
    generations: list[StoredGeneration] = field(default_factory=list)
    commits: list[StoredCommit] = field(default_factory=list)
    coordinators: list[int] = field(default_factory=list)
    """The broker of each load of the slot."""
    registrations: int = 0
    """Registrations of ZooKeeper consumers."""
    _chunks: dict[str, bytes] = field(default_factory=dict)

    def apply(self, transaction: ServerTransaction) -> None:
        """Applies one transaction, if the servers accepted it."""
        if transaction.refusal is not None:
            return
        header = GroupHeader.path(self.slot, self.group)
        for change in transaction.changes:
            if change.action == "check":
                continue
            if change.path == SlotOwner.path(self.slot) and change.data:
                self.coordinators.append(SlotOwner.decode(change.path, change.data).broker)
            elif change.path.startswith(f"{header}/rec-") and change.action != "delete":
                self._chunks[change.path] = change.data or b""
            elif change.path.startswith(f"{ids_path(self.group)}/"):
                self.registrations += change.action == "create"
        for change in transaction.changes:
            if change.path == header and change.data and change.action != "check":
                self._store(GroupHeader.decode(change.path, change.data))
        self.commits += self._commits(transaction)

    def _store(self, header: GroupHeader) -> None:
        """Keeps the assignment of a generation."""
        numbers = range(header.first_chunk, header.first_chunk + header.chunks)
        paths = [GroupChunk.path(self.slot, self.group, header.generation, number) for number in numbers]
        chunks = [GroupChunk(self._chunks[path]) for path in paths]
        if not chunks:
            return
        owners: dict[int, tuple[str, ...]] = {}
        for member in members_of(GroupHeader.path(self.slot, self.group), header, chunks):
            for tp in decode_assignment(member.assignment).partitions:
                owners[tp.partition] = (*owners.get(tp.partition, ()), member.client_id)
        self.generations.append(StoredGeneration(header.generation, owners))

    def _commits(self, transaction: ServerTransaction) -> Iterator[StoredCommit]:
        metadata = _children(transaction, meta_topic_path(self.slot, self.group, self.topic))
        last = self.generations[-1] if self.generations else StoredGeneration()
        for number, change in _children(transaction, offsets_topic_path(self.group, self.topic)).items():
            client, token, text = None, 0, ""
            if number in metadata:
                text = OffsetAndMetadata.decode(metadata[number].path, metadata[number].data).metadata
                client, _, rest = text.rstrip("\0").partition(" ")  # confluent-kafka sends a 0
                token = int(rest or 0)
            at = Offset.decode(change.path, change.data).value
            owners = last.owners.get(number, ())
            yield StoredCommit(transaction.zxid, number, at, client, token, owners, last.generation, text)


def _children(transaction: ServerTransaction, parent: str) -> dict[int, Change]:
    """The written children of a znode, by number."""
    return {
        int(change.path.rpartition("/")[2]): change
        for change in transaction.changes
        if change.path.startswith(f"{parent}/") and change.action in ("create", "set") and change.data
    }


def check_commits(transactions: Iterable[ServerTransaction], stored: LoggedGroup) -> CoordinatorReport:
    """Checks generations, coordinators, kinds of members, offsets that go back (S25-S28 of the checker).

    The metadata of a commit are those of one assignment, so they belong to the generation in which they were
    stored first. Java's commits have no metadata and are left out.
    """
    sent: dict[str, HistoryRecord] = {}
    for one in stored.commits:
        if one.token and one.metadata not in sent:
            fields = {"generation": one.generation, "owner": one.client, "commit": one.metadata}
            n = len(sent) + 1
            record = HistoryRecord(n, n, 0, "demo", None, "commit.sent", {"group": stored.group, **fields})
            sent[one.metadata] = record
    of_java = {
        (one.zxid, one.partition) for one in stored.commits if one.client is not None and not one.token
    }

    def is_checked(zxid: int, path: str) -> bool:
        is_commit = "/offsets/" in path or "/meta/" in path
        return not (is_commit and (zxid, number_of(path.rpartition("/")[2])) in of_java)

    left = [
        replace(each, changes=tuple(one for one in each.changes if is_checked(each.zxid, one.path)))
        for each in transactions
    ]
    return check_coordinator(left, sent.values())
