"""Which strategy a group uses, by what its members say and own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from zkgroup.assignment.range_assignor import assign_range
from zkgroup.assignment.round_robin_assignor import assign_round_robin
from zkgroup.errors import AssignmentError
from zkgroup.model import EvaluatedMember, TopicPartition

DEFAULT_STRATEGY = "range"
"""What Kafka 0.8.2.2 uses for every text other than `roundrobin`."""


def agreed_strategy(published: Collection[str | None]) -> str | None:
    """What the members of ours use, by what each registration says; None where nobody publishes one.

    Those that publish different ones never agree. `sticky` is in force only when every registration
    publishes it; otherwise members of ours use range (recipes 4).
    """
    named = {strategy for strategy in published if strategy}
    if not named:
        return None
    if len(named) > 1 or (named == {"sticky"} and not all(published)):
        return DEFAULT_STRATEGY
    return named.pop()


def inferred_strategy(
    members: Sequence[EvaluatedMember],
    partitions: Mapping[str, Sequence[int]],
    owners: Mapping[TopicPartition, str],
) -> str:
    """JVM members publish none: round-robin only where it, and not range, explains all owners."""
    if not owners or dict(assign_range(members, partitions).owners) == owners:
        return DEFAULT_STRATEGY
    try:
        is_round_robin = dict(assign_round_robin(members, partitions).owners) == owners
    except AssignmentError:
        is_round_robin = False
    return "roundrobin" if is_round_robin else DEFAULT_STRATEGY
