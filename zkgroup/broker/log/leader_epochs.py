"""The leader epochs of a log, each with its first offset: Kafka's `LeaderEpochFileCache`. Pure.

Sources: KIP-101, KIP-279; kafka/server/epoch/LeaderEpochFileCache.scala@2.8.2.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import NamedTuple

from zkgroup.wire.records import NO_EPOCH, EpochEnd


class EpochStart(NamedTuple):
    """The first record of a leader epoch."""

    leader_epoch: int
    start_offset: int


class LeaderEpochs(tuple[EpochStart, ...]):
    """The marks of a log, both numbers strictly ascending; a value."""

    __slots__ = ()

    @property
    def last(self) -> int:
        """The latest epoch, which may have no record yet; -1 with none."""
        return self[-1].leader_epoch if self else NO_EPOCH

    def begin(self, leader_epoch: int, offset: int) -> LeaderEpochs:
        """With an epoch that begins at the log's end. One that has got no record is forgotten.

        The same epoch again changes nothing. Raises ValueError for an earlier one.
        """
        if leader_epoch < self.last:
            raise ValueError(f"epoch {leader_epoch} cannot follow epoch {self.last}")
        if leader_epoch == self.last:
            return self
        return LeaderEpochs((*self.cut(offset), EpochStart(leader_epoch, offset)))

    def cut(self, offset: int) -> LeaderEpochs:
        """The marks of the records below an offset."""
        return LeaderEpochs(self[: bisect_left(self, offset, key=attrgetter("start_offset"))])

    def drop_before(self, offset: int) -> LeaderEpochs:
        """The marks of a log that now starts at an offset. The epoch of that offset starts there.

        Kept also where the log has no record left: the epoch is still the latest one.
        """
        first = bisect_right(self, offset, key=attrgetter("start_offset"))
        if first == 0 or self[first - 1].start_offset == offset:
            return LeaderEpochs(self[max(first - 1, 0) :])
        return LeaderEpochs((EpochStart(self[first - 1].leader_epoch, offset), *self[first:]))

    def epoch_before(self, offset: int) -> int:
        """The epoch of the record before an offset; -1 at 0."""
        index = bisect_left(self, offset, key=attrgetter("start_offset"))
        return self[index - 1].leader_epoch if index else NO_EPOCH

    def end_of(self, leader_epoch: int, log_end_offset: int) -> EpochEnd:
        """The latest epoch here that is not later than this one, and its end offset.

        For an epoch before the first one here, that epoch and the start offset of the first one: the records
        between are deleted, or there were none. (-1, 0) for no epoch, and in a log without epochs.
        """
        index = bisect_right(self, leader_epoch, key=attrgetter("leader_epoch"))
        if index == 0:
            if leader_epoch == NO_EPOCH or not self:
                return EpochEnd(NO_EPOCH, 0)
            return EpochEnd(leader_epoch, self[0].start_offset)
        end = self[index].start_offset if index < len(self) else log_end_offset
        return EpochEnd(self[index - 1].leader_epoch, end)

    def diverging(self, log_end_offset: int, last_fetched_epoch: int, offset: int) -> EpochEnd | None:
        """Returns the leader's answer to a log that ends at `offset` with a record of `last_fetched_epoch`.

        None where that log is the beginning of this one, or has no record (-1): after it was truncated fully,
        an empty log starts above 0. Else the latest epoch that both can have, and where it ends here.
        """
        if offset == 0 or last_fetched_epoch == NO_EPOCH:
            return None
        end = self.end_of(last_fetched_epoch, log_end_offset)
        if end.leader_epoch == last_fetched_epoch and end.end_offset >= offset:
            return None
        return end

    def cut_point(self, log_end_offset: int, diverging: EpochEnd) -> int:
        """Returns the offset of a follower's cut: the smaller end of that epoch, its own or the leader's."""
        return min(self.end_of(diverging.leader_epoch, log_end_offset).end_offset, diverging.end_offset)
