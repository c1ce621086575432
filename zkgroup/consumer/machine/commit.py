"""Fenced commits, and what to make of an offset that is not as we left it (recipes.md 6).

One multi a batch: the registration, and for each partition the owner and the offset under the fence that
the claim (or the last commit) gave. A batch is all that waited when it began (`commit_batch`). Refused:
offsets are read back, then owners and reset markers; what does not match is dropped, the rest is sent once
more. What is refused again because of other partitions is sent a last time, each partition for itself. The
outcome is told commit by commit, and partition by partition.

The same read-back serves partitions *under review*: a reset marker has appeared, or the member was away
and must see whether its claims still stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zkgroup.consumer.effects import FinishCommit, MoveTo
from zkgroup.consumer.events import CommitRequested
from zkgroup.consumer.machine import writes
from zkgroup.consumer.machine.commit_batch import Batch, Commit
from zkgroup.consumer.machine.core import Core, tp_fields
from zkgroup.consumer.machine.lease import Lease
from zkgroup.consumer.machine.ownership import Held, Position
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
    LeaseLostError,
    NotOwnerError,
    OffsetConflictError,
)
from zkgroup.machinery.procedures import Procedure, Query, require_answers
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Multi, MultiDone, MultiRefused, NotSent, Operation, Unanswered

SENDS_MAX = 2
"""A batch is sent together, and what read-back leaves of it once more; after that each partition alone."""


class Commits:
    """Writes positions, one batch after another."""

    def __init__(self, core: Core, paths: Paths, lease: Lease, snapshot: Snapshot) -> None:
        self._core = core
        self._paths = paths
        self._lease = lease
        self._snapshot = snapshot
        self._queue: list[Commit] = []
        self._current: Batch | None = None
        """Sent and not yet told: it survives the connection that it was sent on."""
        self._unwritten: set[TopicPartition] = set()
        """Obeyed or reasserted offsets that somebody wrote over: written again, whatever ends meanwhile."""
        self.review: set[TopicPartition] = set()
        """Held partitions whose znodes must be looked at."""

    @property
    def is_ready(self) -> bool:
        return bool(self._queue or self._current or self._unwritten)

    @property
    def is_in_doubt(self) -> bool:
        return self._current is not None and self._current.is_in_doubt

    # --- asking -----------------------------------------------------------------------------------

    def request(self, event: CommitRequested) -> None:
        """Queues a commit of the application; what is plainly wrong is refused at once."""
        commit = Commit(event.commit_id, dict(event.positions), event.seeks)
        for tp in event.positions:
            error = self._objection(tp)
            if error is None and self._is_void(tp, event.last_move_id):
                error = OffsetConflictError(f"{tp} was moved or claimed anew after this position was taken")
            if error is not None:
                commit.refuse(tp, error)
        self._enqueue(commit)

    def write_positions(self, positions: Mapping[TopicPartition, Position]) -> None:
        """A commit of the machine's own: the final one of a member that leaves."""
        values = {tp: position.offset for tp, position in positions.items()}
        self._enqueue(Commit(None, values, {tp: position.seek for tp, position in positions.items()}))

    def _enqueue(self, commit: Commit) -> None:
        held = self._core.owned.held
        commit.tokens = {tp: held[tp].token for tp in commit.values}
        if commit.values:
            self._queue.append(commit)
        else:
            self._tell(commit)

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
        for commit in queue:
            for tp in list(commit.values):
                commit.refuse(tp, LeaseLostError(f"the lease of {tp} has ended"))
            self._tell(commit)

    def give_up(self, reason: str) -> None:
        """Everything is lost: told are refusals, and "unknown" for what was sent without an answer."""
        batches = [*([self._current] if self._current is not None else []), Batch(self._queue)]
        self._current, self._queue = None, []
        for batch in batches:
            for tp in batch.partitions:
                batch.refuse(tp, NotOwnerError(f"{tp}: {reason}"))
            self._tell_all(batch)
        self._unwritten.clear()
        self.review.clear()

    # --- procedures -------------------------------------------------------------------------------

    def commit(self) -> Procedure[None]:
        """All that waits, together, to its end."""
        if self._current is None:
            self._current = self._next_batch()
        batch = self._current
        if batch.is_in_doubt:
            yield from self._read_back(batch)
        for sent in range(SENDS_MAX + 1):
            if sent == SENDS_MAX:
                self._refuse_contested(batch, sorted(batch.foreign))
            self._sort_out(batch)
            if not batch.values:
                break
            if (yield from self._send(batch, alone=sent == SENDS_MAX)):
                yield from self._read_back(batch)
        self._refuse_contested(batch, batch.partitions)
        self._current = None
        self._tell_all(batch)

    def _refuse_contested(self, batch: Batch, tps: Iterable[TopicPartition]) -> None:
        """Others write them faster than we do. What they should be by the books is written again later."""
        for tp in tps:
            batch.refuse(tp, OffsetConflictError(f"the offset of {tp} is being written by somebody else"))
            held = self._core.owned.held.get(tp)
            if held is not None and held.unwritten:
                self._unwritten.add(tp)

    def _next_batch(self) -> Batch:
        held = self._core.owned.held
        again = {tp: held[tp].value for tp in sorted(self._unwritten) if tp in held and held[tp].unwritten}
        tokens = {tp: held[tp].token for tp in again}
        queue, self._queue = self._queue, []
        self._unwritten.clear()
        return Batch([Commit(None, again, tokens=tokens), *queue])

    def look_at(self) -> Procedure[None]:
        """Read back what is under review: is it ours, is it as we left it, has an operator reset it."""
        tps = sorted(tp for tp in self.review if tp in self._core.owned.held)
        if tps:
            yield from self._settle(Batch(()), tps)
        self.review.clear()

    def _sort_out(self, batch: Batch) -> None:
        """Takes out what needs no write and what must not be written (recipes.md 6)."""
        batch.values.clear()
        for tp in batch.partitions:
            held = self._core.owned.held.get(tp)
            for commit in batch.open(tp):
                error = self._objection(tp) if commit.commit_id is not None or held is None else None
                if error is None and held is not None and held.token != commit.tokens[tp]:
                    error = NotOwnerError(f"{tp} was claimed anew after this position was taken")
                if error is not None:
                    batch.refuse_one(commit, tp, error)
            if held is not None:
                batch.aim(tp, held)

    def _send(self, batch: Batch, *, alone: bool) -> Procedure[bool]:
        """Writes what is left, in as few packets as fit or one by one. True where something was refused."""
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
            for packet in writes.in_packets(groups, 0 if alone else core.request_bytes_max)
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
                "rewind": batch.sought[tp] > held[tp].sought and batch.values[tp] <= held[tp].value,
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
            batch.written(tp, held, stat.version, stat.mzxid)
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
        batch.foreign.clear()
        for tp, znodes in seen.items():
            held = self._core.owned.held.get(tp)
            if held is not None:
                self._conclude(batch, held, znodes, judge(held, batch.values.get(tp), znodes, mine))

    def _conclude(self, batch: Batch, held: Held, seen: Seen, verdict: Verdict) -> None:
        tp = held.topic_partition
        match verdict:
            case Verdict.NOT_MINE:
                self._core.lose([tp], "owner_gone")
                batch.refuse(tp, NotOwnerError(f"{tp} was taken from this member"))
            case Verdict.FENCE_BROKEN:
                self._fence_broken(tp)
                batch.refuse(tp, NotOwnerError(f"the offset znode of {tp} was deleted by somebody"))
            case Verdict.RESET:
                self._obey(held, seen)
                batch.refuse(tp, OffsetConflictError(f"the offset of {tp} was reset by an operator"))
            case Verdict.APPLIED:
                assert seen.offset is not None
                batch.written(tp, held, seen.offset.stat.version, seen.offset.stat.mzxid)
            case Verdict.FOREIGN:
                self._foreign(batch, held, seen)
            case Verdict.STANDS:
                batch.unknown.discard(tp)  # certainly not written; it is sent again

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
        held.follow(target)
        held.unwritten = found != target
        tp = held.topic_partition
        self._core.note("reset.obeyed", **tp_fields(tp), offset=target, mzxid=held.last)
        self._move(held, target, "reset")
        if held.unwritten:
            self._unwritten.add(tp)

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
            held.follow(found)
            held.last, held.unwritten = seen.offset.stat.mzxid, False
            batch.refuse(tp, OffsetConflictError(f"somebody else wrote {found} for {tp}: adopted"))
            self._move(held, found, "foreign_commit")
        else:
            batch.foreign.add(tp)
            if tp in batch.unknown and tp in batch.values:
                held.value = batch.values[tp]  # it may have stood there: nothing below it is written again
            held.unwritten = found != held.value
            if held.unwritten and tp not in batch.values:
                self._unwritten.add(tp)

    def _policy(self) -> str:
        configured = self._core.config.settings.on_foreign_commit
        if configured is not None:
            return configured
        picture = self._snapshot.picture
        return "reassert" if picture is not None and picture.has_foreign_members else "adopt"

    def _move(self, held: Held, offset: int, reason: str) -> None:
        """Tells the application, unless its lease is over already; commits of before are void."""
        tp = held.topic_partition
        error = OffsetConflictError(f"{tp} was moved to {offset} ({reason})")
        current = self._current
        if current is not None:
            current.void(tp, error)
        for commit in self._queue:
            if tp in commit.values:
                commit.refuse(tp, error)
        if tp in self._core.owned.releasing:
            self._core.owned.releasing[tp] = None
        held.moved = self._core.next_id()
        if held.ended is None:
            self._core.emit(MoveTo(tp, offset, reason, held.moved))

    def _tell_all(self, batch: Batch) -> None:
        for commit in batch.commits:
            self._tell(commit)

    def _tell(self, commit: Commit) -> None:
        if commit.commit_id is not None:
            self._core.emit(FinishCommit(commit.commit_id, commit.committed, commit.refused, commit.stands))
