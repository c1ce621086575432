"""Computes the group's assignment from a snapshot, and publishes the member's view of it.

`range` and `roundrobin` are functions of the snapshot. `sticky` also needs the previous owners, on which all
members agree in the assignment znode (`plan`). A member whose snapshot is newer than that znode computes from
the owners in it and writes the result under its version. If another member was faster, it reads the znode
again. If the znode is newer than the snapshot, it takes a new snapshot. Every sticky claim then checks the
znode's version.

A member that cannot compute the same as the others (a peer's wildcard that Python cannot evaluate) stays
unassigned.

`ViewPublisher` writes `views/<c>`, from which `group verify` reads what each member computed. The znode is
ephemeral and is written only once the member is stable, only if it changed, and at most every
`publish_interval_ms`. Nothing depends on it; after a refusal the member tries again later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from zkgroup.assignment import DEFAULT_STRATEGY, agreed_strategy
from zkgroup.assignment.strategies import common_strategies, needs_previous
from zkgroup.consumer.machine.group_snapshot import GroupSnapshotReader, MembershipSnapshot
from zkgroup.consumer.machine.machine_context import GroupPaths, MemberContext
from zkgroup.consumer.machine.plan_steps import PlanSteps
from zkgroup.consumer.machine.shared_results import (
    Terms,
    assign,
    decoded_assignment,
    inputs_digest,
    result_digest,
)
from zkgroup.consumer.machine.transactions import guard
from zkgroup.errors import AssignmentError, ConfigError, CorruptZnodeError
from zkgroup.model import TopicPartition
from zkgroup.model.assignors import Preference, shared_traits, strategy_names
from zkgroup.model.requests import (
    Check,
    Code,
    Create,
    CreateMissing,
    Delete,
    Multi,
    MultiDone,
    MultiRefused,
    Operation,
    Read,
    SetData,
)
from zkgroup.runtime.procedures import (
    ConnectionLossError,
    Procedure,
    Query,
    ask,
    read_done,
    require_answers,
    write,
)
from zkgroup.znodes.consumers import views_path
from zkgroup.znodes.group_records import StoredAssignment, View
from zkgroup.znodes.ids import split_thread_id, thread_id

ASSIGNMENT_ROUNDS_MAX = 20


@dataclass(frozen=True, slots=True)
class GroupAssignment:
    """The whole group's assignment as this member computed it."""

    generation: int
    strategy: str
    inputs: str
    owners: Mapping[TopicPartition, str]

    def result(self) -> str:
        return result_digest(self.owners)


