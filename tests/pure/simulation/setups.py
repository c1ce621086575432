"""The groups of the exhaustive model (`tests/programs/model`) as setups of the simulation.

The model walks every interleaving of a small group of simplified members; the simulator draws some
interleavings of the real machine in the same groups, under the same faults.
"""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.group.application import ApplicationOptions
from tests.simulation.group.setup import GroupSetup
from zkgroup.model import StaticSubscription

SEEDS_OF_A_GROUP = 1
"""`tests/long/simulation` goes on from here."""

OFTEN = 8.0
LOST = {"lost_reply": OFTEN, "lost_request": OFTEN / 2, "late": OFTEN / 2}
EXPIRE = {"expire": OFTEN / 2, "isolate": OFTEN / 2}
JOIN_LEAVE = {"join": OFTEN / 2, "leave": OFTEN / 2}


def group(members: int = 2, partitions: int = 2, **changes: object) -> GroupSetup:
    """A group on one topic; every member has one thread."""
    setup = GroupSetup(
        members=members,
        clients=tuple(range(members)),
        topics={"t0": partitions},
        strategy="range",
        subscriptions=(StaticSubscription({"t0": 1}),) * (members + 2),
        policy="adopt",
        steps=400,
        stale=False,
    )
    return replace(setup, **changes)  # type: ignore[arg-type]


