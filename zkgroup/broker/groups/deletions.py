"""Deletes offsets and groups: by an operator's request, as expired, or with their topic.

    multi[ check(slot), delete(ids), create(ids), per partition: delete(offset, v), delete(metadata, w) ]

The guard of `ids` is in every transaction: a version alone would not protect the offset of a ZooKeeper
consumer, because a znode that is created again starts at version 0. What is deleted was read just before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from zkgroup.broker.groups.led_slots import LedSlot, QueuedChange, StoreCore, StoredGroup
from zkgroup.broker.groups.offset_reads import list_partitions
from zkgroup.broker.groups.store_events import (
    ExpireOffsets,
    OffsetsDeleted,
    OffsetsExpired,
    Recorded,
)
from zkgroup.coordinator.effects import DeleteGroup, DeleteOffsets
from zkgroup.coordinator.events import WriteOutcome
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import (
    Code,
    Create,
    Delete,
    ListMany,
    ListManyDone,
    MultiDone,
    Operation,
    ReadMany,
    ReadManyDone,
    Sync,
)
from zkgroup.runtime.procedures import Procedure, Query, ask, read_many, write
from zkgroup.znodes.consumers import (
    commits_path,
    group_path,
    ids_path,
    offset_path,
    offsets_path,
    owners_path,
    prepared_path,
    resets_path,
    static_path,
    views_path,
)
from zkgroup.znodes.coordinated_groups import OffsetAndMetadata, ProtocolMarker, meta_path
from zkgroup.znodes.deletions import in_transactions
from zkgroup.znodes.group_history import GroupHistory
from zkgroup.znodes.group_records import Freeze, StoredAssignment

PARTITIONS_AT_ONCE: Final = 500
"""Offsets of one transaction: 1.3 KB each, with metadata and the longest names of group and topic."""
TRIES: Final = 5
"""Transactions that other clients' changes may refuse."""


