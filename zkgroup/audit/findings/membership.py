"""The members of groups through time, and the partitions that each of them should own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from zkgroup.assignment import assign, assignment_diff
from zkgroup.assignment.strategies import agreed_strategy, inferred_strategy, inputs_digest, needs_previous
from zkgroup.assignment.wildcards import evaluate
from zkgroup.audit.findings.rules import TimeRange, merged, overlaps
from zkgroup.audit.inputs.facts import Facts, Life, change_at, decoded, derived, registration_of
from zkgroup.errors import AssignmentError, ConfigError
from zkgroup.model import EvaluatedMember, StaticSubscription, TopicPartition
from zkgroup.model.assignors import all_have_racks
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import Registration
from zkgroup.znodes.group_records import StoredAssignment


@lru_cache(maxsize=1 << 14)
def numbers_of(data: bytes | None) -> tuple[int, ...]:
    """The partitions of a topic's znode, in order; none where it was deleted or cannot be read."""
    topic = None if data is None else decoded(Topic.decode, "topic", data)
    return () if topic is None else topic.numbers


@derived
def lives_by_session(facts: Facts, group: str) -> dict[int, list[Life]]:
    """The registrations of a group by session, in order."""
    found: dict[int, list[Life]] = {}
    for life in facts.members.get(group, ()):
        found.setdefault(life.session, []).append(life)
    return found


def topics_wanted(registration: Registration, topics: Iterable[str]) -> Mapping[str, int] | None:
    """Topic to thread count; None for a wildcard that cannot be evaluated as a Java expression.

    A wildcard leaves internal topics out unless it says otherwise, as Kafka does by default.
    """
    try:
        return evaluate(registration.wanted(), topics, registration.exclude_internal is not False)
    except ConfigError:
        return None


def evaluated(
    registrations: Mapping[str, Registration], topics: Sequence[str]
) -> list[EvaluatedMember] | None:
    """The members with their topics; None, as the plan is not known, where a wildcard cannot be evaluated."""
    found = []
    for member, registration in sorted(registrations.items()):
        wanted = topics_wanted(registration, topics)
        if wanted is None:
            return None
        found.append(registration.evaluated(member, wanted))
    return found


def partitions_at(facts: Facts, zxid: int) -> dict[str, tuple[int, ...]]:
    """The partitions of every topic that existed after a zxid."""
    found = {}
    for topic, changes in facts.topics.items():
        change = change_at(changes, zxid)
        if change is not None and change.data is not None:
            found[topic] = numbers_of(change.data)
    return found


@derived
def existence(facts: Facts, topic: str, partition: int) -> list[TimeRange]:
    """The times in which a partition existed."""
    found: list[TimeRange] = []
    since: tuple[int, int] | None = None
    for change in facts.topics.get(topic, ()):
        there = partition in numbers_of(change.data)
        if there and since is None:
            since = change.zxid, change.time_ms
        elif not there and since is not None:
            found.append(TimeRange(*since, change.zxid, change.time_ms))
            since = None
    return found if since is None else [*found, TimeRange(*since)]


def demand(facts: Facts, group: str, topic: str, partition: int) -> list[TimeRange]:
    """The times in which a member of the group wanted the topic, and the partition existed."""
    return overlaps(wanting(facts, group, topic), existence(facts, topic, partition))


@derived
def wanting(facts: Facts, group: str, topic: str) -> list[TimeRange]:
    """The times in which a member of the group wanted the topic, whether it existed or not."""
    return merged(
        time
        for time, registration, named in _subscriptions(facts, group)
        if topic in (named if named is not None else topics_wanted(registration, (topic,)) or ())
    )


_Subscribed = tuple[TimeRange, Registration, Mapping[str, int] | None]
"""A registration that can be read, and its topics, unless they depend on the topics that exist."""


@derived
def _subscriptions(facts: Facts, group: str) -> list[_Subscribed]:
    found: list[_Subscribed] = []
    for life in facts.members.get(group, ()):
        if (registration := registration_of(life.data)) is not None:
            is_static = isinstance(registration.wanted(), StaticSubscription)
            named = topics_wanted(registration, ()) if is_static else None
            found.append((TimeRange.of(life), registration, named))
    return found


Owners = Mapping[TopicPartition, str]
"""Partition to thread id."""
_SEARCHED_MAX = 50_000
"""Threads times partitions up to which the fewest moves of a mixed group are searched: some 0.1 s."""
Partitions = Mapping[str, Sequence[int]]


class ExpectedOwners(NamedTuple):
    """The plan of a group at one moment."""

    strategy: str
    members: Sequence[EvaluatedMember]
    owners: Owners


def expected_owners(
    registrations: Mapping[str, Registration],
    partitions: Partitions,
    actual: Owners,
    plan: StoredAssignment | None,
) -> ExpectedOwners | None:
    """The assignment of these members; None where it cannot be known.

    It cannot where a wildcard cannot be evaluated, where round robin has unequal subscriptions, where every
    member has a rack (those of brokers are not read), with a strategy that is not installed here, and for
    `sticky` while no assignment of just this membership is stored.
    """
    members = evaluated(registrations, sorted(partitions))
    if members is None or all_have_racks(members):
        return None
    published = [registration.preference for registration in registrations.values()]
    strategy = agreed_strategy(published) or inferred_strategy(members, partitions, actual)
    try:
        if not needs_previous(strategy):
            return ExpectedOwners(strategy, members, assign(strategy, members, partitions).owners)
        topics = sorted({topic for member in members for topic in member.threads})
        wanted = {topic: partitions.get(topic, ()) for topic in topics}
        if plan is not None and plan.inputs == inputs_digest(strategy, members, wanted):
            return ExpectedOwners(strategy, members, plan.owners)
    except (AssignmentError, ConfigError):
        pass
    return None


def least_moves(
    registrations: Mapping[str, Registration],
    partitions: Partitions,
    before: Owners,
    moved: int | None = None,
) -> int | None:
    """The fewest partitions that have to get another owner for the most even assignment.

    It is at most `moved`, for `range` assigns less evenly. A partition without an owner
    before moves at no cost. None where the plan cannot be known, or would take long to search for: a
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
    """True if members want different topics, and many; for equal members there is a formula."""
    topics = {topic for member in members for topic in member.threads}
    if all(member.threads.keys() == topics and len({*member.threads.values()}) == 1 for member in members):
        return False
    threads = sum(count for member in members for count in member.threads.values())
    return threads * sum(len(partitions.get(topic, ())) for topic in topics) > _SEARCHED_MAX
