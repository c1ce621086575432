"""Fenced commits, and the handling of offsets that another client has changed (commits, recipes 6).

A batch is one multi: it checks the registration and, for each partition, the owner, and writes the offset
under the fence (data version) of the claim or of the last commit. If the multi is refused, offsets are read
back, then owners and reset markers; partitions that do not match are dropped, and the rest is sent once more.
Partitions that are refused again because of others are sent a last time, each alone. The outcome is reported
for each commit and each partition.

Partitions *under review* are read back in the same way: a reset marker has appeared, or the connection was
lost and the member must verify its claims.

`CommitBatch` contains the commits that are written together: all that wait when the write before has ended.
Of several commits of one partition only the result is written: the highest offset, or the position of a later
seek. The others are committed with it. So waiting commits cost no requests, and tasks that each commit their
own record may end in any order.

`ResetWatch` is the child watch of every member on `resets`. A tool writes the offset, and deletes and creates
the marker, in one multi, so the watch fires even if there was a marker before. The owner of a marked
partition, also an idle one, reads the marker and applies the reset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from zkgroup.consumer.machine import transactions
from zkgroup.consumer.machine.commit_history import CommitHistory
from zkgroup.consumer.machine.commit_rate import CommitRate
from zkgroup.consumer.machine.events import CommitRequested, FinishCommit, SeekTo
from zkgroup.consumer.machine.group_snapshot import GroupSnapshotReader
from zkgroup.consumer.machine.machine_context import (
    NO_POSITION_FLOOR,
    GroupPaths,
    MemberContext,
    OwnedPartition,
    Position,
    tp_fields,
)
from zkgroup.consumer.machine.membership import SessionLease
from zkgroup.consumer.machine.transactions import (
    MemberIdentity,
    PartitionZnodes,
    WriteVerdict,
    classify,
    marker_offset,
    offset_value,
    read_back,
)
from zkgroup.errors import (
    CommitRefusedError,
    CommitUnknownError,
    LeaseLostError,
    NotOwnerError,
    OffsetConflictError,
)
from zkgroup.model import TopicPartition
from zkgroup.model.requests import (
    ListChildren,
    Multi,
    MultiDone,
    MultiRefused,
    NotSent,
    Operation,
    Unanswered,
)
from zkgroup.runtime.events import Watch
from zkgroup.runtime.procedures import Procedure, Query, ask, list_done, require_answers
from zkgroup.znodes.group_records import Reset

SENDS_MAX = 2
"""Times that a batch is sent as a whole, with a read-back in between; after that each partition alone."""


class Commits:
    """Writes positions, one batch after another."""

    def __init__(
        self,
        context: MemberContext,
        paths: GroupPaths,
        lease: SessionLease,
        snapshot: GroupSnapshotReader,
        history: CommitHistory,
    ) -> None:
        self._context = context
        self._paths = paths
        self._lease = lease
        self._snapshot = snapshot
        self._history = history
        self._rate = CommitRate(context, snapshot)
        self._queue: list[PendingCommit] = []
        self._current: CommitBatch | None = None
        """The batch that was sent and is not finished; it survives the connection that it was sent on."""
        self._unwritten: set[TopicPartition] = set()
        """Partitions whose applied or reasserted offset another client overwrote: it is written again."""
        self.review: set[TopicPartition] = set()
        """Owned partitions whose znodes must be read back."""

    @property
    def is_ready(self) -> bool:
        return bool(self._queue or self._current or self._unwritten)

    @property
    def is_due(self) -> bool:
        """Returns whether a batch has begun, or may begin by the group's rate of commits."""
        return self.is_ready and (self._current is not None or self._rate.has_turn)

    @property
    def has_unknown_outcome(self) -> bool:
        return self._current is not None and self._current.has_unknown_outcome

    def request(self, event: CommitRequested) -> None:
        """Queues a commit of the application; refuses invalid partitions at once."""
        commit = PendingCommit(event.commit_id, dict(event.positions), event.seeks)
        for tp in event.positions:
            error = self._objection(tp)
            if error is None and self._is_void(tp, event.last_seek_id):
                error = OffsetConflictError(f"{tp} was moved or claimed anew after this position was taken")
            if error is not None:
                commit.refuse(tp, error)
        self._enqueue(commit)

    def write_positions(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Queues a commit of the machine itself: the final one of a member that leaves."""
        values = {tp: position.offset for tp, position in positions.items()}
        self._enqueue(PendingCommit(None, values, {tp: position.seek for tp, position in positions.items()}))

    def _enqueue(self, commit: PendingCommit) -> None:
        owned = self._context.owned.partitions
        commit.tokens = {tp: owned[tp].token for tp in commit.values}
        if commit.values:
            self._queue.append(commit)
        else:
            self._finish(commit)

    def _objection(self, tp: TopicPartition) -> CommitRefusedError | None:
        owned = self._context.owned.partitions.get(tp)
        if owned is None or owned.ended is not None:
            return NotOwnerError(f"{tp} is not owned by this member")
        if self._lease.has_ended:
            return LeaseLostError(f"the lease of {tp} has ended")
        return None

    def _is_void(self, tp: TopicPartition, last_seek_id: int | None) -> bool:
        """Returns whether the position is from before the present lease, or from before a `SeekTo`."""
        return last_seek_id is not None and self._context.owned.partitions[tp].position_epoch > last_seek_id

    def end_lease(self) -> None:
        """Refuses commits that are not sent yet: there is no commit without a lease."""
        queue, self._queue = self._queue, []
        for commit in queue:
            for tp in list(commit.values):
                commit.refuse(tp, LeaseLostError(f"the lease of {tp} has ended"))
            self._finish(commit)

    def give_up(self, reason: str) -> None:
        """Refuses all commits, or reports those without a reply as unknown: the claims are lost."""
        batches = [*([self._current] if self._current is not None else []), CommitBatch(self._queue)]
        self._current, self._queue = None, []
        for batch in batches:
            for tp in batch.partitions:
                batch.refuse(tp, NotOwnerError(f"{tp}: {reason}"))
            self._finish_all(batch)
        self._unwritten.clear()
        self.review.clear()

    def commit(self) -> Procedure[None]:
        """Writes all commits that wait, as one batch, until each has its outcome."""
        if self._current is None:
            self._current = self._next_batch()
        batch = self._current
        if batch.has_unknown_outcome:
            yield from self._read_back(batch)
        if self._history.is_kept:
            yield from self._history.read(batch.partitions)
        for sent in range(SENDS_MAX + 1):
            if sent == SENDS_MAX:
                self._refuse_contested(batch, sorted(batch.foreign))
            self._drop_unneeded(batch)
            if not batch.values:
                break
            if (yield from self._send(batch, alone=sent == SENDS_MAX)):
                yield from self._read_back(batch)
        self._refuse_contested(batch, batch.partitions)
        self._current = None
        self._finish_all(batch)

    def _refuse_contested(self, batch: CommitBatch, tps: Iterable[TopicPartition]) -> None:
        """Refuses partitions that other clients write faster; their offsets are written again later."""
        for tp in tps:
            batch.refuse(tp, OffsetConflictError(f"another client keeps writing the offset of {tp}"))
            owned = self._context.owned.partitions.get(tp)
            if owned is not None and owned.write_pending:
                self._unwritten.add(tp)

    def _next_batch(self) -> CommitBatch:
        owned = self._context.owned.partitions
        again = {
            tp: owned[tp].value for tp in sorted(self._unwritten) if tp in owned and owned[tp].write_pending
        }
        tokens = {tp: owned[tp].token for tp in again}
        queue, self._queue = self._queue, []
        self._unwritten.clear()
        return CommitBatch([PendingCommit(None, again, tokens=tokens), *queue])

    def read_reviewed(self) -> Procedure[None]:
        """Reads the partitions under review: the owner, the offset, and whether an operator reset it."""
        tps = sorted(tp for tp in self.review if tp in self._context.owned.partitions)
        if tps:
            yield from self._resolve(CommitBatch(()), tps)
        self.review.clear()

    def _drop_unneeded(self, batch: CommitBatch) -> None:
        """Removes partitions that need no write and those that must not be written (commits, recipes 6)."""
        batch.values.clear()
        for tp in batch.partitions:
            owned = self._context.owned.partitions.get(tp)
            for commit in batch.open(tp):
                error = self._objection(tp) if commit.commit_id is not None or owned is None else None
                if error is None and owned is not None and owned.token != commit.tokens[tp]:
                    error = NotOwnerError(f"{tp} was claimed anew after this position was taken")
                if error is not None:
                    batch.refuse_one(commit, tp, error)
            if owned is not None:
                batch.choose_value(tp, owned)

    def _send(self, batch: CommitBatch, *, alone: bool) -> Procedure[bool]:
        """Writes the batch, in as few packets as fit or one by one; whether any write was refused."""
        context, owned = self._context, self._context.owned.partitions
        groups = [
            (tp, transactions.commit_operations(self._paths, owned[tp], value))
            for tp, value in sorted(batch.values.items())
        ]
        if self._history.is_kept:
            for tp, operations in groups:
                operations += self._history.operations(owned[tp], batch.values[tp])
        packets: list[tuple[tuple[TopicPartition, ...], list[Operation]]] = [
            (
                tuple(tp for tp, _ in packet),
                [transactions.guard(self._paths), *transactions.flat(packet)],
            )
            for packet in transactions.in_packets(groups, 0 if alone else context.request_bytes_max)
        ]
        ids = [self._invoke(batch, tps) for tps, _ in packets]
        self._rate.sent(len(packets))
        batch.has_unknown_outcome, unknown_before = True, set(batch.unknown)
        batch.unknown.update(batch.values)
        outcomes = yield tuple(Query(Multi(tuple(operations))) for _, operations in packets)
        batch.has_unknown_outcome = any(
            isinstance(outcome, (Unanswered, MultiRefused)) for outcome in outcomes
        )
        for (tps, operations), commit_id, outcome in zip(packets, ids, outcomes, strict=True):
            if not isinstance(outcome, Unanswered):
                batch.unknown.difference_update(set(tps) - unknown_before)
            if isinstance(outcome, MultiDone):
                if self._history.is_kept:
                    self._history.written(operations)
                self._written(batch, tps, operations, commit_id, outcome)
            else:
                self._not_written(tps, commit_id, outcome)
        answers, sent = list(outcomes), [operations for _, operations in packets]
        if self._history.is_kept:
            answers, sent = self._history.others(outcomes, sent)
        require_answers(answers, sent, (self._paths.own,))
        return any(isinstance(outcome, MultiRefused) for outcome in outcomes)

    def _invoke(self, batch: CommitBatch, tps: Iterable[TopicPartition]) -> int:
        commit_id = self._context.next_id()
        owned = self._context.owned.partitions
        rows = [
            {
                **tp_fields(tp),
                "offset": batch.values[tp],
                "fence": owned[tp].fence,
                "token": owned[tp].token,
                "rewind": batch.sought[tp] > owned[tp].sought and batch.values[tp] <= owned[tp].value,
            }
            for tp in tps
        ]
        self._context.note("commit.invoke", id=commit_id, offsets=rows)
        return commit_id

    def _written(
        self,
        batch: CommitBatch,
        tps: Iterable[TopicPartition],
        operations: Iterable[Operation],
        commit_id: int,
        done: MultiDone,
    ) -> None:
        stats = {o.path: stat for o, stat in zip(operations, done.stats, strict=True) if stat is not None}
        rows = []
        broken = []
        for tp in tps:
            owned, stat = self._context.owned.partitions[tp], stats[self._paths.offset(tp)]
            batch.written(tp, owned, stat.version, stat.mzxid)
            rows.append(
                {**tp_fields(tp), "offset": owned.value, "version": owned.fence, "token": owned.token}
            )
            if stat.czxid != owned.offset_czxid:
                broken.append(tp)
        self._context.note("commit.ok", id=commit_id, zxid=done.zxid, offsets=rows)
        for tp in broken:
            self._fence_broken(tp)

    def _not_written(self, tps: Iterable[TopicPartition], commit_id: int, outcome: object) -> None:
        partitions = [tp_fields(tp) for tp in tps]
        match outcome:
            case MultiRefused(code=code):
                self._context.note("commit.fail", id=commit_id, partitions=partitions, reason=code.value)
            case NotSent(reason=reason):
                self._context.note("commit.fail", id=commit_id, partitions=partitions, reason=reason)
            case Unanswered(reason=reason):
                self._context.note("commit.info", id=commit_id, partitions=partitions, reason=reason)

    def _read_back(self, batch: CommitBatch) -> Procedure[None]:
        yield from self._resolve(
            batch, sorted(tp for tp in batch.values if tp in self._context.owned.partitions)
        )
        batch.has_unknown_outcome = False

    def _resolve(self, batch: CommitBatch, tps: Iterable[TopicPartition]) -> Procedure[None]:
        session = self._context.session
        assert session is not None
        mine = MemberIdentity(self._context.config.member_id, session.session_id)
        seen = yield from read_back(self._paths, tps)
        batch.foreign.clear()
        for tp, znodes in seen.items():
            owned = self._context.owned.partitions.get(tp)
            if owned is not None:
                self._conclude(batch, owned, znodes, classify(owned, batch.values.get(tp), znodes, mine))

    def _conclude(
        self, batch: CommitBatch, owned: OwnedPartition, seen: PartitionZnodes, verdict: WriteVerdict
    ) -> None:
        tp = owned.topic_partition
        match verdict:
            case WriteVerdict.NOT_MINE:
                self._context.lose([tp], "owner_gone")
                batch.refuse(tp, NotOwnerError(f"{tp} was taken from this member"))
            case WriteVerdict.FENCE_BROKEN:
                self._fence_broken(tp)
                batch.refuse(tp, NotOwnerError(f"another client deleted the offset znode of {tp}"))
            case WriteVerdict.RESET:
                self._apply_reset(owned, seen)
                batch.refuse(tp, OffsetConflictError(f"the offset of {tp} was reset by an operator"))
            case WriteVerdict.APPLIED:
                assert seen.offset is not None
                batch.written(tp, owned, seen.offset.stat.version, seen.offset.stat.mzxid)
            case WriteVerdict.FOREIGN:
                self._foreign(batch, owned, seen)
            case WriteVerdict.UNCHANGED:
                batch.unknown.discard(tp)  # certainly not written; it is sent again

    def _fence_broken(self, tp: TopicPartition) -> None:
        """Gives the claim up and makes it anew: the offset znode was re-created, so versions start at 0."""
        self._context.note("fence_broken", **tp_fields(tp))
        self._context.lose([tp], "fence_broken")
        self._context.owned.orphaned.add(tp)

    def _apply_reset(self, owned: OwnedPartition, seen: PartitionZnodes) -> None:
        """Moves to the marker's offset, even if another client wrote the znode after it."""
        assert seen.marker is not None
        assert seen.offset is not None
        target, found = marker_offset(seen.marker), offset_value(seen.offset)
        owned.fence, owned.last_mzxid = seen.offset.stat.version, seen.marker.stat.mzxid
        if target is None:
            self._context.note("corrupt_znode", path=seen.marker.path, detail="no reset marker")
            target = found if found is not None else owned.value
        owned.follow(target)
        owned.write_pending = found != target
        tp = owned.topic_partition
        self._context.note("reset.applied", **tp_fields(tp), offset=target, mzxid=owned.last_mzxid)
        self._seek(owned, target, "reset")
        if owned.write_pending:
            self._unwritten.add(tp)

    def _foreign(self, batch: CommitBatch, owned: OwnedPartition, seen: PartitionZnodes) -> None:
        assert seen.offset is not None
        tp, found, policy = owned.topic_partition, offset_value(seen.offset), self._policy()
        adopts = policy == "adopt" and found is not None
        self._context.note(
            "foreign_write",
            **tp_fields(tp),
            offset=found,
            version=seen.offset.stat.version,
            policy="adopt" if adopts else "reassert",
        )
        owned.fence = seen.offset.stat.version
        if adopts and found is not None:
            owned.follow(found)
            owned.last_mzxid, owned.write_pending = seen.offset.stat.mzxid, False
            batch.refuse(tp, OffsetConflictError(f"another client wrote {found} for {tp}: adopted"))
            self._seek(owned, found, "foreign_commit")
        else:
            batch.foreign.add(tp)
            if tp in batch.unknown and tp in batch.values:
                owned.value = batch.values[tp]  # it may have been written: no lower offset is written
            owned.write_pending = found != owned.value
            if owned.write_pending and tp not in batch.values:
                self._unwritten.add(tp)

    def _policy(self) -> str:
        configured = self._context.config.settings.on_foreign_commit
        if configured is not None:
            return configured
        snapshot = self._snapshot.newest
        return "reassert" if snapshot is not None and snapshot.has_foreign_members else "adopt"

    def _seek(self, owned: OwnedPartition, offset: int, reason: str) -> None:
        """Emits `SeekTo` unless the lease has ended; refuses commits of earlier positions."""
        tp = owned.topic_partition
        error = OffsetConflictError(f"{tp} was moved to {offset} ({reason})")
        current = self._current
        if current is not None:
            current.void(tp, error)
        for commit in self._queue:
            if tp in commit.values:
                commit.refuse(tp, error)
        if tp in self._context.owned.releasing:
            self._context.owned.releasing[tp] = None
        owned.position_epoch = self._context.next_id()
        if owned.ended is None:
            self._context.emit(SeekTo(tp, offset, reason, owned.position_epoch))

    def _finish_all(self, batch: CommitBatch) -> None:
        for commit in batch.commits:
            self._finish(commit)

    def _finish(self, commit: PendingCommit) -> None:
        if commit.commit_id is not None:
            self._context.emit(
                FinishCommit(commit.commit_id, commit.committed, commit.refused, commit.stored)
            )


@dataclass(slots=True, eq=False)
class PendingCommit:
    """A requested commit: its open partitions, and the outcomes of the others."""

    commit_id: int | None
    """None for a commit of the machine itself, which no call waits for."""
    values: dict[TopicPartition, int]
    seeks: Mapping[TopicPartition, int] = field(default_factory=dict)
    """As in `CommitRequested`."""
    tokens: dict[TopicPartition, int] = field(default_factory=dict)
    """The tokens of the claims that the positions belong to; under another claim they are void."""
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    stored: dict[TopicPartition, int] = field(default_factory=dict)
    """The offsets in ZooKeeper of the committed partitions, when the commit finishes."""
    refused: dict[TopicPartition, CommitRefusedError] = field(default_factory=dict)

    def accept(self, tp: TopicPartition, stored: int) -> None:
        self.committed[tp], self.stored[tp] = self.values.pop(tp), stored

    def refuse(self, tp: TopicPartition, error: CommitRefusedError) -> None:
        self.values.pop(tp, None)
        self.committed.pop(tp, None)
        self.stored.pop(tp, None)
        self.refused[tp] = error


class CommitBatch:
    """The commits of one write, for each partition in the order of the requests."""

    def __init__(self, commits: Iterable[PendingCommit]) -> None:
        self.commits = list(commits)
        self.values: dict[TopicPartition, int] = {}
        """The offsets that are still to be written."""
        self.sought: dict[TopicPartition, int] = {}
        """The last seek that led to each of these offsets."""
        self.has_unknown_outcome = False
        """True if the batch must be read back before anything else is done."""
        self.unknown: set[TopicPartition] = set()
        """Partitions sent without a reply and not read back since: they may have been written."""
        self.foreign: set[TopicPartition] = set()
        """Partitions whose offset another client had written at the last read-back, to be overwritten."""
        self._of: dict[TopicPartition, list[PendingCommit]] = {}
        for commit in self.commits:
            for tp in commit.values:
                self._of.setdefault(tp, []).append(commit)

    @property
    def partitions(self) -> list[TopicPartition]:
        return [tp for tp in self._of if self.open(tp)]

    def open(self, tp: TopicPartition) -> list[PendingCommit]:
        """The commits that wait for the outcome of this partition."""
        return [commit for commit in self._of.get(tp, ()) if tp in commit.values]

    def choose_value(self, tp: TopicPartition, owned: OwnedPartition) -> None:
        """Chooses the offset to write for a partition. Commits whose offset is written already are committed;
        those that must not be written are refused."""
        value, sought, floor = owned.value, owned.sought, owned.floor
        for commit in self.open(tp):
            asked, seek = commit.values[tp], commit.seeks.get(tp, 0)
            if seek > sought:
                value, sought, floor = asked, seek, NO_POSITION_FLOOR
            elif seek < sought:
                continue  # from before that seek: committed with the position of the seek
            elif asked < floor:
                message = f"{tp} was at {floor} before; {asked} would go back without a seek"
                self.refuse_one(commit, tp, OffsetConflictError(message))
            elif asked <= owned.value and sought == owned.sought and not owned.write_pending:
                commit.accept(tp, owned.value)
            else:
                value = max(value, asked)
        if not self.open(tp):
            return
        if value == owned.value and not owned.write_pending:
            owned.commit(value, sought)
            self._accept(tp, value)
        else:
            self.values[tp], self.sought[tp] = value, sought

    def written(self, tp: TopicPartition, owned: OwnedPartition, fence: int, zxid: int) -> None:
        """Takes a successful write: the value is in the znode, by the transaction `zxid`."""
        owned.commit(self.values[tp], self.sought[tp])
        owned.fence, owned.last_mzxid, owned.write_pending = fence, zxid, False
        self._accept(tp, owned.value)

    def _accept(self, tp: TopicPartition, stored: int) -> None:
        """Marks all open commits of the partition as committed, and updates the stored offset of those that
        were: a seek may have followed them."""
        for commit in self._of.get(tp, ()):
            if tp in commit.values:
                commit.accept(tp, stored)
            elif tp in commit.committed:
                commit.stored[tp] = stored
        self.values.pop(tp, None)
        self.unknown.discard(tp)

    def refuse(self, tp: TopicPartition, error: CommitRefusedError) -> None:
        """Refuses all open commits of the partition, or reports their outcome as unknown."""
        for commit in self.open(tp):
            self.refuse_one(commit, tp, error)
        self.values.pop(tp, None)

    def void(self, tp: TopicPartition, error: CommitRefusedError) -> None:
        """Refuses commits of the partition that count as committed and are not reported: see `SeekTo`."""
        for commit in self._of.get(tp, ()):
            if tp in commit.values or tp in commit.committed:
                self.refuse_one(commit, tp, error)
        self.values.pop(tp, None)

    def refuse_one(self, commit: PendingCommit, tp: TopicPartition, error: CommitRefusedError) -> None:
        commit.refuse(tp, CommitUnknownError(f"no reply; then: {error}") if tp in self.unknown else error)


class ResetWatch:
    """The child watch on `resets`."""

    def __init__(self, context: MemberContext, paths: GroupPaths, commits: Commits) -> None:
        self._context = context
        self._paths = paths
        self._commits = commits
        self._watch: Watch | None = None

    @property
    def is_due(self) -> bool:
        return self._watch is None or self._watch.fired

    def forget_watches(self) -> None:
        self._watch = None

    def read_markers(self) -> Procedure[None]:
        """Arms the watch, then puts the owned partitions with a marker under review."""
        watch = Watch(lambda: None)
        (outcome,) = yield from ask(Query(ListChildren(self._paths.resets, watch=True), watch))
        self._watch = watch
        marked = {Reset.partition_of(name) for name in list_done(outcome).children}
        self._commits.review.update(
            tp for tp in marked if tp is not None and tp in self._context.owned.partitions
        )
