"""The members of groups through time, and what each of them should own."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice, zip_longest
from typing import NamedTuple

from zkgroup.assignment import assign, assignment_diff
from zkgroup.assignment.comparison import inputs_digest
from zkgroup.assignment.strategies import agreed_strategy, inferred_strategy, needs_previous
from zkgroup.assignment.wildcards import evaluate
from zkgroup.audit.answers.owner_lives import OwnerLife
from zkgroup.audit.inputs.facts import Facts, Life
from zkgroup.errors import AssignmentError, ConfigError, CorruptZnodeError
from zkgroup.model import EvaluatedMember, StaticSubscription, TopicPartition
from zkgroup.znodes.brokers import Topic
from zkgroup.znodes.consumers import Registration
from zkgroup.znodes.group_records import StoredAssignment
from zkgroup.znodes.paths import path_kind


class TimeRange(NamedTuple):
    """A part of a history; `to_zxid` and `to_ms` are None where it lasts to the end."""

    from_zxid: int
    from_ms: int
    to_zxid: int | None
    to_ms: int | None

    @classmethod
    def of(cls, life: Life | OwnerLife) -> TimeRange:
        """That in which a znode existed."""
        return cls(life.from_zxid, life.from_ms, life.to_zxid, life.to_ms)

    def ms(self, facts: Facts) -> int:
        """Returns how long it was, up to the end of the history; below 0 after a step of the clock."""
        return (facts.end_ms if self.to_ms is None else self.to_ms) - self.from_ms


@lru_cache(maxsize=1 << 14)
def registration_of(data: bytes | None) -> Registration | None:
    """Returns what a registration asks for; None where a JVM member could not read it."""
    try:
        return Registration.decode("registration", data)
    except CorruptZnodeError:
        return None


@lru_cache(maxsize=1 << 14)
def numbers_of(data: bytes | None) -> tuple[int, ...]:
    """The partitions of a topic's znode, in order; none where it is gone or cannot be read."""
    if data is None:
        return ()
    try:
        return tuple(sorted(Topic.decode("topic", data).numbers))
    except CorruptZnodeError:
        return ()


def member_of(life: Life) -> str:
    """The consumer id of a registration."""
    return path_kind(life.path).member


def lives_by_session(facts: Facts, group: str) -> dict[int, list[Life]]:
    """The registrations of a group by who made them, in order."""
    known: dict[int, list[Life]] | None = facts.derived.get(("lives_by_session", group))
    if known is not None:
        return known
    found = facts.derived["lives_by_session", group] = dict[int, list[Life]]()
    for life in facts.members.get(group, ()):
        found.setdefault(life.session, []).append(life)
    return found


def is_alive(life: Life, zxid: int) -> bool:
    """Returns whether it lived at a zxid, or in the same transaction."""
    return life.from_zxid <= zxid and (life.to_zxid is None or zxid <= life.to_zxid)


def hides_internal(registration: Registration) -> bool:
    """Returns whether its wildcard leaves internal topics out; Kafka's default where it does not say."""
    return registration.exclude_internal is not False


def topics_wanted(registration: Registration, topics: Iterable[str]) -> Mapping[str, int] | None:
    """Topic to thread count; None for a wildcard that is no Java expression that we can evaluate."""
    try:
        return evaluate(registration.wanted(), topics, hides_internal(registration))
    except ConfigError:
        return None


def evaluated(
    registrations: Mapping[str, Registration], topics: Sequence[str]
) -> list[EvaluatedMember] | None:
    """Members with their subscriptions evaluated; None where one cannot be: then the plan is not known."""
    found = []
    for member, registration in sorted(registrations.items()):
        wanted = topics_wanted(registration, topics)
        if wanted is None:
            return None
        found.append(EvaluatedMember(member, wanted))
    return found


def partitions_at(facts: Facts, zxid: int) -> dict[str, tuple[int, ...]]:
    """The partitions of every topic that existed after a zxid."""
    found = {}
    for topic, changes in facts.topics.items():
        at = bisect_right(changes, zxid, key=lambda change: change.zxid)
        if at and changes[at - 1].data is not None:
            found[topic] = numbers_of(changes[at - 1].data)
    return found


def existence(facts: Facts, topic: str, partition: int) -> list[TimeRange]:
    """The times in which a partition existed."""
    known: list[TimeRange] | None = facts.derived.get(("existence", topic, str(partition)))
    if known is None:
        known = facts.derived["existence", topic, str(partition)] = _existence(facts, topic, partition)
    return known


