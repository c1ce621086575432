"""The assignment strategies: pure functions from one snapshot of a group to the whole group's assignment.

Every member computes it for itself, so the same input gives the same answer in every process, whatever the
order of members, topics and partitions.
"""

from __future__ import annotations

from zkgroup.assignment.kafka_assignors import java_hash, round_robin_ties, utf16_key
from zkgroup.assignment.strategies import (
    DEFAULT_STRATEGY,
    STRATEGIES,
    AssignmentDiff,
    Strategy,
    agreed_strategy,
    assign,
    assignment_diff,
)

__all__ = [
    "DEFAULT_STRATEGY",
    "STRATEGIES",
    "AssignmentDiff",
    "Strategy",
    "agreed_strategy",
    "assign",
    "assignment_diff",
    "java_hash",
    "round_robin_ties",
    "utf16_key",
]
