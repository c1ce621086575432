"""The setup of one schedule of a group: drawn from its seed, printed with a failure."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.simulation.group.application import ApplicationOptions
from zkgroup.model import StaticSubscription, Subscription, Whitelist
from zkgroup.settings import GroupSettings
from zkgroup.znodes.brokers import Topic

GROUP = "g"

MOVES_MAX = 2
"""The greatest `rebalance_moves_max` that is drawn."""

FAULTS = (
    "lost_reply",
    "lost_request",
    "late",
    "cut",
    "expire",
    "isolate",
    "pause",
    "abandon",
    "kill",
    "steal",
    "foreign_write",
    "reset",
    "grow",
    "delete_topic",
    "leave",
    "join",
    "resubscribe",
    "hand_back",
    "poll_timeout",
    "slow_callback",
    "unregister",
    "grow_at_claim",
    "write_at_commit",
    "late_answer",
    "lose_brokers",
    "source_fails",
    "retention",
    "reset_then_write",
)
FREEZES = ("freeze", "unfreeze")
"""Drawn last."""
OFTENER = {"grow_at_claim": 10, "write_at_commit": 10, "lost_reply": 2}
"""Faults that need a rare state: the factor by which they are tried more often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSetup:
    """A group, and the weights of its faults."""

    members: int
    clients: tuple[int, ...]
    """Client of each member; members with the same number share one."""
    topics: Mapping[str, int]
    """Partitions of each topic at the start."""
    strategy: str
    jvm_members: int = 0
    """Number of members like Kafka 0.8.2.2's. With them only safety is checked, because theirs may give
    up."""
    subscriptions: tuple[Subscription, ...]
    policy: str
    steps: int
    stale: bool
    """Servers of clients lag behind by any amount."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Chance of each fault in a thousand steps."""
    session_timeout_ms: int = 6000
    habits: ApplicationOptions = field(default_factory=ApplicationOptions)
    auto_commit: bool = True
    poll_interval_ms: int | None = None
    require_brokers: bool = False
    dead_partition: bool = False
    """Whether one partition is never available."""
    request_bytes_max: int = 800_000
    """Largest transaction in bytes; larger ones are split."""
    bulk_paths: int | None = None
    """Number of paths of a bulk read that are read at once; all of them when None."""
    grace_ms: int | None = None
    """`restart_grace_ms` of the static members."""
    static_members: int = 0
    """The first members are static; all of them when it is large."""

    prepares: tuple[bool, ...] = (False,)
    """Which members prepare partitions before they take them over, in turn."""
    traits: tuple[Mapping[str, Any], ...] = ({},)
    """Settings of the members, in turn, which differ between them."""

    def settings(self, index: int = 0) -> GroupSettings:
        is_static = self.grace_ms is not None and index < self.static_members
        base = GroupSettings(
            consumer_id=f"m{index}",
            restart_grace_ms=self.grace_ms if is_static else None,
            session_timeout_ms=self.session_timeout_ms,
            partition_assignment_strategy=self.strategy,
            on_foreign_commit=self.policy,
            settle_ms=10,
            settle_max_ms=100,
            initial_rebalance_delay_ms=50,
            revoke_timeout_ms=1000,
            rebalance_backoff_ms=500,
            server_tick_ms=500,
            verify_interval_ms=2000,
            publish_interval_ms=3000,
            prepare_timeout_ms=2000,
            ack_mode=self.habits.ack_mode,
            auto_commit_enable=self.auto_commit,
            auto_commit_interval_ms=3000,
            max_poll_interval_ms=self.poll_interval_ms,
            require_brokers=self.require_brokers,
        )
        return replace(base, **self.traits[index % len(self.traits)])


def topic_of(partitions: int) -> Topic:
    """A topic whose partitions are in turn on broker 0 and another, and on the other, which is never
    there."""
    return Topic({number: (0, 1)[number % 2 :] for number in range(partitions)})


