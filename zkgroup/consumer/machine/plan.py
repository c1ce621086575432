"""Who should own what: from a picture of the group to this member's target (recipes.md 4).

`range` and `roundrobin` are functions of the picture. `sticky` needs a common past, which the znode
`plan` holds: a member that finds it older than its picture computes from the plan's own owners and
writes it under its version; the loser reads again; a plan newer than the picture means another picture.
Every sticky claim then checks the plan's version.

Where this member cannot compute what the others do (a peer's wildcard that Python cannot evaluate), it
stays unassigned rather than disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zkgroup.assignment import assign
from zkgroup.assignment.digest import inputs_digest, result_digest
from zkgroup.consumer.machine.core import Core
from zkgroup.consumer.machine.paths import Paths
from zkgroup.consumer.machine.snapshot import Picture, Snapshot
from zkgroup.consumer.machine.writes import guard
from zkgroup.errors import AssignmentError, ConfigError, CorruptZnodeError
from zkgroup.machinery.procedures import Procedure, read_many, write
from zkgroup.model import TopicPartition
from zkgroup.model.requests import Check, Create, Operation, SetData
from zkgroup.znodes.consumers import Plan
from zkgroup.znodes.ids import split_thread_id, thread_id

STICKY = "sticky"
FALLBACK = "range"
PLAN_ROUNDS_MAX = 20


@dataclass(frozen=True, slots=True)
class Planned:
    """The whole group's assignment as this member computed it."""

    generation: int
    strategy: str
    inputs: str
    owners: Mapping[TopicPartition, str]

    def result(self) -> str:
        return result_digest(self.owners)


