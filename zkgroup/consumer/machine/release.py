"""Giving partitions up (recipes.md 7, and the moves between own threads of recipes.md 5).

    Revoke -> Revoked, or its deadline -> one multi of commit and delete for all of them -> EndLease

The commit and the end of the claim are one transaction. Refused, or without an answer: the offset is
read first, then the owner; what is not ours any more is done, what stands is sent again, and where the
offset was moved by a foreign hand the owner alone is deleted, under the version just read. Leaked claims
(ours by recipes.md 1, but not held) take that last way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from zkgroup.consumer.effects import EndLease, EndOverdue, Revoke
from zkgroup.consumer.events import Revoked
from zkgroup.consumer.machine import writes
from zkgroup.consumer.machine.core import Core, tp_fields
from zkgroup.consumer.machine.ownership import Held, Position, Revocation
from zkgroup.consumer.machine.paths import Paths
from zkgroup.consumer.machine.plan import Planning
from zkgroup.consumer.machine.readback import Identity, Seen, Verdict, adopted, judge, read_back
from zkgroup.consumer.machine.snapshot import Snapshot
from zkgroup.machinery.procedures import Procedure, Query, require_answers
from zkgroup.model import TopicPartition
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

REVOKE_TIMER = "revoke:"
ROUNDS_MAX = 20
"""Refusals and read-backs in a row within one procedure; the next one goes on."""

Groups = list[tuple[TopicPartition, list[Operation]]]


class Releases:
    """What this member is giving up."""

    def __init__(self, core: Core, paths: Paths, snapshot: Snapshot, planning: Planning) -> None:
        self._core = core
        self._paths = paths
        self._snapshot = snapshot
        self._planning = planning
        self._doubtful: set[TopicPartition] = set()
        """Releases without an answer: read back before anything else is written for them."""
        self._moving: dict[TopicPartition, int] = {}
        """Threads that the transactions under way move partitions to."""

    # --- revoking ---------------------------------------------------------------------------------

    def revoke(self, partitions: Sequence[TopicPartition], reason: str, deadline_ms: int) -> None:
        """Asks the application to stop; the release follows its answer, or the deadline."""
        if not partitions:
            return
        call_id = self._core.next_id()
        self._core.owned.revoking[call_id] = Revocation(set(partitions), deadline_ms)
        self._core.emit(Revoke(call_id, tuple(partitions), deadline_ms, reason))
        self._core.set_timer(f"{REVOKE_TIMER}{call_id}", deadline_ms)

    def revoked(self, event: Revoked) -> None:
        """The callback has returned in time."""
        revocation = self._core.owned.revoking.pop(event.call_id, None)
        if revocation is not None:
            self._core.cancel_timer(f"{REVOKE_TIMER}{event.call_id}")
            positions = {tp: Position(at, event.seeks.get(tp, 0)) for tp, at in event.positions.items()}
            self._end(revocation, "revoked", positions, event.last_move_id)

    def overdue(self, timer: str) -> None:
        """The callback is too late: the partitions go without it."""
        call_id = int(timer.removeprefix(REVOKE_TIMER))
        revocation = self._core.owned.revoking.pop(call_id, None)
        if revocation is not None:
            gone = tuple(sorted(revocation.partitions))
            if gone:
                self._core.emit(EndOverdue(call_id, gone))
            self._end(revocation, "overdue", {}, None)

    def _end(
        self,
        revocation: Revocation,
        reason: str,
        positions: Mapping[TopicPartition, Position],
        last_move_id: int | None,
    ) -> None:
        core = self._core
        for tp in sorted(revocation.partitions):
            held = core.owned.held[tp]
            held.ended = reason
            position = positions.get(tp)
            if last_move_id is not None and held.moved > last_move_id:
                position = None
            core.owned.releasing[tp] = position
            core.note("own.end", **tp_fields(tp), token=held.token, reason=reason)

    # --- releasing --------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        return bool(self._core.owned.releasing or self._core.owned.leaked)

    @property
    def is_in_doubt(self) -> bool:
        return bool(self._doubtful)

    def forget(self) -> None:
        """The registration is gone: nothing is released that is not ours."""
        self._doubtful.clear()
        self._moving.clear()

    def forget_calls(self) -> None:
        """Nothing is held any more: answers to earlier calls are ignored."""
        for call_id in self._core.owned.revoking:
            self._core.cancel_timer(f"{REVOKE_TIMER}{call_id}")

    def release(self) -> Procedure[None]:
        """Everything that is to be released, and leaked claims, until nothing is left."""
        owned = self._core.owned
        for _ in range(ROUNDS_MAX):
            unclear = self._doubtful | owned.leaked
            standing = [tp for tp in sorted(owned.releasing) if tp not in unclear]
            groups: Groups = [(tp, self._operations(owned.held[tp])) for tp in standing]
            if unclear:
                groups += yield from self._read_back(sorted(unclear))
            if not groups:
                break
            yield from self._send(groups)

    def _operations(self, held: Held) -> list[Operation]:
        thread = self._moves_to(held)
        self._moving.pop(held.topic_partition, None)
        if thread is None:
            return writes.release_operations(self._paths, held, self._value(held))
        self._moving[held.topic_partition] = thread
        member = self._core.config.member_id
        return writes.move_operations(self._paths, member, held, self._value(held), thread)

    def _moves_to(self, held: Held) -> int | None:
        """The thread of this member that gets the partition next, by a plan of the present picture."""
        if self._planning.is_waiting_for_brokers or self._planning.is_outdated or self._snapshot.is_new:
            return None
        return self._core.owned.target.get(held.topic_partition)

    def _value(self, held: Held) -> int:
        """The processed position; below what is committed already only after a seek (item 59)."""
        position = self._core.owned.releasing.get(held.topic_partition)
        return held.value if position is None else held.leads_to(position)

    def _is_sought(self, held: Held, offset: int) -> bool:
        """A seek that is not written yet led back to here."""
        position = self._core.owned.releasing.get(held.topic_partition)
        return position is not None and position.seek > held.sought and offset <= held.value

    def _send(self, groups: Groups) -> Procedure[None]:
        packets = [
            (
                packet,
                [writes.guard(self._paths), *self._checks(packet), *writes.flat(packet)],
            )
            for packet in writes.in_packets(groups, self._core.request_bytes_max)
        ]
        records = [self._invoke(packet) for packet, _ in packets]
        for packet, _ in packets:
            self._doubtful.update(tp for tp, _ in packet)
        outcomes = yield tuple(Query(Multi(tuple(operations))) for _, operations in packets)
        for (packet, operations), record, outcome in zip(packets, records, outcomes, strict=True):
            self._record(record, outcome)
            if isinstance(outcome, MultiDone):
                self._doubtful.difference_update(tp for tp, _ in packet)
                self._released(packet, operations, outcome)
            elif isinstance(outcome, MultiRefused):
                self._refused(packet, operations[outcome.index])
        require_answers(outcomes, [operations for _, operations in packets], (self._paths.own,))

    def _checks(self, packet: Groups) -> list[Operation]:
        """A packet with a move is a claim too: it rests on the topics and the plan."""
        held = self._core.owned.held
        moved = {tp.topic for tp, _ in packet if tp in self._moving and tp in held}
        picture = self._snapshot.picture
        if not moved or picture is None:
            return []
        return writes.picture_checks(moved, picture.topic_versions, self._planning.plan_check)

    def _invoke(self, packet: Groups) -> Mapping[str, object]:
        rows = []
        for tp, operations in packet:
            held = self._core.owned.held.get(tp)
            write = next((o for o in operations if isinstance(o, SetData)), None)
            offset = int(write.data) if write is not None else None
            rows.append(
                {
                    **tp_fields(tp),
                    "offset": offset,
                    "version": write.version + 1 if write is not None else None,
                    "token": held.token if held is not None else None,
                    "rewind": offset is not None and held is not None and self._is_sought(held, offset),
                }
            )
        record: Mapping[str, object] = {"id": self._core.next_id(), "partitions": rows}
        self._core.note("release.invoke", **record)
        return record

    def _record(self, record: Mapping[str, object], outcome: Outcome) -> None:
        match outcome:
            case MultiDone(zxid=zxid):
                self._core.note("release.ok", **record, zxid=zxid)
            case MultiRefused(code=code):
                self._core.note("release.fail", **record, reason=code.value)
            case NotSent(reason=reason):
                self._core.note("release.fail", **record, reason=reason)
            case Unanswered(reason=reason):
                self._core.note("release.info", **record, reason=reason)

    def _refused(self, packet: Groups, refused: Operation) -> None:
        """A move rests on the plan and the topics; without them it becomes a plain release."""
        owned = self._core.owned
        if not isinstance(refused, Check) or refused not in self._checks(packet):
            return
        if refused == self._planning.plan_check:
            self._planning.is_outdated = True
            return
        released = {tp for tp, _ in packet}
        owned.target = {tp: n for tp, n in owned.target.items() if tp not in released}
        for tp in released:
            self._snapshot.forget_topic(tp.topic)
        self._snapshot.settling.mark_now()

    def _released(self, packet: Groups, operations: Sequence[Operation], done: MultiDone) -> None:
        stats = {o.path: stat for o, stat in zip(operations, done.stats, strict=True) if stat is not None}
        written = {o.path: o.data for o in operations if isinstance(o, SetData)}
        ended: list[TopicPartition] = []
        moved: list[Held] = []
        for tp, _ in packet:
            self._core.owned.leaked.discard(tp)
            if tp not in self._core.owned.held:
                continue
            thread = self._moving.pop(tp, None)
            before = self._core.owned.drop(tp)
            ended.append(tp)
            owner, offset = stats.get(self._paths.owner(tp)), stats.get(self._paths.offset(tp))
            if owner is not None and offset is not None and thread is not None:
                value = int(written[self._paths.offset(tp)])
                moved.append(Held(tp, thread, owner.czxid, value, offset.version, before.life, owner.czxid))
        if ended:
            self._core.emit(EndLease(tuple(ended)))
        self._core.own(moved)

    # --- reading back -----------------------------------------------------------------------------

    def _read_back(self, tps: Iterable[TopicPartition]) -> Procedure[Groups]:
        """Offset, then owner: what is still to be done for each, with what was just read."""
        session = self._core.session
        assert session is not None
        mine = Identity(self._core.config.member_id, session.session_id)
        seen = yield from read_back(self._paths, tps)
        groups: Groups = []
        for tp, znodes in seen.items():
            self._doubtful.discard(tp)
            held = self._core.owned.held.get(tp)
            if held is not None and tp in self._core.owned.releasing:
                groups += self._remaining(held, znodes, mine)
            elif tp in self._core.owned.leaked and held is None and mine.thread_of(znodes.owner) is not None:
                groups.append((tp, writes.release_without_commit(self._paths, tp, znodes.offset)))
            else:
                self._core.owned.leaked.discard(tp)
        return groups

    def _keep_move(self, tp: TopicPartition, seen: Seen, mine: Identity) -> None:
        """Ours under another token: a move between own threads was applied, and its reply got lost."""
        planned, thread = self._moving.pop(tp, None), mine.thread_of(seen.owner)
        if thread is None:
            return
        registered_zxid = self._core.registered_zxid
        held = adopted(tp, thread, seen, registered_zxid) if thread == planned else None
        if held is not None:
            self._core.own([held])
        else:
            self._core.owned.leaked.add(tp)

    def _remaining(self, held: Held, seen: Seen, mine: Identity) -> Groups:
        tp = held.topic_partition
        match judge(held, None, seen, mine):
            case Verdict.NOT_MINE:
                self._core.owned.drop(tp)
                self._core.emit(EndLease((tp,)))
                self._keep_move(tp, seen, mine)
                return []
            case Verdict.STANDS:
                return [(tp, self._operations(held))]
            case _:
                self._moving.pop(tp, None)
                return [(tp, writes.release_without_commit(self._paths, tp, seen.offset))]
