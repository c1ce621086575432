"""What is wrong with a group, and which state that makes. Pure.

Kafka's own checker reports failure whatever it sees; this one compares every
partition of every subscribed topic with the thread that the group's own rules name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from zkgroup.admin.expectation import Expectation
from zkgroup.admin.picture import GroupPicture, Held, T
from zkgroup.admin.values import GroupState, Problem, ProblemKind
from zkgroup.assignment.digest import result_digest
from zkgroup.model import TopicPartition
from zkgroup.znodes.consumers import Owner, owners_topic_path

YOUNG_MS = 10_000
"""A wrong group that changed less than this ago is taken to be on its way."""


def find_problems(picture: GroupPicture, expected: Expectation) -> tuple[Problem, ...]:
    """Every difference between what is and what should be, in a stable order; empty when converged."""
    found = [
        *_unreadable(picture),
        *expected.problems,
        *_disagreeing_members(picture, expected),
        *_owner_problems(picture, expected),
        *_unowned(picture, expected),
    ]
    order = list(ProblemKind)
    return tuple(
        sorted(
            found,
            key=lambda p: (order.index(p.kind), p.topic or "", p.partition or 0, p.found or "", p.detail),
        )
    )


def group_state(
    picture: GroupPicture, expected: Expectation, *, now_ms: int, later: GroupPicture | None = None
) -> GroupState:
    """The state by the picture, the time and, where there is one, a second look about 2 s later."""
    if not picture.registrations:
        return GroupState.EMPTY
    if is_settled(picture, expected):
        return GroupState.STABLE
    if is_young(picture, now_ms) or not picture.stood_still:
        return GroupState.REBALANCING
    if later is not None and later.fingerprint() != picture.fingerprint():
        return GroupState.REBALANCING
    return GroupState.INCONSISTENT


def needs_second_look(picture: GroupPicture, expected: Expectation, now_ms: int) -> bool:
    """Whether one picture alone cannot tell `rebalancing` from `inconsistent`."""
    return group_state(picture, expected, now_ms=now_ms) is GroupState.INCONSISTENT


def is_settled(picture: GroupPicture, expected: Expectation) -> bool:
    """Every partition of every subscribed topic is owned by the thread that the plan names."""
    if expected.owners is None:
        return False
    return all(_is_owned_by(picture, tp, thread) for tp, thread in expected.owners.items())


def is_young(picture: GroupPicture, now_ms: int) -> bool:
    """Something below `ids` or `owners` is younger than 10 s, or newer than our clock."""
    newest = picture.newest_change_ms()
    return newest is not None and now_ms - newest < YOUNG_MS


def agreement(picture: GroupPicture, expected: Expectation, member: str) -> bool | None:
    """Whether the result that a member has published equals ours.

    None where it published none, where nothing can be expected, and where it published another
    result for an older membership: members publish lazily (recipes 11), so that says nothing yet.
    """
    view = picture.views.get(member)
    if view is None or view.value is None or expected.owners is None:
        return None
    if view.value.result == result_digest(expected.owners):
        return True
    return False if view.value.generation == picture.generation else None


def _is_owned_by(picture: GroupPicture, tp: TopicPartition, thread: str) -> bool:
    entry = picture.owners.get(tp)
    if entry is None or entry.value is None or entry.value.thread_id != thread:
        return False
    return _session_problem(picture, entry) is None


def _unreadable(picture: GroupPicture) -> Iterator[Problem]:
    for topic, topic_entry in picture.topics.items():
        if topic_entry.error:
            yield _corrupt(ProblemKind.UNREADABLE_TOPIC, topic_entry, topic=topic)
    for registration in picture.registrations.values():
        if registration.error:
            yield _corrupt(ProblemKind.UNREADABLE_REGISTRATION, registration)
    for tp, owner in picture.owners.items():
        if owner.error:
            yield _corrupt(ProblemKind.UNREADABLE_OWNER, owner, topic=tp.topic, partition=tp.partition)
    for tp, offset in picture.offsets.items():
        if offset.error:
            yield _corrupt(ProblemKind.UNREADABLE_OFFSET, offset, topic=tp.topic, partition=tp.partition)
    for path in picture.strays:
        below_owners = path.startswith(owners_topic_path(picture.group, ""))
        kind = ProblemKind.OWNER_OF_UNKNOWN_PARTITION if below_owners else ProblemKind.UNREADABLE_OFFSET
        yield Problem(kind=kind, found=path.rpartition("/")[2], detail=f"{path}: not a partition number")


def _corrupt(
    kind: ProblemKind, entry: Held[T], *, topic: str | None = None, partition: int | None = None
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


def _disagreeing_members(picture: GroupPicture, expected: Expectation) -> Iterator[Problem]:
    for member in sorted(picture.registrations):
        if agreement(picture, expected, member) is False:
            view = picture.views[member]
            yield Problem(
                kind=ProblemKind.MEMBER_DISAGREES,
                expected=result_digest(expected.owners or {}),
                found=view.value.result if view.value else None,
                since_ms=view.stat.mtime,
                detail=f"{view.znode.path}: {member} has another result for generation {picture.generation}",
            )


def _owner_problems(picture: GroupPicture, expected: Expectation) -> Iterator[Problem]:
    for tp, entry in picture.owners.items():
        if entry.value is None:
            continue
        kind, detail = _owner_problem(picture, expected, tp, entry)
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
    picture: GroupPicture, expected: Expectation, tp: TopicPartition, entry: Held[Owner]
) -> tuple[ProblemKind | None, str]:
    assert entry.value is not None
    thread = entry.value.thread_id
    topic = picture.topics.get(tp.topic)
    readable = topic is None or topic.value is not None
    if readable and tp.partition not in picture.partitions(tp.topic):
        missing = "no such topic" if topic is None else f"no partition {tp.partition} of {tp.topic}"
        return ProblemKind.OWNER_OF_UNKNOWN_PARTITION, f"held by {thread}, but there is {missing}"
    if expected.owners is not None and tp.topic not in expected.topics:
        return (
            ProblemKind.OWNER_OF_UNSUBSCRIBED_TOPIC,
            f"held by {thread}, but no member subscribes to {tp.topic}",
        )
    session = _session_problem(picture, entry)
    if session:
        return ProblemKind.OWNER_NOT_MEMBER, session
    named = (expected.owners or {}).get(tp)
    if named is not None and named != thread:
        return ProblemKind.WRONG_OWNER, f"held by {thread}, the plan names {named}"
    return None, ""


def _session_problem(picture: GroupPicture, entry: Held[Owner]) -> str | None:
    """Why the holder is no member of now: not registered, or a leftover of a former session."""
    assert entry.value is not None
    member = entry.value.member
    session = picture.session_ids.get(member) if member else None
    holder = entry.stat.ephemeral_owner
    if session is None:
        owned_by = f"session {hex_session(holder)}" if holder else "no session (a persistent znode)"
        return f"held by {entry.value.thread_id} ({owned_by}), which is not registered"
    if holder != session:
        where = f"session {hex_session(holder)}" if holder else "no session (a persistent znode)"
        return (
            f"held by {entry.value.thread_id} in {where}, but that member is registered in "
            f"session {hex_session(session)}: a leftover that goes when its session ends"
        )
    return None


def _unowned(picture: GroupPicture, expected: Expectation) -> Iterator[Problem]:
    owners: Mapping[TopicPartition, str] = expected.owners or {}
    for tp, thread in owners.items():
        if tp not in picture.owners:
            path = Owner.path(picture.group, tp)
            yield Problem(
                kind=ProblemKind.UNOWNED,
                topic=tp.topic,
                partition=tp.partition,
                expected=thread,
                detail=f"{path}: expected {thread}, found no owner",
            )


def hex_session(session_id: int) -> str:
    """A session id as ZooKeeper's own tools print it."""
    return f"0x{session_id & 0xFFFF_FFFF_FFFF_FFFF:x}"
