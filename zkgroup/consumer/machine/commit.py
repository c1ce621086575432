"""Fenced commits, and what to make of an offset that is not as we left it (recipes.md 6).

One multi a batch: the registration, and for each partition the owner and the offset under the fence that
the claim (or the last commit) gave. Refused: offsets are read back, then owners and reset markers; what
does not match is dropped, the rest is sent once more. The outcome is told partition by partition.

The same read-back serves partitions *under review*: a reset marker has appeared, or the member was away
and must see whether its claims still stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from zkgroup.consumer.effects import FinishCommit, MoveTo
from zkgroup.consumer.events import CommitRequested
from zkgroup.consumer.machine import writes
from zkgroup.consumer.machine.core import Core, tp_fields
from zkgroup.consumer.machine.lease import Lease
from zkgroup.consumer.machine.ownership import Held
from zkgroup.consumer.machine.paths import Paths
from zkgroup.consumer.machine.readback import (
    Identity,
    Seen,
    Verdict,
    judge,
    marker_offset,
    offset_value,
    read_back,
)
from zkgroup.consumer.machine.snapshot import Snapshot
from zkgroup.errors import (
    CommitRefusedError,
    CommitUnknownError,
    LeaseLostError,
    NotOwnerError,
    OffsetConflictError,
)
from zkgroup.machinery.procedures import Procedure, Query, require_answers
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Multi, MultiDone, MultiRefused, NotSent, Operation, Unanswered

SENDS_MAX = 2
"""A batch is sent, and what read-back leaves of it once more."""


@dataclass(slots=True)
class Batch:
    """One commit: what is still to be written, and what became of the rest."""

    commit_id: int | None
    """None for a write of the machine's own (an obeyed reset that somebody wrote over)."""
    values: dict[TopicPartition, int]
    rewinds: frozenset[TopicPartition] = frozenset()
    tokens: dict[TopicPartition, int] = field(default_factory=dict)
    """The claims that the positions belong to; under another claim they are void."""
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    refused: dict[TopicPartition, CommitRefusedError] = field(default_factory=dict)
    is_in_doubt: bool = False
    """What was sent must be read back before anything else is done."""
    unknown: set[TopicPartition] = field(default_factory=set)
    """Sent without an answer, and not cleared up since: it may have been written for a moment."""

    def refuse(self, tp: TopicPartition, error: CommitRefusedError) -> None:
        self.values.pop(tp, None)
        self.refused[tp] = CommitUnknownError(f"no answer; then: {error}") if tp in self.unknown else error

    def accept(self, tp: TopicPartition, value: int) -> None:
        self.values.pop(tp, None)
        self.unknown.discard(tp)
        self.committed[tp] = value


