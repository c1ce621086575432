"""Planted bugs, first part: commits, claims, releases and resets without one of their rules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from zkgroup.consumer.machine import commit, release, static_members, transactions
from zkgroup.consumer.machine.claim import Claims
from zkgroup.consumer.machine.commit import Commits, ResetWatch
from zkgroup.consumer.machine.freeze import GroupFreeze
from zkgroup.consumer.machine.machine_context import GroupPaths, OwnedPartition
from zkgroup.consumer.machine.scheduler import GroupLeave
from zkgroup.consumer.machine.transactions import MemberIdentity, PartitionZnodes, WriteVerdict
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Check, Create, Delete, MultiDone, MultiRefused, Operation, SetData
from zkgroup.runtime.procedures import Procedure, read_many

Patch = pytest.MonkeyPatch


def commit_without_owner_check(patch: Patch) -> None:
    real = transactions.commit_operations
    patch.setattr(
        transactions, "commit_operations", lambda paths, owned, value: real(paths, owned, value)[1:]
    )


def commit_without_fence(patch: Patch) -> None:
    def operations(paths: GroupPaths, owned: OwnedPartition, value: int) -> list[Operation]:
        path = paths.offset(owned.topic_partition)
        return [Check(paths.owner(owned.topic_partition), 1), SetData(path, str(value).encode(), -1)]

    patch.setattr(transactions, "commit_operations", operations)


def commit_goes_back(patch: Patch) -> None:
    """The release writes the callback's position, even below the committed one."""

    def value(self: release.Releases, owned: OwnedPartition) -> int:
        position = self._context.owned.releasing.get(owned.topic_partition)
        return max(0, (position.offset if position else owned.value) - 3)

    patch.setattr(release.Releases, "_value", value)


def writes_without_registration_check(patch: Patch) -> None:
    patch.setattr(transactions, "guard", lambda paths: Check(paths.ids, -1))
    for module in ("scheduler", "assignment"):
        patch.setattr(f"zkgroup.consumer.machine.{module}.guard", lambda paths: Check(paths.ids, -1))


def unknown_outcome_taken_for_applied(patch: Patch) -> None:
    """A commit without an answer is acknowledged as applied, although it may not be."""

    def classify(
        owned: OwnedPartition, intended: int | None, seen: PartitionZnodes, mine: MemberIdentity
    ) -> WriteVerdict:
        found = transactions.classify(owned, intended, seen, mine)
        return WriteVerdict.APPLIED if found is WriteVerdict.UNCHANGED and intended is not None else found

    patch.setattr(commit, "classify", classify)


def position_from_before_a_reset(patch: Patch) -> None:
    patch.setattr(Commits, "_is_void", lambda self, tp, last_seek_id: False)
    real = Commits._seek

    def move(self: Commits, owned: OwnedPartition, offset: int, reason: str) -> None:
        queue, self._queue = self._queue, []
        current, self._current = self._current, None
        real(self, owned, offset, reason)
        self._queue, self._current = queue, current

    patch.setattr(Commits, "_seek", move)


def claim_without_bump(patch: Patch) -> None:
    real = transactions.claim_operations

    def operations(paths: GroupPaths, member: str, claim: transactions.Claim) -> list[Operation]:
        kept = real(paths, member, claim)
        return kept if claim.offset is None else kept[:2]

    patch.setattr(transactions, "claim_operations", operations)
    _fence_as_read(patch)


def claim_without_creating_the_offset(patch: Patch) -> None:
    real = transactions.claim_operations
    real_commit = transactions.commit_operations

    def operations(paths: GroupPaths, member: str, claim: transactions.Claim) -> list[Operation]:
        kept = real(paths, member, claim)
        return kept[:2] if claim.offset is None else kept

    def commit_operations(paths: GroupPaths, owned: OwnedPartition, value: int) -> list[Operation]:
        if owned.fence >= 0:
            return real_commit(paths, owned, value)
        path = paths.offset(owned.topic_partition)
        return [Check(paths.owner(owned.topic_partition), 1), Create(path, str(value).encode())]

    patch.setattr(transactions, "claim_operations", operations)
    patch.setattr(transactions, "commit_operations", commit_operations)


def _fence_as_read(patch: Patch) -> None:
    """Without the bump, the version read before the claim is the fence."""
    real = Claims._succeeded

    def succeeded(
        self: Claims, packet: Sequence[transactions.Claim], operations: Any, claim_id: int, done: Any
    ) -> None:
        real(self, packet, operations, claim_id, done)
        for claim in packet:
            owned = self._context.owned.partitions.get(claim.topic_partition)
            if owned is not None and claim.offset is not None:
                owned.fence, owned.offset_czxid = claim.offset.stat.version, claim.offset.stat.czxid

    patch.setattr(Claims, "_succeeded", succeeded)


def session_is_enough(patch: Patch) -> None:
    """Every owner znode of my session is mine, whatever its text says."""

    def thread_of(self: MemberIdentity, owner: Any) -> int | None:
        is_mine = owner is not None and owner.stat.ephemeral_owner == self.session_id
        return int(owner.data.rpartition(b"-")[2]) if is_mine else None

    patch.setattr(MemberIdentity, "thread_of", thread_of)
    patch.setattr(Claims, "_adopted", _adopt_anything)


def _adopt_anything(
    self: Claims, tp: TopicPartition, thread: int, seen: PartitionZnodes
) -> OwnedPartition | None:
    return transactions.adopted_partition(tp, self._context.owned.assigned.get(tp, thread), seen, 0)


