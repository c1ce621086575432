"""The transactions of stored plans: requests, progress, throttles. Source: recipes 17, controller.md 4.6."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from zkgroup.controller.machine.fence import Write
from zkgroup.controller.machine.picture import Brokers
from zkgroup.model import TopicPartition, Znode
from zkgroup.model.requests import Create, Operation, SetData
from zkgroup.znodes.admin_requests import Move, Reassignment
from zkgroup.znodes.config_changes import ConfigChange, NotifyFormat
from zkgroup.znodes.config_entity import ConfigEntity
from zkgroup.znodes.configs import EntityConfig
from zkgroup.znodes.reassignment_records import StoredPlan
from zkgroup.znodes.throttles import (
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


class Change(NamedTuple):
    """What is to become of one configuration; settings that are not named stay."""

    set_to: Mapping[str, str]
    removed: Collection[str] = ()


def change_of(
    entity: ConfigEntity, znode: Znode | None, before: EntityConfig, change: Change, style: NotifyFormat
) -> Write | None:
    """The configuration and its notification; None where nothing changes. Raises ConfigError."""
    after = before.changed(change.set_to, change.removed)
    if after.overrides == before.overrides:
        return None
    path, data = entity.config_path, after.encode()
    told = Create(ConfigChange.prefix(), ConfigChange(entity, style).encode(), sequential=True)
    first: Operation = Create(path, data) if znode is None else SetData(path, data, znode.stat.version)
    return Write(entity, (first, told))


def throttles(
    moves: Iterable[Move],
    replicas: Mapping[TopicPartition, Brokers],
    now: Mapping[ConfigEntity, EntityConfig],
    rate: int,
) -> dict[ConfigEntity, Change]:
    """What slows these moves down to `rate` bytes a second for each broker.

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
    changes = {ConfigEntity.broker(broker): Change(rates) for broker in sorted(brokers)}
    for topic in sorted(leaders):
        entity = ConfigEntity.topic(topic)
        present = now.get(entity, EntityConfig()).overrides
        lists = {
            LEADER_REPLICAS: _joined(present.get(LEADER_REPLICAS), leaders[topic]),
            FOLLOWER_REPLICAS: _joined(present.get(FOLLOWER_REPLICAS), followers[topic]),
        }
        changes[entity] = Change(lists)
    return changes


def without_throttles(
    partitions: Collection[TopicPartition], now: Mapping[ConfigEntity, EntityConfig]
) -> dict[ConfigEntity, Change]:
    """What takes them off: the rates of all these brokers, and these partitions from the lists.

    A list that an operator has set to every replica, or of other partitions, stays.
    """
    changes = {}
    for entity, config in now.items():
        if entity.kind == "brokers":
            changes[entity] = Change({}, [name for name in RATES if name in config.overrides])
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
        changes[entity] = Change(set_to, removed)
    return changes


def submit(plan: str, stored: StoredPlan, version: int) -> Write:
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
    """The replicas throttled already, and these."""
    present = parse_throttled_replicas(now) if now else frozenset[tuple[int, int]]()
    return EVERY_REPLICA if present is None else throttled_replicas({*present, *more})
