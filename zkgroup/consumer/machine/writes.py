"""The transactions of recipes.md 4-7 and 9 as values. Every one carries the check of the own registration.

Kept apart and pure, so that a test can put them beside the operations of the exhaustive model
(`tests/programs/model`), and so that a deliberately broken one shows whether anything would notice
(`tests/pure/simulation`, catalogue of seeded bugs).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from zkgroup.consumer.machine.ownership import Held
from zkgroup.consumer.machine.paths import Paths
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Check, Create, Delete, Operation, SetData
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import Offset, Owner
from zkgroup.znodes.ids import thread_id

CLAIMED_VERSION = 1
"""Data version of an owner znode of ours: created and set once. A JVM member's stays at 0."""

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


def picture_checks(
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


def commit_operations(paths: Paths, held: Held, value: int) -> list[Operation]:
    """The owner is a claim of ours, and the offset is as this claim left it."""
    tp = held.topic_partition
    return [
        Check(paths.owner(tp), CLAIMED_VERSION),
        SetData(paths.offset(tp), Offset(value).encode(), held.fence),
    ]


def release_operations(paths: Paths, held: Held, value: int) -> list[Operation]:
    """The last commit and the end of the claim, at once."""
    return [
        *commit_operations(paths, held, value),
        Delete(paths.owner(held.topic_partition), CLAIMED_VERSION),
    ]


def move_operations(paths: Paths, member: str, held: Held, value: int, thread: int) -> list[Operation]:
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
