"""Stored reassignment plans: one phase after the other becomes the request (reassignment, recipes 17).

A phase is submitted when nothing is being moved and the one before is where it shall be. Throttles are set
before it, stay while the plan runs or is paused, and are taken off when it has ended, however it ended.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from zkgroup.controller.machine import event_manager
from zkgroup.controller.machine.context import Brokers, ControllerContext
from zkgroup.controller.machine.controller_election.elector import FENCE_PATHS
from zkgroup.controller.machine.feature import Feature
from zkgroup.controller.machine.fenced_writes import Refusal, Write
from zkgroup.controller.machine.znode_reader import ZnodeReader
from zkgroup.errors import ConfigError
from zkgroup.model import TopicPartition, Znode, ZnodeStat
from zkgroup.model.requests import Create, CreateMissing, Delete, ListChildren, Operation, Read, SetData
from zkgroup.model.text import named
from zkgroup.runtime.procedures import Procedure, Query, ask, list_done, read_done, write
from zkgroup.znodes.admin_requests import Move, Reassignment, admin_path
from zkgroup.znodes.config import ConfigEntity, EntityConfig, config_path, entities_path
from zkgroup.znodes.config_settings import (
    EVERY_REPLICA,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    RATES,
    REPLICAS,
    parse_throttled_replicas,
    throttled_replicas,
)
from zkgroup.znodes.ids import number_of
from zkgroup.znodes.notifications import ConfigChange, NotifyFormat, config_changes_path, notify_format
from zkgroup.znodes.reassignment_records import ENDED, PlanState, StoredPlan, plans_path, surplus_plans

AGAIN_MS: Final = 5_000
"""Pause before a configuration that could not be read or written is tried again."""
PRUNED_MAX: Final = 100
"""Plans deleted in one transaction; when they are gone the watch of the list asks for more."""

_Changes = Callable[[Mapping[ConfigEntity, EntityConfig]], "Mapping[ConfigEntity, EntityConfigWrite]"]
"""Returns the changes of configurations that were read."""


class _Plan(NamedTuple):
    id: str
    stored: StoredPlan
    version: int

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        return frozenset(move.topic_partition for phase in self.stored.phases for move in phase)


_AS_IT_IS: Final = "it has these settings already"


class EntityConfigWrite(NamedTuple):
    """A change of one configuration; settings that are not named stay."""

    set_to: Mapping[str, str]
    removed: Collection[str] = ()


class ReassignmentPlans(Feature):
    """Submits the phases of stored plans, and ends the plans."""

    def loaded(self) -> None:
        self._events.enqueue(event_manager.PLANS)

    def on_plans(self) -> Procedure[None]:
        """The handler of `event_manager.PLANS`: submits the next phase, or ends what has no more."""
        plans = yield from self._read()
        for plan in plans:
            self._events.set_blocked(f"plan {plan.id}", _submittable(plan.stored))
        if self._reassignments.request is not None or self._reassignments:
            return
        for plan in plans:
            if plan.stored.state in ENDED:
                yield from self._end(plan, plan.stored.state, plan.stored.reason)
        if not (running := [each for each in plans if each.stored.state == "running"]):
            return
        plan = running[0]
        if missed := self._missed(plan.stored):
            has_ended = yield from self._end(plan, "failed", missed)
        elif plan.stored.next_phase == len(plan.stored.phases):
            has_ended = yield from self._end(plan, "done", "")
        else:
            has_ended = False
            yield from self._submit(plan)
        if has_ended:  # the next one may begin
            self._events.enqueue(event_manager.PLANS)

    def _missed(self, stored: StoredPlan) -> str | None:
        """Returns what of the last phase is elsewhere, as after a cancellation: the next may rest on it."""
        before = stored.phases[stored.next_phase - 1] if stored.next_phase else ()
        missed = [
            str(move.topic_partition)
            for move in before
            if move.topic_partition in self._context
            and not self._context.is_going(move.topic_partition)
            and self._context.replicas(move.topic_partition) != move.replicas
        ]
        if not missed:
            return None
        return f"phase {stored.next_phase}: {named(missed)} is not on its target replicas"

    def _read(self) -> Procedure[list[_Plan]]:
        """Plans that run, are paused, or have throttles to be taken off: oldest first, each with a watch."""
        (outcome,) = yield from ask(self._reader.watched(ListChildren(plans_path()), event_manager.PLANS))
        names = sorted(list_done(outcome).children)
        for what in [each for each in self._events.blocked if each.startswith("plan ")]:
            self._events.set_blocked(what, None)
        found = yield from self._reader.read_many(StoredPlan.path(name) for name in names)
        there = {name: znode for name in names if (znode := found.get(StoredPlan.path(name))) is not None}
        running = [name for name, znode in there.items() if self._is_active(znode)]
        yield from self._prune({name: znode.stat for name, znode in there.items() if name not in running})
        if not running:
            return []
        outcomes = yield from ask(
            *(self._reader.watched(Read(StoredPlan.path(name)), event_manager.PLANS) for name in running)
        )
        plans = []
        for name, read in zip(running, outcomes, strict=True):
            znode = read_done(read)
            stored = self._reader.decoded(znode, StoredPlan.decode)
            if znode is not None and stored is not None and self._can_be_kept(znode.path, stored):
                plans.append(_Plan(name, stored, znode.stat.version))
        return sorted(plans, key=lambda plan: (plan.stored.time_ms, plan.id))

    def _can_be_kept(self, path: str, stored: StoredPlan) -> bool:
        """Returns whether it can be written again, further on: a plan that can be read may be impossible."""
        try:
            stored.encode()
        except ConfigError as error:
            self._reader.report(path, str(error))
            return False
        return True

    def _is_active(self, znode: Znode) -> bool:
        """Also one that cannot be read, until it can."""
        stored = self._reader.decoded(znode, StoredPlan.decode)
        return stored is None or not stored.is_over

    def _prune(self, over: Mapping[str, ZnodeStat]) -> Procedure[None]:
        """Of plans that are over the last ones stay; one that an operator resumes meanwhile stays too."""
        if surplus := surplus_plans(over)[:PRUNED_MAX]:
            deletions = [Delete(StoredPlan.path(name), over[name].version) for name in surplus]
            yield from write([*self._identity.fence.checks(), *deletions], FENCE_PATHS)

    def _submit(self, plan: _Plan) -> Procedure[None]:
        """Throttles first, then the request (throttles, controller.md 4.6)."""
        stored = plan.stored
        phase = stored.phases[stored.next_phase]
        if not phase:
            yield from self._store(plan, stored.at(stored.next_phase + 1, "running"))
            self._events.enqueue(event_manager.PLANS)
            return
        try:
            write = submit_write(plan.id, stored, plan.version)
        except ConfigError as error:
            yield from self._end(plan, "failed", str(error))
            return
        yield from ask(Query(CreateMissing((admin_path(),))))
        if (rate := stored.throttle) is not None:
            replicas = {each.topic_partition: self._context.replicas(each.topic_partition) for each in phase}
            brokers = {id_ for move in phase for id_ in (*move.replicas, *replicas[move.topic_partition])}
            entities = [
                *map(ConfigEntity.broker, sorted(brokers)),
                *self._topics(move.topic_partition for move in phase),
            ]
            is_throttled = yield from self._configure(
                plan, entities, lambda now: throttle_changes(phase, replicas, now, rate)
            )
            if not is_throttled:
                return
        refusal = yield from self._written(plan, write)
        if refusal is None:
            self._core.note("plan.submitted", plan=plan.id, phase=stored.next_phase, moves=len(phase))
        if refusal is None or refusal.is_conflict:
            self._events.enqueue(event_manager.REASSIGNMENT)

    def _end(self, plan: _Plan, state: PlanState, reason: str) -> Procedure[bool]:
        """Throttles off, then the state that says so; whether it is written."""
        if plan.stored.throttle is not None and not plan.stored.throttles_off:
            (outcome,) = yield from ask(Query(ListChildren(entities_path("brokers"))))
            numbers = {
                number for name in list_done(outcome).children if (number := number_of(name)) is not None
            }
            entities = [*map(ConfigEntity.broker, sorted(numbers)), *self._topics(plan.partitions)]
            is_removed = yield from self._configure(
                plan, entities, lambda now: without_throttles(plan.partitions, now)
            )
            if not is_removed:
                return False
        off = plan.stored.throttle is not None
        ended = dataclasses.replace(plan.stored.at(plan.stored.next_phase, state, reason), throttles_off=off)
        is_written = yield from self._store(plan, ended)
        if is_written:
            self._events.set_blocked(f"plan {plan.id}", None)
            self._core.note("plan.ended", plan=plan.id, state=state, reason=reason)
        return is_written

    def _store(self, plan: _Plan, stored: StoredPlan) -> Procedure[bool]:
        """The plan further on; not where another client has changed it, which its watch reports."""
        path = StoredPlan.path(plan.id)
        write = Write(plan.id, (SetData(path, stored.encode(), plan.version),))
        return (yield from self._written(plan, write)) is None

    def _written(self, plan: _Plan, write: Write) -> Procedure[Refusal | None]:
        refusal = yield from self._states.commit(write)
        if refusal is not None and not refusal.is_conflict:
            self._events.back_off(str(refusal), [f"plan {plan.id}"])
        return refusal

    def _topics(self, partitions: Iterable[TopicPartition]) -> list[ConfigEntity]:
        """Configurations of the topics that there are; a plan may name others, which have none."""
        names = sorted({each.topic for each in partitions})
        return [ConfigEntity.topic(name) for name in names if self._context.topic(name) is not None]

    def _configure(
        self, plan: _Plan, entities: Collection[ConfigEntity], changes: _Changes
    ) -> Procedure[bool]:
        """Reads and changes these configurations. False: one is in the way, and the plan waits."""
        kinds = [entities_path("topics"), entities_path("brokers")]
        yield from ask(Query(CreateMissing((config_path(), config_changes_path(), *kinds))))
        configs = _Configs(self._context, self._reader, changes)
        yield from configs.read(entities)
        obstacles = [f"{path} cannot be read" for path in configs.unreadable]
        if not obstacles:
            refused = yield from self._states.write_all(entities, configs.make, configs.read)
            obstacles = [f"{entity}: {why}" for entity, why in refused.items() if why != _AS_IT_IS]
        if obstacles:
            self._events.set_blocked(f"plan {plan.id}", f"its throttles: {obstacles[0]}")
            self._events.enqueue_later(event_manager.PLANS, AGAIN_MS)
        return not obstacles


def _submittable(stored: StoredPlan) -> str | None:
    if stored.state in ENDED:
        return "waits for its throttles to be removed"
    phases = f"{stored.next_phase} of {len(stored.phases)} phases are submitted"
    return f"{phases}; it is paused" if stored.state == "paused" else phases


class _Configs:
    def __init__(self, context: ControllerContext, reader: ZnodeReader, changes: _Changes) -> None:
        self._context = context
        self._reader = reader
        self._changes = changes
        self._znodes: dict[ConfigEntity, Znode | None] = {}
        self._found: dict[ConfigEntity, EntityConfig] = {}
        self._users_known = False
        self._wanted: Mapping[ConfigEntity, EntityConfigWrite] | None = None
        self.unreadable: list[str] = []

    def read(self, entities: Collection[ConfigEntity]) -> Procedure[None]:
        users = entities_path("users")
        paths = {entity: entity.config_path for entity in entities}
        found = yield from self._reader.read_many([*paths.values(), users])
        self._users_known, self._wanted = users in found, None
        for entity, path in paths.items():
            znode = self._znodes[entity] = found.get(path)
            config = EntityConfig() if znode is None else self._reader.decoded(znode, EntityConfig.decode)
            if config is None or path in self._context.unreadable:
                self.unreadable.append(path)
            else:
                self._found[entity] = config

    def make(self, entity: ConfigEntity) -> Write | str:
        registrations = [broker.registration for broker in self._context.brokers.values()]
        style = notify_format(registrations, self._users_known)
        try:
            if self._wanted is None:
                self._wanted = self._changes(self._found)
            if (change := self._wanted.get(entity)) is None:
                return _AS_IT_IS
            znode, before = self._znodes[entity], self._found[entity]
            return change_of(entity, znode, before, change, style) or _AS_IT_IS
        except ConfigError as error:
            return str(error)


def change_of(
    entity: ConfigEntity,
    znode: Znode | None,
    before: EntityConfig,
    change: EntityConfigWrite,
    style: NotifyFormat,
) -> Write | None:
    """The configuration and its notification; None where nothing changes. Raises ConfigError."""
    after = before.changed(change.set_to, change.removed)
    if after.overrides == before.overrides:
        return None
    path, data = entity.config_path, after.encode()
    notification = Create(ConfigChange.prefix(), ConfigChange(entity, style).encode(), sequential=True)
    first: Operation = Create(path, data) if znode is None else SetData(path, data, znode.stat.version)
    return Write(entity, (first, notification))


def throttle_changes(
    moves: Iterable[Move],
    replicas: Mapping[TopicPartition, Brokers],
    now: Mapping[ConfigEntity, EntityConfig],
    rate: int,
) -> dict[ConfigEntity, EntityConfigWrite]:
    """Returns what slows these moves down to `rate` bytes a second for each broker.

    Rates for every broker in an old or new list, lists for topics: replicas before, and those that are added.
    """
    leaders: dict[str, set[tuple[int, int]]] = {}
    followers: dict[str, set[tuple[int, int]]] = {}
    brokers: set[int] = set()
    for move in moves:
        (topic, number), old = move.topic_partition, replicas.get(move.topic_partition, ())
        if added := [broker for broker in move.replicas if broker not in old]:
            brokers.update(old, move.replicas)
            leaders.setdefault(topic, set()).update((number, broker) for broker in old)
            followers.setdefault(topic, set()).update((number, broker) for broker in added)
    rates = {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)}
    changes = {ConfigEntity.broker(broker): EntityConfigWrite(rates) for broker in sorted(brokers)}
    for topic in sorted(leaders):
        entity = ConfigEntity.topic(topic)
        present = now.get(entity, EntityConfig()).overrides
        lists = {
            LEADER_REPLICAS: _joined(present.get(LEADER_REPLICAS), leaders[topic]),
            FOLLOWER_REPLICAS: _joined(present.get(FOLLOWER_REPLICAS), followers[topic]),
        }
        changes[entity] = EntityConfigWrite(lists)
    return changes


def without_throttles(
    partitions: Collection[TopicPartition], now: Mapping[ConfigEntity, EntityConfig]
) -> dict[ConfigEntity, EntityConfigWrite]:
    """Returns what takes them off: the rates of all these brokers, and these partitions from the lists.

    A list that an operator has set to every replica, or of other partitions, stays.
    """
    changes = {}
    for entity, config in now.items():
        if entity.kind == "brokers":
            changes[entity] = EntityConfigWrite({}, [name for name in RATES if name in config.overrides])
            continue
        mine = {each.partition for each in partitions if each.topic == entity.name}
        set_to, removed = {}, []
        for name in REPLICAS:
            if (text := config.overrides.get(name)) is None:
                continue
            if (pairs := parse_throttled_replicas(text)) is None:
                continue
            if left := {pair for pair in pairs if pair[0] not in mine}:
                set_to[name] = throttled_replicas(left)
            else:
                removed.append(name)
        changes[entity] = EntityConfigWrite(set_to, removed)
    return changes


def submit_write(plan: str, stored: StoredPlan, version: int) -> Write:
    """The next phase as the request, and that it was submitted, together. Raises ConfigError."""
    phase = Reassignment(stored.phases[stored.next_phase])
    further = stored.at(stored.next_phase + 1, "running")
    return Write(
        plan,
        (
            Create(Reassignment.path(), phase.encode()),
            SetData(StoredPlan.path(plan), further.encode(), version),
        ),
    )


def _joined(now: str | None, more: Iterable[tuple[int, int]]) -> str:
    present = parse_throttled_replicas(now) if now else frozenset[tuple[int, int]]()
    return EVERY_REPLICA if present is None else throttled_replicas({*present, *more})
