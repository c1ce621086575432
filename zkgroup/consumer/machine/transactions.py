"""The transactions from assignment to release, and of the lease (recipes 4-7 and 9), as values, and the
read-back of their outcomes.

Every transaction checks the own registration. They are pure, so that a test can compare them with the
operations of the exhaustive model (`tests/programs/model`), and a deliberately broken one shows whether the
simulation detects it (`tests/pure/simulation`, catalogue of seeded bugs).

`read_back` reads the znodes of a partition after a claim or a commit of this member, in two ordered requests,
the **offset first, then the owner** (and the reset marker with it): in the other order a successor's fence
could be taken for this member's. `classify` decides from these znodes; it is the model's `settle_commit`, one
partition at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from zkgroup.consumer.machine.machine_context import GroupPaths, OwnedPartition
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Check, Create, Delete, Operation, SetData
from zkgroup.runtime.procedures import Procedure, read_many
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import Offset, Owner
from zkgroup.znodes.group_records import Reset
from zkgroup.znodes.ids import thread_id

CLAIMED_VERSION = 1
"""Data version of an owner znode of zkgroup: created and set once. A JVM member's has version 0."""

NO_OFFSET = -1
"""The offset written with the first claim of a partition; JVM members and tools take it as "none"."""

OPERATION_OVERHEAD_BYTES = 64
"""Bytes of header, lengths, version and ACL of one operation, rounded up."""


class Claim(NamedTuple):
    """A partition to claim, with its offset znode as just read."""

    topic_partition: TopicPartition
    thread: int
    offset: Znode | None


def guard(paths: GroupPaths) -> Check:
    """The check of the own registration; its refusal ends all claims (unknown outcomes, recipes 10)."""
    return Check(paths.own, 0)


def snapshot_checks(
    topics: Iterable[str], topic_versions: Mapping[str, int | None], plan: Check | None
) -> list[Operation]:
    """The checks that the assignment's input is unchanged: topics and, for sticky, the assignment znode."""
    checks: list[Operation] = []
    for topic in sorted(set(topics)):
        version = topic_versions.get(topic)
        if version is not None:
            checks.append(Check(Topic.path(topic), version))
    return checks if plan is None else [*checks, plan]


def claim_operations(paths: GroupPaths, member: str, claim: Claim) -> list[Operation]:
    """Creates the owner, sets it once (version 1: not a JVM member's) and writes the offset as a fence."""
    tp = claim.topic_partition
    owner, text = paths.owner(tp), Owner(thread_id(member, claim.thread)).encode()
    operations: list[Operation] = [Create(owner, text, ephemeral=True), SetData(owner, text, 0)]
    if claim.offset is None:
        operations.append(Create(paths.offset(tp), Offset(NO_OFFSET).encode()))
    else:
        operations.append(SetData(paths.offset(tp), claim.offset.data or b"", claim.offset.stat.version))
    return operations


def commit_operations(paths: GroupPaths, owned: OwnedPartition, value: int) -> list[Operation]:
    """Writes the offset, if the owner is this claim and the offset was not written since."""
    tp = owned.topic_partition
    return [
        Check(paths.owner(tp), CLAIMED_VERSION),
        SetData(paths.offset(tp), Offset(value).encode(), owned.fence),
    ]


def release_operations(paths: GroupPaths, owned: OwnedPartition, value: int) -> list[Operation]:
    """Makes the last commit and ends the claim, in one transaction."""
    return [
        *commit_operations(paths, owned, value),
        Delete(paths.owner(owned.topic_partition), CLAIMED_VERSION),
    ]


def thread_handover_operations(
    paths: GroupPaths, member: str, owned: OwnedPartition, value: int, thread: int
) -> list[Operation]:
    """Hands a partition over between threads of this member: commit, delete, create, set."""
    owner, text = paths.owner(owned.topic_partition), Owner(thread_id(member, thread)).encode()
    return [
        *release_operations(paths, owned, value),
        Create(owner, text, ephemeral=True),
        SetData(owner, text, 0),
    ]


def release_without_commit(paths: GroupPaths, tp: TopicPartition, offset: Znode | None) -> list[Operation]:
    """Ends a claim after a read-back: the check of the offset fails if another claim came in between."""
    checks: list[Operation] = [] if offset is None else [Check(paths.offset(tp), offset.stat.version)]
    return [*checks, Delete(paths.owner(tp), CLAIMED_VERSION)]


def operations_bytes(operations: Iterable[Operation]) -> int:
    """The approximate size of these operations in a request, in bytes."""
    return sum(
        OPERATION_OVERHEAD_BYTES + len(operation.path.encode()) + len(getattr(operation, "data", None) or b"")
        for operation in operations
    )


def flat(groups: Iterable[tuple[TopicPartition, list[Operation]]]) -> list[Operation]:
    """The operations of all partitions, in order."""
    return [operation for _, operations in groups for operation in operations]