def _existence(facts: Facts, topic: str, partition: int) -> list[TimeRange]:
    found: list[TimeRange] = []
    since: tuple[int, int] | None = None
    for change in facts.topics.get(topic, ()):
        there = partition in numbers_of(change.data)
        if there and since is None:
            since = change.zxid, change.time_ms
        elif not there and since is not None:
            found.append(TimeRange(*since, change.zxid, change.time_ms))
            since = None
    return found if since is None else [*found, TimeRange(*since, None, None)]


def demand(facts: Facts, group: str, topic: str, partition: int) -> list[TimeRange]:
    """The times in which a member of the group wanted the topic, and the partition existed."""
    return overlaps(wanting(facts, group, topic), existence(facts, topic, partition))


def wanting(facts: Facts, group: str, topic: str) -> list[TimeRange]:
    """The times in which a member of the group wanted the topic, whether it existed or not."""
    known: list[TimeRange] | None = facts.derived.get(("wanting", group, topic))
    if known is None:
        known = facts.derived["wanting", group, topic] = merged(
            time
            for time, registration, named in _subscriptions(facts, group)
            if topic in (named if named is not None else topics_wanted(registration, (topic,)) or ())
        )
    return known


_Subscribed = tuple[TimeRange, Registration, Mapping[str, int] | None]
"""A registration that can be read, and the topics that it wants, where these do not depend on which exist."""


def _subscriptions(facts: Facts, group: str) -> list[_Subscribed]:
    """Those of a group."""
    known: list[_Subscribed] | None = facts.derived.get(("subscriptions", group))
    if known is None:
        known = facts.derived["subscriptions", group] = [
            (TimeRange.of(life), registration, _named(registration))
            for life in facts.members.get(group, ())
            if (registration := registration_of(life.data)) is not None
        ]
    return known


def _named(registration: Registration) -> Mapping[str, int] | None:
    is_static = isinstance(registration.wanted(), StaticSubscription)
    return topics_wanted(registration, ()) if is_static else None


def overlaps(some: Sequence[TimeRange], others: Sequence[TimeRange]) -> list[TimeRange]:
    """The times that are in both; the ranges of each do not overlap, and are in order."""
    found = []
    for one in some:
        end = _end(one)
        first = max(bisect_right(others, one.from_zxid, key=_begin) - 1, 0)
        for other in islice(others, first, None):
            if other.from_zxid >= end:
                break
            late = other if other.from_zxid > one.from_zxid else one
            early = other if _end(other) < end else one
            if late.from_zxid < _end(early):
                found.append(TimeRange(late.from_zxid, late.from_ms, early.to_zxid, early.to_ms))
    return found


def gaps(whole: TimeRange, covered: Sequence[TimeRange]) -> list[TimeRange]:
    """The times of `whole` behind the first of the covered ones that none of them covers; those in order."""
    found = []
    for before, after in zip_longest(covered, covered[1:]):
        to_zxid, to_ms = (None, None) if after is None else (after.from_zxid, after.from_ms)
        if before.to_zxid is not None and before.to_ms is not None:
            found.append(TimeRange(before.to_zxid, before.to_ms, to_zxid, to_ms))
    return overlaps([whole], found)


def merged(ranges: Iterable[TimeRange]) -> list[TimeRange]:
    """The union. One that begins in the transaction in which another ends goes on from it."""
    found: list[TimeRange] = []
    for one in sorted(ranges, key=lambda each: each.from_zxid):
        if found and one.from_zxid <= _end(found[-1]):
            last = found.pop()
            longer = max(last, one, key=_end)
            one = TimeRange(last.from_zxid, last.from_ms, longer.to_zxid, longer.to_ms)
        found.append(one)
    return found


def _begin(one: TimeRange) -> int:
    return one.from_zxid


def _end(one: TimeRange) -> float:
    return float("inf") if one.to_zxid is None else one.to_zxid


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
    """The plan of these members; None where it cannot be known.

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
    """Returns how many partitions have to change hands, at the least, for an assignment as even as can be.

    Not more than were `moved`, for range may do with an assignment less even. A partition without an owner
    before moves without cost. None where the plan cannot be known, or would take long to search for: a
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
    """Returns whether it is a large group whose members want different things; for equals there is a
    formula."""
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
