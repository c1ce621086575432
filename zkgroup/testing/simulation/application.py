"""What an application does with its leases: deliver, process, commit, be called back. No threads, no files.

Every partition is an endless log whose records are their own offsets. A record counts as processed once
its delivery has ended. The shell's part is played here too: what may be delivered when, by lease and
revocation, exactly as effects.py says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from zkgroup.consumer.effects import Assign, MoveTo, Revoke
from zkgroup.consumer.events import CommitRequested, Revoked
from zkgroup.errors import CommitResult
from zkgroup.model import TopicPartition

Record = Callable[..., None]


@dataclass(slots=True)
class _Lease:
    token: int
    position: int
    """The next record to deliver; all before it are processed."""
    must_commit: bool
    """The position came from the reset policy: it is committed before the first delivery."""
    is_stopped: bool = False
    seek: int = 0
    """Number of the last seek."""


class Application:
    """One member's consumer loop, in steps that the scheduler chooses."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._leases: dict[TopicPartition, _Lease] = {}
        self._until_ms = 0
        self._last_move = 0
        self._last_commit = 0
        self._last_seek = 0
        self._open: dict[int, dict[TopicPartition, int]] = {}
        """Commits under way, with the tokens their positions were processed under (none for a test's own)."""
        self._calls: dict[int, Revoke] = {}
        self.results: list[CommitResult] = []
        self.on_committed: Callable[[Mapping[TopicPartition, int]], None] = lambda committed: None
        self.deliveries = 0

    # --- effects ----------------------------------------------------------------------------------

    def assign(self, effect: Assign) -> None:
        self._last_move = effect.move_id
        for grant in effect.grants:
            offset = grant.offset
            self._leases[grant.topic_partition] = _Lease(grant.token, offset or 0, offset is None)

    def extend(self, until_ms: int) -> None:
        self._until_ms = until_ms

    def revoke(self, effect: Revoke) -> None:
        self._calls[effect.call_id] = effect
        for tp in effect.partitions:
            self._leases[tp].is_stopped = True

    def end(self, partitions: tuple[TopicPartition, ...]) -> None:
        for tp in partitions:
            self._leases.pop(tp, None)

    def end_call(self, call_id: int, partitions: tuple[TopicPartition, ...]) -> None:
        self._calls.pop(call_id, None)
        self.end(partitions)

    def move(self, effect: MoveTo) -> None:
        self._last_move = effect.move_id
        lease = self._leases.get(effect.topic_partition)
        if lease is not None:
            lease.position = max(effect.offset, 0)
            lease.must_commit = effect.offset < 0
            lease.seek = 0

    def committed(self, commit_id: int, result: CommitResult, stands: Mapping[TopicPartition, int]) -> None:
        self.results.append(result)
        self.on_committed(stands)
        tokens = self._open.pop(commit_id)
        for tp, value in result.committed.items():
            lease = self._leases.get(tp)
            if lease is None:
                continue
            lease.must_commit = False
            if lease.token == tokens.get(tp) and not lease.seek:
                # A position from before a reset would show here: what it counts is not processed any more.
                assert value <= lease.position, f"{tp} committed at {value}, processed up to {lease.position}"
                assert value <= stands[tp], f"{tp} committed at {value}, stands at {stands[tp]}"

    # --- steps ------------------------------------------------------------------------------------

    def deliverable(self, now_ms: int) -> list[TopicPartition]:
        if now_ms >= self._until_ms:
            return []
        return [tp for tp, lease in self._leases.items() if not lease.is_stopped and not lease.must_commit]

    def deliver(self, tp: TopicPartition) -> None:
        lease = self._leases[tp]
        fields = {
            "topic": tp.topic,
            "partition": tp.partition,
            "offset": lease.position,
            "token": lease.token,
        }
        self._record("deliver.start", **fields, until_ms=self._until_ms)
        self._record("deliver.end", **fields, until_ms=self._until_ms)
        lease.position += 1
        self.deliveries += 1

    @property
    def owned(self) -> list[TopicPartition]:
        return list(self._leases)

    @property
    def open_commits(self) -> int:
        return len(self._open)

    @property
    def open_calls(self) -> list[int]:
        return list(self._calls)

    def commit(self, partitions: Mapping[TopicPartition, int] | None = None) -> CommitRequested | None:
        """Positions of everything owned (or those given), as the machine is to be asked for."""
        positions = dict(partitions or {tp: lease.position for tp, lease in self._leases.items()})
        if not positions:
            return None
        self._last_commit += 1
        own = positions if partitions is None else {}
        self._open[self._last_commit] = {tp: self._leases[tp].token for tp in own}
        return CommitRequested(self._last_commit, positions, self._seeks(positions), self._last_move)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Goes on from here, back or forward."""
        self._last_seek += 1
        lease = self._leases[tp]
        lease.position, lease.seek = offset, self._last_seek
        self._record("seek", topic=tp.topic, partition=tp.partition, offset=offset, token=lease.token)

    def _seeks(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {
            tp: self._leases[tp].seek for tp in partitions if tp in self._leases and self._leases[tp].seek
        }

    def answer_call(self, call_id: int) -> Revoked:
        """The callback returns: positions of what it was called for."""
        effect = self._calls.pop(call_id)
        positions = {tp: self._leases[tp].position for tp in effect.partitions if tp in self._leases}
        return Revoked(call_id, positions, self._last_move, self._seeks(positions))
