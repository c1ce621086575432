"""The ownership that a group should have, what is wrong with the present one, and the state. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from zkgroup.assignment import assign
from zkgroup.assignment.strategies import (
    ENTRY_POINTS,
    agreed_strategy,
    common_strategies,
    find_strategy,
    inferred_strategy,
    inputs_digest,
    needs_previous,
    result_digest,
)
from zkgroup.assignment.wildcards import evaluate
from zkgroup.errors import AssignmentError, ConfigError
from zkgroup.groups.descriptions import GroupState, Problem, ProblemKind
from zkgroup.groups.freezes import freeze_problems, freeze_text, stands
from zkgroup.groups.snapshot import DecodedZnode, GroupSnapshot, T
from zkgroup.model import EvaluatedMember, TopicPartition, Znode
from zkgroup.model.text import hex_session, iso_time
from zkgroup.znodes.consumers import Owner, Registration, owners_topic_path
from zkgroup.znodes.sessions import effect_without_session, is_leftover

YOUNG_MS = 10_000
"""A wrong group that changed less than this ago is taken to be on its way."""


def find_problems(snapshot: GroupSnapshot, expected: ExpectedOwnership) -> tuple[Problem, ...]:
    """Every difference between what is and what should be, in a stable order; empty when converged."""
    found = [
        *persistent_problems(snapshot),
        *_unreadable(snapshot),
        *expected.problems,
        *_disagreeing_members(snapshot, expected),
        *_owner_problems(snapshot, expected),
        *_unowned(snapshot, expected),
        *_void_graces(snapshot),
        *freeze_problems(snapshot),
    ]
    order = list(ProblemKind)
    return tuple(
        sorted(
            found,
            key=lambda p: (order.index(p.kind), p.topic or "", p.partition or 0, p.found or "", p.detail),
        )
    )


def group_state(
    snapshot: GroupSnapshot, expected: ExpectedOwnership, *, now_ms: int, later: GroupSnapshot | None = None
) -> GroupState:
    """The state by the snapshot, the time and, where there is one, a second read about 2 s later."""
    if not snapshot.registrations:
        return GroupState.FROZEN if stands(snapshot.frozen, now_ms) else GroupState.EMPTY
    if snapshot.frozen is not None:
        return GroupState.FROZEN
    if is_owned_as_expected(snapshot, expected) and not snapshot.persistent:
        is_in_steps = (
            snapshot.plan is not None and snapshot.plan.value is not None and snapshot.plan.value.moving
        )
        return GroupState.REBALANCING if is_in_steps and expected.assignor == "sticky" else GroupState.STABLE
    if is_young(snapshot, now_ms) or not snapshot.stood_still:
        return GroupState.REBALANCING
    if later is not None and later.fingerprint() != snapshot.fingerprint():
        return GroupState.REBALANCING
    return GroupState.INCONSISTENT


def needs_second_read(snapshot: GroupSnapshot, expected: ExpectedOwnership, now_ms: int) -> bool:
    """Returns whether one snapshot alone cannot distinguish `rebalancing` from `inconsistent`."""
    return group_state(snapshot, expected, now_ms=now_ms) is GroupState.INCONSISTENT


def is_owned_as_expected(snapshot: GroupSnapshot, expected: ExpectedOwnership) -> bool:
    """Every partition of every subscribed topic is owned by the thread that it is assigned to, or waits for a
    member that is away."""
    if expected.owners is None:
        return False
    return all(
        tp not in snapshot.owners
        if _away_member(snapshot, thread) is not None
        else _is_owned_by(snapshot, tp, thread)
        for tp, thread in expected.owners.items()
    )


def is_young(snapshot: GroupSnapshot, now_ms: int) -> bool:
    """Something below `ids` or `owners` is younger than 10 s, or newer than our clock."""
    newest = snapshot.newest_change_ms()
    return newest is not None and now_ms - newest < YOUNG_MS


def agreement(snapshot: GroupSnapshot, expected: ExpectedOwnership, member: str) -> bool | None:
    """Returns whether the result that a member has published equals the one computed here.

    With a strategy that is not installed here, the result that most members have published counts instead.
    None where it published none, where nothing can be expected, and where it published another result for an
    older membership: members publish lazily (published results, recipes 11), so that says nothing yet.
    """
    view = snapshot.views.get(member)
    if view is None or view.value is None:
        return None
    if expected.owners is not None:
        computed: str | None = result_digest(expected.owners)
    else:
        computed = None if find_strategy(expected.assignor) else _usual_result(snapshot)
    if computed is None:
        return None
    if view.value.result == computed:
        return True
    return False if view.value.generation == snapshot.generation else None


def _usual_result(snapshot: GroupSnapshot) -> str | None:
    """The result that most members have published for this membership; None unless two have."""
    views = (entry.value for entry in snapshot.views.values() if entry.value)
    results = Counter(view.result for view in views if view.generation == snapshot.generation)
    return max(results, key=lambda result: (results[result], result)) if results.total() > 1 else None


def _is_owned_by(snapshot: GroupSnapshot, tp: TopicPartition, thread: str) -> bool:
    entry = snapshot.owners.get(tp)
    if entry is None or entry.value is None or not _is_thread(snapshot, tp, entry.value, thread):
        return False
    return _session_problem(snapshot, tp, entry) is None


def is_in_foreign_format(snapshot: GroupSnapshot, tp: TopicPartition) -> bool:
    """Returns whether a registered consumer has written its id alone, as those of kazoo-go and kafka-node do.
    How such a client assigns partitions is not known."""
    entry = snapshot.owners.get(tp)
    text = entry.value.thread_id if entry and entry.value else None
    return text is not None and snapshot.registered_owner(tp) == text


def _is_thread(snapshot: GroupSnapshot, tp: TopicPartition, owner: Owner, thread: str) -> bool:
    """Returns whether the owner may be the thread that is expected here."""
    return owner.thread_id == thread or is_in_foreign_format(snapshot, tp)


def persistent_problems(snapshot: GroupSnapshot) -> Iterator[Problem]:
    """Registrations, owners and views that no session holds."""
    partitions = {entry.znode.path: tp for tp, entry in snapshot.owners.items()}
    for znode in snapshot.persistent:
        tp = partitions.get(znode.path)
        yield Problem(
            kind=ProblemKind.PERSISTENT_ZNODE,
            topic=tp.topic if tp else None,
            partition=tp.partition if tp else None,
            expected="an ephemeral znode",
            found="a persistent one",
            since_ms=znode.stat.ctime,
            detail=f"{znode.path}: is persistent, so it ends with no session: "
            f"{effect_without_session(znode.path)}; `zkgroup doctor --fix` removes it",
        )


def _unreadable(snapshot: GroupSnapshot) -> Iterator[Problem]:
    for topic, topic_entry in snapshot.topics.items():
        if topic_entry.error:
            yield _corrupt(ProblemKind.UNREADABLE_TOPIC, topic_entry, topic=topic)
    for registration in snapshot.registrations.values():
        if registration.error:
            yield _corrupt(ProblemKind.UNREADABLE_REGISTRATION, registration)
    for tp, owner in snapshot.owners.items():
        if owner.error:
            yield _corrupt(ProblemKind.UNREADABLE_OWNER, owner, topic=tp.topic, partition=tp.partition)
    for tp, offset in snapshot.offsets.items():
        if offset.error:
            yield _corrupt(ProblemKind.UNREADABLE_OFFSET, offset, topic=tp.topic, partition=tp.partition)
    for path in snapshot.strays:
        below_owners = path.startswith(owners_topic_path(snapshot.group, ""))
        kind = ProblemKind.OWNER_OF_UNKNOWN_PARTITION if below_owners else ProblemKind.UNREADABLE_OFFSET
        yield Problem(kind=kind, found=path.rpartition("/")[2], detail=f"{path}: not a partition number")


def _corrupt(
    kind: ProblemKind, entry: DecodedZnode[T], *, topic: str | None = None, partition: int | None = None
) -> Problem:
    assert entry.error is not None
    return Problem(
        kind=kind,
        topic=topic,
        partition=partition,
        expected=entry.error.expected,
        found=entry.error.found,
        since_ms=entry.stat.mtime,
        detail=str(entry.error),
    )


def _disagreeing_members(snapshot: GroupSnapshot, expected: ExpectedOwnership) -> Iterator[Problem]:
    computed = None if expected.owners is None else result_digest(expected.owners)
    for member in sorted(snapshot.registrations):
        if agreement(snapshot, expected, member) is False:
            view = snapshot.views[member]
            yield Problem(
                kind=ProblemKind.MEMBER_DISAGREES,
                expected=computed or _usual_result(snapshot),
                found=view.value.result if view.value else None,
                since_ms=view.stat.mtime,
                detail=f"{view.znode.path}: {member} has another result for generation {snapshot.generation}",
            )


def _owner_problems(snapshot: GroupSnapshot, expected: ExpectedOwnership) -> Iterator[Problem]:
    for tp, entry in snapshot.owners.items():
        if entry.value is None:
            continue
        kind, detail = _owner_problem(snapshot, expected, tp, entry)
        if kind is not None:
            yield Problem(
                kind=kind,
                topic=tp.topic,
                partition=tp.partition,
                expected=(expected.owners or {}).get(tp),
                found=entry.value.thread_id,
                since_ms=entry.stat.ctime,
                detail=f"{entry.znode.path}: {detail}",
            )


def _owner_problem(
    snapshot: GroupSnapshot, expected: ExpectedOwnership, tp: TopicPartition, entry: DecodedZnode[Owner]
) -> tuple[ProblemKind | None, str]:
    assert entry.value is not None
    thread = entry.value.thread_id
    topic = snapshot.topics.get(tp.topic)
    readable = topic is None or topic.value is not None
    if readable and tp.partition not in snapshot.partitions(tp.topic):
        missing = "no such topic" if topic is None else f"no partition {tp.partition} of {tp.topic}"
        return ProblemKind.OWNER_OF_UNKNOWN_PARTITION, f"owned by {thread}, but there is {missing}"
    if expected.owners is not None and tp.topic not in expected.topics:
        return (
            ProblemKind.OWNER_OF_UNSUBSCRIBED_TOPIC,
            f"owned by {thread}, but no member subscribes to {tp.topic}",
        )
    if is_leftover(entry.znode):
        return None, ""  # `persistent_problems` has it
    session = _session_problem(snapshot, tp, entry)
    if session:
        return ProblemKind.OWNER_NOT_MEMBER, session
    named = (expected.owners or {}).get(tp)
    if snapshot.frozen is not None:
        return None, ""  # it stays with the member that has it
    if named is not None and not _is_thread(snapshot, tp, entry.value, named):
        return ProblemKind.WRONG_OWNER, f"owned by {thread}, assigned to {named}"
    return None, ""


def _session_problem(snapshot: GroupSnapshot, tp: TopicPartition, entry: DecodedZnode[Owner]) -> str | None:
    """Returns why the holder is no member of now: not registered, or a leftover of a former session."""
    assert entry.value is not None
    member = snapshot.registered_owner(tp)
    registration = snapshot.registrations.get(member) if member else None
    holder = entry.stat.ephemeral_owner
    if not holder:
        return f"owned by {entry.value.thread_id} in no session"
    where = f"session {hex_session(holder)}"
    if registration is None:
        return f"owned by {entry.value.thread_id} ({where}), which is not registered"
    session = registration.stat.ephemeral_owner
    if holder != session:
        return (
            f"owned by {entry.value.thread_id} in {where}, but that member is registered in "
            f"session {hex_session(session)}: a leftover that is deleted when its session ends"
        )
    return None


def _unowned(snapshot: GroupSnapshot, expected: ExpectedOwnership) -> Iterator[Problem]:
    owners: Mapping[TopicPartition, str] = expected.owners or {}
    for tp, thread in owners.items():
        if tp not in snapshot.owners:
            path, member = Owner.path(snapshot.group, tp), _away_member(snapshot, thread)
            kind, why = ProblemKind.UNOWNED, f"expected {thread}, found no owner"
            if member is not None:
                kind, why = ProblemKind.AWAY, away_text(snapshot, member)
            elif snapshot.frozen is not None:
                kind, why = ProblemKind.FROZEN, f"found no owner, and {freeze_text(snapshot.frozen)}"
            yield Problem(
                kind=kind, topic=tp.topic, partition=tp.partition, expected=thread, detail=f"{path}: {why}"
            )


def waits_for_away(snapshot: GroupSnapshot, expected: ExpectedOwnership, tp: TopicPartition) -> bool:
    """Returns whether a partition is kept for a member that is away."""
    thread = (expected.owners or {}).get(tp)
    return thread is not None and _away_member(snapshot, thread) is not None


def _away_member(snapshot: GroupSnapshot, thread: str) -> str | None:
    """The member of a thread, if it is away and gets the partition when it is back: not in a frozen group
    without takeover, where it waits for the end as everybody does."""
    frozen = snapshot.frozen
    if frozen is not None and not (frozen.value and frozen.value.allows_takeover):
        return None
    member = thread.rpartition("-")[0]
    return member if snapshot.is_away(member) else None


def away_text(snapshot: GroupSnapshot, member: str) -> str:
    """Until when a member is away, in words."""
    until_ms = snapshot.away_until_ms(member)
    if until_ms is None:
        return f"{member} is away, and no member has noticed it yet"
    return f"{member} is away until {iso_time(until_ms)}; then its partitions move, unless it is back"


def _void_graces(snapshot: GroupSnapshot) -> Iterator[Problem]:
    """Members without which the grace of static members would hold."""
    for member in snapshot.without_grace if snapshot.static else ():
        entry = snapshot.registrations[member]
        kept = ", ".join(sorted(snapshot.static))
        yield Problem(
            kind=ProblemKind.RESTART_GRACE_VOID,
            found=member,
            since_ms=entry.stat.ctime,
            detail=f"{entry.znode.path}: does not know static members (a JVM consumer, or zkgroup of an "
            f"earlier version): while it is registered, the partitions of {kept} move at once at a restart",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedOwnership:
    """The owner that each partition should have."""

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


def expected_ownership(snapshot: GroupSnapshot) -> ExpectedOwnership:
    """The assignment that this group's members should have reached."""
    evaluated, problems = evaluate_members(snapshot)
    published, differing = published_strategy(snapshot)
    problems += differing
    topics = frozenset(topic for member in evaluated for topic in member.threads)
    partitions = {topic: snapshot.partitions(topic) for topic in sorted(topics)}
    unknown = any(p.kind is ProblemKind.UNSUPPORTED_SUBSCRIPTION for p in problems)
    actual = {tp: entry.value.thread_id for tp, entry in snapshot.owners.items() if entry.value}
    chosen = published or inferred_strategy(evaluated, partitions, actual)
    owners: Mapping[TopicPartition, str] | None = None
    notes: tuple[str, ...] = ()
    if find_strategy(chosen) is None:
        problems.append(_unknown_assignor(chosen))
    elif not unknown:
        try:
            owners, notes = _assigned(snapshot, chosen, evaluated, partitions)
        except AssignmentError as error:
            problems.append(Problem(kind=ProblemKind.UNSUPPORTED_SUBSCRIPTION, detail=str(error)))
    return ExpectedOwnership(
        assignor=chosen,
        members=tuple(evaluated),
        owners=owners,
        problems=tuple(problems),
        notes=notes,
        topics=topics,
    )


