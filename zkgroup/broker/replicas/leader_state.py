"""The progress of a leader's followers in one leader epoch, and the high watermark. Pure.

Source: kafka/cluster/Partition.scala@2.8.2, `maybeIncrementLeaderHW` and `maybeExpandIsr`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from zkgroup.broker.replica_view import Follower
from zkgroup.wire.records import NO_OFFSET


@dataclass(slots=True)
class _Progress:
    """The progress of one follower, as its leader knows it."""

    end: int | None = None
    """The follower's log end offset; None before its log has agreed with the leader's in this epoch."""
    sent: int | None = None
    """The leader's log end offset in the last answer, or in the answer that is delayed now."""
    start: int | None = None
    """The follower's log start offset, by its last fetch."""
    is_level: bool = False
    """True if its fetch reached the log end offset of the previous answer, and so the epoch's start.

    A replica that lacks records refuses to lead until it has been level with a leader, so it should not join
    the ISR earlier."""


class LeaderState:
    """The state of a leader in one leader epoch: its followers and the maximal ISR.

    The maximal ISR (KIP-497) is the union of the stored ISR, the proposed ISRs and the ISRs of unknown
    outcome; the high watermark waits for its members.
    """

    def __init__(self, broker: int, leader_epoch: int, start_offset: int) -> None:
        """`broker` is the leader; `start_offset` was its log end offset when it became leader."""
        self._broker = broker
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.others: tuple[int, ...] = ()
        """The replicas without the leader."""
        self._followers: dict[int, _Progress] = {}
        self._maximal_isr: frozenset[int] = frozenset()
        self.starts_changed = 0
        """Number of changes of followers' log start offsets since `low_watermark` was first called."""
        self._counts_starts = False

    def set_replicas(self, replicas: Collection[int]) -> None:
        """Sets the replicas; the progress of replicas that stay is kept."""
        self.others = tuple(broker for broker in replicas if broker != self._broker)
        self._followers = {broker: self._followers.get(broker, _Progress()) for broker in self.others}

    def set_maximal_isr(self, isr: Collection[int]) -> None:
        """Sets the maximal ISR."""
        self._maximal_isr = frozenset(isr) - {self._broker}

    def replicates(self, broker: int) -> bool:
        """Returns whether a follower is one of the replicas."""
        return broker in self._followers

    @property
    def maximal_isr_size(self) -> int:
        """The number of replicas that the high watermark waits for, including the leader."""
        return len(self._maximal_isr) + 1

    def in_maximal_isr(self, broker: int) -> bool:
        """Returns whether the high watermark waits for a follower."""
        return broker in self._maximal_isr

    def update_follower(
        self,
        broker: int,
        offset: int,
        log_end_offset: int,
        *,
        held: bool,
        log_start_offset: int | None = None,
    ) -> None:
        """Sets the progress of a follower whose log ends at `offset` and agrees with the leader's log.

        `log_end_offset` is the leader's, which the answer carries; `log_start_offset` the follower's. `held`:
        this answer was delayed, so the follower has received no answer since its last fetch.
        """
        follower = self._followers[broker]
        if log_start_offset != follower.start:
            follower.start = log_start_offset
            self.starts_changed += self._counts_starts
        if not held:
            follower.is_level = follower.sent is not None and offset >= follower.sent
        follower.end, follower.sent = offset, log_end_offset

    def high_watermark(self, log_end_offset: int, present: int) -> int:
        """The smallest log end offset of the maximal ISR, but not below the present high watermark.

        It is unchanged while a member has not fetched in this leader epoch.
        """
        smallest = log_end_offset
        for broker in self._maximal_isr:
            if (end := self._end(broker)) is None:
                return present
            smallest = min(smallest, end)
        return max(present, smallest)

    def low_watermark(self, log_start_offset: int, is_live: Callable[[int], bool]) -> int:
        """The smallest log start offset of the live replicas; -1 while one of them has not fetched.

        `log_start_offset` is the leader's.
        """
        self._counts_starts = True
        starts = [one.start for broker, one in self._followers.items() if is_live(broker)]
        return min([log_start_offset, *(NO_OFFSET if start is None else start for start in starts)])

    def has_lost_records(self, broker: int, high_watermark: int) -> bool:
        """Returns whether an ISR member's log ends below the high watermark: it has had those records."""
        end = self._end(broker)
        return broker in self._maximal_isr and end is not None and end < high_watermark

    def has_caught_up(self, broker: int, high_watermark: int) -> bool:
        """Returns whether a follower has every record that may be acknowledged, of any leader epoch."""
        follower = self._followers.get(broker)
        if follower is None or follower.end is None:
            return False
        return follower.is_level and follower.end >= high_watermark

    def followers(self, high_watermark: int) -> dict[int, Follower]:
        return {
            broker: Follower(
                log_end_offset=follower.end,
                caught_up=self.has_caught_up(broker, high_watermark),
                lost=self.has_lost_records(broker, high_watermark),
            )
            for broker, follower in sorted(self._followers.items())
        }

    def _end(self, broker: int) -> int | None:
        follower = self._followers.get(broker)
        return None if follower is None else follower.end
