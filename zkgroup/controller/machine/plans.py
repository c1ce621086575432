"""Plans that outlive the tool that made them: one phase after the other becomes the request (recipes 17).

A phase is submitted when nothing is being moved and the one before is where it shall be. Throttles are set
before it, stay while the plan runs or rests, and are taken off when it has ended, however it ended.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from zkgroup.controller.machine import plan_writes
from zkgroup.controller.machine.agenda import Look
from zkgroup.controller.machine.election import FENCE_PATHS
from zkgroup.controller.machine.fence import Refusal, Write
from zkgroup.controller.machine.plan_writes import Change
from zkgroup.controller.machine.reign import Reign
from zkgroup.controller.machine.states import commit, write_all
from zkgroup.errors import ConfigError
from zkgroup.machinery.procedures import Procedure, Query, ask, list_done, read_done, write
from zkgroup.model import TopicPartition, Znode, ZnodeStat
from zkgroup.model.requests import CreateMissing, Delete, ListChildren, Read, SetData
from zkgroup.znodes.admin_requests import admin_path
from zkgroup.znodes.config_changes import config_changes_path, notify_format
from zkgroup.znodes.config_entity import ConfigEntity, config_path, entities_path
from zkgroup.znodes.configs import EntityConfig
from zkgroup.znodes.ids import number_of
from zkgroup.znodes.reassignment_records import ENDED, PlanState, StoredPlan, plans_path, surplus_plans

NAMED: Final = 5
"""Partitions that a reason names."""
AGAIN_MS: Final = 5_000
"""Pause before a configuration that could not be read or written is tried again."""
PRUNED_MAX: Final = 100
"""Plans deleted in one transaction; when they are gone the watch of the list asks for more."""

_Changes = Callable[[Mapping[ConfigEntity, EntityConfig]], Mapping[ConfigEntity, Change]]
"""What is to become of configurations as they were read."""


class _Plan(NamedTuple):
    """A plan that needs something done, as it stands."""

    id: str
    stored: StoredPlan
    version: int

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        return frozenset(move.topic_partition for phase in self.stored.phases for move in phase)


def look(reign: Reign, _: str = "") -> Procedure[None]:
    """The duty of `Look.PLANS`: submits the next phase, or ends what has no more."""
    plans = yield from _read(reign)
    for plan in plans:
        reign.wait(f"plan {plan.id}", _standing(plan.stored))
    if reign.moves.request is not None or reign.moves:
        return
    for plan in plans:
        if plan.stored.state in ENDED:
            yield from _end(reign, plan, plan.stored.state, plan.stored.reason)
    if not (running := [each for each in plans if each.stored.state == "running"]):
        return
    plan = running[0]
    if missed := _missed(reign, plan.stored):
        has_ended = yield from _end(reign, plan, "failed", missed)
    elif plan.stored.next_phase == len(plan.stored.phases):
        has_ended = yield from _end(reign, plan, "done", "")
    else:
        has_ended = False
        yield from _submit(reign, plan)
    if has_ended:  # the next one may begin
        reign.look(Look.PLANS)


def _missed(reign: Reign, stored: StoredPlan) -> str | None:
    """What of the phase before is elsewhere, as after a cancellation: the next one may rest on it."""
    before = stored.phases[stored.next_phase - 1] if stored.next_phase else ()
    missed = [
        str(move.topic_partition)
        for move in before
        if move.topic_partition in reign.picture
        and not reign.picture.is_going(move.topic_partition)
        and reign.picture.replicas(move.topic_partition) != move.replicas
    ]
    if not missed:
        return None
    named = ", ".join(missed[:NAMED])
    more = f" and {len(missed) - NAMED} more" if len(missed) > NAMED else ""
    return f"phase {stored.next_phase}: {named}{more} is not where it shall be"


def _standing(stored: StoredPlan) -> str | None:
    if stored.state in ENDED:
        return "waits for its throttles to be taken off"
    phases = f"{stored.next_phase} of {len(stored.phases)} phases are submitted"
    return f"{phases}; it is paused" if stored.state == "paused" else phases


def _read(reign: Reign) -> Procedure[list[_Plan]]:
    """Plans that run or rest, or have throttles to be taken off: oldest first, each with a watch."""
    (outcome,) = yield from ask(reign.watched(ListChildren(plans_path()), Look.PLANS))
    names = sorted(list_done(outcome).children)
    for what in [each for each in reign.waiting if each.startswith("plan ")]:
        reign.wait(what, None)
    found = yield from reign.read_many(StoredPlan.path(name) for name in names)
    there = {name: znode for name in names if (znode := found.get(StoredPlan.path(name))) is not None}
    active = [name for name, znode in there.items() if _is_active(reign, znode)]
    yield from _prune(reign, {name: znode.stat for name, znode in there.items() if name not in active})
    if not active:
        return []
    outcomes = yield from ask(*(reign.watched(Read(StoredPlan.path(name)), Look.PLANS) for name in active))
    plans = []
    for name, read in zip(active, outcomes, strict=True):
        znode = read_done(read)
        stored = reign.decoded(znode, StoredPlan.decode)
        if znode is not None and stored is not None and _can_be_kept(reign, znode.path, stored):
            plans.append(_Plan(name, stored, znode.stat.version))
    return sorted(plans, key=lambda plan: (plan.stored.time_ms, plan.id))


def _can_be_kept(reign: Reign, path: str, stored: StoredPlan) -> bool:
    """Whether it can be written again, further on; what can be read need not be a plan that can be done."""
    try:
        stored.encode()
    except ConfigError as error:
        reign.report(path, str(error))
        return False
    return True


def _is_active(reign: Reign, znode: Znode) -> bool:
    """Also one that cannot be read, until it can."""
    stored = reign.decoded(znode, StoredPlan.decode)
    return stored is None or not stored.is_over


def _prune(reign: Reign, over: Mapping[str, ZnodeStat]) -> Procedure[None]:
    """Of plans that are over the last ones stay; one that somebody lets run again meanwhile stays too."""
    if doomed := surplus_plans(over)[:PRUNED_MAX]:
        deletions = [Delete(StoredPlan.path(name), over[name].version) for name in doomed]
        yield from write([*reign.fence.checks(), *deletions], FENCE_PATHS)


def _is_throttled(stored: StoredPlan) -> bool:
    return stored.throttle is not None and not stored.throttles_off


def _submit(reign: Reign, plan: _Plan) -> Procedure[None]:
    """Throttles first, then the request (controller.md 4.6)."""
    stored = plan.stored
    phase = stored.phases[stored.next_phase]
    if not phase:
        yield from _store(reign, plan, stored.at(stored.next_phase + 1, "running"))
        reign.look(Look.PLANS)
        return
    try:
        write = plan_writes.submit(plan.id, stored, plan.version)
    except ConfigError as error:
        yield from _end(reign, plan, "failed", str(error))
        return
    yield from ask(Query(CreateMissing((admin_path(),))))
    if (rate := stored.throttle) is not None:
        replicas = {each.topic_partition: reign.picture.replicas(each.topic_partition) for each in phase}
        brokers = {id_ for move in phase for id_ in (*move.replicas, *replicas[move.topic_partition])}
        entities = [
            *map(ConfigEntity.broker, sorted(brokers)),
            *_topics(reign, (move.topic_partition for move in phase)),
        ]
        why = yield from _configure(
            reign, entities, lambda now: plan_writes.throttles(phase, replicas, now, rate)
        )
        if why is not None:
            _put_off(reign, plan, why)
            return
    refusal = yield from _written(reign, plan, write)
    if refusal is None:
        reign.core.note("plan.submitted", plan=plan.id, phase=stored.next_phase, moves=len(phase))
    if refusal is None or refusal.is_conflict:
        reign.look(Look.REASSIGNMENT)


def _end(reign: Reign, plan: _Plan, state: PlanState, reason: str) -> Procedure[bool]:
    """Throttles off, then the state that says so; whether it is written."""
    if _is_throttled(plan.stored):
        (outcome,) = yield from ask(Query(ListChildren(entities_path("brokers"))))
        numbers = {number for name in list_done(outcome).children if (number := number_of(name)) is not None}
        entities = [*map(ConfigEntity.broker, sorted(numbers)), *_topics(reign, plan.partitions)]
        why = yield from _configure(
            reign, entities, lambda now: plan_writes.without_throttles(plan.partitions, now)
        )
        if why is not None:
            _put_off(reign, plan, why)
            return False
    off = plan.stored.throttle is not None
    ended = dataclasses.replace(plan.stored.at(plan.stored.next_phase, state, reason), throttles_off=off)
    is_written = yield from _store(reign, plan, ended)
    if is_written:
        reign.wait(f"plan {plan.id}", None)
        reign.core.note("plan.ended", plan=plan.id, state=state, reason=reason)
    return is_written


def _store(reign: Reign, plan: _Plan, stored: StoredPlan) -> Procedure[bool]:
    """The plan further on; not where somebody has changed it, which its watch tells."""
    path = StoredPlan.path(plan.id)
    write = Write(plan.id, (SetData(path, stored.encode(), plan.version),))
    return (yield from _written(reign, plan, write)) is None


def _written(reign: Reign, plan: _Plan, write: Write) -> Procedure[Refusal | None]:
    refusal = yield from commit(reign, write)
    if refusal is not None and not refusal.is_conflict:
        reign.rest(str(refusal), [f"plan {plan.id}"])
    return refusal


def _put_off(reign: Reign, plan: _Plan, why: str) -> None:
    reign.wait(f"plan {plan.id}", f"its throttles: {why}")
    reign.later(Look.PLANS, AGAIN_MS)


# --- configurations -------------------------------------------------------------------------------


def _topics(reign: Reign, partitions: Iterable[TopicPartition]) -> list[ConfigEntity]:
    """Configurations of the topics that there are; a plan may name others, which have none."""
    names = sorted({each.topic for each in partitions})
    return [ConfigEntity.topic(name) for name in names if reign.picture.topic(name) is not None]


class _Configs:
    """Configurations read together, and what is to become of them."""

    def __init__(self, reign: Reign, changes: _Changes) -> None:
        self._reign = reign
        self._changes = changes
        self._znodes: dict[ConfigEntity, Znode | None] = {}
        self._found: dict[ConfigEntity, EntityConfig] = {}
        self._users_known = False
        self._wanted: Mapping[ConfigEntity, Change] | None = None
        self.unreadable: list[str] = []

    def read(self, entities: Collection[ConfigEntity]) -> Procedure[None]:
        users = entities_path("users")
        paths = {entity: entity.config_path for entity in entities}
        found = yield from self._reign.read_many([*paths.values(), users])
        self._users_known, self._wanted = users in found, None
        for entity, path in paths.items():
            znode = self._znodes[entity] = found.get(path)
            config = EntityConfig() if znode is None else self._reign.decoded(znode, EntityConfig.decode)
            if config is None or path in self._reign.picture.unreadable:
                self.unreadable.append(path)
            else:
                self._found[entity] = config

    def make(self, entity: ConfigEntity) -> Write | str:
        """The write of one, on what was read last."""
        registrations = [broker.registration for broker in self._reign.picture.brokers.values()]
        style = notify_format(registrations, self._users_known)
        try:
            if self._wanted is None:
                self._wanted = self._changes(self._found)
            if (change := self._wanted.get(entity)) is None:
                return _AS_IT_IS
            znode, before = self._znodes[entity], self._found[entity]
            return plan_writes.change_of(entity, znode, before, change, style) or _AS_IT_IS
        except ConfigError as error:
            return str(error)


_AS_IT_IS: Final = "it is so already"


def _configure(reign: Reign, entities: Collection[ConfigEntity], changes: _Changes) -> Procedure[str | None]:
    """Reads and changes these configurations. Returns why not, where one is in the way."""
    kinds = [entities_path("topics"), entities_path("brokers")]
    yield from ask(Query(CreateMissing((config_path(), config_changes_path(), *kinds))))
    configs = _Configs(reign, changes)
    yield from configs.read(entities)
    if configs.unreadable:
        return f"{configs.unreadable[0]} cannot be read"
    refused = yield from write_all(reign, entities, configs.make, configs.read)
    return next((f"{entity}: {why}" for entity, why in refused.items() if why != _AS_IT_IS), None)