def draw(seed: int, steps: int) -> GroupSetup:
    """The setup of a seed. Every fault is drawn independently, so that each pair occurs in some schedule."""
    rng = random.Random(seed)
    members = rng.choice((2, 2, 3, 3, 4))
    clients = tuple(rng.choice((m, max(0, m - 1))) if rng.random() < 0.3 else m for m in range(members))
    topics = {f"t{i}": rng.randint(1, 4) for i in range(rng.choice((1, 1, 2)))}
    strategy = rng.choice(("range", "range", "sticky", "sticky", "roundrobin"))
    weights = {fault: rng.choice((0.0, 0.0, 2.0, 6.0)) * OFTENER.get(fault, 1) for fault in FAULTS}
    setup = GroupSetup(
        members=members,
        clients=clients,
        topics=topics,
        strategy=strategy,
        jvm_members=1 if rng.random() < 0.15 else 0,
        subscriptions=tuple(_subscription(rng, topics, strategy) for _ in range(members + 4)),
        policy=rng.choice(("adopt", "reassert")),
        steps=steps,
        stale=rng.random() < 0.5,
        weights=weights,
        bulk_paths=rng.choice((None, None, None, 1, 2, 5)),
        habits=_habits(rng),
        auto_commit=rng.random() < 0.7,
        poll_interval_ms=rng.choice((None, None, 1000, 3000)),
        require_brokers=rng.random() < 0.3,
        dead_partition=rng.random() < 0.2,
        request_bytes_max=rng.choice((800_000, 800_000, 300, 600)),
        grace_ms=rng.choice((None, None, 3000, 10_000)),
        static_members=rng.choice((2, members + 2)),
        traits=_traits(random.Random(f"traits of {seed}"), strategy),
        prepares=random.Random(f"preparations of {seed}").choice(
            ((False,), (False,), (True,), (True, False))
        ),
    )
    return replace(
        setup, weights={**weights, **{fault: rng.choice((0.0, 0.0, 4.0, 8.0)) for fault in FREEZES}}
    )


def _traits(rng: random.Random, strategy: str) -> tuple[Mapping[str, Any], ...]:
    """What members need not have in common: lists of strategies, capacities, racks."""
    found: list[dict[str, Any]] = [{} for _ in range(7)]
    if rng.random() < 0.3 and strategy != "roundrobin":
        for each in found:
            names = rng.choice((strategy, "sticky,range", "range,sticky", "range"))
            each["partition_assignment_strategy"] = names
    if rng.random() < 0.4 and strategy == "sticky":
        for each in found[: rng.choice((7, 7, 7, 6))]:
            each["rebalance_moves_max"] = rng.choice((1, MOVES_MAX))
    drawn = (
        *(("capacity", (1, 1, 2, 5), 0.2), ("client_rack", "ab", 0.2)),
        *(("commit_rate_max", (1, 2, 20), 0.2), ("commit_history", (True, True, False), 0.3)),
    )
    for name, values, chance in drawn:
        if rng.random() < chance:
            for each in found[: rng.choice((7, 7, 6))]:
                each[name] = rng.choice(values)
    return tuple(found)


def _habits(rng: random.Random) -> ApplicationOptions:
    return ApplicationOptions(
        ack_mode=rng.choice(("auto", "explicit")),
        own_offsets=rng.random() < 0.4,
        bursts=rng.random() < 0.15,
        seeks=rng.random() < 0.4,
        calls_inside=rng.random() < 0.4,
    )


def _subscription(rng: random.Random, topics: Mapping[str, int], strategy: str) -> Subscription:
    if rng.random() < 0.2:
        return Whitelist("t.*")
    threads = 1 if strategy == "roundrobin" else rng.choice((1, 1, 2))
    wanted = topics if strategy == "roundrobin" or rng.random() < 0.8 else list(topics)[:1]
    return StaticSubscription(dict.fromkeys(wanted, threads))
