"""Who should own what: pure functions from one picture of a group to the whole group's assignment.

Every member computes it for itself, so the same input gives the same answer in every process, whatever the
order of members, topics and partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zkgroup.assignment.moves import Moves, moves
from zkgroup.assignment.order import java_hash, utf16_key
from zkgroup.assignment.range_assignor import assign_range
from zkgroup.assignment.round_robin_assignor import assign_round_robin, round_robin_ties
from zkgroup.assignment.sticky_assignor import assign_sticky
from zkgroup.errors import ConfigError
from zkgroup.model import Assignment, EvaluatedMember, TopicPartition

STRATEGIES = ("range", "roundrobin", "sticky")

__all__ = ["STRATEGIES", "Moves", "assign", "java_hash", "moves", "round_robin_ties", "utf16_key"]


def assign(
    strategy: str,
    members: Sequence[EvaluatedMember],
    partitions: Mapping[str, Sequence[int]],
    previous: Mapping[TopicPartition, str] | None = None,
) -> Assignment:
    """Computes the whole group's assignment.

    Args:
        strategy: `range`, `roundrobin` or `sticky`. Kafka 0.8 takes every other word for range; here it
            raises ConfigError.
        members: every member of the group, itself included, each with its evaluated subscription.
        partitions: the partition numbers of every topic that exists; a topic that is missing has none.
        previous: the common past that `sticky` starts from (partition to thread id); the others ignore it.

    Raises:
        AssignmentError: `roundrobin` with unequal subscriptions.
    """
    match strategy:
        case "range":
            return assign_range(members, partitions)
        case "roundrobin":
            return assign_round_robin(members, partitions)
        case "sticky":
            return assign_sticky(members, partitions, previous or {})
        case _:
            raise ConfigError(f"strategy {strategy!r}: expected one of {', '.join(STRATEGIES)}")