class AssignmentComputer:
    """Computes the assignment from each new snapshot, and what is assigned to this member."""

    def __init__(self, context: MemberContext, paths: GroupPaths, snapshot: GroupSnapshotReader) -> None:
        self._context = context
        self._paths = paths
        self._snapshot = snapshot
        self.planned: GroupAssignment | None = None
        self.topics: frozenset[str] = frozenset()
        """The topics of the member's own subscription in it."""
        self.plan_check: Check | None = None
        """For sticky: the check of the assignment znode in every claim."""
        self.keeps = False
        """True if what is assigned is what a freeze keeps: it is no assignment of the group, until the next
        one."""
        self.is_waiting_for_brokers = False
        self.waits_for_releases = False
        """True if other members must first release partitions that this member gains."""
        self.is_outdated = False
        """A claim was refused at the assignment znode, which is then read before the next claim."""
        self.steps = PlanSteps(context, paths, snapshot)
        self._has_read_topics_again = False
        self.missing_topics: frozenset[str] = frozenset()
        """Those of `topics` that do not exist; each was reported."""

    def forget(self) -> None:
        """Drops the assignment: the registration is gone."""
        self.planned, self.plan_check, self.keeps = None, None, False
        self.is_waiting_for_brokers = self.waits_for_releases = self.is_outdated = False
        if self._context.config.settings.rebalance_moves_max is not None:
            self.steps.forget()

    def make(self) -> Procedure[bool]:
        """Computes the assignment from the newest snapshot and applies it. False if it could not: the
        snapshot is outdated, or there is no broker."""
        context, snapshot = self._context, self._snapshot.newest
        assert snapshot is not None
        if snapshot.frozen is not None and not snapshot.frozen.allows_takeover:
            self._keep()
            return True
        if not snapshot.has_brokers:
            if not self.is_waiting_for_brokers:
                context.note("waiting_for_brokers")
            self.is_waiting_for_brokers, context.reason = True, "waiting_for_brokers"
            self.steps.forget()
            self._snapshot.is_new = self.is_outdated = False  # a broker makes a new snapshot, and that a plan
            return False
        self.is_waiting_for_brokers = False
        planned = yield from self._planned(snapshot)
        if planned is None:
            self.is_outdated = True  # it is made after the next pass, even if that finds nothing new
            return False
        self._snapshot.is_new = self.is_outdated = self._has_read_topics_again = False
        self._take_over(snapshot, planned)
        return True

    def _keep(self) -> None:
        """Keeps the assignment that the member carries out: the group is frozen."""
        self.is_waiting_for_brokers = self.waits_for_releases = self.is_outdated = False
        self._snapshot.is_new = False
        self.keeps = True
        self.steps.forget()
        self._context.owned.assign(self._snapshot.freeze.kept())

    def _planned(self, snapshot: MembershipSnapshot) -> Procedure[GroupAssignment | None]:
        strategy = self._strategy(snapshot)
        self.plan_check = None
        self.steps.forget()
        if snapshot.not_evaluable:
            self._context.note("unsupported_subscription", members=list(snapshot.not_evaluable))
            return self._result(snapshot, strategy, {})
        if needs_previous(strategy):
            try:
                return (yield from self._from_previous(snapshot, strategy))
            except ConfigError as error:  # the assignment does not fit one znode: the same for every member
                self._context.note("sticky_refused", detail=str(error))
                strategy = DEFAULT_STRATEGY
        try:
            assignment = assign(strategy, snapshot.members, snapshot.partitions, racks=snapshot.racks)
        except AssignmentError as error:
            self._context.note("assignment_refused", detail=str(error))
            kept = {
                tp: thread_id(self._context.config.member_id, owned.thread)
                for tp, owned in self._context.owned.partitions.items()
            }
            return self._result(snapshot, strategy, kept)
        for text in assignment.notes:
            self._context.note("assignment", detail=text)
        return self._result(snapshot, strategy, assignment.owners)

    def _result(
        self, snapshot: MembershipSnapshot, strategy: str, owners: Mapping[TopicPartition, str]
    ) -> GroupAssignment:
        # Later claims depend on the result of the previous assignment as well.
        past = owners if needs_previous(strategy) else None
        inputs = inputs_digest(strategy, snapshot.members, snapshot.partitions, past, snapshot.racks)
        return GroupAssignment(snapshot.generation, strategy, inputs, owners)

    def _strategy(self, snapshot: MembershipSnapshot) -> str:
        """What the group agrees on; the default instead of one that needs the previous assignment while a
        member treats internal topics differently."""
        settings = self._context.config.settings
        preferences = Counter[Preference]()
        for terms, count in snapshot.terms.items():
            preferences[terms.preference] += count
        strategy = agreed_strategy(preferences) or DEFAULT_STRATEGY
        own = strategy_names(settings.partition_assignment_strategy)
        can_agree = bool(common_strategies(preferences))
        odd = {
            terms
            for terms in snapshot.terms
            if terms.exclude_internal not in (None, settings.exclude_internal_topics)
            or not (can_agree or terms.preference.names == own)
        }
        if odd:
            members = [name for name, one in snapshot.registrations.items() if Terms.of(one) in odd]
            self._context.note("assignors_differ", own=",".join(own), members=members)
        return DEFAULT_STRATEGY if odd and needs_previous(strategy) else strategy

    def _from_previous(
        self, snapshot: MembershipSnapshot, strategy: str
    ) -> Procedure[GroupAssignment | None]:
        paths = self._paths
        inputs = inputs_digest(strategy, snapshot.members, snapshot.partitions, racks=snapshot.racks)
        limit = self.steps.limit(snapshot)
        for _ in range(ASSIGNMENT_ROUNDS_MAX):
            znode = yield from self.steps.read_plan(limit)
            plan: StoredAssignment | None = None
            if znode is not None:
                try:
                    plan = decoded_assignment(znode.path, znode.data)
                except CorruptZnodeError as error:
                    self._snapshot.report_corrupt(znode, error)
            if plan is not None and znode is not None and plan.generation == snapshot.generation:
                if plan.inputs == inputs:
                    self.plan_check = Check(paths.plan, znode.stat.version)
                    self.steps.adopt(plan, znode.stat.version, strategy, limit)
                    return self._result(snapshot, strategy, plan.owners)
                if not self._has_read_topics_again:
                    # Equal members, other topics: the snapshot may be older. One read after the znode is not.
                    self._has_read_topics_again = True
                    self._read_again(snapshot)
                    return None
            if plan is not None and plan.generation > snapshot.generation:
                self._read_again(snapshot)
                return None
            if limit is not None:
                owners, moving = self.steps.after(snapshot, strategy, plan, limit)
            else:
                previous, moving = plan.owners if plan is not None else None, {}
                owners = assign(
                    strategy, snapshot.members, snapshot.partitions, previous, snapshot.racks
                ).owners
            data = StoredAssignment(snapshot.generation, inputs, owners, moving).encode()
            change: Operation = (
                Create(paths.plan, data) if znode is None else SetData(paths.plan, data, znode.stat.version)
            )
            yield from write([guard(paths), change], (paths.own,))
        return None

    def _read_again(self, snapshot: MembershipSnapshot) -> None:
        for topic in snapshot.partitions:
            self._snapshot.forget_topic(topic)
        self._snapshot.settling.mark_changed_now()

    def _take_over(self, snapshot: MembershipSnapshot, planned: GroupAssignment) -> None:
        context, owned = self._context, self._context.owned
        before, self.planned = self.planned, planned
        traits = shared_traits(snapshot.members)
        context.note(
            "rebalance.begin",
            generation=planned.generation,
            inputs=planned.inputs,
            strategy=planned.strategy,
            members={m.member: m.threads for m in snapshot.members},
            partitions={topic: list(numbers) for topic, numbers in snapshot.partitions.items()},
            **({"traits": {member: list(each) for member, each in traits.items()}} if traits else {}),
        )
        self.keeps = snapshot.frozen is not None
        kept = self._snapshot.freeze.kept() if self.keeps else {}
        owned.handed_back.clear()
        own = context.config.member_id
        threads = next((m.threads for m in snapshot.members if m.member == own), {})
        self.topics = frozenset(threads)
        self._report_missing(topic for topic in threads if snapshot.topic_versions.get(topic) is None)
        numbers = {thread_id(own, n): n for n in range(max(threads.values(), default=0))}
        mine = {tp: numbers[who] for tp, who in planned.owners.items() if who in numbers}
        owned.assign({**mine, **kept})
        self.waits_for_releases = self._others_must_release(snapshot, before)

    def _report_missing(self, topics: Iterable[str]) -> None:
        """Reports each topic that the member subscribes to and that does not exist, once."""
        missing = frozenset(topics)
        for topic in sorted(missing - self.missing_topics):
            self._context.note("missing_topic", topic=topic)
        self.missing_topics = missing

    def _others_must_release(self, snapshot: MembershipSnapshot, before: GroupAssignment | None) -> bool:
        """Returns whether a registered member owned, by the last assignment, a partition that this gains."""
        owned, own = self._context.owned, self._context.config.member_id
        if not owned.wanted:
            return False
        if before is None:
            return len(snapshot.members) > 1
        for tp in owned.wanted:
            who = before.owners.get(tp)
            member = split_thread_id(who)[0] if who is not None else own
            if member != own and member in snapshot.registrations:
                return True
        return False