def _unknown_assignor(name: str) -> Problem:
    return Problem(
        kind=ProblemKind.UNKNOWN_ASSIGNOR,
        found=name,
        detail=f"the group uses the strategy {name}, which is no entry point of {ENTRY_POINTS} here: install "
        "the package that the members have it from, and run this again",
    )


def evaluate_members(snapshot: GroupSnapshot) -> tuple[list[EvaluatedMember], list[Problem]]:
    """Every readable member, and those away that count, with the topics of the snapshot that it wants."""
    exclude_internal = published_exclude_internal(snapshot)
    evaluated: list[EvaluatedMember] = []
    problems: list[Problem] = []
    for member, znode, registration in _counted(snapshot):
        try:
            threads = evaluate(registration.wanted(), sorted(snapshot.topic_names), exclude_internal)
        except ConfigError as error:
            problems.append(
                Problem(
                    kind=ProblemKind.UNSUPPORTED_SUBSCRIPTION,
                    found=next(iter(registration.subscription), None),
                    since_ms=znode.stat.ctime,
                    detail=f"{znode.path}: {error}; no assignment can be expected of this group",
                )
            )
            continue
        evaluated.append(registration.evaluated(member, threads))
    return evaluated, problems


def _counted(snapshot: GroupSnapshot) -> list[tuple[str, Znode, Registration]]:
    """The members that the assignment counts: those registered, and those away for whom the others wait."""
    registered = snapshot.registrations
    found = [(member, one.znode, one.value) for member, one in registered.items() if one.value]
    if registered and not snapshot.without_grace:
        away = snapshot.away.items()
        found += [(member, snapshot.static[member].znode, one.registration) for member, one in away]
    return sorted(found, key=itemgetter(0))