class Commits:
    """Writes positions, one batch after another."""

    def __init__(self, core: Core, paths: Paths, lease: Lease, snapshot: Snapshot) -> None:
        self._core = core
        self._paths = paths
        self._lease = lease
        self._snapshot = snapshot
        self._queue: list[Batch] = []
        self._current: Batch | None = None
        """Sent and not yet told: it survives the connection that it was sent on."""
        self.review: set[TopicPartition] = set()
        """Held partitions whose znodes must be looked at."""

    @property
    def is_ready(self) -> bool:
        return bool(self._queue or self._current)

    @property
    def is_in_doubt(self) -> bool:
        return self._current is not None and self._current.is_in_doubt

    # --- asking -----------------------------------------------------------------------------------

    def request(self, event: CommitRequested) -> None:
        """Queues a commit of the application; what is plainly wrong is refused at once."""
        batch = Batch(event.commit_id, dict(event.positions), event.rewinds)
        for tp in event.positions:
            error = self._objection(tp)
            if error is None and self._is_void(tp, event.last_move_id):
                error = OffsetConflictError(f"{tp} was moved or claimed anew after this position was taken")
            if error is not None:
                batch.refuse(tp, error)
        self._enqueue(batch)

    def write_positions(self, values: Mapping[TopicPartition, int]) -> None:
        """A commit of the machine's own: the final one of a member that leaves."""
        self._enqueue(Batch(None, dict(values)))

    def _enqueue(self, batch: Batch) -> None:
        held = self._core.owned.held
        batch.tokens = {tp: held[tp].token for tp in batch.values}
        if batch.values:
            self._queue.append(batch)
        else:
            self._tell(batch)

    def _objection(self, tp: TopicPartition) -> CommitRefusedError | None:
        held = self._core.owned.held.get(tp)
        if held is None or held.ended is not None:
            return NotOwnerError(f"{tp} is not owned by this member")
        if self._lease.has_ended:
            return LeaseLostError(f"the lease of {tp} has ended")
        return None

    def _is_void(self, tp: TopicPartition, last_move_id: int | None) -> bool:
        """The application took this position before the lease, or before it was moved elsewhere."""
        return last_move_id is not None and self._core.owned.held[tp].moved > last_move_id

    def end_lease(self) -> None:
        """Commits not yet sent are refused: there is no commit without a lease."""
        queue, self._queue = self._queue, []
        for batch in queue:
            for tp in list(batch.values):
                batch.refuse(tp, LeaseLostError(f"the lease of {tp} has ended"))
            self._tell(batch)

    def give_up(self, reason: str) -> None:
        """Everything is lost: told are refusals, and "unknown" for what was sent without an answer."""
        batches = [*([self._current] if self._current is not None else []), *self._queue]
        self._current, self._queue = None, []
        for batch in batches:
            for tp in list(batch.values):
                batch.refuse(tp, NotOwnerError(f"{tp}: {reason}"))
            self._tell(batch)
        self.review.clear()

    # --- procedures -------------------------------------------------------------------------------

    def commit(self) -> Procedure[None]:
        """The oldest batch, to its end."""
        if self._current is None:
            self._current = self._queue.pop(0)
        batch = self._current
        if batch.is_in_doubt:
            yield from self._read_back(batch)
        for _ in range(SENDS_MAX):
            self._sort_out(batch)
            if not batch.values:
                break
            if (yield from self._send(batch)):
                yield from self._read_back(batch)
        for tp in list(batch.values):
            batch.refuse(tp, OffsetConflictError(f"the offset of {tp} is being written by somebody else"))
        self._current = None
        self._tell(batch)

    def look_at(self) -> Procedure[None]:
        """Read back what is under review: is it ours, is it as we left it, has an operator reset it."""
        tps = sorted(tp for tp in self.review if tp in self._core.owned.held)
        batch = Batch(None, {})
        if tps:
            yield from self._settle(batch, tps)
        self.review.clear()

    def _sort_out(self, batch: Batch) -> None:
        """Takes out what needs no write and what must not be written (recipes.md 6)."""
        for tp, value in list(batch.values.items()):
            held = self._core.owned.held.get(tp)
            error = self._objection(tp) if batch.commit_id is not None or held is None else None
            if error is None and held is not None and held.token != batch.tokens[tp]:
                error = NotOwnerError(f"{tp} was claimed anew after this position was taken")
            if error is not None:
                batch.refuse(tp, error)
            elif held is not None and value == held.value and not held.unwritten:
                batch.accept(tp, value)
            elif held is not None and value < held.value and tp not in batch.rewinds:
                message = f"{tp} is committed up to {held.value}; {value} would go back without a seek"
                batch.refuse(tp, OffsetConflictError(message))

    def _send(self, batch: Batch) -> Procedure[bool]:
        """Writes what is left, in as few packets as fit. True where something was refused."""
        core, held = self._core, self._core.owned.held
        groups = [
            (tp, writes.commit_operations(self._paths, held[tp], value))
            for tp, value in sorted(batch.values.items())
        ]
        packets: list[tuple[tuple[TopicPartition, ...], list[Operation]]] = [
            (
                tuple(tp for tp, _ in packet),
                [writes.guard(self._paths), *writes.flat(packet)],
            )
            for packet in writes.in_packets(groups, core.request_bytes_max)
        ]
        ids = [self._invoke(batch, tps) for tps, _ in packets]
        batch.is_in_doubt, unknown_before = True, set(batch.unknown)
        batch.unknown.update(batch.values)
        outcomes = yield tuple(Query(Multi(tuple(operations))) for _, operations in packets)
        batch.is_in_doubt = any(isinstance(outcome, (Unanswered, MultiRefused)) for outcome in outcomes)
        for (tps, operations), commit_id, outcome in zip(packets, ids, outcomes, strict=True):
            if not isinstance(outcome, Unanswered):
                batch.unknown.difference_update(set(tps) - unknown_before)
            if isinstance(outcome, MultiDone):
                self._written(batch, tps, operations, commit_id, outcome)
            else:
                self._not_written(tps, commit_id, outcome)
        require_answers(outcomes, [operations for _, operations in packets], (self._paths.own,))
        return any(isinstance(outcome, MultiRefused) for outcome in outcomes)

    def _invoke(self, batch: Batch, tps: Iterable[TopicPartition]) -> int:
        commit_id = self._core.next_id()
        held = self._core.owned.held
        rows = [
            {
                **tp_fields(tp),
                "offset": batch.values[tp],
                "fence": held[tp].fence,
                "token": held[tp].token,
                "rewind": tp in batch.rewinds,
            }
            for tp in tps
        ]
        self._core.note("commit.invoke", id=commit_id, offsets=rows)
        return commit_id

    def _written(
        self,
        batch: Batch,
        tps: Iterable[TopicPartition],
        operations: Iterable[Operation],
        commit_id: int,
        done: MultiDone,
    ) -> None:
        stats = {o.path: stat for o, stat in zip(operations, done.stats, strict=True) if stat is not None}
        rows = []
        broken = []
        for tp in tps:
            held, stat = self._core.owned.held[tp], stats[self._paths.offset(tp)]
            held.value, held.fence, held.last = batch.values[tp], stat.version, stat.mzxid
            held.unwritten = False
            batch.accept(tp, held.value)
            rows.append({**tp_fields(tp), "offset": held.value, "version": held.fence, "token": held.token})
            if stat.czxid != held.life:
                broken.append(tp)
        self._core.note("commit.ok", id=commit_id, zxid=done.zxid, offsets=rows)
        for tp in broken:
            self._fence_broken(tp)

    def _not_written(self, tps: Iterable[TopicPartition], commit_id: int, outcome: object) -> None:
        partitions = [tp_fields(tp) for tp in tps]
        match outcome:
            case MultiRefused(code=code):
                self._core.note("commit.fail", id=commit_id, partitions=partitions, reason=code.value)
            case NotSent(reason=reason):
                self._core.note("commit.fail", id=commit_id, partitions=partitions, reason=reason)
            case Unanswered(reason=reason):
                self._core.note("commit.info", id=commit_id, partitions=partitions, reason=reason)

    # --- reading back -----------------------------------------------------------------------------

    def _read_back(self, batch: Batch) -> Procedure[None]:
        yield from self._settle(batch, sorted(tp for tp in batch.values if tp in self._core.owned.held))
        batch.is_in_doubt = False

    def _settle(self, batch: Batch, tps: Iterable[TopicPartition]) -> Procedure[None]:
        session = self._core.session
        assert session is not None
        mine = Identity(self._core.config.member_id, session.session_id)
        seen = yield from read_back(self._paths, tps)
        for tp, znodes in seen.items():
            held = self._core.owned.held.get(tp)
            if held is not None:
                self._conclude(batch, held, znodes, judge(held, batch.values.get(tp), znodes, mine))

    def _conclude(self, batch: Batch, held: Held, seen: Seen, verdict: Verdict) -> None:
        tp = held.topic_partition
        match verdict:
            case Verdict.NOT_MINE:
                self._core.lose([tp], "owner_gone")
                self._refuse(batch, tp, NotOwnerError(f"{tp} was taken from this member"))
            case Verdict.FENCE_BROKEN:
                self._fence_broken(tp)
                self._refuse(batch, tp, NotOwnerError(f"the offset znode of {tp} was deleted by somebody"))
            case Verdict.RESET:
                self._obey(held, seen)
                self._refuse(batch, tp, OffsetConflictError(f"the offset of {tp} was reset by an operator"))
            case Verdict.APPLIED:
                assert seen.offset is not None
                held.value, held.fence = batch.values[tp], seen.offset.stat.version
                held.last, held.unwritten = seen.offset.stat.mzxid, False
                batch.accept(tp, held.value)
            case Verdict.FOREIGN:
                self._foreign(batch, held, seen)
            case Verdict.STANDS:
                batch.unknown.discard(tp)  # certainly not written; it is sent again

    @staticmethod
    def _refuse(batch: Batch, tp: TopicPartition, error: CommitRefusedError) -> None:
        if tp in batch.values:
            batch.refuse(tp, error)

    def _fence_broken(self, tp: TopicPartition) -> None:
        """Versions start again at 0 in a new life: the claim is given up and made anew."""
        self._core.note("fence_broken", **tp_fields(tp))
        self._core.lose([tp], "fence_broken")
        self._core.owned.leaked.add(tp)

    def _obey(self, held: Held, seen: Seen) -> None:
        """To the marker's offset, even if somebody wrote the znode after it (recipes.md 6)."""
        assert seen.marker is not None
        assert seen.offset is not None
        target, found = marker_offset(seen.marker), offset_value(seen.offset)
        held.fence, held.last = seen.offset.stat.version, seen.marker.stat.mzxid
        if target is None:
            self._core.note("poison", path=seen.marker.path, detail="no reset marker")
            target = found if found is not None else held.value
        held.value, held.unwritten = target, found != target
        tp = held.topic_partition
        self._core.note("reset.obeyed", **tp_fields(tp), offset=target, mzxid=held.last)
        self._move(held, target, "reset")
        if held.unwritten:
            self.write_positions({tp: target})

    def _foreign(self, batch: Batch, held: Held, seen: Seen) -> None:
        assert seen.offset is not None
        tp, found, policy = held.topic_partition, offset_value(seen.offset), self._policy()
        adopts = policy == "adopt" and found is not None
        self._core.note(
            "foreign_write",
            **tp_fields(tp),
            offset=found,
            version=seen.offset.stat.version,
            policy="adopt" if adopts else "reassert",
        )
        held.fence = seen.offset.stat.version
        if adopts and found is not None:
            held.value, held.last, held.unwritten = found, seen.offset.stat.mzxid, False
            self._refuse(batch, tp, OffsetConflictError(f"somebody else wrote {found} for {tp}: adopted"))
            self._move(held, found, "foreign_commit")
        else:
            if tp in batch.unknown and tp in batch.values:
                held.value = batch.values[tp]  # it may have stood there: nothing below it is written again
            held.unwritten = found != held.value
            if held.unwritten and tp not in batch.values:
                self.write_positions({tp: held.value})

    def _policy(self) -> str:
        configured = self._core.config.settings.on_foreign_commit
        if configured is not None:
            return configured
        picture = self._snapshot.picture
        return "reassert" if picture is not None and picture.has_foreign_members else "adopt"

    def _move(self, held: Held, offset: int, reason: str) -> None:
        """Tells the application, unless its lease is over already; commits of before are void."""
        tp = held.topic_partition
        for batch in [*self._queue, *([self._current] if self._current is not None else [])]:
            # Also what counts as committed in a batch that is not told yet: it is so no more.
            if tp in batch.values or batch.committed.pop(tp, None) is not None:
                batch.refuse(tp, OffsetConflictError(f"{tp} was moved to {offset} ({reason})"))
        held.moved = self._core.next_id()
        if held.ended is None:
            self._core.emit(MoveTo(tp, offset, reason, held.moved))

    def _tell(self, batch: Batch) -> None:
        if batch.commit_id is not None:
            self._core.emit(FinishCommit(batch.commit_id, dict(batch.committed), dict(batch.refused)))
