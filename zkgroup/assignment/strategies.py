"""The assignment strategies, which of them a group uses, and comparisons of assignments and of their inputs.

A new strategy of zkgroup is a module with its function and a row in `STRATEGIES`: settings, command line,
members and `zkgroup group verify` take it from there (docs/contributing.md). An application's own ones are
entry points of the group `zkgroup.assignors`.

Members publish short hashes of inputs and results (views, assignment znode), so that a tool can name the
member that disagrees. Equal values have equal digests in every process and version; the texts hashed are part
of the format.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points

from zkgroup.assignment.kafka_assignors import assign_round_robin
from zkgroup.assignment.rack_range import assign_range
from zkgroup.assignment.sticky_assignor import assign_sticky
from zkgroup.errors import AssignmentError, ConfigError
from zkgroup.model import Assignment, EvaluatedMember, TopicPartition
from zkgroup.model.assignors import Assignor, AssignorInput, Preference, Racks, shared_traits

Members = Sequence[EvaluatedMember]
Partitions = Mapping[str, Sequence[int]]
Owners = Mapping[TopicPartition, str]

ENTRY_POINTS = "zkgroup.assignors"
"""The entry point group of an application's own strategies."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """One row of `STRATEGIES`."""

    assign: Assignor
    """Computes the whole group's assignment."""
    needs_previous: bool = False
    """It starts from the group's previous assignment, which members agree on in the assignment znode
    (`/consumers/<group>/plan`). Such a strategy is in force only when every registration publishes it."""
    known_to_jvm: bool = False
    """Members of Kafka 0.8 have it under the same name. They publish no strategy: if only one known strategy
    explains the owners, it is taken for theirs."""


STRATEGIES: Mapping[str, Strategy] = {
    "range": Strategy(assign_range, known_to_jvm=True),
    "roundrobin": Strategy(assign_round_robin, known_to_jvm=True),
    "sticky": Strategy(assign_sticky, needs_previous=True),
}

DEFAULT_STRATEGY = "range"
"""Kafka 0.8.2.2 uses it for every text other than `roundrobin`."""


def find_strategy(name: str) -> Strategy | None:
    """The strategy of this name: a row of `STRATEGIES`, else an entry point; None if there is none.

    Raises ConfigError for an entry point that cannot be loaded.
    """
    return STRATEGIES[name] if name in STRATEGIES else _own_strategy(name)


@cache
def _own_strategy(name: str) -> Strategy | None:
    found = list(entry_points(group=ENTRY_POINTS, name=name))
    if not found:
        return None
    if len(values := sorted({each.value for each in found})) > 1:
        raise ConfigError(f"strategy {name!r}: expected one function, found {' and '.join(values)}")
    try:
        assignor = found[0].load()
    except Exception as error:
        raise ConfigError(f"strategy {name!r}: {found[0].value} cannot be loaded: {error}") from error
    if not callable(assignor):
        raise ConfigError(f"strategy {name!r}: expected a function at {found[0].value}, found {assignor!r}")

    def checked(group: AssignorInput, /) -> Assignment:
        try:
            assignment = assignor(group)
            _check(name, group, assignment)
            return Assignment(dict(assignment.owners), tuple(assignment.notes))
        except AssignmentError:
            raise
        except Exception as error:
            raise AssignmentError(f"strategy {name}: {type(error).__name__}: {error}") from error

    return Strategy(checked)


def _check(name: str, group: AssignorInput, assignment: object) -> None:
    """Raises AssignmentError for a result that no group could carry out."""
    if not isinstance(assignment, Assignment):
        raise AssignmentError(f"strategy {name}: expected an Assignment, found {type(assignment).__name__}")
    threads = {member.member: member.threads for member in group.members}
    for tp, who in assignment.owners.items():
        member, _, number = who.rpartition("-")
        limit = threads.get(member, {}).get(tp.topic, 0)
        if not (number in map(str, range(limit)) and tp.partition in group.partitions.get(tp.topic, ())):
            raise AssignmentError(f"strategy {name}: {tp} cannot go to {who}: no such thread or partition")


def needs_previous(strategy: str) -> bool:
    """As in the row of this strategy; False for a name that is not in the table."""
    return strategy in STRATEGIES and STRATEGIES[strategy].needs_previous


def assign(
    strategy: str,
    members: Members,
    partitions: Partitions,
    previous: Owners | None = None,
    racks: Racks | None = None,
) -> Assignment:
    """The whole group's assignment by one strategy.

    Args:
        strategy: a key of `STRATEGIES`, or the name of an entry point of `zkgroup.assignors`. Kafka 0.8 takes
            every other word for range.
        members: every member of the group, each with its evaluated subscription.
        partitions: the partition numbers of every topic that exists; a topic that is missing has none.
        previous: the assignment before (partition to thread id), from which `sticky` starts; strategies
            without `needs_previous` ignore it.
        racks: the racks of the replicas of each partition; they count if every member has a rack.

    Raises:
        ConfigError: there is no such strategy.
        AssignmentError: `roundrobin` with unequal subscriptions and a JVM member, or the error of an own one.
    """
    row = find_strategy(strategy)
    if row is None:
        raise ConfigError(
            f"strategy {strategy!r}: expected one of {', '.join(STRATEGIES)}, or the name of an entry point "
            f"of {ENTRY_POINTS} that is installed here"
        )
    return row.assign(AssignorInput.of(members, partitions, previous if row.needs_previous else None, racks))


def agreed_strategy(published: Iterable[Preference]) -> str | None:
    """The strategy of a group, by what each registration publishes; a `Counter` has equal ones once.

    It is the one that most members prefer among those that all have, of equal ones the first by name; if
    there is none, `DEFAULT_STRATEGY` (assignments, recipes 4). None if no strategy is published.
    """
    counts = Counter(published)
    if not any(preference.names for preference in counts):
        return None
    common = common_strategies(counts)
    votes = Counter[str]()
    for preference, count in counts.items():
        if common.intersection(preference.names):
            votes[next(name for name in preference.names if name in common)] += count
    return min(votes, key=lambda name: (-votes[name], name), default=DEFAULT_STRATEGY)


def common_strategies(preferences: Iterable[Preference]) -> frozenset[str]:
    """The strategies that all these registrations have; empty if they cannot agree."""
    different = set(preferences)
    are_equal = len({preference.names for preference in different}) == 1
    common: frozenset[str] | None = None
    for names, negotiates in different:
        if not names:
            has = frozenset(name for name, row in STRATEGIES.items() if row.known_to_jvm)
        elif not negotiates and needs_previous(names[0]) and not are_equal:
            has = frozenset([DEFAULT_STRATEGY])
        else:
            has = frozenset(names)
        common = has if common is None else common & has
    return common or frozenset()


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
    racks: Racks | None = None,
) -> str:
    """16 hex digits over the strategy, the members' subscriptions, the partitions and the previous owners.

    Capacities and racks are in it where they count: where every member has one.
    """
    group = AssignorInput.of(members, partitions, previous, racks)
    wanted = {member.member: dict(sorted(member.threads.items())) for member in members}
    inputs: list[object] = [
        strategy,
        sorted(wanted.items()),
        sorted((topic, sorted(numbers)) for topic, numbers in partitions.items()),
        _rows(previous or {}),
    ]
    traits = shared_traits(group.members)
    if traits:
        inputs += [
            sorted(traits.items()),
            sorted((tp.topic, tp.partition, sorted(of)) for tp, of in group.racks.items()),
        ]
    return _digest(json.dumps(inputs, separators=(",", ":")))


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
