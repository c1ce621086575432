"""The transactions of recipes.md 4-7 and 9 as values. Every one carries the check of the own registration.

Kept apart and pure, so that a test can put them beside the operations of the exhaustive model
(`tests/programs/model`), and so that a deliberately broken one shows whether anything would notice
(`tests/pure/simulation`, catalogue of seeded bugs).

`read_back` reads what a partition's znodes say about a claim or a commit of this member (recipes.md 1, 5, 6,
7, 10).

Always read in two ordered requests, the **offset first, then the owner** (and the reset marker with it): in
the other order a successor's fence could be taken for this member's. `classify` decides from what was read;
it is the model's `settle_commit`, one partition at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from zkgroup.consumer.machine.machine_context import OwnedPartition, Paths
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Check, Create, Delete, Operation, SetData
from zkgroup.runtime.procedures import Procedure, read_many
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import Offset, Owner
from zkgroup.znodes.group_records import Reset
from zkgroup.znodes.ids import thread_id

CLAIMED_VERSION = 1
"""Data version of an owner znode of this member: created and set once. A JVM member's stays at 0."""

NO_OFFSET = -1
"""Written with the first claim of a partition; JVM members and tools take it for "none"."""

OPERATION_OVERHEAD_BYTES = 64
"""Header, lengths, version and ACL of one operation, rounded up."""


class Claim(NamedTuple):
    """A partition to claim, with its offset znode as just read."""

    topic_partition: TopicPartition
    thread: int
    offset: Znode | None


def guard(paths: Paths) -> Check:
    """I am registered. Its refusal ends everything (recipes.md 10)."""
    return Check(paths.own, 0)


def snapshot_checks(
    topics: Iterable[str], topic_versions: Mapping[str, int | None], plan: Check | None
) -> list[Operation]:
    """What a claim was computed from is still so: topics and, for sticky, the plan."""
    checks: list[Operation] = []
    for topic in sorted(set(topics)):
        version = topic_versions.get(topic)
        if version is not None:
            checks.append(Check(Topic.path(topic), version))
    return checks if plan is None else [*checks, plan]


def claim_operations(paths: Paths, member: str, claim: Claim) -> list[Operation]:
    """Create the owner, set it once (version 1: not a JVM member's), bump the offset: the fence."""
    tp = claim.topic_partition
    owner, text = paths.owner(tp), Owner(thread_id(member, claim.thread)).encode()
    operations: list[Operation] = [Create(owner, text, ephemeral=True), SetData(owner, text, 0)]
    if claim.offset is None:
        operations.append(Create(paths.offset(tp), Offset(NO_OFFSET).encode()))
    else:
        operations.append(SetData(paths.offset(tp), claim.offset.data or b"", claim.offset.stat.version))
    return operations


def commit_operations(paths: Paths, held: OwnedPartition, value: int) -> list[Operation]:
    """The owner is a claim of this member, and the offset is as this claim left it."""
    tp = held.topic_partition
    return [
        Check(paths.owner(tp), CLAIMED_VERSION),
        SetData(paths.offset(tp), Offset(value).encode(), held.fence),
    ]


def release_operations(paths: Paths, held: OwnedPartition, value: int) -> list[Operation]:
    """The last commit and the end of the claim, at once."""
    return [
        *commit_operations(paths, held, value),
        Delete(paths.owner(held.topic_partition), CLAIMED_VERSION),
    ]


def thread_handover_operations(
    paths: Paths, member: str, held: OwnedPartition, value: int, thread: int
) -> list[Operation]:
    """From one thread of this member to another: delete, create, set, with the bump of the release."""
    owner, text = paths.owner(held.topic_partition), Owner(thread_id(member, thread)).encode()
    return [
        *release_operations(paths, held, value),
        Create(owner, text, ephemeral=True),
        SetData(owner, text, 0),
    ]


def release_without_commit(paths: Paths, tp: TopicPartition, offset: Znode | None) -> list[Operation]:
    """Fallback after "offset, then owner" was read: a claim in between would have bumped this offset."""
    checks: list[Operation] = [] if offset is None else [Check(paths.offset(tp), offset.stat.version)]
    return [*checks, Delete(paths.owner(tp), CLAIMED_VERSION)]


