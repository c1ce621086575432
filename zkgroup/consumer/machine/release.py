"""Releases partitions, and hands them over between this member's threads.

    Revoke -> Revoked, or its deadline -> one multi of commit and delete for all of them -> EndLease

The commit and the end of the claim are one transaction. If it is refused or gets no reply, the offset is read
first, then the owner. A claim that is gone is released, one that is unchanged is sent again, and if another
client has written the offset, only the owner is deleted, under the version just read; or the partition is
handed over with that offset, if it stays with this member. Orphaned claims (this member's own, but not
adopted) are deleted in that way, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from zkgroup.consumer.machine import transactions
from zkgroup.consumer.machine.assignment import AssignmentComputer
from zkgroup.consumer.machine.commit_history import CommitHistory
from zkgroup.consumer.machine.events import EndLease, EndOverdue, Revoke, Revoked
from zkgroup.consumer.machine.group_snapshot import GroupSnapshotReader
from zkgroup.consumer.machine.machine_context import (
    GroupPaths,
    MemberContext,
    OwnedPartition,
    PendingRevocation,
    Position,
    tp_fields,
)
from zkgroup.consumer.machine.transactions import (
    MemberIdentity,
    PartitionZnodes,
    WriteVerdict,
    adopted_partition,
    classify,
    offset_value,
    read_back,
)
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import (
    Check,
    Multi,
    MultiDone,
    MultiRefused,
    NotSent,
    Operation,
    Outcome,
    SetData,
    Unanswered,
)
from zkgroup.runtime.procedures import Procedure, Query, require_answers

REVOKE_TIMER = "revoke:"
ROUNDS_MAX = 20
"""Most refusals and read-backs in a row within one procedure; the next procedure goes on."""

Groups = list[tuple[TopicPartition, list[Operation]]]


class Releases:
    """Revokes and releases partitions of this member."""

    def __init__(
        self,
        context: MemberContext,
        paths: GroupPaths,
        snapshot: GroupSnapshotReader,
        assignments: AssignmentComputer,
        history: CommitHistory,
    ) -> None:
        self._context = context
        self._paths = paths
        self._snapshot = snapshot
        self._assignments = assignments
        self._history = history
        self._unknown_outcomes: set[TopicPartition] = set()
        """Releases without a reply: read back before anything else is written for them."""
        self._moving: dict[TopicPartition, int] = {}
        """Partition to the thread that gets it by a transaction without a reply yet."""

    def revoke(self, partitions: Sequence[TopicPartition], reason: str, deadline_ms: int) -> None:
        """Emits `Revoke`; the release follows `Revoked`, or the deadline."""
        if not partitions:
            return
        call_id = self._context.next_id()
        self._context.owned.revoking[call_id] = PendingRevocation(set(partitions), deadline_ms)
        self._context.emit(Revoke(call_id, tuple(partitions), deadline_ms, reason))
        self._context.set_timer(f"{REVOKE_TIMER}{call_id}", deadline_ms)

    def revoked(self, event: Revoked) -> None:
        """Takes `Revoked`: the callback has returned in time."""
        revocation = self._context.owned.revoking.pop(event.call_id, None)
        if revocation is not None:
            self._context.cancel_timer(f"{REVOKE_TIMER}{event.call_id}")
            positions = {tp: Position(at, event.seeks.get(tp, 0)) for tp, at in event.positions.items()}
            self._end(revocation, "revoked", positions, event.last_seek_id)

    def overdue(self, timer: str) -> None:
        """Ends the leases without `Revoked`: the callback is overdue."""
        call_id = int(timer.removeprefix(REVOKE_TIMER))
        revocation = self._context.owned.revoking.pop(call_id, None)
        if revocation is not None:
            gone = tuple(sorted(revocation.partitions))
            if gone:
                self._context.emit(EndOverdue(call_id, gone))
            self._end(revocation, "overdue", {}, None)

    def _end(
        self,
        revocation: PendingRevocation,
        reason: str,
        positions: Mapping[TopicPartition, Position],
        last_seek_id: int | None,
    ) -> None:
        context = self._context
        for tp in sorted(revocation.partitions):
            owned = context.owned.partitions[tp]
            owned.ended = reason
            position = positions.get(tp)
            if last_seek_id is not None and owned.position_epoch > last_seek_id:
                position = None
            context.owned.releasing[tp] = position
            context.note("own.end", **tp_fields(tp), token=owned.token, reason=reason)

    @property
    def is_ready(self) -> bool:
        owned = self._context.owned
        return bool(owned.orphaned) or any(self._may_send(tp) for tp in owned.releasing)

    def _may_send(self, tp: TopicPartition) -> bool:
        """Returns whether no freeze forbids the release, as far as this member has read."""
        return not self._is_move(tp) or self._snapshot.freeze.allows_moves

    def _is_move(self, tp: TopicPartition) -> bool:
        """Returns whether it is released for a rebalance: not by a leave, nor as the application asked."""
        owned = self._context.owned
        one = owned.partitions.get(tp)
        if one is None or self._context.is_leaving or tp in owned.handed_back:
            return False
        return self._moves_to(one) != one.thread

    @property
    def has_unknown_outcome(self) -> bool:
        return bool(self._unknown_outcomes)

    def forget(self) -> None:
        """Drops all releases: the registration is gone."""
        self._unknown_outcomes.clear()
        self._moving.clear()

    def forget_calls(self) -> None:
        """Ignores the callbacks that have not returned: no partition is owned any more."""
        for call_id in self._context.owned.revoking:
            self._context.cancel_timer(f"{REVOKE_TIMER}{call_id}")

    def release(self) -> Procedure[None]:
        """Releases all partitions that are to be released, and orphaned claims."""
        owned = self._context.owned
        for _ in range(ROUNDS_MAX):
            unclear = self._unknown_outcomes | owned.orphaned
            standing = [tp for tp in sorted(owned.releasing) if tp not in unclear and self._may_send(tp)]
            groups: Groups = [(tp, self._operations(owned.partitions[tp])) for tp in standing]
            if unclear:
                read_back = yield from self._read_back(sorted(unclear))
                groups += [(tp, operations) for tp, operations in read_back if self._may_send(tp)]
            if not groups:
                break
            yield from self._send(groups)

    def _operations(self, owned: OwnedPartition) -> list[Operation]:
        thread, value = self._moves_to(owned), self._value(owned)
        is_recorded = self._history.is_kept and value != owned.value
        record = self._history.operations(owned, value) if is_recorded else []
        self._moving.pop(owned.topic_partition, None)
        if thread is None:
            return [*transactions.release_operations(self._paths, owned, value), *record]
        self._moving[owned.topic_partition] = thread
        member = self._context.config.member_id
        moved = transactions.thread_handover_operations(self._paths, member, owned, value, thread)
        return [*moved, *record]

    def _moves_to(self, owned: OwnedPartition) -> int | None:
        """The thread of this member that gets the partition by the assignment of the present snapshot."""
        if self._assignments.is_waiting_for_brokers or self._assignments.is_outdated or self._snapshot.is_new:
            return None
        return self._context.owned.assigned.get(owned.topic_partition)

    def _value(self, owned: OwnedPartition) -> int:
        """The processed position to commit; lower than the committed one only after a seek."""
        position = self._context.owned.releasing.get(owned.topic_partition)
        return owned.value if position is None else owned.leads_to(position)

    def _is_sought(self, owned: OwnedPartition, offset: int) -> bool:
        """Returns whether a seek that is not written yet led to this offset."""
        position = self._context.owned.releasing.get(owned.topic_partition)
        return position is not None and position.seek > owned.sought and offset <= owned.value

    def _send(self, groups: Groups) -> Procedure[None]:
        packets = [
            (
                packet,
                [transactions.guard(self._paths), *self._checks(packet), *transactions.flat(packet)],
            )
            for packet in transactions.in_packets(groups, self._context.request_bytes_max)
        ]
        records = [self._invoke(packet) for packet, _ in packets]
        for packet, _ in packets:
            self._unknown_outcomes.update(tp for tp, _ in packet)
        outcomes = yield tuple(Query(Multi(tuple(operations))) for _, operations in packets)
        for (packet, operations), record, outcome in zip(packets, records, outcomes, strict=True):
            self._record(record, outcome)
            if isinstance(outcome, MultiDone):
                self._unknown_outcomes.difference_update(tp for tp, _ in packet)
                if self._history.is_kept:
                    self._history.written(operations)
                self._released(packet, operations, outcome)
            elif isinstance(outcome, MultiRefused):
                self._refused(packet, operations[outcome.index])
        answers, sent = list(outcomes), [operations for _, operations in packets]
        if self._history.is_kept:
            answers, sent = self._history.others(outcomes, sent)
        require_answers(answers, sent, (self._paths.own,))

    def _checks(self, packet: Groups) -> list[Operation]:
        """The checks of a packet; with a handover it is a claim too, and checks topics and assignment."""
        owned = self._context.owned.partitions
        freeze: list[Operation] = []
        if any(self._is_move(tp) for tp, _ in packet):
            freeze.append(self._snapshot.freeze.check)
        moved = {tp.topic for tp, _ in packet if tp in self._moving and tp in owned}
        snapshot = self._snapshot.newest
        if not moved or snapshot is None:
            return freeze
        # What a freeze keeps follows from no plan, and a newer one may not be read before its end.
        plan = None if self._assignments.keeps else self._assignments.plan_check
        return [*freeze, *transactions.snapshot_checks(moved, snapshot.topic_versions, plan)]

    def _invoke(self, packet: Groups) -> Mapping[str, object]:
        rows = []
        for tp, operations in packet:
            owned = self._context.owned.partitions.get(tp)
            write = next((o for o in operations if isinstance(o, SetData)), None)
            offset = int(write.data) if write is not None else None
            rows.append(
                {
                    **tp_fields(tp),
                    "offset": offset,
                    "version": write.version + 1 if write is not None else None,
                    "token": owned.token if owned is not None else None,
                    "rewind": offset is not None and owned is not None and self._is_sought(owned, offset),
                }
            )
        record: Mapping[str, object] = {"id": self._context.next_id(), "partitions": rows}
        self._context.note("release.invoke", **record)
        return record

    def _record(self, record: Mapping[str, object], outcome: Outcome) -> None:
        match outcome:
            case MultiDone(zxid=zxid):
                self._context.note("release.ok", **record, zxid=zxid)
            case MultiRefused(code=code):
                self._context.note("release.fail", **record, reason=code.value)
            case NotSent(reason=reason):
                self._context.note("release.fail", **record, reason=reason)
            case Unanswered(reason=reason):
                self._context.note("release.info", **record, reason=reason)

    def _refused(self, packet: Groups, refused: Operation) -> None:
        """Handles a refusal. A handover that was refused at the topics or the assignment becomes a
        release."""
        owned = self._context.owned
        if refused.path == self._paths.own:
            return  # the registration is gone, which ends everything
        if refused.path == self._paths.owners_root:
            self._unknown_outcomes.difference_update(tp for tp, _ in packet)
            self._snapshot.freeze.refused()
            return
        if not isinstance(refused, Check) or refused not in self._checks(packet):
            return
        if refused == self._assignments.plan_check:
            self._assignments.is_outdated = True
            return
        released = {tp for tp, _ in packet}
        owned.assigned = {tp: n for tp, n in owned.assigned.items() if tp not in released}
        for tp in released:
            self._snapshot.forget_topic(tp.topic)
        self._snapshot.settling.mark_changed_now()

    def _released(self, packet: Groups, operations: Sequence[Operation], done: MultiDone) -> None:
        stats = {o.path: stat for o, stat in zip(operations, done.stats, strict=True) if stat is not None}
        written = {o.path: o.data for o in operations if isinstance(o, SetData)}
        ended: list[TopicPartition] = []
        moved: list[OwnedPartition] = []
        for tp, _ in packet:
            self._context.owned.orphaned.discard(tp)
            if tp not in self._context.owned.partitions:
                continue
            thread = self._moving.pop(tp, None)
            before = self._context.owned.drop(tp)
            ended.append(tp)
            owner, offset = stats.get(self._paths.owner(tp)), stats.get(self._paths.offset(tp))
            if owner is not None and offset is not None and thread is not None:
                value = int(written[self._paths.offset(tp)])
                moved.append(
                    OwnedPartition(
                        tp, thread, owner.czxid, value, offset.version, before.offset_czxid, owner.czxid
                    )
                )
        if ended:
            self._context.emit(EndLease(tuple(ended)))
        self._context.own(moved)

    def _read_back(self, tps: Iterable[TopicPartition]) -> Procedure[Groups]:
        """The operations that are still to be done, by offset and then owner as just read."""
        session = self._context.session
        assert session is not None
        mine = MemberIdentity(self._context.config.member_id, session.session_id)
        seen = yield from read_back(self._paths, tps)
        groups: Groups = []
        for tp, znodes in seen.items():
            self._unknown_outcomes.discard(tp)
            owned = self._context.owned.partitions.get(tp)
            if owned is not None and tp in self._context.owned.releasing:
                groups += self._remaining(owned, znodes, mine)
            elif (
                tp in self._context.owned.orphaned
                and owned is None
                and mine.thread_of(znodes.owner) is not None
            ):
                groups.append((tp, transactions.release_without_commit(self._paths, tp, znodes.offset)))
            else:
                self._context.owned.orphaned.discard(tp)
        return groups

    def _keep_move(self, tp: TopicPartition, seen: PartitionZnodes, mine: MemberIdentity) -> None:
        """Takes over a claim with another token: a handover was applied, and its reply was lost."""
        planned, thread = self._moving.pop(tp, None), mine.thread_of(seen.owner)
        if thread is None:
            return
        registered_zxid = self._context.registered_zxid
        owned = adopted_partition(tp, thread, seen, registered_zxid) if thread == planned else None
        if owned is not None:
            self._context.own([owned])
        else:
            self._context.owned.orphaned.add(tp)

    def _remaining(self, owned: OwnedPartition, seen: PartitionZnodes, mine: MemberIdentity) -> Groups:
        tp = owned.topic_partition
        match classify(owned, None, seen, mine):
            case WriteVerdict.NOT_MINE:
                self._context.owned.drop(tp)
                self._context.emit(EndLease((tp,)))
                self._keep_move(tp, seen, mine)
                return []
            case WriteVerdict.UNCHANGED:
                return [(tp, self._operations(owned))]
            case _:
                return [(tp, self._operations_as_read(owned, seen.offset))]

    def _operations_as_read(self, owned: OwnedPartition, offset: Znode | None) -> list[Operation]:
        """The release without a commit, after another client wrote the offset. A partition that stays with
        this member is never without an owner: its handover starts at the offset as read."""
        tp, value = owned.topic_partition, None if offset is None else offset_value(offset)
        if offset is None or value is None or self._moves_to(owned) is None:
            self._moving.pop(tp, None)
            return transactions.release_without_commit(self._paths, tp, offset)
        version = offset.stat.version
        self._context.note("foreign_write", **tp_fields(tp), offset=value, version=version, policy="adopt")
        owned.follow(value)
        owned.fence, owned.offset_czxid = version, offset.stat.czxid
        self._context.owned.releasing[tp] = None
        return self._operations(owned)