def published_strategy(snapshot: GroupSnapshot) -> tuple[str | None, list[Problem]]:
    """The strategy that zkgroup members use, None where no member published one.

    It is the one that they agree on (assignments, recipes 4). Registrations without a common one are a
    problem, unless the only others are JVM members.
    """
    preferences = {member: registration.preference for member, registration in _readable(snapshot)}
    by_names: dict[str, list[str]] = {}
    for member, preference in preferences.items():
        if preference.names:
            by_names.setdefault(",".join(preference.names), []).append(member)
    problems = []
    if len(by_names) > 1 and not common_strategies(preferences.values()):
        found = ", ".join(f"{name} ({len(members)})" for name, members in sorted(by_names.items()))
        detail = "; ".join(f"{name}: {', '.join(members)}" for name, members in sorted(by_names.items()))
        problems.append(Problem(kind=ProblemKind.ASSIGNORS_DIFFER, found=found, detail=detail))
    if by_names:
        problems += _differing_exclusions(snapshot)
    return agreed_strategy(preferences.values()), problems


def _differing_exclusions(snapshot: GroupSnapshot) -> list[Problem]:
    """Members that treat internal topics differently evaluate the same wildcard differently."""
    published = {member: registration.exclude_internal for member, registration in _readable(snapshot)}
    if not {True, False} <= set(published.values()):
        return []
    including = ", ".join(member for member, value in published.items() if value is False)
    detail = f"exclude_internal_topics differs: off in {including}, on elsewhere"
    return [Problem(kind=ProblemKind.ASSIGNORS_DIFFER, found="exclude_internal", detail=detail)]


def published_exclude_internal(snapshot: GroupSnapshot) -> bool:
    """Returns whether wildcards leave internal topics out; Kafka's default where no member publishes it."""
    published = {registration.exclude_internal for _, registration in _readable(snapshot)} - {None}
    return published != {False}


def _readable(snapshot: GroupSnapshot) -> Sequence[tuple[str, Registration]]:
    return [(m, entry.value) for m, entry in sorted(snapshot.registrations.items()) if entry.value]


def _assigned(
    snapshot: GroupSnapshot,
    strategy: str,
    members: Sequence[EvaluatedMember],
    partitions: Mapping[str, Sequence[int]],
) -> tuple[Mapping[TopicPartition, str], tuple[str, ...]]:
    previous, racks = None, snapshot.racks(partitions)
    if needs_previous(strategy) and snapshot.plan and snapshot.plan.value:
        plan = snapshot.plan.value
        if plan.inputs == inputs_digest(strategy, members, partitions, racks=racks):
            return plan.owners, ()  # what the group has agreed on for just this membership
        previous = plan.owners
    result = assign(strategy, members, partitions, previous, racks)
    return result.owners, result.notes