class Planning:
    """Turns new pictures into targets."""

    def __init__(self, core: Core, paths: Paths, snapshot: Snapshot) -> None:
        self._core = core
        self._paths = paths
        self._snapshot = snapshot
        self.planned: Planned | None = None
        self.plan_check: Check | None = None
        """For sticky: the plan that claims must still find."""
        self.is_waiting_for_brokers = False
        self.waits_for_releases = False
        """Others must release first what this member gains."""
        self.is_outdated = False
        """A claim was refused at the plan: it is read again before the next one."""
        self._has_read_topics_again = False
        self._told_missing: frozenset[str] = frozenset()

    def forget(self) -> None:
        """The registration is gone: nothing is planned."""
        self.planned, self.plan_check = None, None
        self.is_waiting_for_brokers = self.waits_for_releases = self.is_outdated = False

    def make(self) -> Procedure[None]:
        """Plans from the present picture and takes the plan over, unless the picture must be taken again."""
        core, picture = self._core, self._snapshot.picture
        assert picture is not None
        if not picture.has_brokers:
            if not self.is_waiting_for_brokers:
                core.note("waiting_for_brokers")
            self.is_waiting_for_brokers, core.reason = True, "waiting_for_brokers"
            self._snapshot.is_new = self.is_outdated = False  # a broker makes a new picture, and that a plan
            return
        self.is_waiting_for_brokers = False
        planned = yield from self._planned(picture)
        if planned is not None:
            self._snapshot.is_new = self.is_outdated = self._has_read_topics_again = False
            self._take_over(picture, planned)

    def _planned(self, picture: Picture) -> Procedure[Planned | None]:
        strategy = self._strategy(picture)
        self.plan_check = None
        if picture.not_evaluable:
            self._core.note("unsupported_subscription", members=list(picture.not_evaluable))
            return self._result(picture, strategy, {})
        if strategy == STICKY:
            try:
                return (yield from self._sticky(picture))
            except ConfigError as error:  # the plan does not fit one znode: everybody finds the same
                self._core.note("sticky_refused", detail=str(error))
                strategy = FALLBACK
        try:
            assignment = assign(strategy, picture.members, picture.partitions)
        except AssignmentError as error:
            self._core.note("assignment_refused", detail=str(error))
            kept = {
                tp: thread_id(self._core.config.member_id, held.thread)
                for tp, held in self._core.owned.held.items()
            }
            return self._result(picture, strategy, kept)
        for text in assignment.notes:
            self._core.note("assignment", detail=text)
        return self._result(picture, strategy, assignment.owners)

    def _result(self, picture: Picture, strategy: str, owners: Mapping[TopicPartition, str]) -> Planned:
        # What sticky made of its past is part of what later claims rest on.
        past = owners if strategy == STICKY else None
        inputs = inputs_digest(strategy, picture.members, picture.partitions, past)
        return Planned(picture.generation, strategy, inputs, owners)

    def _strategy(self, picture: Picture) -> str:
        """Ours, but range where sticky is not agreed on by everybody."""
        settings = self._core.config.settings
        strategy = settings.partition_assignment_strategy
        differing = [
            name
            for name, registration in picture.registrations.items()
            if (registration.strategy or FALLBACK) != strategy
            or registration.exclude_internal not in (None, settings.exclude_internal_topics)
        ]
        if differing and (strategy == STICKY or any(picture.registrations[n].strategy for n in differing)):
            self._core.note("assignors_differ", ours=strategy, members=differing)
        return FALLBACK if differing and strategy == STICKY else strategy

    # --- sticky -----------------------------------------------------------------------------------

    def _sticky(self, picture: Picture) -> Procedure[Planned | None]:
        paths = self._paths
        inputs = inputs_digest(STICKY, picture.members, picture.partitions)
        for _ in range(PLAN_ROUNDS_MAX):
            ((znode,),) = yield from read_many([paths.plan])
            plan: Plan | None = None
            if znode is not None:
                try:
                    plan = Plan.decode(znode.path, znode.data)
                except CorruptZnodeError as error:
                    self._snapshot.report_poison(znode, error)
            if plan is not None and znode is not None and plan.generation == picture.generation:
                if plan.inputs == inputs:
                    self.plan_check = Check(paths.plan, znode.stat.version)
                    return self._result(picture, STICKY, plan.owners)
                if not self._has_read_topics_again:
                    # Equal members, other topics: mine may be older. Read after the plan they are not.
                    self._has_read_topics_again = True
                    self._look_again(picture)
                    return None
            if plan is not None and plan.generation > picture.generation:
                self._look_again(picture)
                return None
            previous = plan.owners if plan is not None else None
            owners = assign(STICKY, picture.members, picture.partitions, previous).owners
            data = Plan(picture.generation, inputs, owners).encode()
            change: Operation = (
                Create(paths.plan, data) if znode is None else SetData(paths.plan, data, znode.stat.version)
            )
            yield from write([guard(paths), change], (paths.own,))
        return None

    def _look_again(self, picture: Picture) -> None:
        for topic in picture.partitions:
            self._snapshot.forget_topic(topic)
        self._snapshot.settling.mark_now()

    # --- the target -------------------------------------------------------------------------------

    def _take_over(self, picture: Picture, planned: Planned) -> None:
        core, owned = self._core, self._core.owned
        before, self.planned = self.planned, planned
        core.note(
            "rebalance.begin",
            generation=planned.generation,
            inputs=planned.inputs,
            strategy=planned.strategy,
            members={m.member: dict(m.threads) for m in picture.members},
            partitions={topic: list(numbers) for topic, numbers in picture.partitions.items()},
        )
        owned.handed_back.clear()
        own = core.config.member_id
        threads = next((m.threads for m in picture.members if m.member == own), {})
        self._tell_missing(topic for topic in threads if picture.topic_versions.get(topic) is None)
        numbers = {thread_id(own, n): n for n in range(max(threads.values(), default=0))}
        owned.retarget({tp: numbers[who] for tp, who in planned.owners.items() if who in numbers})
        self.waits_for_releases = self._others_must_release(picture, before)

    def _tell_missing(self, topics: Iterable[str]) -> None:
        """Once for each topic that this member asks for and that does not exist."""
        missing = frozenset(topics)
        for topic in sorted(missing - self._told_missing):
            self._core.note("missing_topic", topic=topic)
        self._told_missing = missing

    def _others_must_release(self, picture: Picture, before: Planned | None) -> bool:
        """Somebody who is still there owned (by the plan before) what this member gains."""
        owned, own = self._core.owned, self._core.config.member_id
        if not owned.wanted:
            return False
        if before is None:
            return len(picture.members) > 1
        for tp in owned.wanted:
            who = before.owners.get(tp)
            member = split_thread_id(who)[0] if who is not None else own
            if member != own and member in picture.registrations:
                return True
        return False