PUBLISH_TIMER = "publish"


class HistoryOperations(Protocol):
    """What the history adds to the transaction of a view (`history.HistoryWriter`)."""

    took_ms: int | None

    def operations(self) -> Sequence[Operation]: ...

    def written(self) -> None: ...

    def refused(self, path: str, code: Code) -> None: ...


class ViewPublisher:
    """Publishes this member's view of the assignment, and with it the history of the group."""

    def __init__(
        self,
        context: MemberContext,
        paths: GroupPaths,
        assignments: AssignmentComputer,
        history: HistoryOperations,
    ) -> None:
        self._context = context
        self._paths = paths
        self._assignments = assignments
        self._history = history
        self.is_due = False
        self._published: tuple[int, str] | None = None
        self._version: int | None = None
        """Data version of this member's view; None if there is none."""
        self._next_ms = 0

    def stop(self) -> None:
        """Drops the state of the view: the registration is gone, and with its session the view."""
        self.is_due, self._published, self._version = False, None, None
        self._context.cancel_timer(PUBLISH_TIMER)

    def stable(self) -> None:
        """Schedules a publication: the member has carried the assignment out. It waits for the interval."""
        planned = self._assignments.planned
        if planned is None or self._published == (planned.generation, planned.inputs):
            return
        at_ms = max(
            self._next_ms, self._context.now.ms + self._context.jittered(self._interval_ms() / 2, 0.5)
        )
        self._context.set_timer_sooner(PUBLISH_TIMER, at_ms)

    def timer_fired(self) -> None:
        self.is_due = True

    def publish(self) -> Procedure[None]:
        """Writes the view in one guarded write; after a refusal it reads the znode and tries again later."""
        planned = self._assignments.planned
        if planned is None:
            self.is_due = False
            return
        self._next_ms = self._context.now.ms + self._interval_ms()
        data = View(planned.generation, planned.inputs, planned.result(), self._history.took_ms).encode()
        change: Operation = (
            Create(self._paths.view, data, ephemeral=True)
            if self._version is None
            else SetData(self._paths.view, data, self._version)
        )
        own = [guard(self._paths), change]
        operations = [*own, *self._history.operations()]
        outcomes = yield (Query(Multi(tuple(operations))),)
        (answer,) = outcomes
        if isinstance(answer, MultiRefused) and answer.index >= len(own):
            self.is_due = False
            self._history.refused(operations[answer.index].path, answer.code)
            self._context.set_timer_sooner(PUBLISH_TIMER, self._next_ms)
            return
        require_answers(outcomes, [operations], (self._paths.own,))
        self.is_due = False
        if isinstance(answer, MultiDone):
            self._version = 0 if self._version is None else self._version + 1
            self._published = (planned.generation, planned.inputs)
            self._history.written()
        else:
            yield from self._read_version()

    def remove(self) -> Procedure[None]:
        """Deletes the view, before a member that shares its client leaves."""
        version, self._version = self._version, None
        if version is None:
            return
        try:
            yield from write([guard(self._paths), Delete(self._paths.view, version)], (self._paths.own,))
        except ConnectionLossError:
            self._version = version  # the leave is tried again
            raise

    def _read_version(self) -> Procedure[None]:
        (outcome,) = yield from ask(Query(Read(self._paths.view)))
        znode, session = read_done(outcome), self._context.session
        if znode is None:
            yield from ask(Query(CreateMissing((views_path(self._context.config.group),))))
        mine = znode is not None and session is not None and znode.stat.ephemeral_owner == session.session_id
        self._version = znode.stat.version if mine and znode is not None else None
        self._context.set_timer_sooner(PUBLISH_TIMER, self._next_ms)

    def _interval_ms(self) -> int:
        return self._context.config.settings.publish_interval_ms
