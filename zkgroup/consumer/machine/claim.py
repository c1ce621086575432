"""Claiming what the plan gives (recipes.md 5).

Offsets are read in bulk, then one multi claims everything that is wanted and not known to be blocked.
Where the server refuses an owner (NodeExists), nothing of that packet was created: offsets and owners
are read back, what is ours is adopted, what is not is waited for by a watch, and the others are claimed
at once. A claim whose reply was lost stays in doubt until it was read back, in the same way. What is ours
but must not be adopted (`readback.adopted`) counts as leaked: it is released first, then claimed anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from zkgroup.consumer.machine import writes
from zkgroup.consumer.machine.core import Core, tp_fields
from zkgroup.consumer.machine.ownership import Held
from zkgroup.consumer.machine.paths import Paths
from zkgroup.consumer.machine.plan import Planning
from zkgroup.consumer.machine.readback import Identity, Seen, adopted, offset_value, read_back
from zkgroup.consumer.machine.snapshot import Snapshot
from zkgroup.errors import CorruptZnodeError
from zkgroup.machinery.procedures import (
    Procedure,
    Query,
    ask,
    list_done,
    read_many,
    require_answers,
)
from zkgroup.machinery.watch import Watch
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
from zkgroup.znodes.consumers import Offset, owners_path
from zkgroup.znodes.ids import number_of

CLAIM_TIMER = "claim"
RECHECK_TIMER = "blocked"
TOGETHER_MS = 10
"""Partitions that get free within this time are claimed together."""


class Claims:
    """What this member is about to own."""

    def __init__(self, core: Core, paths: Paths, snapshot: Snapshot, planning: Planning) -> None:
        self._core = core
        self._paths = paths
        self._snapshot = snapshot
        self._planning = planning
        self.doubtful: set[TopicPartition] = set()
        """Claimed without an answer: read back before anything else is done."""
        self.failures = 0
        """Attempts in a row that met a blocked partition: refused claims, and second looks at it."""
        self.recheck_is_due = False
        self._not_before_ms = 0
        self._known_parents: set[str] = set()
        self._watches: dict[TopicPartition, Watch] = {}
        """On the owner znodes of blocked partitions."""
        self._fresh: dict[TopicPartition, Znode | None] = {}
        """Offsets read back a moment ago, for the claim that follows at once."""

    # --- when -------------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        core = self._core
        return (
            bool(core.owned.wanted)
            and not core.owned.is_giving_up
            and not self._planning.is_waiting_for_brokers
            and core.now.ms >= self._not_before_ms
        )

    def put_off(self, ms: float) -> None:
        """Not before so long from now."""
        self._not_before_ms = self._core.now.ms + round(ms)
        self._core.set_timer(CLAIM_TIMER, self._not_before_ms)

    def recheck(self) -> None:
        """It is time for a look at what is blocked."""
        self.recheck_is_due = bool(self._core.owned.blocked)

    def forget(self) -> None:
        """The registration is gone."""
        self.recheck_is_due = False
        self.doubtful.clear()
        self._fresh.clear()
        self._watches.clear()
        self._known_parents.clear()
        self.failures = self._not_before_ms = 0
        for name in (CLAIM_TIMER, RECHECK_TIMER):
            self._core.cancel_timer(name)

    # --- claiming ---------------------------------------------------------------------------------

    def claim(self) -> Procedure[None]:
        """Everything wanted, in as few packets as fit."""
        batch = sorted(self._core.owned.wanted)
        offsets = yield from self._read_offsets(batch)
        claims = [
            writes.Claim(tp, self._core.owned.target[tp], offsets[tp])
            for tp in batch
            if tp in self._core.owned.wanted and self._is_usable(tp, offsets[tp])
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
            yield from self._look_at(blocked)

    def _read_offsets(
        self, batch: Sequence[TopicPartition]
    ) -> Procedure[Mapping[TopicPartition, Znode | None]]:
        fresh, self._fresh = self._fresh, {}
        unread = [tp for tp in batch if tp not in fresh]
        parents = [
            path
            for path in self._paths.topic_parents({tp.topic for tp in batch})
            if path not in self._known_parents
        ]
        (znodes,) = yield from read_many([*self._paths.offsets(unread), *parents])
        found = znodes[len(unread) :]
        missing = tuple(path for path, znode in zip(parents, found, strict=True) if znode is None)
        if missing:
            yield from ask(Query(CreateMissing(missing)))
        self._known_parents.update(parents)
        return {**fresh, **dict(zip(unread, znodes, strict=False))}

    def _is_usable(self, tp: TopicPartition, offset: Znode | None) -> bool:
        """An offset that cannot be read is reported and waited for, never taken for none (item 19)."""
        if offset is None:
            return True
        try:
            Offset.decode(offset.path, offset.data)
        except CorruptZnodeError as error:
            self._snapshot.report_poison(offset, error)
            self._block({tp: f"unreadable offset {offset.path}"}, watch=False)
            return False
        return True

    def _packets(self, claims: Sequence[writes.Claim]) -> list[tuple[list[writes.Claim], list[Operation]]]:
        picture, member = self._snapshot.picture, self._core.config.member_id
        versions = picture.topic_versions if picture is not None else {}
        by_partition = {claim.topic_partition: claim for claim in claims}
        groups = [
            (claim.topic_partition, writes.claim_operations(self._paths, member, claim)) for claim in claims
        ]
        packets = []
        for packet in writes.in_packets(groups, self._core.request_bytes_max):
            topics = {tp.topic for tp, _ in packet}
            head = [writes.guard(self._paths)]
            checks = writes.picture_checks(topics, versions, self._planning.plan_check)
            operations = [*head, *checks, *writes.flat(packet)]
            packets.append(([by_partition[tp] for tp, _ in packet], operations))
        return packets

    def _invoke(self, packet: Sequence[writes.Claim]) -> int:
        claim_id = self._core.next_id()
        rows = [
            {
                **tp_fields(c.topic_partition),
                "value": offset_value(c.offset) if c.offset is not None else writes.NO_OFFSET,
                "version": c.offset.stat.version if c.offset is not None else None,
            }
            for c in packet
        ]
        self._core.note("claim.invoke", id=claim_id, partitions=rows)
        self.doubtful.update(claim.topic_partition for claim in packet)
        return claim_id

    # --- outcomes ---------------------------------------------------------------------------------

    def _succeeded(
        self,
        packet: Sequence[writes.Claim],
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
            held = Held(
                topic_partition=tp,
                thread=claim.thread,
                token=owner.czxid,
                value=value if value is not None else writes.NO_OFFSET,
                fence=offset.version if offset is not None else 0,
                life=offset.czxid if offset is not None else owner.czxid,
                last=owner.czxid,
            )
            self.doubtful.discard(tp)
            claimed.append(held)
        self._core.note("claim.ok", id=claim_id, zxid=done.zxid, grants=[_grant(h) for h in claimed])
        self._core.own(claimed)
        self.failures = 0

    def _refused(
        self,
        packet: Sequence[writes.Claim],
        operations: Sequence[Operation],
        claim_id: int,
        refused: MultiRefused,
    ) -> list[TopicPartition]:
        """What must be read back. Everything else is tried again with what is read then."""
        operation = operations[refused.index]
        self._fail(packet, claim_id, f"{refused.code.value} at {operation.path}")
        if isinstance(operation, Check) and operation == self._planning.plan_check:
            self._planning.is_outdated = True
        elif isinstance(operation, Check):
            for topic in {claim.topic_partition.topic for claim in packet}:
                self._snapshot.forget_topic(topic)
            self._snapshot.settling.mark_now()
        elif refused.code is Code.NODE_EXISTS:
            return [claim.topic_partition for claim in packet]
        elif refused.code is Code.NO_NODE:
            self._known_parents.clear()
        return []

    def _fail(self, packet: Sequence[writes.Claim], claim_id: int, reason: str) -> None:
        self._core.note("claim.fail", id=claim_id, reason=reason)
        self.doubtful.difference_update(claim.topic_partition for claim in packet)

    def _unanswered(
        self, packet: Sequence[writes.Claim], claim_id: int, answer: Unanswered | NotSent
    ) -> None:
        if isinstance(answer, NotSent):
            self._fail(packet, claim_id, answer.reason)
        else:
            self._core.note("claim.info", id=claim_id, reason=answer.reason)

    # --- reading back -----------------------------------------------------------------------------

    def resolve_doubts(self) -> Procedure[None]:
        """Claims without an answer, read back after a later write was answered (recipes.md 10)."""
        yield from self._look_at(sorted(self.doubtful))

    def look_at_blocked(self) -> Procedure[None]:
        """The slow second look beside the watches."""
        yield from self._look_at(sorted(self._core.owned.blocked))
        self.recheck_is_due = False

    def _look_at(self, partitions: Sequence[TopicPartition]) -> Procedure[None]:
        """Offset, then owner. Mine: adopted with *that* offset. Somebody's: blocked. Nobody's: wanted."""
        session = self._core.session
        assert session is not None
        mine = Identity(self._core.config.member_id, session.session_id)
        seen = yield from read_back(self._paths, partitions)
        found: list[Held] = []
        blocked: dict[TopicPartition, str] = {}
        free: list[TopicPartition] = []
        for tp, znodes in seen.items():
            self.doubtful.discard(tp)
            thread = mine.thread_of(znodes.owner)
            if tp in self._core.owned.held:
                continue
            if thread is not None:
                held = self._adopted(tp, thread, znodes)
                found += [held] if held is not None else []
            elif znodes.owner is not None:
                blocked[tp] = (znodes.owner.data or b"").decode("utf-8", "replace")
            else:
                free.append(tp)
                self._fresh[tp] = znodes.offset
        if found:
            self._core.own(found)
        self._core.owned.unblock(free)
        self._block(blocked)

    def _adopted(self, tp: TopicPartition, thread: int, seen: Seen) -> Held | None:
        """A claim of ours whose reply was lost. What cannot be adopted, or is not planned, is released;
        where the plan names it, it is claimed anew."""
        core, owned = self._core, self._core.owned
        is_planned = owned.target.get(tp) == thread
        held = adopted(tp, thread, seen, core.registered_zxid) if is_planned else None
        if held is None:
            owned.leaked.add(tp)
        return held

    def look_for_leaks(self) -> Procedure[None]:
        """Once after a registration on a shared client: claims of ours that this machine does not know."""
        parent = owners_path(self._core.config.group)
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
        session, owned = self._core.session, self._core.owned
        assert session is not None
        mine = Identity(self._core.config.member_id, session.session_id)
        owned.leaked.update(
            tp
            for tp, owner in zip(tps, owners, strict=True)
            if mine.thread_of(owner) is not None and tp not in owned.held
        )

    # --- blocked partitions -----------------------------------------------------------------------

    def _block(self, blocked: Mapping[TopicPartition, str], *, watch: bool = True) -> None:
        owned = self._core.owned
        new = [tp for tp in blocked if tp in owned.target]
        if not new:
            return
        self.failures += 1
        for tp in new:
            owned.wanted.discard(tp)
            owned.blocked[tp] = blocked[tp]
            known = self._watches.get(tp)
            if watch and (known is None or known.fired):
                self._watch(tp)
        backoff_ms = self._core.config.settings.rebalance_backoff_ms
        self._core.set_timer(RECHECK_TIMER, self._core.now.ms + self._core.jittered(backoff_ms, 0.3))

    def _watch(self, tp: TopicPartition) -> None:
        def answered(outcome: Outcome) -> None:
            if not isinstance(outcome, ExistsDone):
                watch.fired = True  # not armed: the second look does it again
            elif outcome.stat is None:
                self._freed([tp])

        watch = self._watches[tp] = Watch(lambda: self._freed([tp]))
        self._core.ask(Exists(self._paths.owner(tp), watch=True), answered, watch)

    def _freed(self, partitions: Iterable[TopicPartition]) -> None:
        """The blocker is gone: claim soon, with whatever else gets free at this moment."""
        freed = [tp for tp in partitions if tp in self._core.owned.blocked]
        self._core.owned.unblock(freed)
        if freed and self._core.now.ms >= self._not_before_ms:
            self.put_off(TOGETHER_MS)


def _grant(held: Held) -> Mapping[str, object]:
    return {
        **tp_fields(held.topic_partition),
        "thread": held.thread,
        "token": held.token,
        "offset": held.value,
        "version": held.fence,
    }
