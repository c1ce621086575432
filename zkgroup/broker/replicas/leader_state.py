"""What a leader knows of its followers in one leader epoch, and the high watermark that follows. Pure.

Source: kafka/cluster/Partition.scala@2.8.2, `maybeIncrementLeaderHW` and `maybeExpandIsr`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from zkgroup.broker.replicas.replica_view import Follower


@dataclass(slots=True)
class _Progress:
    """What a leader knows of a follower."""

    end: int | None = None
    """Of its log; None before it has agreed with the leader's in this epoch."""
    sent: int | None = None
    """Where the leader's log ended in the last answer, or in the one that is being held back."""
    is_level: bool = False
    """Whether it has come as far as the last answer said, and so to the start of the epoch. One that lacks
    lines
    refuses to lead until it knows that it was level with a leader, so it should not be in the ISR before."""


class LeaderState:
    """The state of a leader in one leader epoch: its followers and the maximal ISR.

    The maximal ISR is the stored ISR with each ISR that is proposed or of unknown outcome (KIP-497's word);
    the high watermark waits for its members.
    """

    def __init__(self, broker: int, leader_epoch: int, start_offset: int) -> None:
        """`broker` is the leader; its log ended at `start_offset` when it became leader."""
        self._broker = broker
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self._followers: dict[int, _Progress] = {}
        self._maximal_isr: frozenset[int] = frozenset()

    def set_replicas(self, replicas: Collection[int]) -> None:
        """The replicas; what is known of those that stay is kept."""
        others = [broker for broker in replicas if broker != self._broker]
        self._followers = {broker: self._followers.get(broker, _Progress()) for broker in others}

    def set_maximal_isr(self, isr: Collection[int]) -> None:
        """Sets the maximal ISR."""
        self._maximal_isr = frozenset(isr) - {self._broker}

    def replicates(self, broker: int) -> bool:
        """Whether a follower is one of the replicas."""
        return broker in self._followers

    @property
    def maximal_isr_size(self) -> int:
        """How many the high watermark waits for, the leader included."""
        return len(self._maximal_isr) + 1

    def in_maximal_isr(self, broker: int) -> bool:
        """Whether the high watermark waits for a follower."""
        return broker in self._maximal_isr

    def update_follower(self, broker: int, offset: int, log_end_offset: int, *, held: bool) -> None:
        """A follower's log ends at `offset` and is the beginning of the leader's, whose end is in the answer.

        `held`: by an answer that has been held back until now, so it does not know an earlier end.
        """
        follower = self._followers[broker]
        if not held:
            follower.is_level = follower.sent is not None and offset >= follower.sent
        follower.end, follower.sent = offset, log_end_offset

    def high_watermark(self, log_end_offset: int, present: int) -> int:
        """The smallest log end offset of the maximal ISR, as far as it is above the present one.

        A member that has not fetched in this epoch holds it where it is.
        """
        smallest = log_end_offset
        for broker in self._maximal_isr:
            if (end := self._end(broker)) is None:
                return present
            smallest = min(smallest, end)
        return max(present, smallest)

    def has_lost_lines(self, broker: int, high_watermark: int) -> bool:
        """Whether an ISR member is below the high watermark: it had the lines up to there once."""
        end = self._end(broker)
        return broker in self._maximal_isr and end is not None and end < high_watermark

    def has_caught_up(self, broker: int, high_watermark: int) -> bool:
        """Whether a follower has every line that may be acknowledged, of this term and those before it."""
        follower = self._followers.get(broker)
        if follower is None or follower.end is None:
            return False
        return follower.is_level and follower.end >= high_watermark

    def followers(self, high_watermark: int) -> dict[int, Follower]:
        return {
            broker: Follower(
                log_end_offset=follower.end,
                caught_up=self.has_caught_up(broker, high_watermark),
                lost=self.has_lost_lines(broker, high_watermark),
            )
            for broker, follower in sorted(self._followers.items())
        }

    def _end(self, broker: int) -> int | None:
        follower = self._followers.get(broker)
        return None if follower is None else follower.end
