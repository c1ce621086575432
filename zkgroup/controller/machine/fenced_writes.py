"""Fenced transactions of a controller, and what their outcomes mean (fence and batches: recipes 13, 16).

Each begins with two checks: `/controller` is still the one that this controller made and set once, and
`/controller_epoch` still has the version of its election. They, and nothing that a client says, prove that
it is active. (Kafka has the second alone since 2.1, KAFKA-6082; it lets a write pass after the deletion of
`/controller`.)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from zkgroup.controller.machine.context import LeaderIsrAndControllerEpoch
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import (
    Check,
    Code,
    Create,
    Delete,
    Multi,
    MultiRefused,
    Operation,
    SetData,
)
from zkgroup.znodes.brokers import PartitionState, Topic
from zkgroup.znodes.controller import ControllerEpoch, ControllerRegistration
from zkgroup.znodes.json_fields import DATA_BYTES_MAX

CONTROLLER_VERSION: Final = 1
"""Data version of a `/controller` of zkgroup: created and set once. That of Kafka stays at 0."""
OPERATION_BYTES: Final = 64
"""Header, lengths, version and ACL of one operation, rounded up."""


class Fence(NamedTuple):
    """Proves that this controller is active."""

    epoch: int
    version: int
    """Data version of `/controller_epoch` since its election."""

    def checks(self) -> tuple[Check, Check]:
        """The head of every write."""
        return (
            Check(ControllerRegistration.path(), CONTROLLER_VERSION),
            Check(ControllerEpoch.path(), self.version),
        )


class Write(NamedTuple):
    """Operations that belong together, with the versions that their decision is based on."""

    about: Hashable
    """The subject of the change, for the caller: a partition, a topic, a request."""
    operations: tuple[Operation, ...]


class Packet(NamedTuple):
    writes: tuple[Write, ...]
    request: Multi


class Packed(NamedTuple):
    packets: tuple[Packet, ...]
    too_big: tuple[tuple[Write, str], ...]
    """Writes that no server takes, with the reason; they are not sent."""


def pack(fence: Fence, writes: Iterable[Write], bytes_max: int = DATA_BYTES_MAX) -> Packed:
    """The writes in order, cut so that each transaction fits; a write is never divided."""
    packets: list[Packet] = []
    too_big: list[tuple[Write, str]] = []
    head = fence.checks()
    least = size_of(head)
    gathered: list[Write] = []
    size = least
    for write in writes:
        added = size_of(write.operations)
        if least + added > bytes_max:
            why = (
                f"write about {write.about}: expected at most {bytes_max} bytes in one request,"
                f" found {least + added}; ZooKeeper would close the connection"
            )
            too_big.append((write, why))
            continue
        if gathered and size + added > bytes_max:
            packets.append(_packet(head, gathered))
            gathered, size = [], least
        gathered.append(write)
        size += added
    if gathered:
        packets.append(_packet(head, gathered))
    return Packed(tuple(packets), tuple(too_big))


def single(fence: Fence, write: Write) -> Packet:
    """One write by itself: how conflicting ones are repeated."""
    return _packet(fence.checks(), [write])


def size_of(operations: Iterable[Operation]) -> int:
    """About the bytes of these operations in a request."""
    return sum(
        OPERATION_BYTES + len(operation.path.encode()) + len(getattr(operation, "data", None) or b"")
        for operation in operations
    )


def create_state(topic_partition: TopicPartition, state: PartitionState, missing: Iterable[str]) -> Write:
    """The first state of a partition, with those of its parents that are missing, topmost first."""
    parents = tuple(Create(path, None) for path in missing)
    return Write(topic_partition, (*parents, Create(PartitionState.path(topic_partition), state.encode())))


def state_parents(topic_partition: TopicPartition) -> tuple[str, str]:
    """The parents that a partition's state needs, topmost first."""
    return Topic.partitions_path(topic_partition.topic), Topic.partition_path(topic_partition)


def set_state(
    topic_partition: TopicPartition, before: LeaderIsrAndControllerEpoch, state: PartitionState
) -> Write:
    """A decision that is based on this version of the state."""
    path = PartitionState.path(topic_partition)
    return Write(topic_partition, (SetData(path, state.encode(), before.version),))


class Refusal(NamedTuple):
    """A packet that has changed nothing."""

    packet: Packet
    code: Code
    path: str | None
    """Of the operation that was in the way; None where that was found by reading back."""

    @property
    def is_conflict(self) -> bool:
        """Another client has written there: after reading, it may succeed. Else (an ACL) only time can
        help."""
        return self.code in _CHANGES

    def __str__(self) -> str:
        return f"{self.path or self.packet.writes[0].about}: refused with {self.code.value}"


class Denied(str):
    """The reason why something is not written where only time can help: an ACL or a limit refused it."""

    __slots__ = ()


_CHANGES: Final = frozenset({Code.BAD_VERSION, Code.NODE_EXISTS, Code.NO_NODE, Code.NOT_EMPTY})
_GONE: Final = {Code.BAD_VERSION: "has another version", Code.NO_NODE: "is gone"}


def why_deposed(packet: Packet, refused: MultiRefused) -> str | None:
    """The check of the fence that has failed; None for a refusal of another operation."""
    if refused.index >= _HEAD:
        return None
    path, code = packet.request.operations[refused.index].path, refused.code
    return f"{path} {_GONE.get(code, f'cannot be checked ({code.value})')}"


def was_applied(packet: Packet, found: Mapping[str, Znode]) -> bool:
    """Returns whether an unanswered packet was applied, from its paths as read back after a `sync`.

    A transaction is applied whole or not at all, so the first operation that shows it is enough. False also
    where others have written all of its znodes since: the outcome cannot be found, and need not be.
    """
    shown = (_is_shown(operation, found.get(operation.path)) for operation in changing(packet))
    return next((each for each in shown if each is not None), False)


_HEAD: Final = 2
"""Checks before the operations of the writes."""


def _packet(head: Sequence[Operation], writes: Sequence[Write]) -> Packet:
    operations = [*head, *(each for write in writes for each in write.operations)]
    return Packet(tuple(writes), Multi(tuple(operations)))


def changing(packet: Packet) -> Iterator[Create | SetData | Delete]:
    """Operations that leave something to be read; a sequential create's path is not known without a reply."""
    for operation in packet.request.operations[_HEAD:]:
        if not isinstance(operation, Check) and not (isinstance(operation, Create) and operation.sequential):
            yield operation


def _is_shown(operation: Create | SetData | Delete, znode: Znode | None) -> bool | None:
    """Returns whether one znode shows that its operation was applied; None where it may be either."""
    if isinstance(operation, Create):
        if znode is None:
            return False
        # Null data, as parents have, says nothing of who made them.
        same = operation.data is not None and znode.data == operation.data and znode.stat.version == 0
        return same or None
    if znode is None:
        return None
    if znode.stat.version == operation.version:
        return False
    if isinstance(operation, Delete):
        return None
    same = znode.stat.version == operation.version + 1 and znode.data == operation.data
    return same or None
