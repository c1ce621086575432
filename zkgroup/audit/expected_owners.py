"""Who should have owned what, by the rules that the group's own members follow (recipes 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from zkgroup.assignment import assign, assignment_diff
from zkgroup.assignment.comparison import inputs_digest
from zkgroup.assignment.strategies import agreed_strategy, inferred_strategy, needs_previous
from zkgroup.audit.membership import evaluated
from zkgroup.errors import AssignmentError, ConfigError
from zkgroup.model import EvaluatedMember, TopicPartition
from zkgroup.znodes.consumers import Registration
from zkgroup.znodes.group_records import StoredAssignment

Owners = Mapping[TopicPartition, str]
"""Partition to thread id."""
_SEARCHED_MAX = 50_000
"""Threads times partitions up to which the fewest moves of a mixed group are searched for: some 0.1 s."""
Partitions = Mapping[str, Sequence[int]]


class ExpectedOwners(NamedTuple):
    """The plan of a group at one moment."""

    strategy: str
    members: tuple[EvaluatedMember, ...]
    owners: Owners


def expected_owners(
    registrations: Mapping[str, Registration],
    partitions: Partitions,
    actual: Owners,
    plan: StoredAssignment | None,
) -> ExpectedOwners | None:
    """The plan of these members; None where nobody can know it.

    That is so where a wildcard cannot be evaluated, where round robin meets unequal subscriptions, and for
    `sticky` while no plan of just this membership is stored.
    """
    members = evaluated(registrations, sorted(partitions))
    if members is None:
        return None
    published = [registration.strategy for registration in registrations.values()]
    strategy = agreed_strategy(published) or inferred_strategy(members, partitions, actual)
    try:
        if needs_previous(strategy):
            owners = _stored(strategy, members, partitions, plan)
        else:
            owners = assign(strategy, members, partitions).owners
    except (AssignmentError, ConfigError):
        return None
    return None if owners is None else ExpectedOwners(strategy, tuple(members), owners)


def least_moves(
    registrations: Mapping[str, Registration],
    partitions: Partitions,
    before: Owners,
    moved: int | None = None,
) -> int | None:
    """How many partitions have to change hands, at the least, for an assignment as even as can be.

    Not more than were `moved`, for range may do with an assignment less even. A partition that nobody owned
    before moves to nobody's cost. None where the plan cannot be known, or would take long to search for: a
    registration may ask for any number of threads.
    """
    members = evaluated(registrations, sorted(partitions))
    if members is None or _is_big(members, partitions):
        return None
    if moved == 0:
        return 0
    least = len(assignment_diff(before, assign("sticky", members, partitions, before).owners).moved)
    return least if moved is None else min(least, moved)


def _is_big(members: Sequence[EvaluatedMember], partitions: Partitions) -> bool:
    """Whether it is a large group whose members want different things; for equals there is a formula."""
    topics = {topic for member in members for topic in member.threads}
    if all(member.threads.keys() == topics and len({*member.threads.values()}) == 1 for member in members):
        return False
    threads = sum(count for member in members for count in member.threads.values())
    return threads * sum(len(partitions.get(topic, ())) for topic in topics) > _SEARCHED_MAX


def _stored(
    strategy: str, members: Sequence[EvaluatedMember], partitions: Partitions, plan: StoredAssignment | None
) -> Owners | None:
    """The stored plan, where it is of this membership."""
    topics = sorted({topic for member in members for topic in member.threads})
    wanted = {topic: partitions.get(topic, ()) for topic in topics}
    if plan is None or plan.inputs != inputs_digest(strategy, members, wanted):
        return None
    return plan.owners
