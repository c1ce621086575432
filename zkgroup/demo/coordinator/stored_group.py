"""What ZooKeeper's log says about a group: its generations, its commits, and its kinds of members. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from zkgroup.assignment.consumer_protocol import decode_assignment
from zkgroup.history import Change, HistoryRecord, ServerTransaction
from zkgroup.history.coordinator import CoordinatorReport, check_coordinator
from zkgroup.znodes.consumers import Offset, ids_path, offsets_topic_path
from zkgroup.znodes.coordinated_groups import (
    GroupChunk,
    GroupHeader,
    OffsetAndMetadata,
    ProtocolMarker,
    SlotOwner,
    members_of,
    meta_topic_path,
)
from zkgroup.znodes.ids import number_of


@dataclass(frozen=True, slots=True)
class StoredGeneration:
    """One stored generation with its assignment."""

    zxid: int
    generation: int
    owners: Mapping[int, tuple[str, ...]]
    """Partition to the client ids of the members to which it is assigned."""


@dataclass(frozen=True, slots=True)
class StoredCommit:
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
    generation: int = 0
    """That generation."""
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class StoredHistory:
    """The group in the order of the log."""

    generations: tuple[StoredGeneration, ...] = ()
    commits: tuple[StoredCommit, ...] = ()
    coordinators: tuple[int, ...] = ()
    """The broker of each load of the slot."""
    mixed: tuple[str, ...] = ()
    """Where there were ZooKeeper consumers and the marker of Kafka's protocol at once."""
    registrations: int = 0
    """Registrations of ZooKeeper consumers."""


def read_history(
    transactions: Iterable[ServerTransaction], group: str, slot: int, topic: str
) -> StoredHistory:
    """The history of a group, from everything that the servers accepted."""
    replay = _GroupReplay(group, slot, topic)
    for transaction in transactions:
        if transaction.refusal is None:
            replay.apply(transaction)
    return StoredHistory(
        tuple(replay.generations),
        tuple(replay.commits),
        tuple(replay.coordinators),
        tuple(replay.mixed),
        replay.registrations,
    )


@dataclass(slots=True)
class _GroupReplay:
    group: str
    slot: int
    topic: str
    generations: list[StoredGeneration] = field(default_factory=list)
    commits: list[StoredCommit] = field(default_factory=list)
    coordinators: list[int] = field(default_factory=list)
    mixed: list[str] = field(default_factory=list)
    registrations: int = 0
    _chunks: dict[str, bytes] = field(default_factory=dict)
    _registered: set[str] = field(default_factory=set)
    _is_marked: bool = False

    def apply(self, transaction: ServerTransaction) -> None:
        """Applies one accepted transaction."""
        header = GroupHeader.path(self.slot, self.group)
        for change in transaction.changes:
            if change.action == "check":
                continue
            if change.path == SlotOwner.path(self.slot) and change.data:
                self.coordinators.append(SlotOwner.decode(change.path, change.data).broker)
            elif change.path.startswith(f"{header}/rec-"):
                self._keep_chunk(change)
            elif change.path == ProtocolMarker.path(self.group):
                self._is_marked = change.action != "delete"
            elif change.path.startswith(f"{ids_path(self.group)}/"):
                self._register(change)
        written = [change for change in transaction.changes if change.path == header and change.data]
        for change in written:
            self._store(transaction.zxid, GroupHeader.decode(change.path, change.data))
        self.commits += self._commits(transaction)
        if self._is_marked and self._registered:
            self.mixed.append(f"zxid {transaction.zxid:#x}: {', '.join(sorted(self._registered))}")

    def _keep_chunk(self, change: Change) -> None:
        if change.action == "delete":
            self._chunks.pop(change.path, None)
        else:
            self._chunks[change.path] = change.data or b""

    def _register(self, change: Change) -> None:
        if change.action == "delete":
            self._registered.discard(change.path)
        elif change.action == "create":
            self._registered.add(change.path)
            self.registrations += 1

    def _store(self, zxid: int, header: GroupHeader) -> None:
        """Keeps the assignment of a generation; its chunks may be deleted later in the same transaction."""
        if header.chunks == 0:
            return
        names = [
            GroupChunk.path(self.slot, self.group, header.generation, header.first_chunk + number)
            for number in range(header.chunks)
        ]
        chunks = [GroupChunk(self._chunks[name]) for name in names]
        owners: dict[int, tuple[str, ...]] = {}
        for member in members_of(GroupHeader.path(self.slot, self.group), header, chunks):
            for tp in decode_assignment(member.assignment).partitions:
                owners[tp.partition] = (*owners.get(tp.partition, ()), member.client_id)
        self.generations.append(StoredGeneration(zxid, header.generation, owners))

    def _commits(self, transaction: ServerTransaction) -> Iterator[StoredCommit]:
        offsets = self._by_partition(transaction, offsets_topic_path(self.group, self.topic))
        metadata = self._by_partition(transaction, meta_topic_path(self.slot, self.group, self.topic))
        for number, change in offsets.items():
            client, token, text = None, 0, ""
            if number in metadata:
                text = OffsetAndMetadata.decode(metadata[number].path, metadata[number].data).metadata
                client, _, rest = text.rstrip("\0").partition(" ")  # confluent-kafka sends a 0
                token = int(rest or 0)
            offset = Offset.decode(change.path, change.data).value
            last = self.generations[-1] if self.generations else StoredGeneration(0, 0, {})
            owners = last.owners.get(number, ())
            yield StoredCommit(transaction.zxid, number, offset, client, token, owners, last.generation, text)

    @staticmethod
    def _by_partition(transaction: ServerTransaction, parent: str) -> dict[int, Change]:
        """The written children of a znode."""
        found = (change for change in transaction.changes if change.path.startswith(f"{parent}/"))
        return {
            int(change.path.rpartition("/")[2]): change
            for change in found
            if change.action in ("create", "set") and change.data
        }


def check_generations_of_commits(
    transactions: Iterable[ServerTransaction], stored: StoredHistory, group: str
) -> CoordinatorReport:
    """S25 to S28 of the checker of coordinated groups.

    The metadata of a commit are those of one assignment, so they belong to the generation in which they were
    stored first. Java's commits have no metadata and are left out.
    """
    sent: dict[str, HistoryRecord] = {}
    for one in stored.commits:
        if one.token and one.metadata not in sent:
            fields = {
                "group": group,
                "generation": one.generation,
                "owner": one.client,
                "commit": one.metadata,
            }
            number = len(sent) + 1
            sent[one.metadata] = HistoryRecord(number, number, 0, "demo", None, "commit.sent", fields)
    of_java = {
        (one.zxid, one.partition) for one in stored.commits if one.client is not None and not one.token
    }
    return check_coordinator(_without(transactions, of_java), sent.values())


def _without(
    transactions: Iterable[ServerTransaction], commits: Collection[tuple[int, int]]
) -> Iterator[ServerTransaction]:
    """The transactions without these commits, named by zxid and partition."""
    for transaction in transactions:
        left = tuple(
            change
            for change in transaction.changes
            if not (
                ("/offsets/" in change.path or "/meta/" in change.path)
                and (transaction.zxid, number_of(change.path.rpartition("/")[2])) in commits
            )
        )
        yield replace(transaction, changes=left)
