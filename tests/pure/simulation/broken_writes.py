"""Bugs put in on purpose, first part: commits, claims, releases and resets without one of their rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from zkgroup.consumer.machine import commit, readback, release, writes
from zkgroup.consumer.machine.claim import Claims
from zkgroup.consumer.machine.commit import Commits
from zkgroup.consumer.machine.endings import Endings
from zkgroup.consumer.machine.ownership import Held
from zkgroup.consumer.machine.paths import Paths
from zkgroup.consumer.machine.readback import Identity, Seen, Verdict
from zkgroup.consumer.machine.resets import Resets
from zkgroup.machinery.procedures import read_many
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Check, Create, Delete, Operation, SetData

Patch = pytest.MonkeyPatch


# --- commits --------------------------------------------------------------------------------------


def commit_without_owner_check(patch: Patch) -> None:
    real = writes.commit_operations
    patch.setattr(writes, "commit_operations", lambda paths, held, value: real(paths, held, value)[1:])


def commit_without_fence(patch: Patch) -> None:
    def operations(paths: Paths, held: Held, value: int) -> list[Operation]:
        path = paths.offset(held.topic_partition)
        return [Check(paths.owner(held.topic_partition), 1), SetData(path, str(value).encode(), -1)]

    patch.setattr(writes, "commit_operations", operations)


def commit_goes_back(patch: Patch) -> None:
    """The release writes the position of the callback even where it is below what is committed."""

    def value(self: release.Releases, held: Held) -> int:
        position = self._core.owned.releasing.get(held.topic_partition)
        return max(0, (position.offset if position else held.value) - 3)

    patch.setattr(release.Releases, "_value", value)


def writes_without_registration_check(patch: Patch) -> None:
    patch.setattr(writes, "guard", lambda paths: Check(paths.ids, -1))
    for module in ("agenda", "plan", "views"):
        patch.setattr(f"zkgroup.consumer.machine.{module}.guard", lambda paths: Check(paths.ids, -1))


def doubt_taken_for_applied(patch: Patch) -> None:
    """No answer is read as "it worked": the acknowledgement is not true."""

    def judge(held: Held, intended: int | None, seen: Seen, mine: Identity) -> Verdict:
        found = readback.judge(held, intended, seen, mine)
        return Verdict.APPLIED if found is Verdict.STANDS and intended is not None else found

    patch.setattr(commit, "judge", judge)


def position_from_before_a_reset(patch: Patch) -> None:
    patch.setattr(Commits, "_is_void", lambda self, tp, last_move_id: False)
    real = Commits._move

    def move(self: Commits, held: Held, offset: int, reason: str) -> None:
        queue, self._queue = self._queue, []
        current, self._current = self._current, None
        real(self, held, offset, reason)
        self._queue, self._current = queue, current

    patch.setattr(Commits, "_move", move)


# --- claims ---------------------------------------------------------------------------------------


def claim_without_bump(patch: Patch) -> None:
    real = writes.claim_operations

    def operations(paths: Paths, member: str, claim: writes.Claim) -> list[Operation]:
        kept = real(paths, member, claim)
        return kept if claim.offset is None else kept[:2]

    patch.setattr(writes, "claim_operations", operations)
    _fence_as_read(patch)


def claim_without_creating_the_offset(patch: Patch) -> None:
    real = writes.claim_operations
    real_commit = writes.commit_operations

    def operations(paths: Paths, member: str, claim: writes.Claim) -> list[Operation]:
        kept = real(paths, member, claim)
        return kept[:2] if claim.offset is None else kept

    def commit_operations(paths: Paths, held: Held, value: int) -> list[Operation]:
        if held.fence >= 0:
            return real_commit(paths, held, value)
        path = paths.offset(held.topic_partition)
        return [Check(paths.owner(held.topic_partition), 1), Create(path, str(value).encode())]

    patch.setattr(writes, "claim_operations", operations)
    patch.setattr(writes, "commit_operations", commit_operations)


def _fence_as_read(patch: Patch) -> None:
    """Without the bump, the version read before the claim is all there is for a fence."""
    real = Claims._succeeded

    def succeeded(
        self: Claims, packet: Sequence[writes.Claim], operations: Any, claim_id: int, done: Any
    ) -> None:
        real(self, packet, operations, claim_id, done)
        for claim in packet:
            held = self._core.owned.held.get(claim.topic_partition)
            if held is not None and claim.offset is not None:
                held.fence, held.life = claim.offset.stat.version, claim.offset.stat.czxid

    patch.setattr(Claims, "_succeeded", succeeded)


def session_is_enough(patch: Patch) -> None:
    """Mine is what my session made, whatever its text says."""

    def thread_of(self: Identity, owner: Any) -> int | None:
        is_mine = owner is not None and owner.stat.ephemeral_owner == self.session_id
        return int(owner.data.rpartition(b"-")[2]) if is_mine else None

    patch.setattr(Identity, "thread_of", thread_of)
    patch.setattr(Claims, "_adopted", _adopt_anything)


def _adopt_anything(self: Claims, tp: TopicPartition, thread: int, seen: Seen) -> Held | None:
    return readback.adopted(tp, self._core.owned.target.get(tp, thread), seen, 0)


def blocked_partition_is_forgotten(patch: Patch) -> None:
    """No watch on a blocker and no second look: the end of the blocker is never heard of."""
    patch.setattr(Claims, "_watch", lambda self, tp: None)
    patch.setattr(Claims, "recheck", lambda self: None)


def leaked_claims_are_forgotten(patch: Patch) -> None:
    real = Endings.registration_over

    def registration_over(self: Endings, reason: str) -> None:
        real(self, reason)
        self._parts.core.owned.leaked.clear()

    patch.setattr(Endings, "registration_over", registration_over)
    patch.setattr(Claims, "_adopted", lambda self, tp, thread, seen: None)


def claims_of_an_earlier_registration_are_adopted(patch: Patch) -> None:
    """Mine is mine, whichever registration claimed it: the application gets a token for the second time."""
    leaked_claims_are_forgotten(patch)
    patch.setattr(Claims, "_adopted", _adopt_anything)


def owner_read_before_offset(patch: Patch) -> None:
    """The read-back in the wrong order: owners first, then offsets."""

    def read_back(paths: Paths, partitions: Any) -> Any:
        tps = tuple(partitions)
        (rest,) = yield from read_many([*paths.owners(tps), *(paths.marker(tp) for tp in tps)])
        (offsets,) = yield from read_many(paths.offsets(tps))
        rows = zip(tps, offsets, rest[: len(tps)], rest[len(tps) :], strict=True)
        return {tp: Seen(*seen) for tp, *seen in rows}

    for module in ("claim", "commit", "release"):
        patch.setattr(f"zkgroup.consumer.machine.{module}.read_back", read_back)


def owner_read_with_its_offset(patch: Patch) -> None:
    """One request for both, the owner first: a server that is read path by path keeps that order."""

    def read_back(paths: Paths, partitions: Any) -> Any:
        tps = tuple(partitions)
        count, markers = len(tps), [paths.marker(tp) for tp in tps]
        (found,) = yield from read_many([*paths.owners(tps), *paths.offsets(tps), *markers])
        rows = zip(tps, found[count : 2 * count], found[:count], found[2 * count :], strict=True)
        return {tp: Seen(*seen) for tp, *seen in rows}

    for module in ("claim", "commit", "release"):
        patch.setattr(f"zkgroup.consumer.machine.{module}.read_back", read_back)


# --- releases -------------------------------------------------------------------------------------


def release_by_path(patch: Patch) -> None:
    def operations(paths: Paths, held: Held, value: int) -> list[Operation]:
        return [Delete(paths.owner(held.topic_partition), -1)]

    patch.setattr(writes, "release_operations", operations)


def fallback_without_offset_check(patch: Patch) -> None:
    patch.setattr(writes, "release_without_commit", lambda paths, tp, offset: [Delete(paths.owner(tp), -1)])
    owner_read_before_offset(patch)


# --- resets ---------------------------------------------------------------------------------------


def marker_by_equality(patch: Patch) -> None:
    """A marker counts only where it was the last write: one write by a stranger after it, and it is lost."""

    def judge(held: Held, intended: int | None, seen: Seen, mine: Identity) -> Verdict:
        found = readback.judge(held, intended, seen, mine)
        if found is not Verdict.RESET:
            return found
        assert seen.marker is not None
        assert seen.offset is not None
        if seen.marker.stat.mzxid == seen.offset.stat.mzxid:
            return found
        return Verdict.STANDS if seen.offset.stat.version == held.fence else Verdict.FOREIGN

    patch.setattr(commit, "judge", judge)


def reset_is_ignored(patch: Patch) -> None:
    patch.setattr(Resets, "is_due", False)

    def judge(held: Held, intended: int | None, seen: Seen, mine: Identity) -> Verdict:
        return readback.judge(held, intended, seen._replace(marker=None), mine)

    patch.setattr(commit, "judge", judge)


def reset_obeyed_without_the_owner(patch: Patch) -> None:
    """The fence of a partition is renewed although somebody else owns it by now."""

    def judge(held: Held, intended: int | None, seen: Seen, mine: Identity) -> Verdict:
        if seen.offset is not None and seen.marker is not None and seen.marker.stat.mzxid > held.last:
            return Verdict.RESET
        return readback.judge(held, intended, seen, mine)

    patch.setattr(commit, "judge", judge)
    real = writes.commit_operations
    patch.setattr(writes, "commit_operations", lambda paths, held, value: real(paths, held, value)[1:])
