"""The leases of a member, immutable snapshots that any thread reads without a lock, and its `DeliveryPort`.

The member's thread publishes a new `HeldLeases` for every change; a delivery thread reads one reference and
decides by it. Its deadline is counted from the *send* time of the last acknowledged quorum write (leases,
recipes 9), so it ends before any server can end the session.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from zkgroup.consumer.machine.events import Assign, FinishCommit, SeekTo
from zkgroup.errors import LeaseLostError
from zkgroup.model import LeaseGrant, TopicPartition
from zkgroup.model.ports import Clock


@dataclass(frozen=True, slots=True)
class HeldLeases:
    """All lease grants of a member at one moment, and the end of the lease."""

    until_ms: int = 0
    grants: Mapping[TopicPartition, LeaseGrant] = field(default_factory=dict)
    stopped: frozenset[TopicPartition] = frozenset()
    """Owned partitions that are being revoked: commits are allowed, deliveries are not."""
    seek_id: int = 0
    """`seek_id` of the last `Assign` or `SeekTo` performed."""
    gaps: int = 0
    """Number of times that the lease had run out when it was extended."""

    def may_commit(self, topic_partition: TopicPartition, token: int, now_ms: int) -> bool:
        grant = self.grants.get(topic_partition)
        return grant is not None and grant.token == token and now_ms < self.until_ms

    def may_deliver(self, topic_partition: TopicPartition, token: int, now_ms: int) -> bool:
        return topic_partition not in self.stopped and self.may_commit(topic_partition, token, now_ms)


class LeaseTable:
    """The published leases of a member. Written by the member's thread only, read by all."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pid = os.getpid()
        self.current = HeldLeases()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    @property
    def forked(self) -> bool:
        """Returns whether this process was forked from the one with the session: no lease is valid here."""
        return os.getpid() != self._pid

    def grant(self, grants: Iterable[LeaseGrant], seek_id: int = 0) -> None:
        new = {grant.topic_partition: grant for grant in grants}
        before = self.current
        self.current = replace(
            before,
            grants={**before.grants, **new},
            stopped=before.stopped - new.keys(),
            seek_id=max(before.seek_id, seek_id),
        )

    def seek_performed(self, seek_id: int) -> None:
        """Notes a performed `SeekTo`."""
        self.current = replace(self.current, seek_id=max(self.current.seek_id, seek_id))

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        before = self.current
        self.current = replace(before, stopped=before.stopped | (before.grants.keys() & set(partitions)))

    def end(self, partitions: Iterable[TopicPartition]) -> None:
        before, gone = self.current, frozenset(partitions)
        kept = {tp: grant for tp, grant in before.grants.items() if tp not in gone}
        self.current = replace(before, grants=kept, stopped=before.stopped - gone)

    def extend(self, until_ms: int) -> None:
        before = self.current
        ran_out = self._clock.now_ms() >= before.until_ms
        self.current = replace(before, until_ms=until_ms, gaps=before.gaps + ran_out)

    def clear(self) -> None:
        """Ends all leases (closed, failed, session lost)."""
        self.current = HeldLeases()


class Lease:
    """The right to work on one partition, as long as it is valid.

    All methods may be called from any thread. A lease that has ended never becomes valid again; one that was
    only suspended (the connection was lost for longer than the lease) does, with the same token.
    """

    __slots__ = ("_grant", "_lease_table")

    def __init__(self, grant: LeaseGrant, lease_table: LeaseTable) -> None:
        """Made by a member: `GroupMember.leases`, `GroupMember.lease` and `RebalanceListener.on_assigned`.

        Args:
            grant: the accepted claim.
            lease_table: the leases of the member.
        """
        self._grant = grant
        self._lease_table = lease_table

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that the lease is for."""
        return self._grant.topic_partition

    @property
    def topic(self) -> str:
        """The name of the partition's topic."""
        return self._grant.topic_partition.topic

    @property
    def partition(self) -> int:
        """The partition number, from 0."""
        return self._grant.topic_partition.partition

    @property
    def thread(self) -> int:
        """Number of the owning thread (stream) of this member, from 0."""
        return self._grant.thread

    @property
    def token(self) -> int:
        """The fencing token: the owner znode's czxid, which only grows for a partition."""
        return self._grant.token

    @property
    def offset(self) -> int | None:
        """Position to start from, as written with the claim; None if no offset was ever committed."""
        return self._grant.offset

    @property
    def is_valid(self) -> bool:
        """Returns whether this member may work on the partition and commit for it now."""
        lease_table = self._lease_table
        return not lease_table.forked and lease_table.current.may_commit(
            self.topic_partition, self.token, lease_table.now_ms()
        )

    @property
    def remaining_ms(self) -> int:
        """Milliseconds for which the lease is valid without another acknowledged write; 0 if it is not."""
        holdings, now_ms = self._lease_table.current, self._lease_table.now_ms()
        if self._lease_table.forked or not holdings.may_commit(self.topic_partition, self.token, now_ms):
            return 0
        return holdings.until_ms - now_ms

    def check(self) -> None:
        """Raises `LeaseLostError` unless the lease is valid."""
        if not self.is_valid:
            raise LeaseLostError(f"{self.topic_partition}: the lease with token {self.token} has ended")

    @contextmanager
    def guard(self) -> Iterator[None]:
        """A context that raises `LeaseLostError` at its start, or at its end if the lease ran out meanwhile.

        It raises also if the lease is valid again by then: part of the body ran without it. An error of the
        body is raised unchanged.
        """
        self.check()
        gaps = self._lease_table.current.gaps
        yield
        self.check()
        if self._lease_table.current.gaps != gaps:
            raise LeaseLostError(f"{self.topic_partition}: the lease was not valid during the whole guard")

    def __repr__(self) -> str:
        return (
            f"Lease({self.topic_partition}, thread={self.thread}, token={self.token}, valid={self.is_valid})"
        )


@dataclass(frozen=True, slots=True)
class ProcessedPositions:
    """Processed positions that are not committed yet."""

    positions: Mapping[TopicPartition, int]
    seeks: Mapping[TopicPartition, int] = field(default_factory=dict)
    """As in `CommitRequested`."""
    last_seek_id: int | None = None
    """`seek_id` of the last `Assign` or `SeekTo` performed before these were taken; None: all were."""


class DeliveryPort:
    """A delivery as a member's engine uses it; this one, of members without records, does nothing."""

    def assigned(self, effect: Assign) -> None:
        """Takes granted claims; nothing is delivered before `started`."""

    def started(self, grants: Iterable[LeaseGrant]) -> None:
        """Starts delivery of these claims: their `on_assigned` has returned."""

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        """Stops delivery of these partitions; delivered records may still be acknowledged."""

    def drain(
        self,
        partitions: Iterable[TopicPartition],
        until_ms: int,
        done: Callable[[ProcessedPositions], None],
    ) -> None:
        """Calls `done` with the positions to commit once all records are acknowledged, or at `until_ms`."""
        done(ProcessedPositions({}))

    def ended(self, partitions: Iterable[TopicPartition]) -> None:
        """Drops partitions that are no longer owned."""

    def extended(self) -> None:
        """Continues delivery that waited for the lease: it was extended."""

    def seek_performed(self, seek: SeekTo) -> None:
        """Drops buffered records and continues from the offset given; a negative one: by the reset policy."""

    def committed(self, outcome: FinishCommit) -> None:
        """Takes the outcome of a commit."""

    def finished(self) -> None:
        """Wakes all calls that wait for records: the member has ended."""
