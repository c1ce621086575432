"""Planted bugs, third part: errors between the member and its application."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from zkgroup.consumer.callbacks import Revocations
from zkgroup.consumer.consumer_engine import ConsumerEngine
from zkgroup.consumer.delivery import Delivery, FetchBuffer, FetchOrder
from zkgroup.consumer.machine.commit import CommitBatch, Commits
from zkgroup.consumer.machine.events import PollOverdue, Revoked
from zkgroup.consumer.machine.machine_context import OwnedPartition, Position
from zkgroup.consumer.machine.membership import SessionLease
from zkgroup.consumer.member_engine import MemberEngine
from zkgroup.consumer.telemetry import HistoryQueue
from zkgroup.errors import OffsetConflictError
from zkgroup.model import TopicPartition

Patch = pytest.MonkeyPatch


def commits_one_by_one(patch: Patch) -> None:
    """Each commit is a batch of its own, even one that needs no write."""
    real = Commits._next_batch

    def next_batch(self: Commits) -> CommitBatch:
        queue, self._queue = self._queue[1:], self._queue[:1]
        batch = real(self)
        self._queue = queue
        return batch

    patch.setattr(Commits, "_next_batch", next_batch)


def commit_behind_is_refused(patch: Patch) -> None:
    """A commit below the last one is refused, although this member itself committed the last one."""
    real = CommitBatch.choose_value

    def choose_value(self: CommitBatch, tp: TopicPartition, owned: OwnedPartition) -> None:
        for commit in self.open(tp):
            if commit.values[tp] < owned.value and commit.seeks.get(tp, 0) <= owned.sought:
                error = OffsetConflictError(f"{commit.values[tp]} would go back without a seek")
                self.refuse_one(commit, tp, error)
        real(self, tp, owned)

    patch.setattr(CommitBatch, "choose_value", choose_value)


def seek_is_lost_at_the_release(patch: Patch) -> None:
    """A position after a seek back is released like any other, so the offset never goes back."""

    def report(self: Revocations, revocation: Any, processed: Any) -> None:
        call_id = revocation.effect.call_id
        if self._open.pop(call_id, None) is not None:
            self._post(Revoked(call_id, processed.positions, processed.last_seek_id))

    patch.setattr(Revocations, "_report", report)


def seek_is_undone_by_an_older_commit(patch: Patch) -> None:
    """A position from before a seek counts as one after it."""
    real = CommitBatch.choose_value

    def choose_value(self: CommitBatch, tp: TopicPartition, owned: OwnedPartition) -> None:
        newest = max((commit.seeks.get(tp, 0) for commit in self.open(tp)), default=0)
        for commit in self.open(tp):
            commit.seeks = {**commit.seeks, tp: max(newest, owned.sought)}
        real(self, tp, owned)

    patch.setattr(CommitBatch, "choose_value", choose_value)


def release_goes_back(patch: Patch) -> None:
    """A release writes the processed position, even below the committed one."""

    def leads_to(self: OwnedPartition, position: Position) -> int:
        return position.offset

    patch.setattr(OwnedPartition, "leads_to", leads_to)


def any_on_assigned_starts(patch: Patch) -> None:
    """The end of `on_assigned` starts the partitions that it named, for any claim."""

    def started(self: Delivery, grants: Any) -> None:
        with self._subscriptions.lock:
            for state in self._subscriptions.of(grant.topic_partition for grant in grants):
                state.started = True
        self._wake_application()

    patch.setattr(Delivery, "started", started)


def recorded_under_the_lock(patch: Patch) -> None:
    """The history sink is called under the lock, where a delivery is decided."""
    patch.setattr(HistoryQueue, "add", lambda self, kind, fields: self._record(kind, fields))


def all_wait_for_one_start(patch: Patch) -> None:
    """While the start position of one partition is unknown, no partition is read."""
    real = FetchBuffer.order

    def order(self: FetchBuffer) -> FetchOrder:
        found = real(self)
        return FetchOrder(found.unresolved, {}, {}) if found.unresolved else found

    patch.setattr(FetchBuffer, "order", order)


def poll_is_not_seen(patch: Patch) -> None:
    """The member checks for a poll, is interrupted, and leaves the group because of the old result."""

    def watch_polls(self: ConsumerEngine, interval_ms: int) -> None:
        polls, now_ms = self._polls, self.engine.clock.now_ms()
        since_ms = polls.since_ms(now_ms)

        def leave() -> None:
            polls.is_overdue = True
            self.delivery.stop_draining()
            self.engine.step(PollOverdue())

        if not polls.is_overdue and now_ms - since_ms >= interval_ms:
            self.engine.call_soon(leave)  # the application's thread runs in between
        due_ms = max(since_ms, now_ms - interval_ms + 1) + interval_ms
        self.engine.call_at("poll-interval", due_ms, lambda: self._watch_polls(interval_ms))

    patch.setattr(ConsumerEngine, "_watch_polls", watch_polls)


def wake_is_forgotten(patch: Patch) -> None:
    """New records do not wake the application that waits for them."""
    real = FetchBuffer.accept

    def accept(self: FetchBuffer, order: FetchOrder, records: Any) -> None:
        wake, self._wake_application = self._wake_application, lambda: None
        real(self, order, records)
        self._wake_application = wake

    patch.setattr(FetchBuffer, "accept", accept)


def end_of_the_claim_is_the_end_of_all(patch: Patch) -> None:
    """Handing a partition back waits until no claim of it is held, instead of the end of this claim."""

    def hand_back(self: MemberEngine, partitions: Any) -> Future[None]:
        from zkgroup.consumer.machine.events import HandBackRequested

        wanted = frozenset(partitions)
        future = self.when(lambda: not (self.lease_table.current.grants.keys() & wanted))
        self.loop.request(HandBackRequested(wanted))
        return future

    patch.setattr(MemberEngine, "hand_back", hand_back)


def lease_from_the_answer(patch: Patch) -> None:
    """The lease runs from the time of the answer, not from that of the request."""
    real = SessionLease._acknowledged

    def acknowledged(self: SessionLease, sent_ms: int) -> None:
        del sent_ms
        real(self, self._context.now.ms)

    real_init: Callable[..., None] = SessionLease.__init__

    def init(self: SessionLease, context: Any, paths: Any) -> None:
        real_init(self, context, paths)
        context.on_write_acknowledged = lambda sent_ms: acknowledged(self, sent_ms)

    patch.setattr(SessionLease, "__init__", init)


def claim_without_its_topic(patch: Patch) -> None:
    """A claim does not check the versions of the topics from which it was computed."""
    from zkgroup.consumer.machine import transactions

    patch.setattr(
        transactions, "snapshot_checks", lambda topics, versions, plan: [] if plan is None else [plan]
    )
