"""The owner znodes of this member: `Claims` creates them, `OwnerVerification` checks them.

Offsets are read in bulk, then one multi claims all wanted partitions that are not known to be blocked. If the
server refuses an owner (NodeExists), nothing of that packet was created: offsets and owners are read back, a
claim of this member is adopted, a partition of another member is watched, and the others are claimed at once.
A claim whose reply was lost has an unknown outcome until it is read back in the same way. A claim of this
member that must not be adopted (`transactions.adopted_partition`) is an orphaned claim: it is released first,
then claimed anew.

Verification is one bulk read, without a watch for each partition: after each rebalance, again after 2 s and
8 s while JVM members are registered (they delete by path), and every `verify_interval_ms` plus or minus 30 %.
The periodic read also reads `ids` and the topics: a change for which no watch has fired is a watch gap, which
is counted and handled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from zkgroup.consumer.machine import transactions
from zkgroup.consumer.machine.assignment import AssignmentComputer
from zkgroup.consumer.machine.commit_history import CommitHistory
from zkgroup.consumer.machine.group_snapshot import GroupSnapshotReader
from zkgroup.consumer.machine.history import HistoryWriter
from zkgroup.consumer.machine.machine_context import GroupPaths, MemberContext, OwnedPartition, tp_fields
from zkgroup.consumer.machine.transactions import (
    MemberIdentity,
    PartitionZnodes,
    adopted_partition,
    offset_value,
    read_back,
)
from zkgroup.errors import CorruptZnodeError
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import (
    Check,
    Code,
    CreateMissing,
    Exists,
    ExistsDone,
    ListChildren,
    ListMany,
    ListManyDone,
    Multi,
    MultiDone,
    MultiRefused,
    NotSent,
    Operation,
    Outcome,
    SetData,
    Unanswered,
)
from zkgroup.runtime.events import Watch
from zkgroup.runtime.procedures import (
    GuardRefusedError,
    Procedure,
    Query,
    ask,
    list_done,
    read_allowed,
    read_many,
    readable,
    require_answers,
)
from zkgroup.znodes.consumers import Offset, owners_path
from zkgroup.znodes.ids import number_of

CLAIM_TIMER = "claim"
READ_BACK_TIMER = "blocked"
TOGETHER_MS = 10
"""Milliseconds. Partitions that are released within this time are claimed together."""


class Claims:
    """Claims the partitions that this member wants."""

    def __init__(
        self,
        context: MemberContext,
        paths: GroupPaths,
        snapshot: GroupSnapshotReader,
        assignments: AssignmentComputer,
        commit_history: CommitHistory,
    ) -> None:
        self._context = context
        self._paths = paths
        self._snapshot = snapshot
        self._assignments = assignments
        self._commit_history = commit_history
        self.unknown_outcomes: set[TopicPartition] = set()
        """Claims without a reply: read back before anything else is done."""
        self.failures = 0
        """Attempts in a row that found a blocked partition: refused claims, and reads of owners."""
        self.on_blocked: Callable[[], None] = lambda: None
        """Called when partitions are found to be owned by others."""
        self.is_preparing: Callable[[], bool] = lambda: False
        """Returns whether the application prepares blocked partitions, or has prepared them."""
        self.read_back_is_due = False
        self._not_before_ms = 0
        self._known_parents: set[str] = set()
        self._watches: dict[TopicPartition, Watch] = {}
        """The watches on the owner znodes of blocked partitions."""
        self._fresh: dict[TopicPartition, Znode | None] = {}
        """Offsets just read back, for the claim that follows at once."""

    @property
    def is_ready(self) -> bool:
        context = self._context
        return (
            bool(context.owned.wanted)
            and not context.owned.is_giving_up
            and not self._assignments.is_waiting_for_brokers
            and self._snapshot.freeze.allows_claims
            and context.now.ms >= self._not_before_ms
        )

    def put_off(self, ms: float) -> None:
        """Delays the next claim by at least this many milliseconds."""
        self._not_before_ms = self._context.now.ms + round(ms)
        self._context.set_timer(CLAIM_TIMER, self._not_before_ms)

    def schedule_read_back(self) -> None:
        """Makes the blocked partitions due to be read back."""
        self.read_back_is_due = bool(self._context.owned.blocked)

    def forget(self) -> None:
        """Drops all state: the registration is gone."""
        self.read_back_is_due = False
        self.unknown_outcomes.clear()
        self._fresh.clear()
        self._watches.clear()
        self._known_parents.clear()
        self.failures = self._not_before_ms = 0
        for name in (CLAIM_TIMER, READ_BACK_TIMER):
            self._context.cancel_timer(name)

    def claim(self) -> Procedure[None]:
        """Claims all wanted partitions, in as few packets as fit."""
        batch = sorted(self._context.owned.wanted)
        offsets = yield from self._read_offsets(batch)
        claims = [
            transactions.Claim(tp, self._context.owned.assigned[tp], offsets[tp])
            for tp in batch
            if tp in self._context.owned.wanted and self._is_usable(tp, offsets[tp])
        ]
        packets = self._packets(claims)
        if not packets:
            return
        ids = [self._invoke(packet) for packet, _ in packets]
        outcomes = yield tuple(Query(Multi(tuple(operations))) for _, operations in packets)
        blocked: list[TopicPartition] = []
        for (packet, operations), claim_id, outcome in zip(packets, ids, outcomes, strict=True):
            match outcome:
                case MultiDone():
                    self._succeeded(packet, operations, claim_id, outcome)
                case MultiRefused():
                    blocked += self._refused(packet, operations, claim_id, outcome)
                case Unanswered() | NotSent():
                    self._unanswered(packet, claim_id, outcome)
        require_answers(outcomes, [operations for _, operations in packets], (self._paths.own,))
        if blocked:
            yield from self._read_back(blocked)

    def _read_offsets(
        self, batch: Sequence[TopicPartition]
    ) -> Procedure[Mapping[TopicPartition, Znode | None]]:
        fresh, self._fresh = self._fresh, {}
        unread, unrecorded = [tp for tp in batch if tp not in fresh], self._commit_history.unread(batch)
        below = [*self._paths.topic_parents({tp.topic for tp in batch}), *self._commit_history.parents]
        parents = [path for path in below if path not in self._known_parents]
        records = map(self._paths.commit, unrecorded)
        (znodes,) = yield from read_many([*self._paths.offsets(unread), *parents, *records])
        found = znodes[len(unread) : len(unread) + len(parents)]
        self._commit_history.found(unrecorded, znodes[len(unread) + len(parents) :])
        missing = tuple(path for path, znode in zip(parents, found, strict=True) if znode is None)
        if missing:  # also what is above: the group may have been deleted while this member joined
            yield from ask(Query(CreateMissing((*self._paths.parents, *missing))))
        self._known_parents.update(parents)
        return {**fresh, **dict(zip(unread, znodes, strict=False))}

    def _is_usable(self, tp: TopicPartition, offset: Znode | None) -> bool:
        """Returns whether an offset can be used. An unreadable one is reported and blocks the claim."""
        if offset is None:
            return True
        try:
            Offset.decode(offset.path, offset.data)
        except CorruptZnodeError as error:
            self._snapshot.report_corrupt(offset, error)
            self._block({tp: f"unreadable offset {offset.path}"}, watch=False)
            return False
        return True

    def _packets(
        self, claims: Sequence[transactions.Claim]
    ) -> list[tuple[list[transactions.Claim], list[Operation]]]:
        snapshot, member = self._snapshot.newest, self._context.config.member_id
        versions = snapshot.topic_versions if snapshot is not None else {}
        by_partition = {claim.topic_partition: claim for claim in claims}
        groups = [
            (claim.topic_partition, transactions.claim_operations(self._paths, member, claim))
            for claim in claims
        ]
        packets = []
        for packet in transactions.in_packets(groups, self._context.request_bytes_max):
            topics = {tp.topic for tp, _ in packet}
            head = [transactions.guard(self._paths), self._snapshot.freeze.check]
            checks = transactions.snapshot_checks(topics, versions, self._assignments.plan_check)
            operations = [*head, *checks, *transactions.flat(packet)]
            packets.append(([by_partition[tp] for tp, _ in packet], operations))
        return packets

    def _invoke(self, packet: Sequence[transactions.Claim]) -> int:
        claim_id = self._context.next_id()
        rows = [
            {
                **tp_fields(c.topic_partition),
                "value": offset_value(c.offset) if c.offset is not None else transactions.NO_OFFSET,
                "version": c.offset.stat.version if c.offset is not None else None,
            }
            for c in packet
        ]
        self._context.note("claim.invoke", id=claim_id, partitions=rows)
        self.unknown_outcomes.update(claim.topic_partition for claim in packet)
        return claim_id

    def _succeeded(
        self,
        packet: Sequence[transactions.Claim],
        operations: Sequence[Operation],
        claim_id: int,
        done: MultiDone,
    ) -> None:
        stats = {
            operation.path: stat
            for operation, stat in zip(operations, done.stats, strict=True)
            if isinstance(operation, SetData) and stat is not None
        }
        claimed = []
        for claim in packet:
            tp = claim.topic_partition
            owner, offset = stats[self._paths.owner(tp)], stats.get(self._paths.offset(tp))
            value = offset_value(claim.offset) if claim.offset is not None else None
            owned = OwnedPartition(
                topic_partition=tp,
                thread=claim.thread,
                token=owner.czxid,
                value=value if value is not None else transactions.NO_OFFSET,
                fence=offset.version if offset is not None else 0,
                offset_czxid=offset.czxid if offset is not None else owner.czxid,
                last_mzxid=owner.czxid,
            )
            self.unknown_outcomes.discard(tp)
            claimed.append(owned)
        self._context.note("claim.ok", id=claim_id, zxid=done.zxid, grants=[_grant(h) for h in claimed])
        self._context.own(claimed)
        self.failures = 0

    def _refused(
        self,
        packet: Sequence[transactions.Claim],
        operations: Sequence[Operation],
        claim_id: int,
        refused: MultiRefused,
    ) -> list[TopicPartition]:
        """The partitions that must be read back after a refusal; the others are claimed again after that."""
        operation = operations[refused.index]
        self._fail(packet, claim_id, f"{refused.code.value} at {operation.path}")
        if isinstance(operation, Check) and operation == self._assignments.plan_check:
            self._assignments.is_outdated = True
        elif operation.path == self._paths.owners_root:
            self._known_parents.clear()
            self._snapshot.freeze.refused()
        elif isinstance(operation, Check):
            for topic in {claim.topic_partition.topic for claim in packet}:
                self._snapshot.forget_topic(topic)
            self._snapshot.settling.mark_changed_now()
        elif refused.code is Code.NODE_EXISTS:
            return [claim.topic_partition for claim in packet]
        elif refused.code is Code.NO_NODE:
            self._known_parents.clear()
        return []

    def _fail(self, packet: Sequence[transactions.Claim], claim_id: int, reason: str) -> None:
        self._context.note("claim.fail", id=claim_id, reason=reason)
        self.unknown_outcomes.difference_update(claim.topic_partition for claim in packet)

    def _unanswered(
        self, packet: Sequence[transactions.Claim], claim_id: int, answer: Unanswered | NotSent
    ) -> None:
        if isinstance(answer, NotSent):
            self._fail(packet, claim_id, answer.reason)
        else:
            self._context.note("claim.info", id=claim_id, reason=answer.reason)

    def resolve_unknown_outcomes(self) -> Procedure[None]:
        """Reads back claims without a reply, after a later write was acknowledged."""
        yield from self._read_back(sorted(self.unknown_outcomes))

    def read_back_blocked(self) -> Procedure[None]:
        """Reads the blocked partitions again, in case a watch was missed."""
        yield from self._read_back(sorted(self._context.owned.blocked))
        self.read_back_is_due = False

    def _read_back(self, partitions: Sequence[TopicPartition]) -> Procedure[None]:
        """Reads offset, then owner. This member's: adopted with *that* offset. Another's: blocked. None:
        wanted."""
        session = self._context.session
        assert session is not None
        mine = MemberIdentity(self._context.config.member_id, session.session_id)
        seen = yield from read_back(self._paths, partitions)
        found: list[OwnedPartition] = []
        blocked: dict[TopicPartition, str] = {}
        free: list[TopicPartition] = []
        for tp, znodes in seen.items():
            self.unknown_outcomes.discard(tp)
            thread = mine.thread_of(znodes.owner)
            if tp in self._context.owned.partitions:
                continue
            if thread is not None:
                owned = self._adopted(tp, thread, znodes)
                found += [owned] if owned is not None else []
            elif znodes.owner is not None:
                stuck = self._snapshot.report_persistent(znodes.owner)
                blocked[tp] = str(stuck or (znodes.owner.data or b"").decode("utf-8", "replace"))
            else:
                free.append(tp)
                self._fresh[tp] = znodes.offset
        if found:
            self._context.own(found)
        self._context.owned.unblock(free)
        self._block(blocked)

    def _adopted(self, tp: TopicPartition, thread: int, seen: PartitionZnodes) -> OwnedPartition | None:
        """A claim of this member whose reply was lost. None for one that is released: it cannot be adopted,
        or is not assigned; an assigned one is claimed anew."""
        context, owned = self._context, self._context.owned
        is_assigned = owned.assigned.get(tp) == thread
        adopted = adopted_partition(tp, thread, seen, context.registered_zxid) if is_assigned else None
        if adopted is None:
            owned.orphaned.add(tp)
        return adopted

    def find_orphans(self) -> Procedure[None]:
        """Finds orphaned claims of this member, once after a registration on a shared client."""
        parent = owners_path(self._context.config.group)
        (listing,) = yield from ask(Query(ListChildren(parent)))
        topics = sorted(list_done(listing).children)
        (below,) = yield from ask(Query(ListMany(tuple(f"{parent}/{topic}" for topic in topics))))
        assert isinstance(below, ListManyDone), below
        tps = [
            TopicPartition(topic, number)
            for topic, names in zip(topics, below.children, strict=True)
            if isinstance(names, tuple)
            for name in sorted(names)
            if (number := number_of(name)) is not None
        ]
        (owners,) = yield from read_many(self._paths.owners(tps))
        session, owned = self._context.session, self._context.owned
        assert session is not None
        mine = MemberIdentity(self._context.config.member_id, session.session_id)
        owned.orphaned.update(
            tp
            for tp, owner in zip(tps, owners, strict=True)
            if mine.thread_of(owner) is not None and tp not in owned.partitions
        )

    def _block(self, blocked: Mapping[TopicPartition, str], *, watch: bool = True) -> None:
        owned = self._context.owned
        new = [tp for tp in blocked if tp in owned.assigned]
        if not new:
            return
        if not self.is_preparing():  # else their owner keeps them for this member
            self.failures += 1
        for tp in new:
            owned.wanted.discard(tp)
            owned.blocked[tp] = blocked[tp]
            known = self._watches.get(tp)
            if watch and (known is None or known.fired):
                self._watch(tp)
        self.on_blocked()
        backoff_ms = self._context.config.settings.rebalance_backoff_ms
        self._context.set_timer(
            READ_BACK_TIMER, self._context.now.ms + self._context.jittered(backoff_ms, 0.3)
        )

    def _watch(self, tp: TopicPartition) -> None:
        def answered(outcome: Outcome) -> None:
            if not isinstance(outcome, ExistsDone):
                watch.fired = True  # not armed: the next read arms it again
            elif outcome.stat is None:
                self._freed([tp])

        watch = self._watches[tp] = Watch(lambda: self._freed([tp]))
        self._context.ask(Exists(self._paths.owner(tp), watch=True), answered, watch)

    def _freed(self, partitions: Iterable[TopicPartition]) -> None:
        """Schedules a claim: the blocking owner is gone. Others that are released soon are claimed with
        it."""
        freed = [tp for tp in partitions if tp in self._context.owned.blocked]
        self._context.owned.unblock(freed)
        if freed and self._context.now.ms >= self._not_before_ms:
            self.put_off(TOGETHER_MS)


def _grant(owned: OwnedPartition) -> Mapping[str, object]:
    return {
        **tp_fields(owned.topic_partition),
        "thread": owned.thread,
        "token": owned.token,
        "offset": owned.value,
        "version": owned.fence,
    }


VERIFY_TIMER = "verify"
AGAIN_TIMERS = ("verify.2s", "verify.8s")
AGAIN_MS = (2000, 8000)
GAP_TIMER = "verify.gap"
GAP_MS = 1000
"""Milliseconds in which the event of a watch may still arrive; after that, a change is a watch gap."""
SPREAD = 0.3


class OwnerVerification:
    """Verifies the owner znodes of this member on a schedule."""

    def __init__(
        self,
        context: MemberContext,
        paths: GroupPaths,
        snapshot: GroupSnapshotReader,
        history: HistoryWriter,
    ) -> None:
        self._context = context
        self._paths = paths
        self._snapshot = snapshot
        self._history = history
        self.is_due = False
        self._suspicion: object = None

    def start(self) -> None:
        interval_ms = self._context.config.settings.verify_interval_ms
        self._context.set_timer(
            VERIFY_TIMER, self._context.now.ms + self._context.jittered(interval_ms, SPREAD)
        )

    def stop(self) -> None:
        self.is_due, self._suspicion = False, None
        for name in (VERIFY_TIMER, GAP_TIMER, *AGAIN_TIMERS):
            self._context.cancel_timer(name)

    def timer_fired(self, name: str) -> None:
        self.is_due = True
        if name == VERIFY_TIMER:
            self.start()

    def after_rebalance(self, *, claimed: bool) -> None:
        """Schedules verifications; after a rebalance without claims the snapshot's read has verified
        already."""
        self.is_due = self.is_due or claimed
        snapshot = self._snapshot.newest
        if snapshot is not None and snapshot.has_foreign_members and self._context.owned.partitions:
            for name, after_ms in zip(AGAIN_TIMERS, AGAIN_MS, strict=True):
                self._context.set_timer(name, self._context.now.ms + after_ms)

    def verify(self) -> Procedure[None]:
        """Reads all owner znodes once. A claim that is gone is lost, and claimed again if it is assigned."""
        paths, topics = self._paths, self._snapshot.topic_facts
        owners, beside = paths.owners(self._context.owned.partitions), self._history.paths_to_read()
        wanted = [*owners, paths.own, paths.ids, *topics]
        read = yield from read_allowed([*wanted, *beside])
        self._history.read(dict(zip(beside, read[len(wanted) :], strict=True)))
        znodes = [readable(path, each) for path, each in zip(wanted, read, strict=False)]
        own, ids, *found = znodes[len(owners) :]
        session = self._context.session
        assert session is not None
        if own is None or own.stat.ephemeral_owner != session.session_id:
            raise GuardRefusedError(paths.own)
        self.is_due = False
        self.check_owners(dict(zip(owners, znodes, strict=False)))
        self._check_for_gaps(ids, dict(zip(topics, found, strict=True)))

    def check_owners(self, owners: Mapping[str, Znode | None]) -> None:
        """Compares the member's claims with owner znodes that were read while it wrote nothing."""
        session = self._context.session
        assert session is not None
        mine = MemberIdentity(self._context.config.member_id, session.session_id)
        gone = [
            tp
            for tp, owned in self._context.owned.partitions.items()
            if (path := self._paths.owner(tp)) in owners and not mine.holds(owned, owners[path])
        ]
        if gone:
            self._context.lose(gone, "owner_gone")

    def _check_for_gaps(self, ids: Znode | None, topics: Mapping[str, Znode | None]) -> None:
        settling, snapshot = self._snapshot.settling, self._snapshot.newest
        suspicion, self._suspicion = self._suspicion, None
        if settling.is_dirty or snapshot is None or ids is None:
            return
        facts = self._snapshot.topic_facts
        gaps = [path for path, znode in topics.items() if (znode.stat.mzxid if znode else 0) != facts[path]]
        if ids.stat.pzxid == snapshot.generation and not gaps:
            return
        if suspicion != (snapshot.generation, gaps):
            self._suspicion = (snapshot.generation, gaps)
            self._context.set_timer(GAP_TIMER, self._context.now.ms + GAP_MS)
            return
        self._context.note("watch_gap")
        self._snapshot.forget_watches()
        settling.mark_changed_now()
