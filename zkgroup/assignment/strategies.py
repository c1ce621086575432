"""The assignment strategies, which of them a group uses, and comparisons of assignments and of their inputs.

A new strategy is a module with its function and a row in `STRATEGIES`: settings, command line, members and
`zkgroup group verify` take it from there (docs/contributing.md).

Members publish short hashes of inputs and results (views, assignment znode), so that a tool can name the
member that disagrees. Equal values have equal digests in every process and version; the texts hashed are part
of the format.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from zkgroup.assignment.kafka_assignors import assign_range, assign_round_robin
from zkgroup.assignment.sticky_assignor import assign_sticky
from zkgroup.errors import AssignmentError, ConfigError
from zkgroup.model import Assignment, EvaluatedMember, TopicPartition

Members = Sequence[EvaluatedMember]
Partitions = Mapping[str, Sequence[int]]
Owners = Mapping[TopicPartition, str]


@dataclass(frozen=True, slots=True)
class Strategy:
    """One row of `STRATEGIES`."""

    assign: Callable[[Members, Partitions], Assignment] | Callable[[Members, Partitions, Owners], Assignment]
    """Computes the whole group's assignment; with the previous owners where `needs_previous`."""
    needs_previous: bool
    """It starts from the group's previous assignment, which members agree on in the assignment znode
    (`/consumers/<group>/plan`). Such a strategy is in force only when every registration publishes it."""
    known_to_jvm: bool
    """Members of Kafka 0.8 have it under the same name. They publish no strategy: if only one known strategy
    explains the owners, it is taken for theirs."""


STRATEGIES: Mapping[str, Strategy] = {
    "range": Strategy(assign_range, needs_previous=False, known_to_jvm=True),
    "roundrobin": Strategy(assign_round_robin, needs_previous=False, known_to_jvm=True),
    "sticky": Strategy(assign_sticky, needs_previous=True, known_to_jvm=False),
}

DEFAULT_STRATEGY = "range"
"""Kafka 0.8.2.2 uses it for every text other than `roundrobin`."""


def needs_previous(strategy: str) -> bool:
    """As in the row of this strategy; False for a name that is not in the table."""
    return strategy in STRATEGIES and STRATEGIES[strategy].needs_previous


def assign(
    strategy: str, members: Members, partitions: Partitions, previous: Owners | None = None
) -> Assignment:
    """The whole group's assignment by one strategy.

    Args:
        strategy: a key of `STRATEGIES`. Kafka 0.8 takes every other word for range.
        members: every member of the group, each with its evaluated subscription.
        partitions: the partition numbers of every topic that exists; a topic that is missing has none.
        previous: the assignment before (partition to thread id), from which `sticky` starts; strategies
            without `needs_previous` ignore it.

    Raises:
        ConfigError: the strategy is not in the table.
        AssignmentError: `roundrobin` with unequal subscriptions.
    """
    row = STRATEGIES.get(strategy)
    if row is None:
        raise ConfigError(f"strategy {strategy!r}: expected one of {', '.join(STRATEGIES)}")
    compute: Callable[..., Assignment] = row.assign
    return (
        compute(members, partitions, previous or {}) if row.needs_previous else compute(members, partitions)
    )


def agreed_strategy(published: Collection[str | None], own: str | None = None) -> str | None:
    """The strategy of a group, or of one of its members, by what each registration publishes.

    Args:
        published: the strategy in each registration; None for one without (a JVM member).
        own: the setting of one member, if the question is which strategy that member uses. As in Kafka it
            uses its own whatever the others publish, unless that needs the previous assignment.

    Returns:
        None if no strategy is published and none is given. Members that publish different ones never agree; a
        strategy that needs the previous assignment is in force only when every registration publishes it.
        Otherwise `DEFAULT_STRATEGY` (assignments, recipes 4).
    """
    if own is not None and not needs_previous(own):
        return own
    named = {strategy for strategy in [*published, own] if strategy}
    if not named:
        return None
    if len(named) > 1 or (any(map(needs_previous, named)) and not all(published)):
        return DEFAULT_STRATEGY
    return named.pop()


def inferred_strategy(members: Members, partitions: Partitions, owners: Owners) -> str:
    """The strategy of JVM members, which publish none: `range` unless only another explains all owners."""
    candidates = [name for name, row in STRATEGIES.items() if row.known_to_jvm and name != DEFAULT_STRATEGY]
    if not owners:
        return DEFAULT_STRATEGY
    for strategy in (DEFAULT_STRATEGY, *candidates):
        try:
            if dict(assign(strategy, members, partitions).owners) == owners:
                return strategy
        except AssignmentError:
            continue
    return DEFAULT_STRATEGY


def inputs_digest(
    strategy: str,
    members: Sequence[EvaluatedMember],
    partitions: Mapping[str, Sequence[int]],
    previous: Mapping[TopicPartition, str] | None = None,
) -> str:
    """16 hex digits over the strategy, the members' subscriptions, the partitions and the previous owners."""
    wanted = {member.member: dict(sorted(member.threads.items())) for member in members}
    text = json.dumps(
        [
            strategy,
            sorted(wanted.items()),
            sorted((topic, sorted(numbers)) for topic, numbers in partitions.items()),
            _rows(previous or {}),
        ],
        separators=(",", ":"),
    )
    return _digest(text)


def result_digest(owners: Mapping[TopicPartition, str]) -> str:
    """16 hex digits over an assignment (partition to thread id)."""
    return _digest(json.dumps(_rows(owners), separators=(",", ":")))


def _rows(owners: Mapping[TopicPartition, str]) -> list[tuple[str, int, str]]:
    return sorted((tp.topic, tp.partition, thread) for tp, thread in owners.items())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class AssignmentDiff:
    """The partitions of two assignments by how their owner differs, in order.

    A change of thread within a member counts as a move.
    """

    kept: tuple[TopicPartition, ...]
    moved: tuple[TopicPartition, ...]
    gained: tuple[TopicPartition, ...]
    """Owned after, not before."""
    dropped: tuple[TopicPartition, ...]
    """Owned before, not after."""


def assignment_diff(
    before: Mapping[TopicPartition, str], after: Mapping[TopicPartition, str]
) -> AssignmentDiff:
    """Compares two assignments (partition to thread id)."""
    common = _sorted(before.keys() & after.keys())
    return AssignmentDiff(
        kept=tuple(tp for tp in common if before[tp] == after[tp]),
        moved=tuple(tp for tp in common if before[tp] != after[tp]),
        gained=tuple(_sorted(after.keys() - before.keys())),
        dropped=tuple(_sorted(before.keys() - after.keys())),
    )


def _sorted(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    # The same order as the values' own, several times faster.
    return sorted(partitions, key=lambda tp: (tp.topic, tp.partition))