def in_packets(
    groups: Sequence[tuple[TopicPartition, list[Operation]]], bytes_max: int
) -> Iterator[list[tuple[TopicPartition, list[Operation]]]]:
    """The partitions in their order, split so that each packet fits; a larger one is sent alone."""
    packet: list[tuple[TopicPartition, list[Operation]]] = []
    size = 0
    for tp, operations in groups:
        added = operations_bytes(operations)
        if packet and size + added > bytes_max:
            yield packet
            packet, size = [], 0
        packet.append((tp, operations))
        size += added
    if packet:
        yield packet


class PartitionZnodes(NamedTuple):
    """The znodes of one partition, in the order they were read."""

    offset: Znode | None
    owner: Znode | None
    marker: Znode | None


@dataclass(frozen=True, slots=True)
class MemberIdentity:
    """The member id and session of this member, which identify its znodes (ownership, recipes 1)."""

    member: str
    session_id: int

    def thread_of(self, owner: Znode | None) -> int | None:
        """The thread in an owner znode of this member and session; None for another client's."""
        if owner is None or owner.stat.ephemeral_owner != self.session_id:
            return None
        try:
            decoded = Owner.decode(owner.path, owner.data)
        except CorruptZnodeError:
            return None
        return decoded.thread if decoded.member == self.member else None

    def holds(self, owned: OwnedPartition, owner: Znode | None) -> bool:
        """Returns whether the znode is the claim `owned`, by session, text and token."""
        return self.thread_of(owner) is not None and owner is not None and owner.stat.czxid == owned.token


def read_back(
    paths: GroupPaths, partitions: Iterable[TopicPartition]
) -> Procedure[Mapping[TopicPartition, PartitionZnodes]]:
    """The znodes of partitions, by two pipelined, ordered bulk reads: offsets, then owners and markers."""
    tps = tuple(partitions)
    markers = [paths.marker(tp) for tp in tps]
    offsets, rest = yield from read_many(paths.offsets(tps), [*paths.owners(tps), *markers])
    owners, found = rest[: len(tps)], rest[len(tps) :]
    return {tp: PartitionZnodes(*seen) for tp, *seen in zip(tps, offsets, owners, found, strict=True)}


class WriteVerdict(Enum):
    """The result of a read-back: the state of an owned partition and of a value that was to be written."""

    UNCHANGED = "unchanged"
    """The offset is unchanged: nothing was written since the claim or the last commit."""
    APPLIED = "applied"
    """The value is written: only the reply was lost."""
    RESET = "reset"
    """An operator's marker is newer than the last write of this member: it is applied first."""
    FOREIGN = "foreign"
    """Another client wrote the offset."""
    NOT_MINE = "not_mine"
    """The owner znode does not exist or is another client's."""
    FENCE_BROKEN = "fence_broken"
    """The offset znode was deleted (and perhaps created again), so its version is no fence."""


def classify(
    owned: OwnedPartition, intended: int | None, seen: PartitionZnodes, mine: MemberIdentity
) -> WriteVerdict:
    """The verdict on a partition. It checks ownership first, then a reset, then the version."""
    if not mine.holds(owned, seen.owner):
        return WriteVerdict.NOT_MINE
    if seen.offset is None or seen.offset.stat.czxid != owned.offset_czxid:
        return WriteVerdict.FENCE_BROKEN
    if seen.marker is not None and seen.marker.stat.mzxid > owned.last_mzxid:
        return WriteVerdict.RESET
    version = seen.offset.stat.version
    if version == owned.fence:
        return WriteVerdict.UNCHANGED
    if intended is not None and version == owned.fence + 1 and offset_value(seen.offset) == intended:
        return WriteVerdict.APPLIED
    return WriteVerdict.FOREIGN


def adopted_partition(
    tp: TopicPartition, thread: int, seen: PartitionZnodes, registered_zxid: int | None
) -> OwnedPartition | None:
    """A claim of this member as read back; the fence is *that* offset's, which was read before the owner [M].

    None for a claim that must not be adopted (docs/adr/0014): one of an earlier registration, whose token the
    application may have had already; and one whose offset znode is missing, unreadable, or younger than the
    claim, so that its version is no fence.
    """
    if seen.owner is None or seen.offset is None:
        return None
    token, value, stat = seen.owner.stat.czxid, offset_value(seen.offset), seen.offset.stat
    is_of_this_registration = registered_zxid is not None and token > registered_zxid
    if value is None or not is_of_this_registration or stat.czxid > token:
        return None
    return OwnedPartition(
        tp, thread, token, value, fence=stat.version, offset_czxid=stat.czxid, last_mzxid=token
    )


def offset_value(znode: Znode) -> int | None:
    """The number in an offset znode; None if it is unreadable."""
    try:
        return Offset.decode(znode.path, znode.data).value
    except CorruptZnodeError:
        return None


def marker_offset(znode: Znode) -> int | None:
    """The offset in a reset marker; None if it is unreadable."""
    try:
        return Reset.decode(znode.path, znode.data).offset
    except CorruptZnodeError:
        return None
