"""What this member may do now, as a snapshot that any thread reads without a lock.

The thread that owns the member publishes a new immutable `Holdings` for every change; a delivery
thread reads one reference and decides on that. The deadline in it is counted from the *send* time of
the last acknowledged quorum write (recipes 9), so it ends before any server can end the session.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from zkgroup.errors import LeaseLostError
from zkgroup.model import LeaseGrant, TopicPartition
from zkgroup.model.ports import Clock


@dataclass(frozen=True, slots=True)
class HeldLeases:
    """All grants of a member at one moment, and until when they may be used."""

    until_ms: int = 0
    grants: Mapping[TopicPartition, LeaseGrant] = field(default_factory=dict)
    stopped: frozenset[TopicPartition] = frozenset()
    """Still held, but being revoked: commits are allowed, deliveries are not."""
    move_id: int = 0
    """`move_id` of the last `Assign` or `SeekTo` carried out."""
    gaps: int = 0
    """How often the lease had run out when it was extended."""

    def may_commit(self, topic_partition: TopicPartition, token: int, now_ms: int) -> bool:
        grant = self.grants.get(topic_partition)
        return grant is not None and grant.token == token and now_ms < self.until_ms

    def may_deliver(self, topic_partition: TopicPartition, token: int, now_ms: int) -> bool:
        return topic_partition not in self.stopped and self.may_commit(topic_partition, token, now_ms)


class LeaseTable:
    """Where the member's thread publishes `Holdings`. Written by that thread only, read by all."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pid = os.getpid()
        self.current = HeldLeases()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    @property
    def forked(self) -> bool:
        """True in a process forked from the one that holds the session: nothing is leased there."""
        return os.getpid() != self._pid

    def grant(self, grants: Iterable[LeaseGrant], move_id: int = 0) -> None:
        new = {grant.topic_partition: grant for grant in grants}
        before = self.current
        self.current = replace(
            before,
            grants={**before.grants, **new},
            stopped=before.stopped - new.keys(),
            move_id=max(before.move_id, move_id),
        )

    def moved(self, move_id: int) -> None:
        """An offset of another client's is obeyed."""
        self.current = replace(self.current, move_id=max(self.current.move_id, move_id))

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
        """Nothing is held any more (closed, failed, session over)."""
        self.current = HeldLeases()


class Lease:
    """The right to work on one partition, for as long as it is valid.

    All members are safe to use from any thread. A lease that has ended never becomes valid again;
    one that only paused (the connection is away for longer than the lease) does, with the same token.
    """

    __slots__ = ("_grant", "_lease_table")

    def __init__(self, grant: LeaseGrant, lease_table: LeaseTable) -> None:
        self._grant = grant
        self._lease_table = lease_table

    @property
    def topic_partition(self) -> TopicPartition:
        return self._grant.topic_partition

    @property
    def topic(self) -> str:
        return self._grant.topic_partition.topic

    @property
    def partition(self) -> int:
        return self._grant.topic_partition.partition

    @property
    def thread(self) -> int:
        """Number of the owning thread (stream) of this member, from 0."""
        return self._grant.thread

    @property
    def token(self) -> int:
        """The owner znode's czxid. It only ever grows for a partition; give it to your store."""
        return self._grant.token

    @property
    def offset(self) -> int | None:
        """Position to start from, as written with the claim; None where nothing was ever committed."""
        return self._grant.offset

    @property
    def is_valid(self) -> bool:
        """True while this member may work on the partition and commit for it."""
        lease_table = self._lease_table
        return not lease_table.forked and lease_table.current.may_commit(
            self.topic_partition, self.token, lease_table.now_ms()
        )

    @property
    def remaining_ms(self) -> int:
        """Time for which the lease is valid if nothing more is heard from ZooKeeper; 0 when it is not."""
        holdings, now_ms = self._lease_table.current, self._lease_table.now_ms()
        if self._lease_table.forked or not holdings.may_commit(self.topic_partition, self.token, now_ms):
            return 0
        return holdings.until_ms - now_ms

    def check(self) -> None:
        """Raises `LeaseLostError` unless the lease is valid."""
        if not self.is_valid:
            raise LeaseLostError(f"{self.topic_partition}: the lease with token {self.token} is over")

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Raises `LeaseLostError` at the start, or at the end when the lease ran out meanwhile.

        Also when it is valid again by then: part of the body was done without it. An error of the body
        goes through unchanged.
        """
        self.check()
        gaps = self._lease_table.current.gaps
        yield
        self.check()
        if self._lease_table.current.gaps != gaps:
            raise LeaseLostError(f"{self.topic_partition}: the lease had run out for a while")

    def __repr__(self) -> str:
        return (
            f"Lease({self.topic_partition}, thread={self.thread}, token={self.token}, valid={self.is_valid})"
        )
