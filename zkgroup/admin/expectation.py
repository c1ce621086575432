"""What the ownership of a group should be, by the group's own rules. Pure.

The same inputs as every member uses (recipes 3 and 4): registrations, topics, and for `sticky` the
plan that the group has published. Where a member's subscription cannot be evaluated faithfully
nobody can say who should own what, so nothing is expected and the reason is reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from zkgroup.admin.picture import GroupPicture
from zkgroup.admin.values import Problem, ProblemKind
from zkgroup.assignment import assign
from zkgroup.assignment.digest import inputs_digest
from zkgroup.assignment.strategies import agreed_strategy, inferred_strategy
from zkgroup.assignment.wildcards import evaluate
from zkgroup.errors import AssignmentError, ConfigError
from zkgroup.model import EvaluatedMember, TopicPartition
from zkgroup.znodes.consumers import Registration


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """Who should own what."""

    assignor: str
    members: tuple[EvaluatedMember, ...]
    owners: Mapping[TopicPartition, str] | None
    """Partition to thread id; None where it cannot be known."""
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    topics: frozenset[str] = field(default=frozenset())
    """Topics that at least one member subscribes to."""

    def threads(self, member: str) -> Mapping[str, int]:
        """Evaluated topics of a member; empty for one that could not be evaluated."""
        return next((one.threads for one in self.members if one.member == member), {})


def expectation(picture: GroupPicture, strategy: str | None = None) -> Expectation:
    """The assignment that this group's members should have reached; `strategy` overrides theirs."""
    evaluated, problems = evaluate_members(picture)
    published, differing = published_strategy(picture)
    problems += differing
    topics = frozenset(topic for member in evaluated for topic in member.threads)
    partitions = {topic: picture.partitions(topic) for topic in sorted(topics)}
    unknown = any(p.kind is ProblemKind.UNSUPPORTED_SUBSCRIPTION for p in problems)
    actual = {tp: entry.value.thread_id for tp, entry in picture.owners.items() if entry.value}
    chosen = strategy or published or inferred_strategy(evaluated, partitions, actual)
    owners: Mapping[TopicPartition, str] | None = None
    notes: tuple[str, ...] = ()
    if not unknown:
        try:
            owners, notes = _assigned(picture, chosen, evaluated, partitions)
        except AssignmentError as error:
            problems.append(Problem(kind=ProblemKind.UNSUPPORTED_SUBSCRIPTION, detail=str(error)))
    return Expectation(
        assignor=chosen,
        members=tuple(evaluated),
        owners=owners,
        problems=tuple(problems),
        notes=notes,
        topics=topics,
    )


def evaluate_members(picture: GroupPicture) -> tuple[list[EvaluatedMember], list[Problem]]:
    """Every readable member with its subscription evaluated against the topics of the picture."""
    exclude_internal = published_exclude_internal(picture)
    evaluated: list[EvaluatedMember] = []
    problems: list[Problem] = []
    for member, entry in sorted(picture.registrations.items()):
        if entry.value is None:
            continue
        try:
            threads = evaluate(entry.value.wanted(), sorted(picture.topic_names), exclude_internal)
        except ConfigError as error:
            problems.append(
                Problem(
                    kind=ProblemKind.UNSUPPORTED_SUBSCRIPTION,
                    found=next(iter(entry.value.subscription), None),
                    since_ms=entry.stat.ctime,
                    detail=f"{entry.znode.path}: {error}; no assignment can be expected of this group",
                )
            )
            continue
        evaluated.append(EvaluatedMember(member, threads))
    return evaluated, problems


def published_strategy(picture: GroupPicture) -> tuple[str | None, list[Problem]]:
    """The strategy that the members of ours use, None where nobody published one.

    `sticky` is in force only when every registration publishes it; otherwise members of ours use
    range (recipes 4). Members that publish different ones never agree: that is a problem.
    """
    by_strategy: dict[str, list[str]] = {}
    for member, registration in _readable(picture):
        if registration.strategy:
            by_strategy.setdefault(registration.strategy, []).append(member)
    if not by_strategy:
        return None, []
    problems = []
    if len(by_strategy) > 1:
        found = ", ".join(f"{name} ({len(members)})" for name, members in sorted(by_strategy.items()))
        detail = "; ".join(f"{name}: {', '.join(members)}" for name, members in sorted(by_strategy.items()))
        problems.append(Problem(kind=ProblemKind.ASSIGNORS_DIFFER, found=found, detail=detail))
    problems += _differing_exclusions(picture)
    return agreed_strategy([registration.strategy for _, registration in _readable(picture)]), problems


def _differing_exclusions(picture: GroupPicture) -> list[Problem]:
    """Members that treat internal topics differently evaluate the same wildcard differently."""
    published = {member: registration.exclude_internal for member, registration in _readable(picture)}
    if not {True, False} <= set(published.values()):
        return []
    including = ", ".join(member for member, value in published.items() if value is False)
    detail = f"exclude_internal_topics differs: off in {including}, on elsewhere"
    return [Problem(kind=ProblemKind.ASSIGNORS_DIFFER, found="exclude_internal", detail=detail)]


def published_exclude_internal(picture: GroupPicture) -> bool:
    """Whether wildcards leave internal topics out; Kafka's default where nobody publishes it."""
    published = {registration.exclude_internal for _, registration in _readable(picture)} - {None}
    return published != {False}


def _readable(picture: GroupPicture) -> Sequence[tuple[str, Registration]]:
    return [(m, entry.value) for m, entry in sorted(picture.registrations.items()) if entry.value]


def _assigned(
    picture: GroupPicture,
    strategy: str,
    members: Sequence[EvaluatedMember],
    partitions: Mapping[str, Sequence[int]],
) -> tuple[Mapping[TopicPartition, str], tuple[str, ...]]:
    previous = None
    if strategy == "sticky" and picture.plan and picture.plan.value:
        plan = picture.plan.value
        if plan.inputs == inputs_digest(strategy, members, partitions):
            return plan.owners, ()  # what the group has agreed on for just this membership
        previous = plan.owners
    result = assign(strategy, members, partitions, previous)
    return result.owners, result.notes