def operations_bytes(operations: Iterable[Operation]) -> int:
    """About the size of these operations in a request."""
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
    """The partitions in their order, cut so that each packet fits; one that is too big stands alone."""
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
    """Who "mine" is: recipes.md 1."""

    member: str
    session_id: int

    def thread_of(self, owner: Znode | None) -> int | None:
        """The thread that an owner znode of this very member and session names; None for that of another
        client.
        """
        if owner is None or owner.stat.ephemeral_owner != self.session_id:
            return None
        try:
            decoded = Owner.decode(owner.path, owner.data)
        except CorruptZnodeError:
            return None
        return decoded.thread if decoded.member == self.member else None

    def holds(self, held: OwnedPartition, owner: Znode | None) -> bool:
        """This znode is the claim that `held` stands for: session, text and token."""
        return self.thread_of(owner) is not None and owner is not None and owner.stat.czxid == held.token


def read_back(
    paths: Paths, partitions: Iterable[TopicPartition]
) -> Procedure[Mapping[TopicPartition, PartitionZnodes]]:
    """Two pipelined, ordered bulk reads: offsets, then owners and markers."""
    tps = tuple(partitions)
    markers = [paths.marker(tp) for tp in tps]
    offsets, rest = yield from read_many(paths.offsets(tps), [*paths.owners(tps), *markers])
    owners, found = rest[: len(tps)], rest[len(tps) :]
    return {tp: PartitionZnodes(*seen) for tp, *seen in zip(tps, offsets, owners, found, strict=True)}


class WriteVerdict(Enum):
    """What became of a held partition, and of a value that was to be written to it."""

    STANDS = "stands"
    """As the claim left it: nothing was written since."""
    APPLIED = "applied"
    """The value is written: only the answer was lost."""
    RESET = "reset"
    """An operator's marker is newer than the last write of this member: obey it before anything else."""
    FOREIGN = "foreign"
    """Another client wrote the offset."""
    NOT_MINE = "not_mine"
    """The owner znode is gone or another client's."""
    FENCE_BROKEN = "fence_broken"
    """The offset znode was deleted (and perhaps made again): its versions mean nothing."""


def classify(
    held: OwnedPartition, intended: int | None, seen: PartitionZnodes, mine: MemberIdentity
) -> WriteVerdict:
    """The order matters: ownership before everything, a reset before every other reading of a version."""
    if not mine.holds(held, seen.owner):
        return WriteVerdict.NOT_MINE
    if seen.offset is None or seen.offset.stat.czxid != held.offset_czxid:
        return WriteVerdict.FENCE_BROKEN
    if seen.marker is not None and seen.marker.stat.mzxid > held.last_mzxid:
        return WriteVerdict.RESET
    version = seen.offset.stat.version
    if version == held.fence:
        return WriteVerdict.STANDS
    if intended is not None and version == held.fence + 1 and offset_value(seen.offset) == intended:
        return WriteVerdict.APPLIED
    return WriteVerdict.FOREIGN


def adopted_partition(
    tp: TopicPartition, thread: int, seen: PartitionZnodes, registered_zxid: int | None
) -> OwnedPartition | None:
    """A claim of this member as read back: the fence is *that* offset's, read before "the owner is mine" [M].

    None for a claim that must not be taken over as it stands (docs/adr/0014):
    one that an earlier registration made, whose token the application may have had already; and one whose
    offset znode is gone, unreadable, or younger than the claim, which is then not fenced by its version.
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
    """The number in an offset znode, or None where there is none that can be read."""
    try:
        return Offset.decode(znode.path, znode.data).value
    except CorruptZnodeError:
        return None


def marker_offset(znode: Znode) -> int | None:
    """Where a reset marker points, or None where it cannot be read."""
    try:
        return Reset.decode(znode.path, znode.data).offset
    except CorruptZnodeError:
        return None