SETUPS: dict[str, GroupSetup] = {
    "join": group(weights={**EXPIRE, **JOIN_LEAVE, **LOST}),
    "lost-claims": group(weights={"lost_reply": 10 * OFTEN, **JOIN_LEAVE}, partitions=4),
    "expiry": group(weights={**EXPIRE, **LOST}),
    "takeover": group(weights={**EXPIRE, **JOIN_LEAVE, **LOST}, partitions=1),
    "foreign-writes": group(weights={**LOST, "steal": OFTEN, "foreign_write": OFTEN}),
    "foreign-writes-expiry": group(weights={**EXPIRE, "steal": OFTEN, "foreign_write": OFTEN}),
    "reassert": group(weights={"steal": OFTEN, "foreign_write": OFTEN}, policy="reassert"),
    "reset": group(weights={**LOST, "steal": OFTEN, "reset": OFTEN}),
    "reset-then-stranger": group(weights={**LOST, "reset": OFTEN, "foreign_write": OFTEN}),
    "reset-then-stranger-reassert": group(
        weights={"reset": OFTEN, "foreign_write": OFTEN, "steal": OFTEN}, policy="reassert"
    ),
    "shared-client": group(weights={**EXPIRE, **JOIN_LEAVE, "steal": OFTEN}, clients=(0, 0)),
    "shared-client-lost": group(weights={**EXPIRE, **JOIN_LEAVE, **LOST}, clients=(0, 0)),
    "abandon": group(weights={**EXPIRE, **LOST, "abandon": OFTEN}),
    "abandon-shared": group(weights={"abandon": OFTEN, "steal": OFTEN}, clients=(0, 0)),
    "resubscribe": group(
        weights={**EXPIRE, **LOST, "resubscribe": OFTEN},
        subscriptions=(StaticSubscription({"t0": 1}), StaticSubscription({})) * 2,
    ),
    "unregister": group(weights={**LOST, "unregister": OFTEN}),
    "two-by-two": group(weights={**EXPIRE, **JOIN_LEAVE, **LOST}, partitions=4),
    "freeze": group(
        3,
        4,
        weights={**EXPIRE, **JOIN_LEAVE, **LOST, "slow_callback": OFTEN, "freeze": OFTEN, "unfreeze": OFTEN},
    ),
    "three": group(3, 2, weights={**EXPIRE, "steal": OFTEN}),
    "three-by-two": group(3, 4, weights=EXPIRE),
    "threads": group(
        weights={**LOST, **JOIN_LEAVE, "grow": OFTEN},
        subscriptions=(StaticSubscription({"t0": 2}), StaticSubscription({"t0": 1})) * 2,
        partitions=3,
    ),
    "sticky": group(weights=EXPIRE, strategy="sticky"),
    "sticky-lost": group(weights={**EXPIRE, **LOST, "steal": OFTEN}, strategy="sticky"),
    "sticky-three": group(3, 4, weights={**EXPIRE, **JOIN_LEAVE}, strategy="sticky"),
    "sticky-steps": group(
        3,
        6,
        weights={**EXPIRE, **JOIN_LEAVE, **LOST, "cut": OFTEN},
        strategy="sticky",
        traits=({"rebalance_moves_max": 1},),
        steps=800,
    ),
    "warm-up": group(
        3,
        4,
        weights={**EXPIRE, **JOIN_LEAVE, **LOST, "cut": OFTEN, "kill": OFTEN},
        prepares=(True,),
        steps=800,
    ),
    "warm-up-in-steps": group(
        3,
        4,
        weights={**EXPIRE, **JOIN_LEAVE, "freeze": OFTEN},
        strategy="sticky",
        traits=({"rebalance_moves_max": 1},),
        prepares=(True, True, False),
        steps=800,
    ),
    "sticky-lagging": group(weights={**EXPIRE, "grow": OFTEN}, strategy="sticky", stale=True),
    "lagging": group(weights={**EXPIRE, "cut": OFTEN}, stale=True),
    "lagging-steal": group(weights={"steal": OFTEN, "cut": OFTEN}, stale=True),
    "lagging-lost": group(weights={**LOST, "steal": OFTEN}, stale=True),
    "lagging-reset": group(weights={"steal": OFTEN, "reset": OFTEN, "cut": OFTEN}, stale=True),
    "pauses": group(weights={"pause": OFTEN, "isolate": OFTEN, "slow_callback": OFTEN}),
    "seeks": group(weights=JOIN_LEAVE, habits=ApplicationOptions(seeks=True, calls_inside=True), steps=1200),
    "bursts": group(weights=LOST, habits=ApplicationOptions(bursts=True)),
    "own-offsets": group(
        weights={**JOIN_LEAVE, "hand_back": OFTEN}, habits=ApplicationOptions(own_offsets=True)
    ),
    "late-answers": group(weights={"late_answer": 4 * OFTEN}),
    "slow-callbacks": group(weights={"unregister": 2 * OFTEN, "slow_callback": 2 * OFTEN}, steps=800),
    "static": group(3, 4, weights={"kill": OFTEN, **JOIN_LEAVE, **EXPIRE}, grace_ms=8000, static_members=9),
    "polls": group(weights={"poll_timeout": 12 * OFTEN}, poll_interval_ms=1000, steps=800),
    "growing": group(weights={**JOIN_LEAVE, "grow_at_claim": 20 * OFTEN}),
    "dead-partition": group(partitions=4, weights=EXPIRE, dead_partition=True),
    "threads-handed-back": group(
        weights={**JOIN_LEAVE, "hand_back": 3 * OFTEN, "grow": OFTEN},
        subscriptions=(StaticSubscription({"t0": 2}), StaticSubscription({"t0": 1})) * 2,
        partitions=3,
    ),
    "sticky-without-brokers": group(
        3,
        4,
        weights={**JOIN_LEAVE, **EXPIRE, "resubscribe": OFTEN, "lose_brokers": 6 * OFTEN},
        strategy="sticky",
        stale=True,
        require_brokers=True,
    ),
    "overwritten-resets": group(
        weights={"reset_then_write": 4 * OFTEN, "isolate": 2 * OFTEN, "cut": 2 * OFTEN, "late_answer": OFTEN},
        subscriptions=(StaticSubscription({"t0": 1}), StaticSubscription({"t0": 1})) * 2,
    ),
    "retention": group(
        weights={"retention": 6 * OFTEN, "source_fails": 4 * OFTEN, "isolate": 2 * OFTEN, "grow": OFTEN},
        partitions=4,
    ),
    "jvm": group(weights={**EXPIRE, **LOST}, jvm_members=1),
    "jvm-reassert": group(weights=EXPIRE, jvm_members=1, policy="reassert"),
    "jvm-strangers": group(weights={**EXPIRE, "steal": OFTEN, "foreign_write": OFTEN}, jvm_members=1),
    "jvm-reset": group(weights={**LOST, "reset": OFTEN}, jvm_members=1),
}
