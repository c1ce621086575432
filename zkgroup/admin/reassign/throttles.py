"""Throttles of a reassignment: set before it begins, removed when it has ended.

Rates are set on every broker of an old or new list; throttled replicas are set on the topics: for leaders,
all that a moving partition had before; for followers, those that it gets. Other settings of an operator stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from zkgroup.admin.cluster.controller import ControllerInfo, read_controller_info
from zkgroup.admin.configs import ConfigPlan, operations_of, plan_configs, prepare
from zkgroup.admin.guards import write
from zkgroup.errors import ConfigError
from zkgroup.groups.ensemble import Ensemble
from zkgroup.groups.snapshot import value_of
from zkgroup.model import TopicPartition
from zkgroup.znodes.config import ConfigEntity, EntityConfig, TopicConfig, entities_path
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
from zkgroup.znodes.notifications import NotifyFormat

Lists = Mapping[TopicPartition, tuple[tuple[int, ...], tuple[int, ...]]]
"""Partition to replica lists before and after."""

ENTITIES_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Throttled:
    """Names what slows replication down now."""

    brokers: Mapping[int, Mapping[str, str]]
    """Broker to its rates."""
    topics: Mapping[str, Mapping[str, str]]
    """Topic to its throttled replicas."""

    def __bool__(self) -> bool:
        return bool(self.brokers or self.topics)

    @property
    def named(self) -> str:
        """`brokers 1, 2 and topic orders`."""
        whose = [("broker", list(map(str, self.brokers))), ("topic", list(self.topics))]
        parts = [
            f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names)}" for kind, names in whose if names
        ]
        return " and ".join(parts)

    @property
    def is_of_moves(self) -> bool:
        """True if a move has set it, as far as the znodes show: topics name the replicas of moves one by one.

        `*` for every replica of a topic, and rates without any topic, were set by an operator.
        """
        lists = [value for named in self.topics.values() for value in named.values()]
        return bool(lists) and EVERY_REPLICA not in (value.strip() for value in lists)

    def of_moves(self, more: Iterable[int] = ()) -> Throttled:
        """Without the rates of brokers that have no throttled replica: an operator has set these.

        `more` are brokers of moves whose topics may be gone, and their lists with them.
        """
        named = set(more)
        for value in (value for lists in self.topics.values() for value in lists.values()):
            with suppress(ConfigError):
                named |= {broker for _, broker in parse_throttled_replicas(value) or ()}
        return Throttled({id_: rates for id_, rates in self.brokers.items() if id_ in named}, self.topics)


def plan_throttle(
    ensemble: Ensemble,
    moving: Lists,
    rate: int,
    info: ControllerInfo,
    format: NotifyFormat | None = None,  # noqa: A002
) -> tuple[ConfigPlan, ...]:
    """The configurations that slow these moves down to `rate` bytes a second for each broker."""
    copying = {tp: (old, new) for tp, (old, new) in moving.items() if set(new) - set(old)}
    brokers = sorted({broker for old, new in copying.values() for broker in (*old, *new)})
    entities = {topic: ConfigEntity.topic(topic) for topic in sorted({tp.topic for tp in copying})}
    znodes = ensemble.zk.read_many([entity.config_path for entity in entities.values()])
    rates = {LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)}
    changes: dict[ConfigEntity, tuple[Mapping[str, str], Collection[str]]] = {
        ConfigEntity.broker(broker): (rates, ()) for broker in brokers
    }
    for topic, entity in entities.items():
        mine = {tp.partition: both for tp, both in copying.items() if tp.topic == topic}
        leaders = {(number, broker) for number, (old, _) in mine.items() for broker in old}
        followers = {
            (number, broker) for number, (old, new) in mine.items() for broker in new if broker not in old
        }
        znode = znodes[entity.config_path]
        now = EntityConfig.decode(znode.path, znode.data).overrides if znode else {}
        lists = {
            LEADER_REPLICAS: _joined(now.get(LEADER_REPLICAS), leaders),
            FOLLOWER_REPLICAS: _joined(now.get(FOLLOWER_REPLICAS), followers),
        }
        changes[entity] = (lists, ())
    return plan_configs(ensemble, changes, info=info, format=format)


def read_throttles(ensemble: Ensemble, topics: Iterable[str]) -> Throttled:
    """The rates of all brokers, and throttled replicas of these topics; what is unreadable is left out."""
    parent = entities_path("brokers")
    brokers = {number: f"{parent}/{number}" for number in ensemble.numbers_below(parent)}
    paths = {topic: TopicConfig.path(topic) for topic in sorted(set(topics))}
    znodes = ensemble.zk.read_many([*brokers.values(), *paths.values()])

    def chosen(path: str, wanted: Sequence[str]) -> dict[str, str]:
        znode = znodes[path]
        config = value_of(znode, EntityConfig.decode)
        return {name: value for name, value in (config.overrides if config else {}).items() if name in wanted}

    rates = {broker: found for broker, path in brokers.items() if (found := chosen(path, RATES))}
    lists = {topic: found for topic, path in paths.items() if (found := chosen(path, REPLICAS))}
    return Throttled(rates, lists)


def clear_throttles(ensemble: Ensemble, throttled: Throttled) -> int:
    """Removes what `read_throttles` found; the result is the number of configurations written.

    Raises ConflictError where one has changed since; repeating goes on with the rest.
    """
    info = read_controller_info(ensemble)
    named = {ConfigEntity.topic(topic): tuple(names) for topic, names in throttled.topics.items()}
    named |= {ConfigEntity.broker(broker): tuple(names) for broker, names in throttled.brokers.items()}
    changes: dict[ConfigEntity, tuple[Mapping[str, str], Collection[str]]] = {
        entity: ({}, names) for entity, names in named.items()
    }
    plans = plan_configs(ensemble, changes, info=info)
    for start in range(0, len(plans), ENTITIES_AT_ONCE):
        batch = plans[start : start + ENTITIES_AT_ONCE]
        prepare(ensemble, batch)
        operations = [operation for plan in batch for operation in operations_of(plan)]
        write(ensemble, operations, batch[-1].entity.config_path, batch[-1].after.encode())
    return len(plans)


def _joined(now: str | None, more: Iterable[tuple[int, int]]) -> str:
    """The replicas throttled already, and these."""
    present = parse_throttled_replicas(now) if now else frozenset[tuple[int, int]]()
    return EVERY_REPLICA if present is None else throttled_replicas({*present, *more})
