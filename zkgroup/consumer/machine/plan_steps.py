"""Rebalances of sticky groups in steps (`rebalance_moves_max`; recipes 4).

While every registration publishes a limit, whoever writes the assignment znode takes at most the least of
them as moves, and names these in the znode. Every member reads it under a watch then. A member that gets one
of the partitions, and owns all that it is assigned, reads whether the other moves of the step are done, too;
the last one finds that they are, and writes the next step under the znode's version. The last step names no
moves.
"""

from __future__ import annotations

from dataclasses import dataclass

from zkgroup.assignment.steps import RebalanceStep, next_step
from zkgroup.consumer.machine.group_snapshot import GroupSnapshotReader, MembershipSnapshot
from zkgroup.consumer.machine.machine_context import GroupPaths, MemberContext
from zkgroup.consumer.machine.transactions import guard
from zkgroup.model import Znode
from zkgroup.model.requests import Read, SetData
from zkgroup.runtime.events import Watch
from zkgroup.runtime.procedures import Procedure, Query, ask, read_done, read_many, write
from zkgroup.znodes.group_records import StoredAssignment
from zkgroup.znodes.ids import split_thread_id


@dataclass(frozen=True, slots=True)
class _Adopted:
    """The assignment znode that this member follows."""

    plan: StoredAssignment
    version: int
    strategy: str
    limit: int


class PlanSteps:
    """The steps of the present assignment."""

    def __init__(self, context: MemberContext, paths: GroupPaths, snapshot: GroupSnapshotReader) -> None:
        self._context = context
        self._paths = paths
        self._snapshot = snapshot
        self._watch: Watch | None = None
        self._adopted: _Adopted | None = None
        self._checked: tuple[int, int] | None = None
        """Version of the znode, and number of claims, at the last look at the moves of others."""
        self._was_cut = False
        """True if a disconnect has ended the watch: the znode may have changed since."""

    @property
    def is_outdated(self) -> bool:
        """Returns whether the assignment znode may have another step than the one that was read."""
        return self._was_cut or (self._watch is not None and self._watch.fired)

    def forget(self) -> None:
        """Drops everything: there is no assignment any more, or it is read anew."""
        self._watch = self._adopted = self._checked = None
        self._was_cut = False

    def forget_watch(self) -> None:
        """Notes a disconnect."""
        self._was_cut = self._watch is not None

    def limit(self, snapshot: MembershipSnapshot) -> int | None:
        """The moves at a time; None without a limit, which every registration has to publish."""
        if self._context.config.settings.rebalance_moves_max is None:
            return None
        limits = [registration.moves_max for registration in snapshot.registrations.values()]
        known = [limit for limit in limits if limit is not None]
        return min(known) if known and len(known) == len(limits) else None

    def read_plan(self, limit: int | None) -> Procedure[Znode | None]:
        """The assignment znode; under a watch if there is a limit."""
        if limit is None:
            ((znode,),) = yield from read_many([self._paths.plan])
            return znode
        watch = Watch(lambda: None)
        (outcome,) = yield from ask(Query(Read(self._paths.plan, watch=True), watch))
        found = read_done(outcome)
        self._watch, self._was_cut = (watch if found is not None else None), False
        return found

    def after(
        self, snapshot: MembershipSnapshot, strategy: str, plan: StoredAssignment | None, limit: int
    ) -> RebalanceStep:
        """The step after a plan of an earlier snapshot."""
        last = RebalanceStep(plan.owners, plan.moving) if plan is not None else RebalanceStep({}, {})
        return next_step(
            strategy,
            snapshot.members,
            snapshot.partitions,
            last,
            snapshot.racks,
            snapshot.registrations,
            limit,
        )

    def adopt(self, plan: StoredAssignment, version: int, strategy: str, limit: int | None) -> None:
        """Takes over the assignment znode as read."""
        self._adopted = None
        if limit is not None and plan.moving:
            self._adopted = _Adopted(plan, version, strategy, limit)

    @property
    def is_due(self) -> bool:
        """Returns whether this member has carried out its part of a step, and has not looked at the
        others."""
        adopted, owned = self._adopted, self._context.owned
        if adopted is None or self._checked == (adopted.version, owned.claims_count) or not owned.is_settled:
            return False
        own = self._context.config.member_id
        return any(split_thread_id(adopted.plan.owners[tp])[0] == own for tp in adopted.plan.moving)

    def check_again(self) -> None:
        """Has the moves of the others looked at once more."""
        self._checked = None

    def advance(self) -> Procedure[None]:
        """Writes the next step if all moves of this one are done."""
        adopted, owned, snapshot = self._adopted, self._context.owned, self._snapshot.newest
        assert adopted is not None
        assert snapshot is not None
        self._checked = (adopted.version, owned.claims_count)
        plan = adopted.plan
        others = [tp for tp in plan.moving if tp not in owned.partitions and tp not in owned.handed_back]
        (znodes,) = yield from read_many(self._paths.owners(others))
        for tp, znode in zip(others, znodes, strict=True):
            if znode is None or znode.data != plan.owners[tp].encode():
                return
        done = StoredAssignment(plan.generation, plan.inputs, plan.owners)
        step = self.after(snapshot, adopted.strategy, done, adopted.limit)
        data = StoredAssignment(plan.generation, plan.inputs, step.owners, step.moving).encode()
        change = SetData(self._paths.plan, data, adopted.version)
        yield from write([guard(self._paths), change], (self._paths.own,))
        self._context.note("plan_step", moves=len(step.moving))
