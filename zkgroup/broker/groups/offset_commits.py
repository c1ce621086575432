"""Commits: the offsets of many groups in one transaction of their slot.

    multi[ check(slot), parents that are missing, per partition: set(offset), set(metadata) ]

While one transaction of a slot is under way, the commits that come are collected for the next. A commit of a
client that is no member brings the guard of its group, `delete(ids), create(ids)`, and waits for the changes
of its group before it: it was accepted because the group has no members, and that is not stored yet. A
refusal says which operation was refused: its partition or group drops out, and the rest is sent again. A
transaction without a reply may be stored: it is never sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from zkgroup.broker.groups.led_slots import LedSlot, StoreCore, StoredGroup
from zkgroup.broker.groups.members_watch import MembersWatch
from zkgroup.broker.groups.offset_batch import (
    TRANSACTION_BYTES,
    OffsetBatch,
    OffsetTransaction,
    transaction_of,
    unknown_paths,
)
from zkgroup.coordinator.effects import WriteOffsets
from zkgroup.coordinator.events import OffsetsWritten, WriteOutcome
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import (
    Code,
    Multi,
    MultiDone,
    MultiRefused,
    NotSent,
    ReadMany,
    ReadManyDone,
    Unanswered,
)
from zkgroup.runtime.machine import Job
from zkgroup.runtime.procedures import ConnectionLossError, GuardRefusedError, Procedure, Query, ask

TRIES: Final = 5
"""Tries of one batch for a group whose znodes are other than expected."""


class OffsetCommits:
    """The commits of all slots, one transaction at a time for each."""

    def __init__(self, core: StoreCore, members: MembersWatch, on_done: Callable[[LedSlot], None]) -> None:
        """on_done: called when commits of a slot have their outcomes."""
        self._core = core
        self._members = members
        self._on_done = on_done
        self._batches: dict[LedSlot, OffsetBatch] = {}
        """The batch under way of each slot, also of one that is closed."""

    def add(self, writes: Sequence[WriteOffsets]) -> None:
        """Takes commits, in their order; refuses those whose slot is not owned."""
        refused: dict[int, Mapping[TopicPartition, WriteOutcome]] = {}
        slots: dict[LedSlot, None] = {}
        group_id, slot = None, None
        for write in writes:
            if write.group_id != group_id:
                group_id = write.group_id
                slot = self._core.owned(group_id)
            if slot is None:
                refused[write.write_id] = dict.fromkeys(write.offsets, WriteOutcome.NOT_OWNER)
                continue
            slot.commits_accepted += 1
            slot.commits.append(write)
            slots[slot] = None
        if refused:
            self._core.context.emit(OffsetsWritten(refused))
        for slot in slots:
            if ("commits", slot) not in self._core.procedures:
                self._start(slot)

    def changes_done(self, slot: LedSlot) -> None:
        """Starts the commits that waited for a change of a group."""
        if ("commits", slot) not in self._core.procedures:
            self._start(slot)

    def _start(self, slot: LedSlot) -> None:
        job = Job("write offsets", partial(self._commit, slot), partial(self._ended, slot))
        self._core.run(("commits", slot), job)

    def close(self, slot: LedSlot) -> None:
        """The slot is given up: nothing more is sent, and what was sent gets its outcome."""
        if slot.commits:
            waiting = OffsetBatch(slot.commits)
            slot.commits.clear()
            waiting.settle_all(WriteOutcome.NOT_OWNER)
            self._report(slot, waiting)
        if slot in self._batches and not self._core.procedures.is_running(("commits", slot)):
            self._core.procedures.cancel(("commits", slot))
            self._end(slot)

    def session_over(self) -> None:
        """No reply comes any more."""
        for slot in list(self._batches):
            self._end(slot)

    def _end(self, slot: LedSlot) -> None:
        """Ends the batch under way without a reply."""
        batch = self._batches.pop(slot)
        batch.settle(batch.in_flight, WriteOutcome.UNKNOWN)
        batch.settle_all(WriteOutcome.NOT_OWNER)
        self._report(slot, batch)

    def _ended(self, slot: LedSlot, error: Exception | None) -> None:
        if error is None:
            return
        if isinstance(error, GuardRefusedError):
            self._end(slot)
            self._core.lost(slot, "a commit was refused")
            return
        self._batches[slot].settle_all(WriteOutcome.CONFLICT)  # a refusal that no recipe expects
        self._end(slot)
        if slot.commits:
            self._start(slot)

    def _report(self, slot: LedSlot, batch: OffsetBatch) -> None:
        batch.take_back(slot.usage)
        if batch.writes:
            self._core.context.emit(OffsetsWritten(batch.outcomes))
        slot.commits_done += len(batch.writes)
        self._on_done(slot)

    def _commit(self, slot: LedSlot) -> Procedure[None]:
        while slot in self._batches or (ready := self._ready(slot)):
            if slot not in self._batches:
                self._batches[slot] = OffsetBatch([slot.commits.popleft() for _ in range(ready)])
                self._batches[slot].admit(slot.usage)
            batch, bytes_max = self._batches[slot], TRANSACTION_BYTES
            while not batch.is_done:
                if slot.is_closed:
                    batch.settle_all(WriteOutcome.NOT_OWNER)
                    break
                bytes_max = yield from self._send_next(slot, batch, bytes_max)
            self._batch_done(slot, batch)

    def _ready(self, slot: LedSlot) -> int:
        """Returns the number of waiting commits that can be sent, in their order."""
        accepted_before = slot.commits_accepted - len(slot.commits)
        for number, write in enumerate(slot.commits):
            group = slot.groups.get(write.group_id) if write.refuse_zookeeper_members else None
            if group is not None and any(each.after <= accepted_before + number for each in group.changes):
                return number
        return len(slot.commits)

    def _batch_done(self, slot: LedSlot, batch: OffsetBatch) -> None:
        del self._batches[slot]
        self._report(slot, batch)

    def _send_next(self, slot: LedSlot, batch: OffsetBatch, bytes_max: int) -> Procedure[int]:
        """One transaction of a batch. Returns the limit for the next ones."""
        offsets, guarded = batch.offsets(), batch.guarded()
        yield from self._read_existence(slot, unknown_paths(slot, offsets, guarded))
        transaction = transaction_of(slot, offsets, guarded, bytes_max)
        batch.in_flight = tuple(transaction.keys)
        (outcome,) = yield (Query(Multi(tuple(transaction.operations))),)
        match outcome:
            case MultiDone():
                self._stored(slot, batch, transaction)
            case MultiRefused():
                self._refused(slot, batch, transaction, outcome)
            case NotSent(too_big=True):
                if len(transaction.keys) == 1:
                    batch.settle(transaction.keys, WriteOutcome.TOO_LARGE)
                batch.in_flight = ()
                return transaction.bytes // 2
            case NotSent() | Unanswered():
                self._missing_reply(slot, batch, outcome)
            case _:
                raise AssertionError(outcome)
        batch.in_flight = ()
        return bytes_max

    def _read_existence(self, slot: LedSlot, paths: Mapping[str, StoredGroup]) -> Procedure[None]:
        if not paths:
            return
        (outcome,) = yield from ask(Query(ReadMany(tuple(paths))))
        assert isinstance(outcome, ReadManyDone), outcome
        for (path, group), found in zip(paths.items(), outcome.znodes, strict=True):
            if path != group.path:
                group.existing[path] = found is not None
            elif isinstance(found, Znode) and group.version is None:
                group.version = found.stat.version

    def _stored(self, slot: LedSlot, batch: OffsetBatch, transaction: OffsetTransaction) -> None:
        for operation, owner in transaction.created():
            if owner is not None:
                group = slot.group(owner if isinstance(owner, str) else owner[0])
                if operation.path == group.path:
                    group.version = 0
                else:
                    group.existing[operation.path] = True
        batch.settle(transaction.keys, WriteOutcome.STORED)

    def _refused(
        self, slot: LedSlot, batch: OffsetBatch, transaction: OffsetTransaction, refusal: MultiRefused
    ) -> None:
        """Drops the refused writes, or reads their znodes again."""
        owner = transaction.owners[refusal.index]
        operation = transaction.operations[refusal.index]
        group_id = owner if isinstance(owner, str) else None if owner is None else owner[0]
        batch.in_flight = ()
        if group_id is None or operation.path == slot.group(group_id).path:
            raise GuardRefusedError(slot.path)
        group = slot.group(group_id)
        if isinstance(owner, str) and refusal.code is Code.NOT_EMPTY:
            batch.settle_guarded(group_id)
            self._members.report(slot, group)
            return
        group.forget_existence()
        batch.refusals[group_id] = batch.refusals.get(group_id, 0) + 1
        is_race = refusal.code in (Code.NO_NODE, Code.NODE_EXISTS)
        if is_race and batch.refusals[group_id] < TRIES:
            return
        self._core.context.note("offset.refused", path=operation.path, code=refusal.code.value)
        if isinstance(owner, str):
            batch.settle([key for key in transaction.keys if key[0] == owner], WriteOutcome.CONFLICT)
        elif owner is not None:
            batch.settle([owner], WriteOutcome.CONFLICT)

    def _missing_reply(self, slot: LedSlot, batch: OffsetBatch, outcome: NotSent | Unanswered) -> None:
        """Ends the transaction without a reply: it may be stored, unless it was never sent."""
        if isinstance(outcome, Unanswered):
            batch.settle(batch.in_flight, WriteOutcome.UNKNOWN)
            for group_id, _ in batch.in_flight:
                group = slot.group(group_id)
                group.forget_existence()
        batch.in_flight = ()
        if batch.is_done:
            self._batch_done(slot, batch)
        raise ConnectionLossError(outcome)