def blocked_partition_is_forgotten(patch: Patch) -> None:
    """No watch on the blocking owner and no second read: the member never learns that it was deleted."""
    patch.setattr(Claims, "_watch", lambda self, tp: None)
    patch.setattr(Claims, "schedule_read_back", lambda self: None)


def orphaned_claims_are_forgotten(patch: Patch) -> None:
    real = GroupLeave.registration_over

    def registration_over(self: GroupLeave, reason: str) -> None:
        real(self, reason)
        self._components.context.owned.orphaned.clear()

    patch.setattr(GroupLeave, "registration_over", registration_over)
    patch.setattr(Claims, "_adopted", lambda self, tp, thread, seen: None)


def claims_of_an_earlier_registration_are_adopted(patch: Patch) -> None:
    """Any claim of my session is adopted, also an earlier registration's: a token is given out twice."""
    orphaned_claims_are_forgotten(patch)
    patch.setattr(Claims, "_adopted", _adopt_anything)


def owner_read_before_offset(patch: Patch) -> None:
    """The read-back reads in the wrong order: owners first, then offsets."""

    def read_back(paths: GroupPaths, partitions: Any) -> Any:
        tps = tuple(partitions)
        (rest,) = yield from read_many([*paths.owners(tps), *(paths.marker(tp) for tp in tps)])
        (offsets,) = yield from read_many(paths.offsets(tps))
        rows = zip(tps, offsets, rest[: len(tps)], rest[len(tps) :], strict=True)
        return {tp: PartitionZnodes(*seen) for tp, *seen in rows}

    for module in ("claim", "commit", "release"):
        patch.setattr(f"zkgroup.consumer.machine.{module}.read_back", read_back)


def owner_read_with_its_offset(patch: Patch) -> None:
    """One request reads both, the owner first; a server that is read path by path keeps that order."""

    def read_back(paths: GroupPaths, partitions: Any) -> Any:
        tps = tuple(partitions)
        count, markers = len(tps), [paths.marker(tp) for tp in tps]
        (found,) = yield from read_many([*paths.owners(tps), *paths.offsets(tps), *markers])
        rows = zip(tps, found[count : 2 * count], found[:count], found[2 * count :], strict=True)
        return {tp: PartitionZnodes(*seen) for tp, *seen in rows}

    for module in ("claim", "commit", "release"):
        patch.setattr(f"zkgroup.consumer.machine.{module}.read_back", read_back)


def release_by_path(patch: Patch) -> None:
    def operations(paths: GroupPaths, owned: OwnedPartition, value: int) -> list[Operation]:
        return [Delete(paths.owner(owned.topic_partition), -1)]

    patch.setattr(transactions, "release_operations", operations)


def fallback_without_offset_check(patch: Patch) -> None:
    patch.setattr(
        transactions, "release_without_commit", lambda paths, tp, offset: [Delete(paths.owner(tp), -1)]
    )
    owner_read_before_offset(patch)


def marker_by_equality(patch: Patch) -> None:
    """A marker counts only if it is the last write: one later write of a foreign client hides it."""

    def classify(
        owned: OwnedPartition, intended: int | None, seen: PartitionZnodes, mine: MemberIdentity
    ) -> WriteVerdict:
        found = transactions.classify(owned, intended, seen, mine)
        if found is not WriteVerdict.RESET:
            return found
        assert seen.marker is not None
        assert seen.offset is not None
        if seen.marker.stat.mzxid == seen.offset.stat.mzxid:
            return found
        return WriteVerdict.UNCHANGED if seen.offset.stat.version == owned.fence else WriteVerdict.FOREIGN

    patch.setattr(commit, "classify", classify)


def reset_is_ignored(patch: Patch) -> None:
    patch.setattr(ResetWatch, "is_due", False)

    def classify(
        owned: OwnedPartition, intended: int | None, seen: PartitionZnodes, mine: MemberIdentity
    ) -> WriteVerdict:
        return transactions.classify(owned, intended, seen._replace(marker=None), mine)

    patch.setattr(commit, "classify", classify)


def reset_applied_without_the_owner(patch: Patch) -> None:
    """The fence of a partition is renewed although another member owns it by now."""

    def classify(
        owned: OwnedPartition, intended: int | None, seen: PartitionZnodes, mine: MemberIdentity
    ) -> WriteVerdict:
        if seen.offset is not None and seen.marker is not None and seen.marker.stat.mzxid > owned.last_mzxid:
            return WriteVerdict.RESET
        return transactions.classify(owned, intended, seen, mine)

    patch.setattr(commit, "classify", classify)
    real = transactions.commit_operations
    patch.setattr(
        transactions, "commit_operations", lambda paths, owned, value: real(paths, owned, value)[1:]
    )


def moves_without_the_check_of_a_freeze(patch: Patch) -> None:
    """Claims and releases pass whatever the version of `owners` is."""
    any_version = property(lambda self: Check(self._paths.owners_root, -1))
    patch.setattr(GroupFreeze, "check", any_version)


def freeze_that_nobody_ends(patch: Patch) -> None:
    """No member looks whether a freeze is over."""
    patch.setattr(GroupFreeze, "timer_fired", lambda self: None)


def absence_is_ended_in_silence(patch: Patch) -> None:
    """The end of an absence does not change the generation."""
    real = static_members.write

    def write(operations: Sequence[Operation], fence: Collection[str]) -> Procedure[MultiDone | MultiRefused]:
        if any(isinstance(each, Create) for each in operations):
            operations = [each for each in operations if not isinstance(each, (Create, Delete))]
        return real(operations, fence)

    patch.setattr(static_members, "write", write)
