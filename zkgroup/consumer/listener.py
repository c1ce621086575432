"""What the application is told about its share of the group."""

from __future__ import annotations

from collections.abc import Sequence

from zkgroup.consumer.lease import Lease
from zkgroup.consumer.machine.events import MemberState
from zkgroup.model import TopicPartition


class RebalanceListener:
    """Base class whose methods do nothing; override what you need.

    The calls of one member run one at a time, in order, on the member's own worker thread, never on a
    ZooKeeper thread. Lists are never empty. Each call has `revoke_timeout_ms`: a call that takes longer
    is left behind, its partitions count as revoked, and later calls run on a fresh worker. An error
    ends the member: state `failed`, raised by the next call and by `close()`.
    """

    def on_assigned(self, leases: Sequence[Lease]) -> None:
        """These partitions are this member's now. Delivery of them starts when this returns."""

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """These are about to be released; still the owner: finish, acknowledge, commit. Also on `close()`."""

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """These are no longer this member's, without notice: drop what is unfinished, commit nothing."""

    def on_state(self, before: MemberState, after: MemberState, reason: str) -> None:
        """The member's state changed."""


class AsyncRebalanceListener:
    """`RebalanceListener` with coroutines, for the asyncio classes; they run on the event loop of the
    member.
    """

    async def on_assigned(self, leases: Sequence[Lease]) -> None:
        """See `RebalanceListener.on_assigned`."""

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """See `RebalanceListener.on_revoked`."""

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """See `RebalanceListener.on_lost`."""

    async def on_state(self, before: MemberState, after: MemberState, reason: str) -> None:
        """See `RebalanceListener.on_state`."""
