"""Positions that a test sets by hand, in place of a consumer's delivery.

Every partition is an endless log whose records are their own offsets. A record counts as processed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from zkgroup.consumer.machine.events import Assign, CommitRequested, FinishCommit, SeekTo
from zkgroup.consumer.member_engine import MemberEngine
from zkgroup.consumer.subscription_state import ProcessedPositions
from zkgroup.model import LeaseGrant, TopicPartition


@dataclass(slots=True)
class _Claim:
    token: int
    position: int
    """The next record to deliver; all before it are processed."""
    must_commit: bool
    """The position came from the reset policy: it is committed before the first delivery."""
    is_stopped: bool = False
    seek: int = 0
    """Number of the last seek."""


class PositionsByHand:
    """A `Share` of one member."""

    def __init__(self) -> None:
        self.engine: MemberEngine | None = None
        self.last_seek_id = 0
        self.last_commit_id = 1_000_000
        """Call ids far from those of the member's loop."""
        self._claims: dict[TopicPartition, _Claim] = {}
        self._last_seek = 0

    def assigned(self, effect: Assign) -> None:
        self.last_seek_id = effect.seek_id
        for grant in effect.grants:
            offset = grant.offset
            self._claims[grant.topic_partition] = _Claim(grant.token, offset or 0, offset is None)

    def started(self, grants: Iterable[LeaseGrant]) -> None:
        del grants

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self._claims[tp].is_stopped = True

    def drain(
        self, partitions: Iterable[TopicPartition], until_ms: int, done: Callable[[ProcessedPositions], None]
    ) -> None:
        del until_ms
        positions = {tp: self._claims[tp].position for tp in partitions if tp in self._claims}
        done(ProcessedPositions(positions, self._seeks(positions), self.last_seek_id))

    def ended(self, partitions: Iterable[TopicPartition]) -> None:
        for tp in partitions:
            self._claims.pop(tp, None)

    def extended(self) -> None:
        pass

    def seek_performed(self, seek: SeekTo) -> None:
        self.last_seek_id = seek.seek_id
        claim = self._claims.get(seek.topic_partition)
        if claim is not None:
            claim.position = max(seek.offset, 0)
            claim.must_commit = seek.offset < 0
            claim.seek = 0

    def committed(self, outcome: FinishCommit) -> None:
        for tp in outcome.committed:
            if tp in self._claims:
                self._claims[tp].must_commit = False

    def finished(self) -> None:
        self._claims.clear()

    def deliverable(self) -> list[TopicPartition]:
        """Partitions that may be delivered now."""
        assert self.engine is not None
        lease_table = self.engine.lease_table
        return [
            tp
            for tp, claim in self._claims.items()
            if lease_table.current.may_deliver(tp, claim.token, lease_table.now_ms())
            and not claim.must_commit
        ]

    def deliver(self, tp: TopicPartition) -> None:
        """Delivers and processes the next record."""
        assert self.engine is not None
        claim = self._claims[tp]
        fields = {
            "topic": tp.topic,
            "partition": tp.partition,
            "offset": claim.position,
            "token": claim.token,
            "until_ms": self.engine.lease_table.current.until_ms,
        }
        self.engine.note_delivery("deliver.start", fields)
        self.engine.note_delivery("deliver.end", fields)
        claim.position += 1

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Seeks to an offset."""
        assert self.engine is not None
        self._last_seek += 1
        claim = self._claims[tp]
        claim.position, claim.seek = offset, self._last_seek
        fields = {"topic": tp.topic, "partition": tp.partition, "offset": offset, "token": claim.token}
        self.engine.note_delivery("seek", fields)

    def commit(self, values: Mapping[TopicPartition, int] | None = None) -> CommitRequested:
        """The event that requests a commit of these partitions, or of all owned ones."""
        positions = dict(values or {tp: claim.position for tp, claim in self._claims.items()})
        self.last_commit_id += 1
        return CommitRequested(
            self.last_commit_id, positions, self._seeks(positions), last_seek_id=self.last_seek_id
        )

    def _seeks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {
            tp: self._claims[tp].seek for tp in partitions if tp in self._claims and self._claims[tp].seek
        }