class Deletions:
    """Makes the changes of groups that delete; `group_writes` queues them."""

    def __init__(self, core: StoreCore) -> None:
        self._core = core

    def perform(self, slot: LedSlot, group: StoredGroup, queued: QueuedChange) -> Procedure[WriteOutcome]:
        """Makes one change. A reply that is missing makes it begin again: what is gone stays gone."""
        ((owner,),) = yield from self._synced(slot)
        if owner is None or owner.stat.version != slot.version:
            return WriteOutcome.NOT_OWNER
        match queued.change:
            case DeleteGroup(_, _, keeps_offsets):
                return (yield from self._delete_group(slot, group, keeps_offsets))
            case DeleteOffsets(partitions=partitions):
                return (yield from self._delete_offsets(slot, group, queued, partitions))
            case ExpireOffsets(_, recorded):
                outcome = yield from self._delete_offsets(slot, group, queued, sorted(recorded), recorded)
                listed = yield from list_partitions([group.group_id])
                queued.has_offsets = bool(listed[group.group_id])
                return outcome
            case _:
                raise AssertionError(queued.change)

    def finished(self, queued: QueuedChange, outcome: WriteOutcome) -> None:
        """Emits the result of a change."""
        match queued.change:
            case DeleteOffsets(request_id=request_id, partitions=partitions):
                outcomes = {
                    each: WriteOutcome.STORED if each in queued.deleted else outcome for each in partitions
                }
                self._core.context.emit(OffsetsDeleted(request_id, outcomes))
            case ExpireOffsets(group_id, _):
                self._core.context.emit(
                    OffsetsExpired(
                        group_id=group_id,
                        partitions=frozenset(queued.deleted),
                        has_offsets=queued.has_offsets,
                    )
                )

    def _synced(self, slot: LedSlot) -> Procedure[tuple[tuple[Znode | None, ...], ...]]:
        yield from ask(Query(Sync(slot.path)))
        return (yield from read_many([slot.path]))

    def _guard(self, group_id: str) -> Procedure[list[Operation]]:
        """Refused while ZooKeeper consumers are members; empty where they have no place to register."""
        above, ids = group_path(group_id), ids_path(group_id)
        ((parent, members),) = yield from read_many([above, ids])
        if parent is None:
            return []
        if members is None:
            return [Create(ids, None), Delete(ids, -1)]
        return [Delete(ids, -1), Create(ids, None)]

    def _delete_offsets(
        self,
        slot: LedSlot,
        group: StoredGroup,
        queued: QueuedChange,
        partitions: Sequence[TopicPartition],
        recorded: Mapping[TopicPartition, Recorded] | None = None,
    ) -> Procedure[WriteOutcome]:
        """`recorded`: only these writes of the offsets."""
        for start in range(0, len(partitions), PARTITIONS_AT_ONCE):
            batch = partitions[start : start + PARTITIONS_AT_ONCE]
            for _ in range(TRIES):
                outcome = yield from self._try_offsets(slot, group, queued, batch, recorded)
                if outcome is not None:
                    break
            else:
                return WriteOutcome.CONFLICT
            if outcome is not WriteOutcome.STORED:
                return outcome
        return WriteOutcome.STORED

    def _try_offsets(
        self,
        slot: LedSlot,
        group: StoredGroup,
        queued: QueuedChange,
        batch: Sequence[TopicPartition],
        recorded: Mapping[TopicPartition, Recorded] | None,
    ) -> Procedure[WriteOutcome | None]:
        """One transaction; None where a znode has changed since it was read."""
        offsets, metadata = yield from read_many(
            [offset_path(group.group_id, each) for each in batch],
            [OffsetAndMetadata.path(slot.number, group.group_id, each) for each in batch],
        )
        deleted, operations = [], []
        for partition, offset, beside in zip(batch, offsets, metadata, strict=True):
            found = [each for each in (offset, beside) if each is not None]
            if recorded is not None and recorded[partition] != tuple(each.stat.mzxid for each in found):
                continue
            deleted.append(partition)
            operations += [Delete(each.path, each.stat.version) for each in found]
        if operations:
            guard = yield from self._guard(group.group_id)
            outcome = yield from self._delete(slot, group, guard, operations)
            if outcome is not WriteOutcome.STORED:
                return outcome
        for partition in deleted:
            slot.usage.put(group.group_id, partition, None)
        queued.deleted.update(deleted)
        return WriteOutcome.STORED

    def _delete_group(
        self, slot: LedSlot, group: StoredGroup, keeps_offsets: bool
    ) -> Procedure[WriteOutcome]:
        """Deletes offsets with their parents, metadata, chunks, marker and header.

        With `keeps_offsets` nothing of a group that has an offset. One that is written after it was listed
        refuses a transaction, because the parents are deleted too.
        What ZooKeeper consumers have left without a member goes too, so that no tool lists the group.
        """
        group_id = group.group_id
        for _ in range(TRIES):
            topics, offsets = yield from self._list([offsets_path(group_id)])
            if keeps_offsets and offsets:
                return WriteOutcome.HAS_OFFSETS
            meta_topics, metadata = yield from self._list([meta_path(slot.number, group_id)])
            parents = yield from self._parents(group)
            below_root, root = yield from self._root(group_id)
            below = [*offsets, *metadata, *topics, *meta_topics, *below_root]
            outcome = yield from self._delete_paths(slot, group, below, [*parents, *root])
            if outcome is WriteOutcome.STORED:
                group.forget()
                slot.usage.forget(group_id)
            if outcome is not None:
                return outcome
        return WriteOutcome.CONFLICT

    def _list(self, parents: Iterable[str]) -> Procedure[tuple[list[str], list[str]]]:
        """The children and grandchildren of znodes that may be missing."""
        children = yield from _children(list(parents))
        grandchildren = (yield from _children(children)) if children else []
        return children, grandchildren

    def _parents(self, group: StoredGroup) -> Procedure[list[str]]:
        """Returns the group's other znodes that exist, the deepest first; the header is the last."""
        children = yield from _children([group.path])
        beside = [GroupHistory.path(group.group_id), ProtocolMarker.path(group.group_id)]
        paths = [offsets_path(group.group_id), *beside, group.path]
        (found,) = yield from ask(Query(ReadMany(tuple(paths))))
        assert isinstance(found, ReadManyDone), found
        existing = [path for path, znode in zip(paths, found.znodes, strict=True) if znode is not None]
        return [*children, *existing]

    def _root(self, group_id: str) -> Procedure[tuple[list[str], list[str]]]:
        """Returns the rest below the znodes of a group, and these with the group's own, the deepest first.

        `ids` is the guard. Both are empty where there is no znode, where it has owners, and where it has a
        child that is not known here.
        """
        owner_topics, owners = yield from self._list([owners_path(group_id)])
        root = group_path(group_id)
        below = yield from _children([root])
        kinds = commits_path, resets_path, views_path, static_path, prepared_path
        of_members = [path(group_id) for path in kinds]
        leaves = [StoredAssignment.path(group_id), Freeze.path(group_id)]
        known = [owners_path(group_id), ids_path(group_id), *of_members, *leaves]
        is_ours = {*known, offsets_path(group_id), ProtocolMarker.path(group_id)}
        ((found,),) = yield from read_many([root])
        if found is None or owners or not is_ours.issuperset(below):
            return [], []
        left = yield from _children(of_members)
        return [*owner_topics, *left], [*(each for each in known if each in below), root]

    def _delete_paths(
        self, slot: LedSlot, group: StoredGroup, below: Sequence[str], last: Sequence[str]
    ) -> Procedure[WriteOutcome | None]:
        """Deletes what is below the group's own znodes, and these in a last transaction; None after a race.

        What is below can be thousands of long names. The header is in the last transaction, so a deletion
        that ends between two of them leaves an empty group with fewer offsets, which can be deleted again.
        """
        for paths in in_transactions(below):
            guard = yield from self._guard(group.group_id)
            outcome = yield from self._delete(slot, group, guard, _deletes(paths))
            if outcome is not WriteOutcome.STORED:
                return outcome
        if not last:
            return WriteOutcome.STORED
        has_guard = ids_path(group.group_id) in last
        guard = [] if has_guard else (yield from self._guard(group.group_id))
        return (yield from self._delete(slot, group, guard, _deletes(last)))

    def _delete(
        self, slot: LedSlot, group: StoredGroup, guard: Sequence[Operation], deletes: Sequence[Operation]
    ) -> Procedure[WriteOutcome | None]:
        """One transaction; None where a znode is not as it was read."""
        operations = [slot.check, *guard, *deletes]
        outcome = yield from write(operations, {slot.path})
        if isinstance(outcome, MultiDone):
            group.deleted(each.path for each in deletes)
            return WriteOutcome.STORED
        is_member = outcome.code is Code.NOT_EMPTY and operations[outcome.index].path == ids_path(
            group.group_id
        )
        return WriteOutcome.ZOOKEEPER_MEMBERS if is_member else None


def _deletes(paths: Iterable[str]) -> list[Operation]:
    return [Delete(path, -1) for path in paths]


def _children(parents: Sequence[str]) -> Procedure[list[str]]:
    (outcome,) = yield from ask(Query(ListMany(tuple(parents))))
    assert isinstance(outcome, ListManyDone), outcome
    return [
        f"{parent}/{name}"
        for parent, below in zip(parents, outcome.children, strict=True)
        if isinstance(below, tuple)
        for name in sorted(below)
    ]
